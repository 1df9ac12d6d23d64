/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures of graphs through graphviz. Its library is opened at the first picture and not before,
 * so that nothing else pays for it, and in a child process: the time for a layout has no useful
 * bound, the library crashes on some graphs, leaks, and is not made for threads. Any thread may
 * call.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/shared_library.h"
#include "base/xalloc.h"
#include "render/assets.h"
#include "render/renderers.h"

/* The version of the interface that the headers are of. */
#define LIBRARY "libgvc.so.6"

/* graphviz declares some prototypes in the old style. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <graphviz/gvc.h>
#pragma GCC diagnostic pop

struct library {
	__typeof__(gvContext) *context_new;
	__typeof__(agmemread) *graph_read;
	__typeof__(gvLayout) *lay_out;
	__typeof__(gvRenderData) *render;
	__typeof__(agseterr) *set_error_level;
	__typeof__(agseterrf) *set_error_function;
};

/* What the child says before the picture. */
struct verdict {
	bool is_drawn;
	struct error err;
};

/*
 * graphviz reports through a function without a context, so what it says has to be kept here. Only
 * the child, which has one thread, touches it.
 */
static char complaint[200];

static int keep_complaint(char *text)
{
	const size_t used = strlen(complaint);

	snprintf(complaint + used, sizeof complaint - used, "%s", text);
	return 0;
}

static bool fail(struct error *err, enum error_kind kind, const char *what)
{
	complaint[strcspn(complaint, "\n")] = '\0';
	return error_set(err, kind, "%s: %s", what,
		complaint[0] == '\0' ? "graphviz gives no reason" : complaint);
}

static bool find_functions(void *handle, struct library *library)
{
	const struct {
		const char *name;
		void **function;
	} wanted[] = {
		{ "gvContext", (void **)&library->context_new },
		{ "agmemread", (void **)&library->graph_read },
		{ "gvLayout", (void **)&library->lay_out },
		{ "gvRenderData", (void **)&library->render },
		{ "agseterr", (void **)&library->set_error_level },
		{ "agseterrf", (void **)&library->set_error_function },
	};

	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		*wanted[i].function = dlsym(handle, wanted[i].name);
		if (*wanted[i].function == NULL)
			return false;
	}
	return true;
}

static bool open_library(struct library *library, struct error *err)
{
	void *handle;

	if (!shared_library_open(LIBRARY, "libgvc6", &handle, err))
		return error_prefix(err, "drawing the graph");
	if (!find_functions(handle, library)) {
		error_set(err, ERROR_UNSUPPORTED, "drawing the graph: %s", dlerror());
		return error_hint(err, "install Debian's library: apt install --reinstall libgvc6");
	}
	library->set_error_function(keep_complaint);
	library->set_error_level(AGERR);
	return true;
}

/* Nothing is given back: the process ends with it. */
static bool draw_laid_out(const struct library *library, GVC_t *context, Agraph_t *graph,
	const char *format, struct buffer *out, struct error *err)
{
	char *data = NULL;
	unsigned size = 0;

	if (library->render(context, graph, format, &data, &size) != 0 || data == NULL) {
		fail(err, ERROR_UNSUPPORTED, "drawing the graph");
		return error_hint(
			err, "graphviz may lack its part for %s: apt install graphviz", format);
	}
	buffer_append(out, data, size);
	return true;
}

static bool draw_graph(const struct library *library, GVC_t *context, const char *dot,
	const char *format, struct buffer *out, struct error *err)
{
	Agraph_t *const graph = library->graph_read(dot);

	if (graph == NULL)
		return fail(err, ERROR_INPUT, "reading the graph");
	if (library->lay_out(context, graph, "dot") != 0)
		return fail(err, ERROR_UNSUPPORTED, "laying out the graph");
	return draw_laid_out(library, context, graph, format, out, err);
}

static bool draw_here(const char *dot, const char *format, struct buffer *out, struct error *err)
{
	struct library library = { 0 };

	if (!open_library(&library, err))
		return false;
	GVC_t *const context = library.context_new();
	if (context == NULL)
		return fail(err, ERROR_UNSUPPORTED, "starting graphviz");
	return draw_graph(&library, context, dot, format, out, err);
}

static void limit_resource(int resource, rlim_t max)
{
	const struct rlimit limit = { max, max };

	setrlimit(resource, &limit);
}

