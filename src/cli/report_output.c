/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/allocator_frames.h"
#include "analysis/filtered_profile.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/code_listing.h"
#include "cli/output_stream.h"
#include "cli/verb.h"
#include "profile/pprof.h"
#include "profile/symbolized.h"
#include "source/symbolize.h"

/* The formats that other programs read hold names as they are. */
static bool write_to_terminal(const struct buffer *out, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer shown = BUFFER_OR_EXIT;
	const char *const end = out->data + out->size;

	for (const char *at = out->data; at < end;) {
		size_t size = 0;
		while (at + size < end && at[size] != '\n' && at[size] != '\t')
			size++;
		utf8_append_printable(&shown, at, size);
		at += size;
		if (at < end)
			buffer_append_char(&shown, *at++);
	}
	return file_write_fd(STDOUT_FILENO, "standard output", shown.data, shown.size, err);
}

bool report_output_emit(const struct report_options *options, const struct buffer *out,
	bool is_binary, struct error *err)
{
	if (options->output_path != NULL)
		return file_write(options->output_path, out->data, out->size, 0666, err);
	if (is_binary && isatty(STDOUT_FILENO)) {
		error_set(err, ERROR_USAGE, "this output is not for a terminal");
		return error_hint(err, "add -o FILE");
	}
	if (isatty(STDOUT_FILENO))
		return write_to_terminal(out, err);
	return file_write_fd(STDOUT_FILENO, "standard output", out->data, out->size, err);
}

static bool is_of_one_thread(const struct report_options *options)
{
	return options->filter.thread != NULL && strcmp(options->filter.thread, "*") != 0;
}

static bool render_view(const struct report_session *session,
	const struct report_variation *variation, const struct render_options *render,
	struct buffer *out, struct error *err)
{
	const struct renderer *const renderer = session->options->renderer;
	struct report_variation wanted = *variation;
	CLEANUP(view_cleanup) struct view *view = NULL;

	wanted.totals_only = renderer->is_of_nodes && !render->mean;
	if (!report_session_view(session, &wanted, &view, err))
		return false;
	if (view->granularity != wanted.granularity)
		verb_warn("only one side of the difference has lines or addresses: it is one of "
			  "functions");
	if (is_of_one_thread(session->options) && !view->is_difference &&
		view->total[view->counter] == 0)
		verb_warn("thread %s has 0 of %s", render->thread,
			profile_counter_names[view->counter]);
	return renderer->render(view, render, out, err);
}

static int by_id(const void *a, const void *b)
{
	const struct profile_thread *const *const left = a;
	const struct profile_thread *const *const right = b;

	return ((*left)->id > (*right)->id) - ((*left)->id < (*right)->id);
}

/* One report after the other, for each thread of the first profile. */
static bool render_threads(
	const struct report_session *session, struct buffer *out, struct error *err)
{
	const struct profile *const profile = session->profiles[0];
	struct report_variation variation = report_variation_none(session);
	struct render_options render = session->options->render;
	CLEANUP(free_cleanup)
	const struct profile_thread **threads = xcalloc(profile->thread_count, sizeof(void *));
	char label[32];

	if (profile->thread_count == 0)
		return error_set(
			err, ERROR_USAGE, "%s has no figures for single threads", profile->name);
	for (size_t i = 0; i < profile->thread_count; i++)
		threads[i] = &profile->threads[i];
	qsort(threads, profile->thread_count, sizeof(void *), by_id);
	for (size_t i = 0; i < profile->thread_count; i++) {
		snprintf(label, sizeof label, "t%" PRIu64, threads[i]->id);
		variation.thread = label;
		render.thread = label;
		if (!render_view(session, &variation, &render, out, err))
			return false;
	}
	return true;
}

static bool is_number(const char *text)
{
	return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool render(const struct report_session *session, struct buffer *out, struct error *err)
{
	const struct report_options *const options = session->options;
	const struct report_variation variation = report_variation_none(session);
	struct render_options render = options->render;
	CLEANUP(free_cleanup) char *label = NULL;

	if (options->filter.thread == NULL)
		return render_view(session, &variation, &render, out, err);
	if (strcmp(options->filter.thread, "*") == 0)
		return render_threads(session, out, err);
	label = xasprintf(
		"%s%s", is_number(options->filter.thread) ? "t" : "", options->filter.thread);
	render.thread = label;
	return render_view(session, &variation, &render, out, err);
}

static bool is_unfiltered(const struct report_options *options)
{
	const struct filter_text *const text = &options->filter;
	const char *const patterns[] = { text->focus, text->ignore, text->retain, text->exclude,
		text->show, text->hide, text->show_from, text->prune_from };

	for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
		if (patterns[i] != NULL && patterns[i][0] != '\0')
			return false;
	}
	return text->tags.count == 0 && text->ignored_tags.count == 0 && text->thread == NULL;
}

