/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of the command line: one table (main.c), one file per verb.
 *
 * A verb describes its options in a table, and everything that speaks of them comes from there:
 * parsing (cli/option.h), --help (cli/verb.h), the man pages (cli/man.c) and shell completion
 * (cli/completion_scripts.h). Verbs parse arguments, call the other layers and print; nothing
 * else prints or picks exit codes.
 *
 *	static const struct verb_option options[] = {
 *		{ 0, "output", 'o', "FILE", "write there; - is stdout", .complete = "@file",
 *			OPTION_TEXT(struct dump_request, path) },
 *		{ 0 },
 *	};
 *	const struct verb verb_dump = {
 *		.name = "dump", .arguments = "TARGET [-o FILE]", .summary = "take a profile now",
 *		.description = "...", .options = options, .complete = "@target",
 *		.min_operands = 1, .max_operands = 1, .run = run,
 *	};
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
};

/*
 * `complete` says what a shell may complete an operand or an option's value to: words separated
 * by blanks, or one of "@file", "@folder", "@target" (running targets), "@source" (files and
 * targets) and "@command", or words and then "@file"; NULL for nothing.
 */
enum verb_option_store {
	OPTION_RETURN, /* nothing: option_next returns the id */
	OPTION_STORE_SWITCH,
	OPTION_STORE_CHOICE,
	OPTION_STORE_TEXT,
	OPTION_STORE_NUMBER,
	OPTION_STORE_COUNT,
	OPTION_STORE_REAL,
	OPTION_STORE_WORD,
	OPTION_STORE_DURATION,
};

struct verb_option {
	int id;		  /* what option_next returns, > 0; 0 where the parser stores the value */
	const char *name; /* long name without dashes */
	char letter;	  /* short form, 0 for none */
	/* Name of its value in the help, NULL when it takes none; "[=FILE]": one may be attached.
	 */
	const char *argument;
	const char *help;  /* one sentence without a full stop */
	const char *group; /* not NULL: a heading that goes before it in the help */
	const char *complete;
	bool is_hidden;	     /* accepted, not shown: an old spelling */
	const char *setting; /* its name in the shell of `heapctl report`; NULL where it has none */

	/* Set by the macros below. */
	enum verb_option_store store;
	size_t offset;
	int64_t min, max;	  /* of a number; a choice stores `min` */
	bool is_above_min;	  /* of a real number: `min` itself is refused */
	const char *const *words; /* what the values of an enum are called; NULL behind the last */
};

/*
 * Where the parser puts the value of an option: a member of the verb's request, which is given to
 * option_begin. A switch is a bool, a choice an enum that gets `value`, a text is borrowed from
 * argv, a duration is an int64_t in ms as duration_parse_run reads it, a number an int64_t, a count
 * a size_t up to INT32_MAX, a word an enum: the position of the value in `names`.
 */
#define OPTION_MEMBER(kind, type, request, member)             \
	.store = (kind), .offset = offsetof(request, member) + \
				   0 * sizeof((type *)NULL == &((request *)NULL)->member)
#define OPTION_SWITCH(request, member) OPTION_MEMBER(OPTION_STORE_SWITCH, bool, request, member)
#define OPTION_TEXT(request, member) OPTION_MEMBER(OPTION_STORE_TEXT, const char *, request, member)
#define OPTION_DURATION(request, member) \
	OPTION_MEMBER(OPTION_STORE_DURATION, int64_t, request, member)
#define OPTION_NUMBER(request, member, smallest, largest)                                \
	OPTION_MEMBER(OPTION_STORE_NUMBER, int64_t, request, member), .min = (smallest), \
								      .max = (largest)
#define OPTION_COUNT(request, member) \
	OPTION_MEMBER(OPTION_STORE_COUNT, size_t, request, member), .max = INT32_MAX
#define OPTION_REAL(request, member, smallest, largest)                               \
	OPTION_MEMBER(OPTION_STORE_REAL, double, request, member), .min = (smallest), \
								   .max = (largest)
