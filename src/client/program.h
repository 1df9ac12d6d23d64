/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program file says about how it can be profiled, before it is started: whose malloc it
 * brings, whether anything can be preloaded into it. Read from the ELF file; nothing is run.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/malloc_conf.h"

enum {
	MALLCTL_NAME_BYTES = 64,
	SANITIZER_NAME_BYTES = 8,
};

enum program_kind {
	PROGRAM_DYNAMIC,
	PROGRAM_STATIC, /* no dynamic loader, so nothing can be preloaded */
	PROGRAM_SCRIPT, /* "#!": the program that runs is another one */
};

struct program {
	enum program_kind kind;
	char path[4096];		  /* the file that exec would take */
	char interpreter[4096];		  /* of a script, from its first line; else "" */
	char jemalloc[4096];		  /* libjemalloc that it links, directly or not; else "" */
	char mallctl[MALLCTL_NAME_BYTES]; /* jemalloc inside the program itself: mallctl's name
					     there; else "" */
	char other_allocator[4096];	  /* libtcmalloc, libmimalloc, ...; else "" */
	char sanitizer[4096]; /* libasan and the like, or "asan" inside the program; else "" */
	bool is_privileged;   /* setuid, setgid or capabilities for this user: AT_SECURE */
	bool is_go;
	bool is_foreign; /* for another kind of machine (32 bit) */
	bool is_musl;	 /* linked with that C library */
};

/*
 * `command` is searched in PATH unless it has a slash. ERROR_NOT_FOUND, ERROR_DENIED, ERROR_INPUT.
 */
MUST_CHECK bool program_inspect(const char *command, struct program *program, struct error *err);

/*
 * The environment variable that the jemalloc reads which the ELF file open on `fd` defines with
 * this mallctl. Its text is in the file; the names of the functions determine it only where they
 * are those that jemalloc was configured with. -1 and "": MALLOC_CONF. Returns `variable`.
 */
const char *program_conf_variable(
	int fd, const char *mallctl, char variable[MALLOC_CONF_VARIABLE_BYTES]);

/*
 * The name under which the ELF file open on `fd` defines mallctl ("mallctl", "je_mallctl", ...),
 * in its dynamic or its full symbol table; of a file for another kind of machine, that it contains.
 * False when there is none.
 */
bool program_find_mallctl(int fd, char name[MALLCTL_NAME_BYTES]);

/* Whether the library of this name, without its folder, is a sanitizer's that replaces malloc. */
bool program_library_is_sanitizer(const char *name);

/*
 * The name ("asan") of such a sanitizer inside the ELF file open on `fd`, where clang links it. ""
 * and false when there is none.
 */
bool program_find_sanitizer(int fd, char name[SANITIZER_NAME_BYTES]);

/* What shows the memory of Go's runtime. */
#define PROGRAM_GO_HINT                                                                     \
	"use Go's own profiler, net/http/pprof or runtime/pprof: heapctl report reads its " \
	"heap profiles"

/* Whether Go's linker made the ELF file open on `fd`. */
bool program_is_go(int fd);

/*
 * Whether the ELF file open on `fd` brings a malloc or a jemalloc of its own, also when it is
 * stripped. Reads its constant texts for that.
 */
bool program_has_allocator(int fd);

/* What the symbols of a static program say of its allocator. */
enum malloc_symbols {
	MALLOC_SHOWN,	     /* malloc, calloc or realloc, and free; or an allocator's own names */
	MALLOC_WITHOUT_FREE, /* musl links only what the program calls */
	MALLOC_MISSING,	     /* there are symbols, and none of an allocator's */
	MALLOC_STRIPPED,     /* there are no symbols, or the file cannot be read */
};

/* Those of the ELF file open on `fd`. */
enum malloc_symbols program_malloc_symbols(int fd);

/* Whether the ELF file open on `fd` is for another kind of machine than this program. */
bool program_is_foreign(int fd);

enum { LIBRARY_PATH_BYTES = 4096 };

/*
 * Where the dynamic loader would find the library `name` of the object at `needed_by`, whose
 * DT_RUNPATH or DT_RPATH is `run_path` (NULL for none): run paths, LD_LIBRARY_PATH, the cache that
 * ldconfig makes, the default folders (ld.so(8)); not the loader's rarer features (audit, prelink,
 * hardware folders outside the cache). False when there is none on this machine.
 */
bool library_search(const char *name, const char *needed_by, const char *run_path,
	char path[LIBRARY_PATH_BYTES]);
