/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/comparison.h"
#include "analysis/unsample.h"
#include "analysis/function_name.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "base/proc_maps.h"
#include "cli/report_arguments.h"
#include "cli/report_options.h"
#include "cli/report_output.h"
#include "cli/report_figures.h"
#include "cli/report_session.h"
#include "cli/report_summary.h"
#include "client/process.h"
#include "source/symbolize.h"
#include "render/quantity.h"
#include "source/source.h"

enum mode { MODE_REPORT, MODE_DIFF, MODE_VIEW, MODE_JEPROF };

/* A service may have another name after an update; mixed up files are worth a warning. */
static void warn_of_programs(const struct profile *base, const struct profile *now)
{
	if (!profile_is_of_same_program(base, now))
		verb_warn("%s is of %s, %s of %s: a difference of two programs means little",
			base->name, profile_program_name(base), now->name,
			profile_program_name(now));
}

/*
 * A reader at a terminal may take the profile for all that is in use. Text has no place for it, so
 * that of an attach it is always said beside text; other outputs have it.
 */
static void note_sampling(const struct report_session *session)
{
	const struct profile *const profile = session->profiles[0];
	const bool is_text = session->options->output == REPORT_RENDER &&
			     strcmp(session->options->renderer->name, "text") == 0;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (session->base_count != 0 || profile->is_sampled_from_start ||
		profile->sampled_since_ms == 0 ||
		(!(is_text && profile_is_since_attach(profile)) && isatty(STDERR_FILENO) != 1))
		return;
	profile_describe_sampling(profile, &text);
	verb_warn("%s: %s", profile->name, buffer_string(&text));
}

/* Reports what makes the difference misleading. */
static void warn_of_comparison(const struct report_session *session)
{
	const struct profile *const now = session->profiles[0];
	const struct profile *const base = session->profiles[session->profile_count - 1];

	if (session->base_count == 0)
		return;
	warn_of_programs(base, now);
	const struct comparison comparison = comparison_of(base, now);
	if (comparison.was_attached_anew)
		verb_warn(
			"%s and %s are of different attaches: what was allocated before an attach "
			"is not in its profiles, so the difference is none of the program",
			base->name, now->name);
	else if (comparison.was_reset)
		verb_warn("%s and %s are of one run of the program, but prof.reset was called in "
			  "between (or they are in the wrong order): what was allocated before "
			  "counts as freed",
			base->name, now->name);
	else if (comparison.may_be_reset)
		verb_warn("almost nothing of %s is left in %s: it was freed, or prof.reset "
			  "was called in between (profiles taken with prof_accum:true show which)",
			base->name, now->name);
	else if (comparison.intervals_differ)
		verb_warn("%s has one sample per %s, %s one per %s: each is scaled up by its own "
			  "interval",
			base->name,
			quantity_format(QUANTITY_BYTES, (double)base->interval_bytes, false).text,
			now->name,
			quantity_format(QUANTITY_BYTES, (double)now->interval_bytes, false).text);
}

static void warn_of_unknown_errors(const struct report_session *session)
{
	for (size_t i = 0; session->options->render.confidence && i < session->profile_count; i++) {
		if (!profile_lacks_errors(session->profiles[i]))
			continue;
		verb_warn("%s does not say how it was sampled: errors are not known",
			session->profiles[i]->name);
		return;
	}
}

struct address_question {
	struct profile *profile;
	uint32_t *locations; /* in the order of the input */
	size_t count, capacity;
};

static void question_deinit(struct address_question *question)
{
	profile_free(question->profile);
	free(question->locations);
}

static void read_line(struct address_question *question, const char *line, size_t size)
{
	struct profile *const profile = question->profile;
	const char *const hex = memmem(line, size, "0x", 2);
	struct proc_map map;

	if (hex != NULL) {
		*XAPPEND(question->locations, question->count, question->capacity) =
			profile_add_exact_address(profile, strtoull(hex, NULL, 16));
	} else if (proc_map_parse(line, size, &map)) {
		CLEANUP(free_cleanup) char *path = xstrndup(map.path, map.path_size);
		const struct profile_mapping mapping = {
			.start = map.start,
			.limit = map.limit,
			.file_offset = map.file_offset,
			.path = path,
			.build_id = "",
			.deleted = map.deleted,
		};
		profile_add_mapping(profile, &mapping);
	}
}

static bool read_question(
	struct address_question *question, const struct report_options *options, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!file_read_fd(STDIN_FILENO, "standard input", &text, err))
		return false;
	for (const char *line = buffer_string(&text); *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		read_line(question, line, size);
		line += size + (line[size] == '\n');
	}
	if (question->profile->mapping_count == 0 && options->operand_count != 0 &&
		!program_mappings_add(question->profile, options->operands[0], err))
		return false;
	profile_assign_mappings(question->profile);
	return true;
}

