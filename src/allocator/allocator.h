/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of this process, as a table of functions.
 *
 * `allocator_find` looks for jemalloc (never linked, never brought in), proves whether malloc is
 * that jemalloc's, reads once what it can do, and fills a `struct allocator`. A process without
 * jemalloc gets one as well: it names the allocator that is there, and every operation fails with
 * what that means. Tests use tests/support/allocator_fake.h instead.
 *
 * Words. *Active*: allocations are being sampled (prof.active). *Enabled*: it could be switched on,
 * decided when the process started (opt.prof). *Sample interval*: 2^lg_sample bytes on average.
 *
 * Resident code: after `allocator_find` nothing here takes heap memory. Any thread may call an
 * operation; jemalloc serialises what it must, and a dump can take seconds. Never from a signal
 * handler or an allocator hook. An operation needs up to 32 KiB of stack, most of it jemalloc's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/mallctl_names.h"
#include "allocator/malloc_owner.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/malloc_conf.h"

struct allocator;

enum {
	ALLOCATOR_PATH_MAX = 512,
	ALLOCATOR_CONF_MAX = 1024,
	ALLOCATOR_LG_SAMPLE_KEEP = -1, /* for allocator_reset */
	ALLOCATOR_LG_SAMPLE_LOW = 12,  /* below it sampling costs more than it is worth */
	ALLOCATOR_LG_SAMPLE_MAX = 40,  /* above it nothing is ever sampled */
};

/* A jemalloc that was found in this process. Return codes are 0 or an errno value. */
typedef int jemalloc_mallctl_function(
	const char *name, void *old, size_t *old_size, void *new, size_t new_size);
typedef int jemalloc_nametomib_function(const char *name, size_t *mib, size_t *mib_size);
typedef void jemalloc_stats_function(
	void (*write)(void *context, const char *text), void *context, const char *options);

struct jemalloc_functions {
	jemalloc_mallctl_function *mallctl; /* NULL: no jemalloc */
	/* The linker may have dropped these from a static program: NULL then. */
	jemalloc_nametomib_function *nametomib;
	jemalloc_stats_function *stats_print;
};

/* Which allocator, and where. */
struct allocator_identity {
	char name[32];	  /* "jemalloc", "glibc", "tcmalloc", "mimalloc", "unknown" ... */
	char version[96]; /* as it calls itself; "" when it does not say */
	unsigned major, minor, patch;	/* of jemalloc; 0.0.0 when it cannot be read */
	char symbol[64];		/* the function found: "mallctl", "_rjem_mallctl"; "" */
	char prefix[32];		/* in front of "mallctl": "", "je_", "_rjem_" */
	char where[ALLOCATOR_PATH_MAX]; /* the file that contains it */
	char found_by[32];		/* "dynamic", "symbol-table", "debug-file", "library"; "" */
	bool owns_malloc;		/* proven: malloc(1) moved this jemalloc's own counter */
	char malloc_name[32];		/* whose malloc the process uses: "glibc", "jemalloc" ... */
	char malloc_where[ALLOCATOR_PATH_MAX]; /* and the file it is in */
	bool hides_jemalloc;		       /* the program contains one that cannot be reached */
	unsigned jemalloc_count; /* jemallocs found in the process; this is one of them */
	char other_jemalloc[ALLOCATOR_PATH_MAX]; /* "SYMBOL in FILE" of another; "" */
};

/* What the profiler can do here; all read at the start. */
struct allocator_profiling {
	bool compiled_in; /* config.prof */
	bool enabled;	  /* opt.prof; everything below is meaningless without it */
	bool accumulates; /* opt.prof_accum */
	bool active_at_start;
	bool thread_active_init;
	bool gdump, final, leak;	 /* opt.prof_gdump, opt.prof_final, opt.prof_leak */
	bool sys_thread_name;		 /* opt.prof_sys_thread_name */
	int64_t lg_interval;		 /* opt.lg_prof_interval; -1: no dumps by interval */
	unsigned lg_sample;		 /* at the start; allocator_lg_sample() for now */
	char sampler[16];		 /* what takes the samples: "jemalloc", "heapctl"; "" */
	bool has_unwinder_hook;		 /* samples can get their stacks from another function */
	char unwinder[24];		 /* "libunwind", "libgcc", "gcc", "frameptr"; "unknown" */
	char prefix[ALLOCATOR_PATH_MAX]; /* opt.prof_prefix */
};

