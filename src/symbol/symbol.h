/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers of a symbolizer; symbolizer.h explains the words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* The texts are borrowed until symbolizer_free. */
struct symbolizer_options {
	const char *sysroot;		  /* in front of every path of the profile; NULL for none */
	const char *const *build_id_dirs; /* searched before /usr/lib/debug/.build-id */
	size_t build_id_dir_count;
	const char *cache_dir;	     /* NULL: no cache on disk */
	const char *debuginfod_urls; /* NULL: never ask a server; otherwise space-separated */
	int debuginfod_timeout_ms;   /* for all downloads together */
	bool no_inlines;
	bool no_demangle;
	unsigned threads; /* 0: as many as there are processors */
};

/* One mapping of the profiled process. */
struct symbol_mapping {
	uint64_t start;
	uint64_t limit;
	uint64_t file_offset;
	const char *path;     /* as the process saw it; "[vdso]", "" for anonymous memory */
	const char *build_id; /* lower-case hex; "" when not known: then any file at path will do */
	/*
	 * Read symbols from this file instead of path; NULL: find it. Without a build-id it must
	 * have been mappable the way the mappings say, or else it is refused.
	 */
	const char *file;
	pid_t pid; /* a live process to reach deleted files through; 0 for none */
	bool deleted;
};

struct symbol_frame {
	const char *function;	  /* demangled unless no_demangle; "" when unknown */
	const char *linkage_name; /* as in the symbol table; "" when there is none */
	const char *file;	  /* full path as compiled; "" when unknown */
	uint32_t line;		  /* 0 when unknown */
	uint32_t start_line;	  /* line of the function's declaration; 0 when unknown */
};

/*
 * The frames of one address; frame_count is 0 when no name and no line is known. Borrowed strings.
 */
struct symbol_result {
	const struct symbol_frame *frames; /* innermost first */
	size_t frame_count;
	uint64_t function_start; /* address, where the function has no name; 0 when unknown */
};

/* The source of a module's names. */
enum symbol_source {
	SYMBOL_SOURCE_NONE,    /* no file, or the wrong file */
	SYMBOL_SOURCE_DYNAMIC, /* exported names only (.dynsym) */
	SYMBOL_SOURCE_TABLE,   /* .symtab, .gnu_debugdata, perf map */
	SYMBOL_SOURCE_DWARF,   /* functions, inlined functions, files and lines */
};

struct symbol_module_report {
	const char *path;	/* as the process saw it */
	const char *file;	/* what was read; "" when nothing was */
	const char *debug_file; /* separate debug file, "" when none */
	const char *build_id;
	enum symbol_source source;
	size_t address_count; /* asked */
	size_t named_count;   /* of these, with at least one frame that has a function */
	const char
		*problem; /* plain words: "not found", "the file's build-id differs"; "" if fine */
	const char *hint; /* what to do about it; "" if nothing */
	bool is_damaged;  /* the problem is that debug information was not read, or not all of it */
	bool from_cache;
};