/* The function that is really there, as jeprof prints it. */
static void print_name(const struct profile *profile, uint32_t at, struct buffer *name)
{
	const struct profile_location *const location = &profile->locations[at];

	buffer_clear(name);
	if (location->frame_count != 0)
		function_name_append_short(
			name, profile->frames[location->first_frame + location->frame_count - 1]
				      .function);
	puts(name->size == 0 ? "??" : buffer_string(name));
}

/*
 * --symbols: names for addresses. Standard input has mappings as in /proc/PID/maps and hexadecimal
 * addresses ("0x..."), one on a line; a name is printed for each address, "??" where none is known.
 */
static bool print_address_names(const struct report_options *options, struct error *err)
{
	CLEANUP(question_deinit) struct address_question question = { .profile = profile_new("-") };
	struct report_session session = {
		.options = options,
		.profiles = &question.profile,
		.profile_count = 1,
		.program = options->operand_count == 0 ? NULL : options->operands[0],
	};
	CLEANUP(buffer_deinit) struct buffer name = BUFFER_OR_EXIT;

	if (session.program != NULL && !source_is_program(session.program)) {
		error_set(err, ERROR_USAGE, "%s is not a program: --symbols names addresses",
			session.program);
		return error_hint(err, "it reads mappings and addresses from standard input; for a "
				       "profile use heapctl report FILE");
	}
	if (isatty(STDIN_FILENO) == 1)
		verb_warn("reading addresses from the terminal (Ctrl-D ends them)");
	if (!read_question(&question, options, err))
		return false;
	const bool done = report_session_add_symbols(&session, err);
	for (size_t i = 0; done && i < question.count; i++)
		print_name(question.profile, question.locations[i], &name);
	symbolizer_free(session.symbolizer);
	return done;
}

/* Without its process the files of a profile would be read from other places. */
static bool check_pid(const struct report_options *options, struct error *err)
{
	struct process process;

	if (options->pid == 0 || options->pid_may_have_ended ||
		process_read((pid_t)options->pid, &process, err))
		return true;
	if (err->kind == ERROR_NOT_FOUND)
		error_hint(err, "leave out --pid: the profile says which files it is of");
	return error_prefix(err, "--pid");
}

static bool report(const struct report_options *options, struct error *err)
{
	CLEANUP(report_session_close) struct report_session session = { 0 };

	if (!check_pid(options, err))
		return false;
	if (options->output == REPORT_SYMBOLS)
		return print_address_names(options, err);
	if (!report_session_open(&session, options, err) || !report_figures_check(&session, err))
		return false;
	note_sampling(&session);
	warn_of_comparison(&session);
	warn_of_unknown_errors(&session);
	if (options->output == REPORT_INTERACTIVE) {
		report_shell_run(&session);
		return true;
	}
	return report_summary_is_wanted(options) ? report_summary_print(&session, stdout, err)
						 : report_output_write(&session, err);
}

/* BASE and PROFILE, after the program if there is one. */
static bool take_base(struct report_options *options, struct error *err)
{
	const size_t program_count =
		options->operand_count != 0 && source_is_program(options->operands[0]);

	if (options->base != NULL || options->operand_count != program_count + 2) {
		error_set(err, ERROR_USAGE, "diff takes two profiles: BASE and PROFILE");
		return options->operand_count <= program_count + 2
			       ? false
			       : error_hint(err, "heapctl trend takes many; heapctl report --base "
						 "BASE A B subtracts from the sum of A and B");
	}
	options->base = options->operands[program_count];
	for (size_t i = program_count + 1; i < options->operand_count; i++)
		options->operands[i - 1] = options->operands[i];
	options->operand_count--;
	options->render.explain = true;
	if (!options->has_sort)
		options->render.sort = RENDER_SORT_CHANGE;
	return true;
}

/* A flame graph in a browser, or in a file. */
static bool take_view(struct report_options *options, struct error *err)
{
	if (options->has_output) {
		error_set(err, ERROR_USAGE, "view shows a flame graph");
		return error_hint(err, "heapctl report writes the other outputs");
	}
	options->renderer = renderer_find("flame");
	if (!options->has_output_path) {
		options->output = REPORT_VIEWER;
		options->viewer = "web";
	}
	return true;
}

/* jeprof has one exit code for everything that goes wrong. */
static int fail(const struct error *err, enum mode mode)
{
	const int code = verb_fail(err);

	return mode == MODE_JEPROF ? EXIT_FAILED : code;
}

/*
 * What jeprof's own tests of its arithmetic were for, on our figures: the line that facts about
 * weighting are usually explained with.
 */
static int check_arithmetic(void)
{
	const struct profile profile = { .weighting = PROFILE_EXPONENTIAL,
		.interval_bytes = 524288 };
	const double counters[PROFILE_COUNTERS] = { 10, 10240, 0, 0 };
	struct estimate estimates[PROFILE_COUNTERS];

	unsample(&profile, counters, estimates);
	const bool passed = fabs(estimates[PROFILE_INUSE_SPACE].value - 5248001.6666661) < 0.001;
	puts(passed ? "PASS" : "FAIL");
	return passed ? EXIT_DONE : EXIT_FAILED;
}