static bool select_all(const struct report_session *session, bool by_thread,
	enum stack_pruning pruning, struct profile **ret, struct error *err)
{
	const struct profile *const first = session->profiles[0];
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	CLEANUP(free_cleanup) struct view_input *inputs = report_session_inputs(session);

	if (!filter_new(&session->options->filter, &filter, err))
		return false;
	const struct filtered_profile_request request = {
		.filter = filter,
		/* Of a CPU profile we show samples, where pprof's readers look for time. */
		.counter = first->kind == PROFILE_CPU ? first->default_counter
						      : report_session_counter(session),
		.pruning = pruning,
		.by_thread = by_thread,
		.strip_labels = session->options->strip_labels,
		.drop_negative = session->options->drop_negative,
	};
	return filtered_profile_make(inputs, session->profile_count, &request, ret, err);
}

/* A single unfiltered profile is written unchanged; anything else is assembled first. */
bool report_output_raw(const struct report_session *session, struct buffer *out, struct error *err)
{
	CLEANUP(profile_cleanup) struct profile *selected = NULL;

	if (session->base_count != 0) {
		error_set(err, ERROR_USAGE, "--raw cannot hold a difference");
		return error_hint(err, "use --pprof or --json");
	}
	const enum profile_kind kind = session->profiles[0]->kind;
	if (kind != PROFILE_HEAP && kind != PROFILE_GROWTH) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s: only heap and growth profiles can be written as text",
			session->profiles[0]->name);
		return error_hint(err, "add --pprof instead of --raw");
	}
	if (session->profile_count == 1 && is_unfiltered(session->options) &&
		!session->options->drop_negative)
		return symbolized_write(session->profiles[0], allocator_frame_has_module, out, err);
	return select_all(session, false, PRUNE_NOTHING, &selected, err) &&
	       symbolized_write(selected, allocator_frame_has_module, out, err);
}

