/* SPDX-License-Identifier: Apache-2.0 */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/code_listing.h"
#include "cli/line_editor.h"
#include "cli/report_figures.h"
#include "cli/report_output.h"
#include "cli/report_peek.h"
#include "cli/shell_settings.h"
#include "cli/shell_words.h"
#include "cli/verb.h"
#include "render/quantity.h"

struct shell {
	struct report_session session; /* with the options of the settings */
	struct shell_settings settings;
	const char *prompt;
};

/* The words of a command, sorted as jeprof sorts them. */
struct shell_request {
	const char *command;
	const char *path; /* behind '>'; NULL without it */
	struct report_variation variation;
	struct render_options render;
	struct buffer focus; /* words joined with '|' */
	struct buffer ignore;
};

struct shell_command {
	const char *name;
	const char *arguments;
	const char *help;
	bool takes_number; /* right behind the name: top20 */
	bool needs_word;
	bool needs_file; /* behind '>' */
	bool (*run)(struct shell *shell, struct shell_request *request, struct buffer *out,
		struct error *err);
};

static void add_word(struct buffer *words, const char *word, size_t size)
{
	if (words->size != 0)
		buffer_append_char(words, '|');
	buffer_append(words, word, size);
}

static bool is_flag(const char *word, size_t size, const char *flag)
{
	const size_t dashes = size > 1 && word[1] == '-' ? 2 : 1;

	return word[0] == '-' && size - dashes == strlen(flag) &&
	       memcmp(word + dashes, flag, size - dashes) == 0;
}

static void request_parse(struct shell_request *request, const char *words)
{
	while (*words != '\0') {
		const size_t size = strcspn(words, " \t");
		if (is_flag(words, size, "cum"))
			request->render.sort = RENDER_SORT_CUMULATIVE;
		else if (is_flag(words, size, "lines"))
			request->variation.granularity = VIEW_LINES;
		else if (words[0] == '-' && size > 1)
			add_word(&request->ignore, words + 1, size - 1);
		else if (size > 0)
			add_word(&request->focus, words, size);
		words += size;
		words += strspn(words, " \t");
	}
	if (request->ignore.size != 0)
		request->variation.ignore = buffer_string(&request->ignore);
}

static void request_init(struct shell_request *request, const struct shell *shell)
{
	*request = (struct shell_request){
		.variation = report_variation_none(&shell->session),
		.render = shell->session.options->render,
	};
	if (!shell->settings.options.trim)
		request->render.graph = GRAPH_LIMITS_NONE;
	buffer_init(&request->focus, &memory_or_exit);
	buffer_init(&request->ignore, &memory_or_exit);
}

static void request_deinit(struct shell_request *request)
{
	buffer_deinit(&request->focus);
	buffer_deinit(&request->ignore);
}

/* "After ignoring 'x': 1.0 MB of 56.9 (1.8%)" */
static void append_remaining(struct buffer *out, const struct view *view,
	const struct render_options *render, const char *what, const char *pattern)
{
	const double left = view_sum(view, view->counter).value;
	const double total = view->total[view->counter] - view->base_total[view->counter];
	const char *const unit = jeprof_value_unit(view, render);

	buffer_printf(out, "After %s '%s': %s %s of %s %s (%s)\n", what, pattern,
		jeprof_value_format(view, render, left).text, unit,
		jeprof_value_format(view, render, total).text, unit,
		jeprof_value_percent(left, total).text);
}

/* Makes the view; says on the way what focus and ignore leave of the total. */
static bool make_view(struct shell *shell, struct shell_request *request, bool with_focus,
	struct buffer *out, struct view **ret, struct error *err)
{
	struct report_variation *const variation = &request->variation;
	CLEANUP(view_cleanup) struct view *view = NULL;