static int run_mode(const struct verb *verb, int argc, char **argv, enum mode mode)
{
	CLEANUP(report_options_deinit) struct report_options options = { 0 };
	struct error err = { 0 };

	if (!report_options_parse(&options, verb, argc, argv, mode == MODE_JEPROF, &err)) {
		if (mode == MODE_JEPROF)
			error_hint(&err, "jeprof --help lists the options");
		else
			return verb_usage(verb, "%s", err.message);
		return fail(&err, mode);
	}
	if (options.wants_help) {
		verb_print_help(verb, stdout);
		return EXIT_DONE;
	}
	if (options.wants_version) {
		puts(mode == MODE_JEPROF ? "jeprof (part of heapctl " HEAPCTL_VERSION ")"
					 : "heapctl " HEAPCTL_VERSION);
		return EXIT_DONE;
	}
	if (options.wants_test)
		return check_arithmetic();
	if ((mode == MODE_DIFF && !take_base(&options, &err)) ||
		(mode == MODE_VIEW && !take_view(&options, &err)) || !report(&options, &err))
		return fail(&err, mode);
	return EXIT_DONE;
}

static int run_report(const struct verb *verb, int argc, char **argv)
{
	return run_mode(verb, argc, argv, MODE_REPORT);
}

static int run_diff(const struct verb *verb, int argc, char **argv)
{
	return run_mode(verb, argc, argv, MODE_DIFF);
}

static int run_view(const struct verb *verb, int argc, char **argv)
{
	return run_mode(verb, argc, argv, MODE_VIEW);
}

int jeprof_main(int argc, char **argv)
{
	return run_mode(&verb_report, argc, argv, MODE_JEPROF);
}

const struct verb verb_report = {
	.name = "report",
	.arguments = "[OPTION...] [PROGRAM] PROFILE...",
	.summary = "show where the memory of a profile was allocated",
	.description = "Reads heap profiles and shows which functions, lines or files use the "
		       "memory or allocated it. Several profiles are summed. A profile is a "
		       "file (compressed or not; of jemalloc, gperftools or pprof, or "
		       "collapsed stacks), - for standard input, a URL such as "
		       "http://host:port/pprof/heap, or a TARGET, of which a profile is taken "
		       "now. TARGET:* adds up the processes that TARGET names and all their "
		       "descendants; one without an agent, or that ends meanwhile, is reported and "
		       "left out. PROGRAM is needed only where the program has been moved.\n\n"
		       "At a terminal, and where no option says what to show, it prints a "
		       "summary: the total, the ten functions that allocate most, and commands "
		       "that show more.\n\n"
		       "All options of jeprof work here and mean the same; installed or linked "
		       "under the name jeprof, heapctl replaces it.",
	.examples = "heapctl report server.heap\n"
		    "# all processes of a server that forks\n"
		    "heapctl report 'redis-server:*'\n"
		    "# the ten biggest, with their standard errors\n"
		    "heapctl report --top=10 --confidence server.heap\n"
		    "heapctl report --flame -o server.html server.heap\n"
		    "heapctl report --lines --focus=parse --alloc_space redis-server\n",
	.options = report_option_table,
	.complete = "@source",
	.max_operands = SIZE_MAX,
	.has_perl_options = true,
	.run = run_report,
};

const struct verb verb_diff = {
	.name = "diff",
	.arguments = "[OPTION...] [PROGRAM] BASE PROFILE",
	.summary = "show what grew and what shrank between two profiles",
	.description =
		"Subtracts BASE from PROFILE, by stacks of functions in modules: restarts and "
		"address randomisation do not matter, and neither does a new version of the "
		"program where functions kept their names. Shares are of the sum of all changes, "
		"grown and shrunk. All options of heapctl report work.",
	.examples = "heapctl diff before.heap after.heap\n"
		    "heapctl diff --flame -o change.html before.heap after.heap\n",
	.options = report_option_table,
	.complete = "@source",
	.max_operands = SIZE_MAX,
	.has_perl_options = true,
	.run = run_diff,
};

const struct verb verb_view = {
	.name = "view",
	.arguments = "[OPTION...] [PROGRAM] PROFILE...",
	.summary = "show the flame graph of a profile in a web browser",
	.description =
		"Opens a page with everything in it, which loads nothing from elsewhere: the flame "
		"graph, the table of functions, callers and callees of each. It takes what heapctl "
		"report takes; with --base it shows a difference. Without -o the page is in a "
		"temporary file that is removed when the browser has read it. BROWSER names the "
		"program to start.",
	.examples = "heapctl view server.heap\n"
		    "heapctl view --base before.heap after.heap\n"
		    "# on a machine without a browser\n"
		    "heapctl view -o server.html redis-server\n",
	.options = report_option_table,
	.complete = "@source",
	.max_operands = SIZE_MAX,
	.has_perl_options = true,
	.run = run_view,
};
