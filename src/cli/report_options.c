/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_options.h"

#include "cli/report_option_ids.h"
#include "render/quantity.h"

enum {
	GV_SCALE_MAX = 100,
	SECONDS_MAX = 24 * 3600,
};

#define TEXT(member) OPTION_TEXT(struct report_options, member)
#define COUNT(member) OPTION_COUNT(struct report_options, member)
#define NUMBER(member, smallest, largest) \
	OPTION_NUMBER(struct report_options, member, smallest, largest)
#define SHARE(member) OPTION_REAL(struct report_options, member, 0, 1)
#define WORD(type, member, names) OPTION_WORD(struct report_options, type, member, names)
#define TAGS(member) OPTION_MEMBER(OPTION_RETURN, struct filter_tags, struct report_options, member)
#define SWITCH(member) OPTION_SWITCH(struct report_options, member)
#define REFUSED(name, reason)                                                               \
	{                                                                                   \
		OPTION_REFUSED, (name), 0, "[=VALUE]", .help = (reason), .is_hidden = true, \
						       .setting = (name)                    \
	}
#define RENDERER_ROW(name, function, extension, medium, is_of_nodes, help_text, heading)  \
	{                                                                                 \
		OPTION_RENDERER, (name), 0, NULL, .help = (help_text), .group = (heading) \
	}