/* Where jemalloc's options came from, as they were when allocator_find ran. */
struct allocator_configuration {
	char variable[MALLOC_CONF_VARIABLE_BYTES]; /* the one this build reads: "MALLOC_CONF",
						      "JE_MALLOC_CONF" */
	char environment[ALLOCATOR_CONF_MAX];	   /* its value; "" when it is not set or was
						      not read */
	char build[ALLOCATOR_CONF_MAX];		   /* config.malloc_conf */
	char program[ALLOCATOR_CONF_MAX];	   /* the symbol malloc_conf */
	char file[ALLOCATOR_CONF_MAX];		   /* target of the symlink /etc/malloc.conf */
	char ignored_variable[48]; /* a set variable that this build does not read; "" */
	bool secure;		   /* AT_SECURE: the environment is not read */
};

/* Bytes. */
struct allocator_memory {
	uint64_t allocated; /* by the application */
	uint64_t active;    /* pages that hold allocations */
	uint64_t metadata;
	uint64_t resident;
	uint64_t mapped;
	uint64_t retained; /* address space kept, not memory */
};

/* Of a sampler that is not the allocator's own. */
struct allocator_sampler {
	uint64_t samples;     /* since the last reset */
	uint64_t dropped;     /* of these without memory for them: missing from profiles */
	uint64_t live_blocks; /* sampled and in use */
	uint64_t sites;
	uint64_t memory_bytes; /* that it takes itself */
	int64_t since_ms;      /* since 1970, when the samples begin; 0: not yet */
	bool is_installed;     /* sees the calls of the allocator */
	const char *method;    /* "got": by the modules' slots; "entry": in the functions */
	/* Functions that are patched, the file that has them, and those that could not be. */
	uint64_t entries;
	uint64_t entry_area;			/* the address of the code behind them; 0: none */
	uint64_t entry_table, entry_table_size; /* of the replacements of functions, and how many */
	const char *where, *missed;
	/* Where the calls are seen: modules, and their slots for functions of the allocator. */
	uint64_t modules, slots;
	/* Where not: slots that lead elsewhere, that may yet, and that cannot be written. */
	uint64_t foreign_slots, waiting_slots, protected_slots;
	bool has_mapped; /* mappings that the program makes itself count as well */
};

/*
 * Takes the calling thread's stack for a sample: up to `max` return addresses, innermost first.
 * jemalloc calls it within malloc, on any thread.
 */
typedef void allocator_backtrace(void **addresses, unsigned *count, unsigned max);

struct allocator_operations {
	bool (*active_get)(struct allocator *allocator, bool *active, struct error *err);
	bool (*active_set)(
		struct allocator *allocator, bool active, bool *was_active, struct error *err);
	bool (*thread_sampling_off)(struct allocator *allocator, struct error *err);
	bool (*dump_path)(struct allocator *allocator, const char *path, struct error *err);
	bool (*stats)(struct allocator *allocator, const char *options, struct buffer *out,
		struct error *err);
	bool (*memory)(
		struct allocator *allocator, struct allocator_memory *ret, struct error *err);
	bool (*reset)(struct allocator *allocator, int lg_sample, struct error *err);
	bool (*lg_sample)(struct allocator *allocator, unsigned *lg_sample, struct error *err);
	/* `value->type` is set by the caller. */
	bool (*read)(struct allocator *allocator, const char *name, struct mallctl_value *value,
		struct error *err);
	bool (*write)(struct allocator *allocator, const char *name,
		const struct mallctl_value *value, struct error *err);
	bool (*has)(const struct allocator *allocator, const char *name);
	bool (*backtrace_get)(
		struct allocator *allocator, allocator_backtrace **function, struct error *err);
	bool (*backtrace_set)(
		struct allocator *allocator, allocator_backtrace *function, struct error *err);
	/* These may be NULL: then there is nothing to do. */
	int64_t (*maintain)(struct allocator *allocator);
	void (*sampler)(struct allocator *allocator, struct allocator_sampler *ret);
	void (*release)(struct allocator *allocator);
};

struct allocator {
	const struct allocator_operations *operations;
	void *context; /* for operations that need one; jemalloc's do not */
	struct jemalloc_functions jemalloc;
	struct malloc_stats malloc; /* of another malloc */
	struct allocator_identity identity;
	struct allocator_profiling profiling;
	struct allocator_configuration configuration;
	struct error unavailable; /* why no profile can be taken; ERROR_NONE when one can */
};

/*
 * Fills `allocator`. Call it once, from the thread that starts the agent: it mallocs one byte for
 * the proof and dlsym may allocate. Never fails: what is missing is in `allocator->unavailable`.
 */
void allocator_find(struct allocator *allocator);

/* Whether a profile can be taken; otherwise `err` has the reason and a hint. */
MUST_CHECK bool allocator_available(const struct allocator *allocator, struct error *err);

