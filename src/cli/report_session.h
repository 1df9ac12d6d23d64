/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report is made of: the profiles of a command line, loaded, put into their order and given
 * their symbols once; then any number of views of them, as the shell of jeprof's mode needs.
 *
 * Messages about what could not be found go to stderr, once per module.
 */
#pragma once

#include "analysis/view_builder.h"
#include "analysis/fragmentation.h"
#include "cli/report_options.h"
#include "profile/profile.h"
#include "source/source.h"
#include "symbol/symbolizer.h"

struct report_session {
	const struct report_options *options;
	struct profile **profiles; /* those to report, then those to subtract */
	size_t profile_count;
	size_t profile_capacity;
	bool borrows_profiles; /* the caller frees them */
	size_t base_count;     /* of the profiles, at the end */
	size_t damaged_count;  /* of a series, which are left out */
	const char *program;   /* the operand; NULL when there was none */
	char process_name[64]; /* of the first profile, where it is known; "" */
	pid_t pid;   /* of the last profile, when it was taken from a process here; 0 otherwise */
	pid_t *pids; /* of the profiles that were loaded: of each process of a tree, else 0 */
	size_t pid_capacity;
	size_t tree_count;    /* of the profiles, those of processes of a tree */
	int64_t file_time_ms; /* modification time of the last profile's file; 0 otherwise */
	struct symbolizer *symbolizer;
	struct fragmentation_class *fragmentation_classes; /* with options->fragmentation */
	size_t fragmentation_class_count;
};

/* How the sources of the session's profiles are opened. */
struct source_options report_session_source_options(const struct report_session *session);

/* Loads and symbolizes. */
MUST_CHECK bool report_session_open(
	struct report_session *session, const struct report_options *options, struct error *err);
/* One profile more, which is the session's then unless it borrows them. */
void report_session_add(struct report_session *session, struct profile *profile);
/* Warns when a profile does not count what is wanted: objects, or everything ever allocated. */
void report_session_check_counter(const struct report_session *session);
/* The second half of it, for profiles that did not come from the command line. */
MUST_CHECK bool report_session_add_symbols(struct report_session *session, struct error *err);
void report_session_close(struct report_session *session);

/* What a report is of, for its title: the process where it is known, else the program. */
const char *report_session_title(const struct report_session *session);

/* Where symbols are cached; NULL without a home folder. Free with free(). */
char *report_session_cache_dir(void);

/*
 * "3 processes added up: nginx[7], nginx[8], nginx[9]" where the profiles are of a tree of
 * processes, else NULL. Free with free().
 */
char *report_session_tree_text(const struct report_session *session);

/* What differs from the options of the command line. */
struct report_variation {
	const char *focus; /* NULL: as in the options */
	const char *ignore;
	const char *thread;
	enum view_granularity granularity;
	bool no_inlines;
	bool totals_only; /* what is drawn needs no paths; false is always right */
};

/* No difference: to be changed where one is wanted. */
struct report_variation report_variation_none(const struct report_session *session);

/* What the figures of a report are of. */
enum profile_counter report_session_counter(const struct report_session *session);

/* All profiles, for the functions of analysis; release with free(). */
struct view_input *report_session_inputs(const struct report_session *session);

/* One view of all profiles; free with view_free. */
MUST_CHECK bool report_session_view(const struct report_session *session,
	const struct report_variation *variation, struct view **ret, struct error *err);