	if (with_focus && request->focus.size != 0)
		variation->focus = buffer_string(&request->focus);
	if (!report_session_view(&shell->session, variation, &view, err))
		return false;
	buffer_printf(out, "Total: %s %s\n",
		jeprof_value_format(view, &request->render,
			view->total[view->counter] - view->base_total[view->counter])
			.text,
		jeprof_value_unit(view, &request->render));
	if (with_focus && request->focus.size != 0)
		append_remaining(out, view, &request->render, "focusing on", variation->focus);
	if (request->ignore.size != 0)
		append_remaining(out, view, &request->render, "ignoring", variation->ignore);
	*ret = TAKE(view);
	return true;
}

static bool run_renderer(struct shell *shell, struct shell_request *request, const char *name,
	bool with_focus, struct buffer *out, struct error *err)
{
	CLEANUP(view_cleanup) struct view *view = NULL;
	CLEANUP(buffer_deinit) struct buffer rendered = BUFFER_OR_EXIT;

	if (!make_view(shell, request, with_focus, out, &view, err) ||
		!renderer_find(name)->render(view, &request->render, &rendered, err))
		return false;
	/* The report already has a line with the total. */
	const char *text = buffer_string(&rendered);
	if (strncmp(text, "Total", 5) == 0)
		text += strcspn(text, "\n") + 1;
	buffer_append_string(out, text);
	return true;
}

static bool run_top(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	if (request->render.line_limit == 0 && shell->settings.options.trim)
		request->render.line_limit = 10;
	return run_renderer(shell, request, "text", false, out, err);
}

static bool run_tree(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	return run_renderer(shell, request, "tree", true, out, err);
}

static bool run_annotated(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	return code_listing_annotate(&shell->session, &request->variation,
		strcmp(request->command, "list") == 0 ? REPORT_LIST : REPORT_DISASM,
		buffer_string(&request->focus), out, err);
}

/* In the viewer; with a file behind '>' what it would show is the output. */
static bool show_beside(const char *viewer, const char *extension,
	const struct shell_request *request, const struct buffer *shown, struct buffer *out,
	struct error *err)
{
	if (request->path == NULL)
		return viewer_open_beside(viewer, 0, shown, extension, err);
	buffer_append(out, shown->data, shown->size);
	return true;
}

static bool run_weblist(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer page = BUFFER_OR_EXIT;

	return code_listing_annotate(&shell->session, &request->variation, REPORT_WEBLIST,
		       buffer_string(&request->focus), &page, err) &&
	       show_beside("web", "html", request, &page, out, err);
}

/* The command has the name of the viewer. */
static bool run_viewer(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	CLEANUP(view_cleanup) struct view *view = NULL;

	if (request->path != NULL) {
		error_set(
			err, ERROR_USAGE, "%s opens a window: it writes no file", request->command);
		return error_hint(err, "svg > FILE writes the call graph");
	}
	return make_view(shell, request, true, out, &view, err) &&
	       report_output_show(&shell->session, view, request->command, NULL, err);
}

static bool run_flame(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	CLEANUP(view_cleanup) struct view *view = NULL;
	CLEANUP(buffer_deinit) struct buffer page = BUFFER_OR_EXIT, ignored = BUFFER_OR_EXIT;

	return make_view(
		       shell, request, true, request->path == NULL ? out : &ignored, &view, err) &&
	       renderer_find("flame")->render(view, &request->render, &page, err) &&
	       show_beside("web", "html", request, &page, out, err);
}

/* The command has the name of the renderer. */
static bool run_picture(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	CLEANUP(view_cleanup) struct view *view = NULL;
	CLEANUP(buffer_deinit) struct buffer ignored = BUFFER_OR_EXIT;

	return make_view(shell, request, true, &ignored, &view, err) &&
	       renderer_find(request->command)->render(view, &request->render, out, err);
}

static bool run_proto(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	(void)request;
	return report_output_pprof(&shell->session, out, err);
}

static bool run_raw(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	(void)request;
	return report_output_raw(&shell->session, out, err);
}

static bool run_traces(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	request->command = "collapsed";
	return run_picture(shell, request, out, err);
}