MUST_CHECK bool allocator_active_get(struct allocator *allocator, bool *active, struct error *err);

/* `was_active` may be NULL. */
MUST_CHECK bool allocator_active_set(
	struct allocator *allocator, bool active, bool *was_active, struct error *err);

/*
 * The calling thread is never sampled from now on. True as well where nothing is sampled anyway.
 */
MUST_CHECK bool allocator_thread_sampling_off(struct allocator *allocator, struct error *err);

/*
 * Writes a profile into what `fd` is open on, from its first byte, truncating it; the position of
 * `fd` itself does not move. A memfd or another file; a pipe or socket is refused, because
 * jemalloc holds its locks while it writes. Needs /proc: ERROR_NOT_FOUND where it is missing, and
 * then allocator_dump_path into a private folder is the way. On failure the contents are undefined.
 */
MUST_CHECK bool allocator_dump_fd(struct allocator *allocator, int fd, struct error *err);

/*
 * The same to a path, in place, mode 0644, following symlinks: for private folders only. On
 * failure a partial file may be left.
 */
MUST_CHECK bool allocator_dump_path(
	struct allocator *allocator, const char *path, struct error *err);

/*
 * Appends malloc_stats_print's text. `options` are its letters: J for JSON, and g m d a b l x e h
 * each leave a section out; NULL means "Jabl" (JSON without the tables that grow with arenas
 * and sizes). Set out->limit to bound it: ERROR_INPUT when it does not fit. Other mallocs have no
 * sections: malloc_stats_write(), where w asks for what makes malloc wait.
 */
MUST_CHECK bool allocator_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err);

/* Fresh figures (epoch is written). */
MUST_CHECK bool allocator_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err);

/*
 * Discards all samples, those of live objects too. `lg_sample` 0..40 sets the sample interval,
 * which each running thread takes up only after its next sample; below 12 only with `force`.
 */
MUST_CHECK bool allocator_reset(
	struct allocator *allocator, int lg_sample, bool force, struct error *err);

MUST_CHECK bool allocator_lg_sample(
	struct allocator *allocator, unsigned *lg_sample, struct error *err);

/*
 * Any mallctl. `type` MALLCTL_UNKNOWN means that of jemalloc's table; ERROR_USAGE when the name is
 * not in it, or when it is and its type is another; ERROR_DENIED for text that is not text in the
 * table, because a pointer looks like a number. A unit name cannot be read. What is refused, and
 * what `force` allows: mallctl_check_read, mallctl_check_write. Names under "thread." are about the
 * calling thread.
 */
MUST_CHECK bool allocator_read(struct allocator *allocator, const char *name,
	enum mallctl_type type, struct mallctl_value *value, struct error *err);
MUST_CHECK bool allocator_write(struct allocator *allocator, const char *name,
	enum mallctl_type type, const char *text, bool force, struct error *err);

/* Whether this build has the name. It is looked up, not called. */
bool allocator_has(const struct allocator *allocator, const char *name);

/*
 * The function that takes the stacks of samples; another one may be set at any time, and samples
 * that are just being taken may still use the old one. ERROR_UNSUPPORTED where it cannot be set:
 * before jemalloc 5.3, or where profiling is not enabled.
 */
MUST_CHECK bool allocator_backtrace_get(
	struct allocator *allocator, allocator_backtrace **function, struct error *err);
MUST_CHECK bool allocator_backtrace_set(
	struct allocator *allocator, allocator_backtrace *function, struct error *err);

/*
 * Does what the profiler needs now and then, such as looking for modules that were loaded. Returns
 * the milliseconds until it should be called again; -1: not before sampling is switched on.
 */
int64_t allocator_maintain(struct allocator *allocator);

/* Whether the samples are not the allocator's own. */
bool allocator_has_other_sampler(const struct allocator *allocator);

/* False where the samples are the allocator's own. */
MUST_CHECK bool allocator_sampler(struct allocator *allocator, struct allocator_sampler *ret);

/* Ends sampling and takes what it needed out of the process, where it is not the allocator's. */
void allocator_release(struct allocator *allocator);

/* The names that a capability list is made of, NULL-terminated; ask allocator_has for each. */
extern const char *const allocator_capability_names[];

struct allocator_warning {
	const char *code; /* a stable word: "lg-sample-low" */
	char message[400];
	char hint[320];
};

/*
 * Calls `visit` for each problem of this process' configuration. Reads
 * /proc/self/maps, which takes milliseconds where there are thousands of mappings.
 */
void allocator_warnings(struct allocator *allocator,
	void (*visit)(void *context, const struct allocator_warning *warning), void *context);