const struct verb_option report_option_table[] = {
	/* jeprof's, up to --version. */
	JEPROF_RENDERERS(RENDERER_ROW),
	{ OPTION_GV, "gv", 0, NULL, .help = "call graph shown by gv" },
	{ OPTION_EVINCE, "evince", 0, NULL, .help = "call graph shown by evince" },
	{ OPTION_WEB, "web", 0, NULL, .help = "call graph shown by a web browser" },
	{ OPTION_LIST, "list", 0, "REGEX", .help = "source of matching functions with figures" },
	{ OPTION_DISASM, "disasm", 0, "REGEX",
		.help = "assembly of matching functions with figures" },
	{ OPTION_SYMBOLS, "symbols", 0, NULL,
		.help = "names for the mappings and addresses on standard input" },
	{ OPTION_RAW, "raw", 0, NULL,
		.help = "the profile with its symbols, to be read on any machine" },
	{ OPTION_INTERACTIVE, "interactive", 0, NULL, .help = "a shell for exploring the profile" },

	{ OPTION_INUSE_SPACE, "inuse_space", 0, NULL, .help = "bytes in use [default]",
		.group = "figures" },
	{ OPTION_INUSE_OBJECTS, "inuse_objects", 0, NULL, .help = "objects in use" },
	{ OPTION_ALLOC_SPACE, "alloc_space", 0, NULL, .help = "bytes ever allocated" },
	{ OPTION_ALLOC_OBJECTS, "alloc_objects", 0, NULL, .help = "objects ever allocated" },
	{ 0, "show_bytes", 0, NULL, .help = "bytes rather than MB", SWITCH(render.show_bytes),
		.setting = "show_bytes" },
	{ OPTION_CUM, "cum", 0, NULL, .help = "sort by cumulative figures" },
	{ 0, "base", 0, "PROFILE", .help = "subtract this profile", .complete = "@file",
		TEXT(base) },
	{ 0, "drop_negative", 0, NULL, .help = "in a difference, count what shrank as unchanged",
		SWITCH(drop_negative), .setting = "drop_negative" },
	{ OPTION_TOTAL_DELAY, "total_delay", 0, NULL,
		.help = "contention profiles: seconds [default]" },
	{ OPTION_CONTENTIONS, "contentions", 0, NULL,
		.help = "contention profiles: number of delays" },
	{ OPTION_MEAN_DELAY, "mean_delay", 0, NULL,
		.help = "contention profiles: seconds per delay" },

	{ OPTION_FUNCTIONS, "functions", 0, NULL, .help = "by function [default]",
		.group = "granularity" },
	{ OPTION_LINES, "lines", 0, NULL, .help = "by source line" },
	{ OPTION_FILES, "files", 0, NULL, .help = "by source file" },
	{ OPTION_ADDRESSES, "addresses", 0, NULL, .help = "by address" },

	{ 0, "focus", 0, "REGEX", .help = "only stacks with a matching function or file",
		.group = "filters (Perl's regular expressions)", TEXT(filter.focus),
		.setting = "focus" },
	{ 0, "ignore", 0, "REGEX", .help = "no stacks with a matching function or file",
		TEXT(filter.ignore), .setting = "ignore" },
	{ 0, "retain", 0, "REGEX", .help = "only matching functions in the stacks",
		TEXT(filter.retain) },
	{ 0, "exclude", 0, "REGEX", .help = "no matching functions in the stacks",
		TEXT(filter.exclude) },
	{ 0, "thread", 0, "THREAD",
		.help = "only this thread, by number or name; '*' for each on its own",
		TEXT(filter.thread) },

	{ 0, "nodecount", 0, "N", .group = "call graph",
		.help = "maximum number of boxes, and of rows in the shell [80]",
		COUNT(render.graph.node_count), .setting = "nodecount" },
	{ 0, "nodefraction", 0, "F", .help = "no boxes below this share, from 0 to 1 [0.005]",
		SHARE(render.graph.node_fraction), .setting = "nodefraction" },
	{ 0, "edgefraction", 0, "F", .help = "no arrows below this share, from 0 to 1 [0.001]",
		SHARE(render.graph.edge_fraction), .setting = "edgefraction" },
	{ 0, "maxdegree", 0, "N", .help = "arrows into and out of a box [8]",
		COUNT(render.graph.max_degree), .setting = "maxdegree" },
	{ 0, "scale", 0, "N", .help = "scale of gv [0]",
		NUMBER(scale, -GV_SCALE_MAX, GV_SCALE_MAX) },
	{ 0, "heapcheck", 0, NULL, .help = "highlight functions that allocate directly",
		SWITCH(render.heapcheck) },

	{ 0, "lib_prefix", 0, "DIR,DIR",
		.help = "look for programs and libraries below these folders", .group = "symbols",
		.complete = "@folder", TEXT(lib_prefixes) },
	{ 0, "add_lib", 0, "FILE", .help = "use this file's symbols too, at its own addresses",
		.complete = "@file", TEXT(add_lib) },
	{ 0, "tools", 0, "PREFIX|TOOL:PATH,...", .help = "which objdump to use for assembly",
		TEXT(tools) },
	{ OPTION_DEBUG_SYMS_BY_ID, "debug-syms-by-id", 0, NULL,
		.help = "find debug files by build-id, which is always done", .is_hidden = true },
	{ 0, "debug", 0, NULL, .help = "say where the symbols of each module came from",
		SWITCH(debug) },
	{ 0, "seconds", 0, "N", .help = "length of a CPU profile taken from a server [30]",
		NUMBER(seconds, 1, SECONDS_MAX) },
	{ 0, "test", 0, NULL, .help = "check the arithmetic on known figures", .is_hidden = true,
		SWITCH(wants_test) },
	{ OPTION_TEST_STRIDE, "test_stride", 0, "N",
		.help = "how much jeprof reads at once; nothing to us", .is_hidden = true },
	{ 0, "help", 'h', NULL, .help = "print this help", .is_hidden = true, SWITCH(wants_help) },
	{ OPTION_VERSION, "version", 0, NULL, .help = "print the version", .is_hidden = true },

	{ 0, "no-inlines", 0, NULL, .help = "inlined functions count as their callers",
		SWITCH(no_inlines), .setting = "noinlines" },
	{ 0, "no-cache", 0, NULL, .help = "neither use nor write the symbol cache",
		SWITCH(no_cache) },
	{ 0, "pid", 0, "PID",
		.help = "the profile is of this running process: its files are read through it",
		NUMBER(pid, 1, INT32_MAX) },
	{ OPTION_BUILD_ID_DIR, "build-id-dir", 0, "DIR", .help = "look for debug files here first",
		.complete = "@folder" },
	{ 0, "sysroot", 0, "DIR", .help = "look for all files below this folder",
		.complete = "@folder", TEXT(sysroot) },
	{ 0, "source-root", 0, "DIR[:DIR]",
		.help = "for --list and --weblist: of this machine, read sources below these "
			"folders alone",
		.complete = "@folder", TEXT(source_root), .setting = "source_path" },
	{ OPTION_DEBUGINFOD, "debuginfod", 0, "URL",
		.help = "ask this server for debug files, and for sources that are not here" },
	{ 0, "debuginfod-timeout", 0, "SECONDS",
		.help = "time limit for all its answers together [30]",
		NUMBER(debuginfod_seconds, 0, SECONDS_MAX) },

	MORE_RENDERERS(RENDERER_ROW),
	{ OPTION_PPROF, "pprof", 0, NULL, .help = "gzipped protobuf for go tool pprof and others" },
	{ 0, "file-addresses", 0, NULL,
		.help = "for --pprof: addresses as in the files, for servers that find names",
		SWITCH(file_addresses) },
	{ 0, "strip-names", 0, NULL, .help = "for --pprof: addresses without names",
		SWITCH(strip_names) },
	{ 0, "strip-labels", 0, NULL,
		.help = "for --pprof: one sample for each stack, without sizes and threads",
		SWITCH(strip_labels) },
	{ OPTION_WEBLIST, "weblist", 0, "REGEX", .help = "source and assembly as HTML" },
	{ 0, "output", 'o', "FILE", .help = "write there instead of standard output",
		.complete = "@file", TEXT(output_path), .setting = "output" },
	{ 0, "title", 0, "TEXT", .help = "heading of pictures, instead of the program",
		TEXT(title) },
	{ 0, "subtitle", 0, "TEXT",
		.help = "text below the heading, instead of the names of the profiles",
		TEXT(subtitle) },
	/* For the gateway: a process may end while its profile is rendered. */
	{ 0, "pid-may-have-ended", 0, NULL, .help = "ignore --pid once its process has ended",
		.is_hidden = true, SWITCH(pid_may_have_ended) },
	/* For the gateway: its scratch files have no processes, names and times. */
	{ 0, "pids", 0, "PID,...", .help = "the same for each of several profiles; 0 for none",
		.is_hidden = true, TEXT(pids) },
	{ 0, "when-ms", 0, "MS", .help = "for --pprof: when it was taken", .is_hidden = true,
		TEXT(when_ms) },
	{ 0, "span-ms", 0, "MS", .help = "for --pprof: the time that it covers", .is_hidden = true,
		TEXT(span_ms) },
	{ 0, "remark", 0, "TEXT", .help = "for --pprof: a comment in it", .is_hidden = true,
		TEXT(remark) },
	{ 0, "top", 0, "N", .help = "maximum number of rows of the text report",
		COUNT(render.line_limit) },
	{ OPTION_SORT, "sort", 0, "KEY", .help = "order of rows: flat, cum, change or name",
		.complete = "flat cum change name",
		WORD(enum render_sort, render.sort, render_sort_names), .setting = "sort" },
	{ OPTION_GRANULARITY, "granularity", 0, "WHAT",
		.help = "what a row is: functions, filefunctions, lines, files, addresses",
		.complete = "functions filefunctions lines files addresses",
		WORD(enum view_granularity, granularity, view_granularity_names),
		.setting = "granularity" },
	{ 0, "inverted", 0, NULL, .help = "trees and flame graphs from the leaves",
		SWITCH(render.is_inverted), .setting = "inverted" },
	{ 0, "frame-limit", 0, "N",
		.help = "maximum number of boxes of a flame graph, the smallest are drawn "
			"together; 0 for "
			"all [50000 in --flame]",
		COUNT(render.frame_limit) },
	{ 0, "first", 0, "N", .help = "for --rows: how many rows to leave out in front",
		COUNT(render.first_row) },
	{ 0, "row-pattern", 0, "REGEX", .help = "for --rows: only rows whose name or file matches",
		TEXT(render.row_pattern) },
	/* For the gateway: "callees" or "callers" and names, one a line. */
	{ 0, "frame-root", 0, "NAMES", .help = "as many boxes more below this one",
		.is_hidden = true, TEXT(render.frame_root) },
	{ 0, "confidence", 0, NULL, .help = "standard errors and sample counts",
		SWITCH(render.confidence), .setting = "confidence" },
	{ 0, "unit", 0, "UNIT",
		.help = "of text reports, call graphs, source and assembly: b, kb, mb, gb, tb; ns, "
			"us, ms, s; auto: the one of the total",
		.complete = "auto b kb mb gb tb ns us ms s",
		WORD(enum render_unit, render.unit, render_unit_names), .setting = "unit" },
	{ 0, "mean", 0, NULL,
		.help = "for --text: bytes of one object, or time of one delay, in place of the "
			"sum; shares and order are of the sums",
		SWITCH(render.mean), .setting = "mean" },

	{ OPTION_SAMPLE_INDEX, "sample_index", 0, "FIGURE",
		.help = "figures: inuse_objects, inuse_space, alloc_objects or alloc_space",
		.complete = "inuse_objects inuse_space alloc_objects alloc_space",
		WORD(enum profile_counter, counter, profile_counter_names),
		.setting = "sample_index" },
	{ 0, "divide-by", 0, "N",
		.help = "divide all figures by this number, of servers for example",
		OPTION_REAL(struct report_options, divide_by, 0, 1000000000000),
		.is_above_min = true, .setting = "divide_by" },
	{ 0, "relative-percentages", 0, NULL,
		.help = "shares are of what the filters leave [on]; --no-relative-percentages: of "
			"everything",
		SWITCH(relative_percentages), .setting = "relative_percentages" },
	{ 0, "trim", 0, NULL,
		.help = "leave out small boxes and arrows [on]; --no-trim draws all, in the shell "
			"rows too",
		SWITCH(trim), .setting = "trim" },
	{ 0, "intel-syntax", 0, NULL, .help = "assembly of x86 in Intel's syntax",
		SWITCH(intel_syntax), .setting = "intel_syntax" },

	{ 0, "show", 0, "REGEX", .help = "only matching frames, inlined ones too",
		.group = "more filters", TEXT(filter.show), .setting = "show" },
	{ 0, "hide", 0, "REGEX", .help = "no matching frames", TEXT(filter.hide),
		.setting = "hide" },
	{ 0, "show-from", 0, "REGEX",
		.help = "only stacks with a matching function or file, without its callers",
		TEXT(filter.show_from), .setting = "show_from" },
	{ 0, "prune-from", 0, "REGEX",
		.help = "nothing below the innermost function that matches: it allocates that "
			"itself",
		TEXT(filter.prune_from), .setting = "prune_from" },
	{ OPTION_TAG, "tag", 0, "KEY=VALUE",
		.help = "only samples with thread=REGEX or bytes=LOW:HIGH", TAGS(filter.tags),
		.setting = "tagfocus" },
	{ OPTION_TAG_IGNORE, "tag-ignore", 0, "KEY=VALUE",
		.help = "no samples with thread=REGEX or bytes=LOW:HIGH", TAGS(filter.ignored_tags),
		.setting = "tagignore" },
	{ 0, "fragmentation", 0, NULL,
		.help = "free places in slabs, by the sites whose objects keep them (of a bundle "
			"or a TARGET)",
		SWITCH(fragmentation) },
	{ 0, "waste", 0, NULL, .help = "the former name of --fragmentation, until 0.3",
		.is_hidden = true, SWITCH(fragmentation) },
	{ 0, "churn", 0, NULL,
		.help = "only temporary allocations: freed before their thread has allocated 1 "
			"MiB more, or within 10 ms (not of jemalloc's profiles)",
		SWITCH(churn) },
	{ 0, "no-prune", 0, NULL,
		.help = "keep the allocator's own functions, and wrappers of them",
		SWITCH(keep_allocator_frames) },

	/* pprof's names of what is above, and those of its options that have no counterpart. */
	{ 0, "noinlines", 0, NULL, .help = "--no-inlines", .is_hidden = true, SWITCH(no_inlines) },
	{ OPTION_TAG, "tagfocus", 0, "KEY=VALUE", .help = "--tag", .is_hidden = true,
		TAGS(filter.tags) },
	{ OPTION_TAG_IGNORE, "tagignore", 0, "KEY=VALUE", .help = "--tag-ignore", .is_hidden = true,
		TAGS(filter.ignored_tags) },
	{ 0, "source_path", 0, "DIR[:DIR]", .help = "--source-root", .is_hidden = true,
		TEXT(source_root) },
	REFUSED("call_tree",
		"a call graph has one box for each function: tree and flame draw calls "
		"apart"),
	REFUSED("compact_labels", "reports have one line above their rows already"),
	REFUSED("normalize",
		"a difference is of the figures as they are: divide_by scales those of "
		"one report"),
	REFUSED("showcolumns",
		"symbols have no columns: granularity=lines is the finest of source"),
	REFUSED("taghide", "reports show no tags: tagignore leaves out their samples"),
	REFUSED("tagleaf", "threads are no frames: --thread='*' reports each on its own"),
	REFUSED("tagroot", "threads are no frames: --thread='*' reports each on its own"),
	REFUSED("tagshow", "reports show no tags: tagfocus selects samples by them"),
	REFUSED("trim_path", "source_path finds a file by the end of its path, whatever is before"),
	{ 0 },
};