/* Without a name of a file kcachegrind is started on one of its own. */
static bool run_callgrind(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	struct report_variation by_line = report_variation_none(&shell->session);
	CLEANUP(view_cleanup) struct view *view = NULL;
	CLEANUP(buffer_deinit) struct buffer written = BUFFER_OR_EXIT;

	by_line.granularity = VIEW_LINES;
	if (!report_session_view(&shell->session, &by_line, &view, err) ||
		!renderer_find("callgrind")->render(view, &request->render, &written, err))
		return false;
	if (request->focus.size == 0)
		return show_beside("kcachegrind", "callgrind", request, &written, out, err);
	const char *const path = buffer_string(&request->focus);
	buffer_printf(out, "Writing callgrind file to '%s'.\n", path);
	return file_write(path, written.data, written.size, 0666, err);
}

static bool run_peek(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	CLEANUP(view_cleanup) struct view *view = NULL;
	CLEANUP(pattern_cleanup) struct pattern *pattern = NULL;

	return pattern_new(buffer_string(&request->focus), &pattern, err) &&
	       make_view(shell, request, false, out, &view, err) &&
	       report_peek_write(view, &request->render, pattern, out, err);
}

static bool run_settings(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	(void)request;
	(void)err;
	shell_settings_print(&shell->settings, out);
	return true;
}

static bool run_help(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err);

/* In the order in which they are tried and helped with. */
static const struct shell_command commands[] = {
	{ "text", "[N] [--cum] [-IGNORE...]", "the same as top", true, false, false, run_top },
	{ "top", "[N] [--cum] [-IGNORE...]", "the N biggest, 10 by default: top20 --cum", true,
		false, false, run_top },
	{ "list", "REGEX [-IGNORE...]", "source of matching functions", false, true, false,
		run_annotated },
	{ "weblist", "REGEX [-IGNORE...]", "source and assembly in a web browser", false, true,
		false, run_weblist },
	{ "disasm", "REGEX [-IGNORE...]", "assembly of matching functions", false, true, false,
		run_annotated },
	{ "peek", "REGEX [-IGNORE...]", "callers and callees of matching functions", false, true,
		false, run_peek },
	{ "tree", "[FOCUS] [-IGNORE...]", "the call tree", false, false, false, run_tree },
	{ "gv", "[FOCUS] [-IGNORE...]", "call graph shown by gv", false, false, false, run_viewer },
	{ "evince", "[FOCUS] [-IGNORE...]", "call graph shown by evince", false, false, false,
		run_viewer },
	{ "web", "[FOCUS] [-IGNORE...]", "call graph in a web browser", false, false, false,
		run_viewer },
	{ "flame", "[FOCUS] [-IGNORE...]", "flame graph in a web browser", false, false, false,
		run_flame },
	{ "callgrind", "[FILE]", "write callgrind's format, or start kcachegrind", false, false,
		false, run_callgrind },
	{ "dot", "[FOCUS] [-IGNORE...] > FILE", "call graph in the DOT language", false, false,
		true, run_picture },
	{ "svg", "[FOCUS] [-IGNORE...] > FILE", "call graph as SVG", false, false, true,
		run_picture },
	{ "pdf", "[FOCUS] [-IGNORE...] > FILE", "call graph as PDF", false, false, true,
		run_picture },
	{ "ps", "[FOCUS] [-IGNORE...] > FILE", "call graph as PostScript", false, false, true,
		run_picture },
	{ "gif", "[FOCUS] [-IGNORE...] > FILE", "call graph as GIF", false, false, true,
		run_picture },
	{ "png", "[FOCUS] [-IGNORE...] > FILE", "call graph as PNG", false, false, true,
		run_picture },
	{ "traces", "[FOCUS] [-IGNORE...]", "one line for each stack", false, false, false,
		run_traces },
	{ "proto", "> FILE", "the profile for pprof, as the settings select it", false, false, true,
		run_proto },
	{ "raw", "> FILE", "the same as proto, in jeprof's format", false, false, true, run_raw },
	{ "options", "", "the settings", false, false, false, run_settings },
	{ "o", "", "the same as options", false, false, false, run_settings },
	{ "help", "", "this list", false, false, false, run_help },
	{ 0 },
};

