/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the options of `heapctl report`, `heapctl diff` and of heapctl called as jeprof ask for: all
 * of jeprof's with its meanings, and ours on top. One table has them, for command lines
 * (cli/report_arguments.h) and for the settings of the shell (cli/shell_settings.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analysis/filter.h"
#include "analysis/view.h"
#include "base/error.h"
#include "cli/verb.h"
#include "render/renderers.h"

/* Outputs that are no renderer of a view. */
enum report_output {
	REPORT_RENDER,	    /* .renderer */
	REPORT_INTERACTIVE, /* the shell */
	REPORT_LIST,	    /* source beside figures, for functions that match .routine */
	REPORT_WEBLIST,	    /* the same as HTML, with assembly */
	REPORT_DISASM,	    /* assembly beside figures */
	REPORT_SYMBOLS,	    /* names for addresses from standard input */
	REPORT_RAW,	    /* jeprof's format with symbols */
	REPORT_PPROF,	    /* gzipped protobuf */
	REPORT_VIEWER,	    /* a rendered file shown by .viewer */
};

struct report_options {
	enum report_output output;
	const struct renderer *renderer;
	const char *viewer;	 /* "gv", "evince", "web" */
	const char *routine;	 /* pattern for REPORT_LIST and the like */
	const char *output_path; /* NULL or "-": standard output */

	enum view_granularity granularity;
	enum profile_counter counter; /* if has_counter; else what the profile shows first */
	bool has_counter;
	struct filter_text filter;
	struct render_options render;
	const char *base;			/* profile to subtract; NULL for none */
	const char *title, *subtitle;		/* NULL: from the profiles */
	const char *when_ms, *span_ms, *remark; /* for REPORT_PPROF; NULL: from the profiles */
	bool file_addresses, strip_names, strip_labels; /* for REPORT_PPROF */
	double divide_by;				/* all figures, 1 for nothing */
	bool relative_percentages; /* of what the filters leave, rather than of everything */
	bool trim;		   /* the limits of call graphs are in effect */
	bool intel_syntax;	   /* of assembly */
	bool drop_negative;
	bool keep_allocator_frames;
	bool counts_delays; /* of contention profiles: delays rather than seconds */
	bool mean_delay;    /* of contention profiles: seconds for one delay */
	bool churn;	    /* only temporary allocations */
	bool fragmentation; /* bytes in use are free places in slabs: analysis/fragmentation.h */

	/* symbols */
	const char *lib_prefixes; /* folders to look for libraries in, separated by commas */
	const char *add_lib;
	const char *sysroot;
	const char *source_root; /* sources are read below these folders alone, separated by colons;
				    NULL: anywhere */
	const char **build_id_dirs;
	size_t build_id_dir_count;
	const char *debuginfod;	    /* NULL: never ask */
	int64_t debuginfod_seconds; /* for all answers together */
	bool no_inlines;
	bool no_cache;
	bool debug;		 /* say where symbols came from */
	int64_t pid;		 /* of the profiled process, when it still runs; 0 for none */
	const char *pids;	 /* one for each profile, with commas between them; NULL: pid */
	bool pid_may_have_ended; /* then it is ignored */

	int64_t seconds; /* of a CPU profile from a server */
	int64_t scale;	 /* of the gv viewer */
	const char *tools;
	bool has_sort, has_output, has_output_path; /* it was given */
	bool wants_help;
	bool wants_version;
	bool wants_test;
	bool is_jeprof;

	const char **tags, **ignored_tags; /* behind those of the filter */
	char **operands;
	size_t operand_count;
};

/* What is cut off at the leaf of each stack: under jeprof's name, what jeprof cuts off. */
static inline enum stack_pruning report_options_pruning(const struct report_options *options)
{
	if (options->keep_allocator_frames)
		return PRUNE_NOTHING;
	return options->is_jeprof ? PRUNE_ALLOCATOR : PRUNE_WRAPPERS;
}

/* jeprof's own come first, up to OPTION_VERSION (cli/report_option_ids.h). Ends with one without a
 * name. */
extern const struct verb_option report_option_table[];