#define OPTION_WORD(request, type, member, names) \
	OPTION_MEMBER(OPTION_STORE_WORD, type, request, member), .words = (names)
#define OPTION_CHOICE(request, type, member, value) \
	OPTION_MEMBER(OPTION_STORE_CHOICE, type, request, member), .min = (value)

struct verb {
	const char *name;
	const char *arguments;	 /* "TARGET [-o FILE]" */
	const char *summary;	 /* one line, lower case, no full stop */
	const char *description; /* paragraphs separated by empty lines; "" for none */
	const char *examples;	 /* one command per line, "# why" lines between; NULL for none */
	const struct verb_option *options; /* ends with one without a name; "help" is implied */
	const char *complete;		   /* of its operands */
	size_t min_operands, max_operands; /* checked by the option parser */
	bool stops_at_operand; /* what follows the first operand is not ours: heapctl run */
	bool has_perl_options; /* as of jeprof: see cli/option.h */
	bool is_hidden;	       /* not in the overview */
	int (*run)(const struct verb *verb, int argc, char **argv); /* argv[0] is the verb */
};

/* The operands of most verbs. */
#define VERB_OF_ONE_TARGET .complete = "@target", .min_operands = 1, .max_operands = 1

/*
 * Every verb in the order of the overview; ends with NULL. main has the table
 * and sets this, so that verbs about verbs need no file that needs them.
 */
extern const struct verb *const *verb_table;

/* The day of the sources, which the manual pages have: YYYY-MM-DD or "". Set by main as well. */
extern const char *verb_source_date;

/* NULL when there is none of that name. */
const struct verb *verb_find(const char *name);

/* Whether standard output is a pipe without a reader, as behind `| head`. */
bool verb_output_is_closed(void);

/*
 * "heapctl: WHAT: WHY (what to do)" on stderr; returns EXIT_USAGE or EXIT_FAILED by its kind. Says
 * nothing of a reader that has left.
 */
int verb_fail(const struct error *err);

/* The kind of the last failure that verb_fail() told of. */
enum error_kind verb_failure_kind(void);

/* The same without an exit code: a warning on stderr. */
void verb_warn(const char *format, ...) PRINTF_FORMAT(1, 2);

/* Of an option's folders that are not there, where files would merely not be found. */
void verb_warn_of_folders(const char *option, const char *folders, const char *separator);

/* A wrong command line: says what is wrong and how to get help; returns EXIT_USAGE. */
int verb_usage(const struct verb *verb, const char *format, ...) PRINTF_FORMAT(2, 3);

/* What `heapctl VERB --help` prints. */
void verb_print_help(const struct verb *verb, FILE *out);

/* What `heapctl --help` prints: the verbs. */
void verb_print_overview(FILE *out);

/*
 * Each verb is defined in the file of its name; those that belong together share one: activate and
 * deactivate (activate.c), start, stop and runs (runs.c), report and diff (report.c).
 */
extern const struct verb verb_account;
extern const struct verb verb_activate;
extern const struct verb verb_attach;
extern const struct verb verb_completion;
extern const struct verb verb_deactivate;
extern const struct verb verb_detach;
extern const struct verb verb_diff;
extern const struct verb verb_view;
extern const struct verb verb_doctor;
extern const struct verb verb_dump;
extern const struct verb verb_fleet;
extern const struct verb verb_longlived;
extern const struct verb verb_mallctl;
extern const struct verb verb_man;
extern const struct verb verb_note;
extern const struct verb verb_ps;
extern const struct verb verb_record;
extern const struct verb verb_render_worker;
extern const struct verb verb_report;
extern const struct verb verb_run;
extern const struct verb verb_runs;
extern const struct verb verb_send;
extern const struct verb verb_serve;
extern const struct verb verb_start;
extern const struct verb verb_stats;
extern const struct verb verb_status;
extern const struct verb verb_stop;
extern const struct verb verb_symbols;
extern const struct verb verb_top;
extern const struct verb verb_trend;
extern const struct verb verb_watch;

/* The same program under jeprof's name, with its command line and habits. Returns the exit code. */
int jeprof_main(int argc, char **argv);