static bool run_help(
	struct shell *shell, struct shell_request *request, struct buffer *out, struct error *err)
{
	(void)request;
	(void)err;
	for (const struct shell_command *command = commands; command->name != NULL; command++)
		buffer_printf(
			out, "  %-9s %-26s %s\n", command->name, command->arguments, command->help);
	buffer_append_string(out,
		"  quit                                 or q, exit, ^D\n\n"
		"FOCUS: only stacks with a match. -IGNORE: no stacks with a match. --cum sorts by\n"
		"cumulative figures, --lines shows source lines. Patterns are Perl's.\n"
		"COMMAND > FILE writes what it prints to a file, COMMAND >> FILE appends it.\n\n"
		"NAME=VALUE is a setting for all commands that follow, NAME= takes it back; cum, "
		"lines and the\n"
		"other words of sort=, granularity= and sample_index= do without the name, : takes "
		"the filters back:\n\n");
	shell_settings_print(&shell->settings, out);
	return true;
}

/* The command that the line begins with; *rest is behind its name, *number what is in it. */
static const struct shell_command *find_command(const char *line, size_t *number, const char **rest)
{
	const size_t size = strspn(line, "abcdefghijklmnopqrstuvwxyz");

	for (const struct shell_command *command = commands; command->name != NULL; command++) {
		if (strlen(command->name) != size || strncmp(line, command->name, size) != 0)
			continue;
		char *end = NULL;
		*number = command->takes_number ? strtoul(line + size, &end, 10) : 0;
		*rest = end == NULL ? line + size : end;
		if (**rest != '\0' && !isspace((unsigned char)**rest))
			return NULL;
		*rest += strspn(*rest, " \t");
		return command;
	}
	return NULL;
}

/* Cuts " > FILE" or " >> FILE" off the line. Patterns such as operator-> have no blank there. */
static const char *cut_file(char *line, bool *appends)
{
	char *const arrow = strstr(line, " >");

	if (arrow == NULL)
		return NULL;
	*appends = arrow[2] == '>';
	*arrow = '\0';
	char *const name = arrow + 2 + *appends + strspn(arrow + 2 + *appends, " \t");
	for (size_t size = strlen(name); size > 0 && isspace((unsigned char)name[size - 1]); size--)
		name[size - 1] = '\0';
	return name;
}

static bool write_output(
	const struct buffer *out, const char *path, bool appends, struct error *err)
{
	if (path == NULL) {
		/* A command that starts a viewer prints nothing: there are no data. */
		if (out->size > 0)
			fwrite(out->data, 1, out->size, stdout);
		fflush(stdout);
		return true;
	}
	if (path[0] == '\0')
		return error_set(err, ERROR_USAGE, "the name of a file is missing behind '>'");
	if (!appends)
		return file_write(path, out->data, out->size, 0666, err);
	CLEANUP(fd_cleanup)
	const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return error_system(err, errno, "opening %s", path);
	return file_write_fd(fd, path, out->data, out->size, err);
}

/* A command that does not know a setting would show other figures than were asked for. */
static bool check_figures(
	const struct shell *shell, const struct shell_command *command, struct error *err)
{
	const bool shows_figures = command->run != run_proto && command->run != run_raw &&
				   command->run != run_settings && command->run != run_help;

	if (!shows_figures) {
		if ((command->run != run_proto && command->run != run_raw) ||
			shell->settings.options.divide_by == 1)
			return true;
		error_set(err, ERROR_USAGE, "%s writes figures as they were taken", command->name);
		return error_hint(err, "divide_by= takes the division back");
	}
	if (!shell->settings.options.relative_percentages && command->run == run_flame) {
		error_set(err, ERROR_USAGE, "shares of a flame graph are of what it shows");
		return error_hint(err, "relative_percentages=true takes it back");
	}
	if (!shell->settings.options.render.mean || command->run == run_top)
		return report_figures_check(&shell->session, err);
	error_set(err, ERROR_USAGE, "mean=true is for top alone");
	return error_hint(err, "mean=false takes it back");
}