static void add_times(const struct report_session *session, struct profile *profile)
{
	const struct report_options *const options = session->options;

	if (options->when_ms != NULL)
		profile->time_ms = strtoll(options->when_ms, NULL, 10);
	else if (profile->time_ms == 0)
		profile->time_ms =
			session->file_time_ms != 0 ? session->file_time_ms : clock_realtime_ms();
	if (options->span_ms != NULL)
		profile->duration_ms = strtoll(options->span_ms, NULL, 10);
	CLEANUP(free_cleanup) char *tree = report_session_tree_text(session);
	if (tree != NULL)
		profile_add_comment(profile, tree, strlen(tree));
	if (options->remark != NULL)
		profile_add_comment(profile, options->remark, strlen(options->remark));
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat first, second;

	return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

/*
 * pprof shows the name of the first mapping's file, and Debian's redis-server is a link to
 * redis-check-rdb. The path stays where it leads to the file here and the other one does not.
 */
static void name_program(const struct report_session *session, struct profile *profile)
{
	const char *const path = profile_main_path(profile);
	const char *const file = path_base_name(path);
	const char *const name = report_session_title(session);

	if (path[0] != '/' || name[0] == '\0' || strchr(name, '/') != NULL ||
		strncmp(file, name, strlen(name)) == 0)
		return;
	CLEANUP(free_cleanup) char *named = xasprintf("%.*s%s", (int)(file - path), path, name);
	if (access(path, F_OK) == 0 && !is_same_file(named, path))
		return;
	const char *const shown = profile_intern(profile, named);
	for (size_t i = 0; i < profile->mapping_count; i++)
		if (strcmp(profile->mappings[i].path, path) == 0)
			profile->mappings[i].path = shown;
	profile->program = shown;
}

bool report_output_pprof(
	const struct report_session *session, struct buffer *out, struct error *err)
{
	CLEANUP(profile_cleanup) struct profile *selected = NULL;
	CLEANUP(free_cleanup) struct pprof_executable *executables = NULL;
	struct pprof_write_options options = { .strip_names = session->options->strip_names };

	if (!select_all(session, session->base_count == 0 && !session->options->strip_labels,
		    report_options_pruning(session->options), &selected, err))
		return false;
	add_times(session, selected);
	executables = symbolize_find_executables(session->symbolizer, selected);
	if (session->options->file_addresses)
		symbolize_use_file_addresses(selected, executables);
	else if (session->options->strip_names)
		options.executables = executables;
	name_program(session, selected);
	const size_t all_count = selected->sample_count;
	const size_t count = all_count + selected->thread_sample_count;
	CLEANUP(free_cleanup)
	struct profile_sample *samples = xreallocarray(NULL, count, sizeof *samples);
	for (size_t i = 0; i < count; i++)
		samples[i] = i < all_count ? selected->samples[i]
					   : selected->thread_samples[i - all_count];
	return pprof_write(selected, samples, count, &options, out, err);
}

/* A browser that runs already only takes the file's name and returns: it needs time to read. */
enum { BROWSER_SECONDS = 10 };

/* In the order in which they are tried; the user's own choice is in BROWSER. */
static const char *const browsers[] = { "xdg-open", "sensible-browser",
	"/etc/alternatives/gnome-www-browser", "/etc/alternatives/x-www-browser", "google-chrome",
	"chromium", "firefox" };

/* The renderer whose output the viewer takes. */
static const char *viewer_format(const char *viewer)
{
	if (strcmp(viewer, "gv") == 0)
		return "ps";
	return strcmp(viewer, "evince") == 0 ? "pdf" : "svg";
}

/* Runs a program, found in PATH, and waits; whether it ended well. */
static bool run_program(const char *const *arguments, struct error *err)
{
	pid_t pid = 0;
	int status = 0;
	/* posix_spawn does not write to them. */
	char *const *const argv = (char *const *)(uintptr_t)arguments;
	const int problem = posix_spawnp(&pid, arguments[0], NULL, NULL, argv, environ);

	if (problem != 0) {
		error_system(err, problem, "starting %s", arguments[0]);
		return error_hint(err, "install it, or write a file with --svg -o FILE");
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return error_set(err, ERROR_SYSTEM, "%s failed", arguments[0]);
	return true;
}

static bool open_browser(const char *path, struct error *err)
{
	const char *const chosen = getenv("BROWSER");
	struct error ignored;

	if (chosen != NULL && chosen[0] != '\0' &&
		run_program((const char *[]){ chosen, path, NULL }, &ignored))
		return true;
	for (size_t i = 0; i < sizeof browsers / sizeof browsers[0]; i++) {
		if (run_program((const char *[]){ browsers[i], path, NULL }, &ignored))
			return true;
	}
	error_set(err, ERROR_NOT_FOUND, "no web browser could be started");
	return error_hint(err, "name one in BROWSER, or write a file with heapctl view -o FILE, or "
			       "heapctl report --svg -o FILE");
}

static bool open_viewer(const char *viewer, long scale, const char *path, struct error *err)
{
	char scale_option[40];

	if (strcmp(viewer, "gv") == 0) {
		snprintf(scale_option, sizeof scale_option, "--scale=%ld", scale);
		return run_program(
			(const char *[]){ "gv", scale_option, "--noantialias", path, NULL }, err);
	}
	if (strcmp(viewer, "web") == 0)
		return open_browser(path, err);
	return run_program((const char *[]){ viewer, path, NULL }, err);
}

/* Removes the file: at once, or from a process of its own once a browser must have read it. */
static void remove_file(const char *path, bool later)
{
	const pid_t child = later ? fork() : -1;

	if (child > 0)
		return;
	if (child == 0) {
		/* A terminal that is closed does not end us; who reads our output need not wait. */
		setsid();
		for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
			close(fd);
		sleep(BROWSER_SECONDS);
	}
	unlink(path);
	if (child == 0)
		_exit(0);
}

static bool write_picture(
	const struct buffer *picture, const char *extension, char **ret, struct error *err)
{
	const char *const folder = getenv("TMPDIR");
	CLEANUP(free_cleanup)
	char *path = xasprintf("%s/heapctl-XXXXXX.%s",
		folder == NULL || folder[0] == '\0' ? "/tmp" : folder, extension);
	CLEANUP(fd_cleanup) int fd = mkostemps(path, (int)strlen(extension) + 1, O_CLOEXEC);

	if (fd < 0)
		return error_system(err, errno, "creating %s", path);
	if (!file_write_fd(fd, path, picture->data, picture->size, err)) {
		unlink(path);
		return false;
	}
	*ret = TAKE(path);
	return true;
}

/* Shows it and waits until the viewer ends. */
static bool viewer_open(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err)
{
	CLEANUP(free_cleanup) char *path = NULL;

	if (!write_picture(picture, extension, &path, err))
		return false;
	const bool done = open_viewer(viewer, scale, path, err);
	remove_file(path, done && strcmp(viewer, "web") == 0);
	return done;
}

/* Does in a process of its own what viewer_open does, as a shell's "&" would. */
_Noreturn static void view_beside(const char *viewer, long scale, const char *path)
{
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct error err = { 0 };

	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	if (nothing >= 0)
		dup2(nothing, STDIN_FILENO);
	const bool done = open_viewer(viewer, scale, path, &err);
	if (!done)
		verb_fail(&err);
	if (done && strcmp(viewer, "web") == 0)
		sleep(BROWSER_SECONDS);
	unlink(path);
	_exit(0);
}

bool viewer_open_beside(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err)
{
	CLEANUP(free_cleanup) char *path = NULL;

	if (!write_picture(picture, extension, &path, err))
		return false;
	/* A child of a child, so that this process need not wait for it. */
	const pid_t child = fork();
	if (child == 0) {
		const pid_t viewing = fork();
		if (viewing == 0)
			view_beside(viewer, scale, path);
		_exit(viewing < 0);
	}
	int status = 1;
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (status == 0)
		return true;
	unlink(path);
	return error_set(err, ERROR_SYSTEM, "no process could be started for %s", viewer);
}

bool report_output_show(const struct report_session *session, const struct view *view,
	const char *viewer, const struct renderer *chosen, struct error *err)
{
	const struct renderer *const renderer =
		chosen != NULL ? chosen : renderer_find(viewer_format(viewer));
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;

	if (!renderer->render(view, &session->options->render, &out, err))
		return false;
	return session->options->output == REPORT_INTERACTIVE
		       ? viewer_open_beside(
				 viewer, session->options->scale, &out, renderer->extension, err)
		       : viewer_open(
				 viewer, session->options->scale, &out, renderer->extension, err);
}

static bool show(const struct report_session *session, struct error *err)
{
	const struct report_variation variation = report_variation_none(session);
	CLEANUP(view_cleanup) struct view *view = NULL;

	return report_session_view(session, &variation, &view, err) &&
	       report_output_show(
		       session, view, session->options->viewer, session->options->renderer, err);
}

/* Reports of all threads follow one another in one file: their format has to permit it. */
static bool check_all_threads(const struct report_options *options, struct error *err)
{
	if (options->filter.thread == NULL || strcmp(options->filter.thread, "*") != 0)
		return true;
	if (options->output == REPORT_RENDER && options->renderer->medium == RENDER_PLAIN)
		return true;
	error_set(err, ERROR_USAGE, "--thread='*' is for --text, --tree and --collapsed");
	if (options->output == REPORT_PPROF)
		return error_hint(err, "without --thread, --pprof labels samples with threads");
	return error_hint(err, "select one thread by its number or name");
}

bool report_output_write(const struct report_session *session, struct error *err)
{
	const struct report_options *const options = session->options;
	const struct report_variation variation = report_variation_none(session);
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	struct output_stream stream = { 0 };
	bool is_binary = false;
	bool done = false;

	/* What is shown on a terminal is made printable as a whole. */
	if (options->output_path != NULL || !isatty(STDOUT_FILENO))
		output_stream_begin(&stream, options->output_path, &out);
	if (!check_all_threads(options, err))
		return false;
	switch (options->output) {
	case REPORT_RENDER:
		is_binary = options->renderer->medium == RENDER_BINARY;
		done = render(session, &out, err);
		break;
	case REPORT_RAW:
		done = report_output_raw(session, &out, err);
		break;
	case REPORT_PPROF:
		is_binary = true;
		done = report_output_pprof(session, &out, err);
		break;
	case REPORT_LIST:
	case REPORT_WEBLIST:
	case REPORT_DISASM:
		done = code_listing_annotate(
			session, &variation, options->output, options->routine, &out, err);
		break;
	case REPORT_VIEWER:
		return show(session, err);
	case REPORT_INTERACTIVE:
	case REPORT_SYMBOLS:
		break;
	}
	if (stream.has_begun)
		return output_stream_end(&stream, &out, done, err);
	return done && report_output_emit(options, &out, is_binary, err);
}