/* The child's whole life. */
static _Noreturn void draw_for_parent(int fd, const char *dot, const char *format, unsigned limit_s)
{
	struct verdict verdict = { 0 };
	struct buffer picture = BUFFER_OR_EXIT;
	struct error err;

	signal(SIGXCPU, SIG_DFL);
	limit_resource(RLIMIT_CORE, 0);
	limit_resource(RLIMIT_CPU, limit_s);
	verdict.is_drawn = draw_here(dot, format, &picture, &verdict.err);
	const bool is_sent = file_write_fd(fd, "pipe", &verdict, sizeof verdict, &err) &&
			     file_write_fd(fd, "pipe", picture.data, picture.size, &err);
	_exit(is_sent ? 0 : 1);
}

static int wait_for(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	return status;
}

static bool take_answer(const struct buffer *answer, int status, unsigned limit_s,
	struct buffer *out, struct error *err)
{
	struct verdict verdict;

	/* The hard limit kills, when it is the same as the soft one. */
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL)) {
		error_set(err, ERROR_TIMEOUT, "laying out the graph: not done after %u s", limit_s);
		return error_hint(err, "ask for fewer nodes: --nodecount, --nodefraction, --focus");
	}
	if (status != 0 || answer->size < sizeof verdict)
		return error_set(err, ERROR_UNSUPPORTED, "drawing the graph: graphviz %s %d",
			WIFSIGNALED(status) ? "died of signal" : "ended with",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	memcpy(&verdict, answer->data, sizeof verdict);
	if (!verdict.is_drawn) {
		*err = verdict.err;
		return false;
	}
	buffer_append(out, answer->data + sizeof verdict, answer->size - sizeof verdict);
	return true;
}

bool graphviz_draw(const char *dot, const char *format, unsigned limit_s, struct buffer *out,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer answer = BUFFER_OR_EXIT;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_system(err, errno, "drawing the graph: pipe");
	CLEANUP(fd_cleanup) int from_child = ends[0];
	CLEANUP(fd_cleanup) int to_parent = ends[1];
	const pid_t child = fork();
	if (child < 0)
		return error_system(err, errno, "drawing the graph: fork");
	if (child == 0)
		draw_for_parent(to_parent, dot, format, limit_s);
	close(TAKE_FD(to_parent));
	const bool is_read = file_read_fd(from_child, "pipe", &answer, err);
	const int status = wait_for(child);
	return is_read && take_answer(&answer, status, limit_s, out, err);
}

/*
 * The time for a layout grows much faster than the graph, and a reader is lost in a picture of a
 * thousand boxes: more are never laid out. A graph that takes longer than the limit is drawn with
 * half its nodes; the legend says how many were left out.
 */
enum { MAX_NODES = 1000, MIN_NODES = 50, LIMIT_S = 10 };

static bool draw(const struct view *view, const struct render_options *options, const char *format,
	struct buffer *out, struct error *err)
{
	struct render_options limited = *options;
	size_t *const nodes = &limited.graph.node_count;
	struct error failure;

	if (*nodes > MAX_NODES)
		*nodes = MAX_NODES;
	for (;; *nodes /= 2) {
		CLEANUP(buffer_deinit) struct buffer dot = BUFFER_OR_EXIT;
		dot_write(view, &limited, &dot);
		if (graphviz_draw(buffer_string(&dot), format, LIMIT_S, out, &failure))
			return true;
		if (failure.kind != ERROR_TIMEOUT || *nodes / 2 < MIN_NODES)
			break;
	}
	*err = failure;
	return false;
}

bool render_gif(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "gif", out, err);
}

bool render_pdf(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "pdf", out, err);
}

bool render_png(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "png", out, err);
}

bool render_ps(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "ps2", out, err);
}

/*
 * graphviz gives the picture a size in points and names a DTD on the net. Ours fills the window,
 * names nothing outside itself, and brings the script that moves it.
 */
bool render_svg(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer drawn = BUFFER_OR_EXIT;

	if (!draw(view, options, "svg", &drawn, err))
		return false;
	const char *const text = buffer_string(&drawn);
	const char *const root = strstr(text, "<svg ");
	const char *const box = root == NULL ? NULL : strstr(root, " viewBox=");
	const char *const end = root == NULL ? NULL : strstr(root, "</svg>");
	if (box == NULL || end == NULL || box > end)
		return error_set(err, ERROR_UNSUPPORTED,
			"drawing the graph: graphviz wrote SVG of an unknown form");
	buffer_append_string(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
				  "<svg width=\"100%\" height=\"100%\"");
	buffer_append(out, box, (size_t)(end - box));
	buffer_printf(out, "<style><![CDATA[\n%s]]></style>\n", callgraph_style);
	buffer_printf(out, "<script><![CDATA[\n%s]]></script>\n", callgraph_script);
	buffer_append_string(out, end);
	return true;
}