static void run_command(struct shell *shell, const char *typed)
{
	CLEANUP(request_deinit) struct shell_request request = { 0 };
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup) char *line = xstrdup(typed);
	struct error err = { 0 };
	size_t number = 0;
	bool appends = false;
	const char *rest = "";

	if (shell_settings_names_one(typed)) {
		const enum profile_counter before = shell->settings.options.counter;
		if (!shell_settings_set(&shell->settings, typed, &err))
			verb_fail(&err);
		else if (shell->settings.options.counter != before)
			report_session_check_counter(&shell->session);
		return;
	}
	const char *const path = cut_file(line, &appends);
	const struct shell_command *const command = find_command(line, &number, &rest);
	request_init(&request, shell);
	if (command == NULL && shell_settings_expand(&shell->settings, typed))
		return;
	if (command == NULL) {
		if (shell_settings_suggest(typed, &err))
			verb_fail(&err);
		else
			fputs("Unknown command: try 'help'.\n", stderr);
		return;
	}
	request.command = command->name;
	request.path = path;
	/* A viewer is not what writes a file. */
	if (path == NULL && command->run != run_viewer && command->run != run_settings &&
		command->run != run_help)
		request.path = shell->settings.options.output_path;
	request_parse(&request, rest);
	if (number != 0)
		request.render.line_limit = number;
	if ((command->needs_word && request.focus.size == 0) ||
		(command->needs_file && request.path == NULL)) {
		fprintf(stderr, "usage: %s %s\n", command->name, command->arguments);
		return;
	}
	if (!check_figures(shell, command, &err) || !command->run(shell, &request, &out, &err) ||
		!write_output(&out, request.path, appends, &err))
		verb_fail(&err);
}

static bool is_quit(const char *line)
{
	static const char *const words[] = { "quit", "exit", "q" };
	const size_t size = strcspn(line, " \t\r");

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strlen(words[i]) == size && strncmp(line, words[i], size) == 0)
			return true;
	}
	return false;
}

/* What a line can begin with. */
static void add_first_words(struct shell_words *words)
{
	for (const struct shell_command *command = commands; command->name != NULL; command++)
		shell_words_add(words, command->name);
	shell_words_add(words, "quit");
	for (size_t i = 0; shell_settings_name(i) != NULL; i++) {
		CLEANUP(free_cleanup) char *word = xasprintf("%s=", shell_settings_name(i));
		shell_words_add(words, word);
	}
}

void report_shell_run(const struct report_session *session)
{
	struct shell shell = {
		.session = *session,
		.prompt = session->options->is_jeprof ? "(jeprof) " : "(heapctl) ",
	};
	CLEANUP(line_editor_deinit) struct line_editor editor = { 0 };
	CLEANUP(shell_words_deinit) struct shell_words firsts = { 0 }, functions = { 0 };

	shell_settings_init(&shell.settings, session->options);
	shell.session.options = &shell.settings.options;
	shell_words_init(&firsts);
	shell_words_init(&functions);
	add_first_words(&firsts);
	shell_words_add_functions(&functions, session);
	fprintf(stderr, "Welcome to %s!  For help, type 'help'.\n",
		session->options->is_jeprof ? "jeprof" : "heapctl");
	line_editor_init(&editor);
	line_editor_keep(&editor, "report_history");
	line_editor_offer(&editor, (struct word_list){ firsts.words, firsts.count },
		(struct word_list){ functions.words, functions.count });
	for (const char *line; (line = line_editor_next(&editor, shell.prompt)) != NULL;) {
		line += strspn(line, " \t");
		if (is_quit(line))
			break;
		if (line[0] != '\0')
			run_command(&shell, line);
	}
	shell_settings_deinit(&shell.settings);
}
