/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws stacks that a test makes up: reads lines from stdin and writes what a renderer makes of
 * them to stdout. A line is
 *
 *	NOW BASE ERROR SAMPLES FRAME<tab>FRAME<tab>...
 *
 * in bytes, root first, a frame being NAME or NAME@FILE:LINE@MODULE; "!" in front of the name
 * means inlined. The objects of a line are its samples, times ten.
 *
 * usage: draw_stacks RENDERER [difference] [inverted] [all-nodes] [allocated] [frames=N]
 *
 * "allocated": what is in use is half of what was allocated, but for names that begin with "keep".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "render/renderers.h"

struct nodes {
	struct view *view;
	struct hash_index index;
	const char **texts;
	size_t count, capacity;
};

static bool text_equal(const void *items, uint32_t position, const void *key)
{
	return strcmp(((const struct nodes *)items)->texts[position], key) == 0;
}

static uint32_t add_frame(struct nodes *nodes, char *text)
{
	const uint64_t hash = hash_bytes(text, strlen(text));
	const uint32_t found = hash_index_add(
		&nodes->index, hash, text_equal, nodes, text, (uint32_t)nodes->count);

	if (found != HASH_INDEX_NONE)
		return found;
	*XAPPEND(nodes->texts, nodes->count, nodes->capacity) = xstrdup(text);
	const bool is_inlined = text[0] == '!';
	const char *const name = strsep(&text, "@") + is_inlined;
	char *const place = text == NULL ? NULL : strsep(&text, "@");
	char *const colon = place == NULL ? NULL : strrchr(place, ':');
	if (colon != NULL)
		*colon = '\0';
	return view_add_node(
		nodes->view, &(struct view_node){
				     .name = name,
				     .function = name,
				     .file = place == NULL ? "" : place,
				     .line = colon == NULL ? 0 : (uint32_t)atoi(colon + 1),
				     .module = text == NULL ? "" : text,
				     .is_inlined = is_inlined,
			     });
}

static void add_line(struct nodes *nodes, char *line)
{
	struct view *const view = nodes->view;
	uint32_t path[4096];
	size_t depth = 0;
	double figures[4] = { 0 };

	for (size_t i = 0; i < 4; i++)
		figures[i] = strtod(line, &line);
	line += strspn(line, " ");
	while (line != NULL && *line != '\0' && depth < sizeof path / sizeof path[0])
		path[depth++] = add_frame(nodes, strsep(&line, "\t"));
	struct view_path *const to = view_add_path(view, path, depth);
	const double variance = figures[2] * figures[2];
	estimate_add(&to->now[PROFILE_INUSE_SPACE],
		(struct estimate){ figures[0], variance, figures[3] });
	estimate_add(&to->now[PROFILE_INUSE_OBJECTS],
		(struct estimate){ figures[3] * 10, 0, figures[3] });
	estimate_add(&view_path_base(view, to)[PROFILE_INUSE_SPACE],
		(struct estimate){ .value = figures[1] });
	view->total[PROFILE_INUSE_SPACE] += figures[0];
	view->total[PROFILE_INUSE_OBJECTS] += figures[3] * 10;
	view->base_total[PROFILE_INUSE_SPACE] += figures[1];
}

static void read_stacks(struct view *view)
{
	struct nodes nodes = { .view = view };
	CLEANUP(free_cleanup) char *line = NULL;
	size_t size = 0;

	hash_index_init(&nodes.index);
	for (ssize_t length; (length = getline(&line, &size, stdin)) > 0;) {
		line[strcspn(line, "\n")] = '\0';
		add_line(&nodes, line);
	}
	for (size_t i = 0; i < nodes.count; i++)
		free((void *)(uintptr_t)nodes.texts[i]);
	free(nodes.texts);
	hash_index_deinit(&nodes.index);
}

static void add_allocated(struct view *view)
{
	for (size_t i = 0; i < view->path_count; i++) {
		struct view_path *const path = &view->paths[i];
		const uint32_t leaf = view->path_nodes[path->first + path->depth - 1];
		const bool is_kept = strncmp(view->nodes[leaf].name, "keep", 4) == 0;
		path->now[PROFILE_ALLOC_SPACE] = path->now[PROFILE_INUSE_SPACE];
		path->now[PROFILE_ALLOC_SPACE].value *= is_kept ? 1 : 2;
		view->total[PROFILE_ALLOC_SPACE] += path->now[PROFILE_ALLOC_SPACE].value;
	}
}

int main(int argc, char **argv)
{
	const struct renderer *const renderer = argc < 2 ? NULL : renderer_find(argv[1]);
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	struct render_options options = RENDER_OPTIONS_DEFAULT;
	bool has_allocated = false;
	CLEANUP(buffer_deinit) struct buffer out = { 0 };
	struct error err;

	buffer_init(&out, &memory_or_exit);
	if (renderer == NULL) {
		fprintf(stderr, "usage: draw_stacks RENDERER [difference] [inverted] [all-nodes] "
				"[allocated] [frames=N]\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		if (strncmp(argv[i], "frames=", 7) == 0)
			options.frame_limit = strtoul(argv[i] + 7, NULL, 10);
		has_allocated |= strcmp(argv[i], "allocated") == 0;
		view->is_difference |= strcmp(argv[i], "difference") == 0;
		options.is_inverted |= strcmp(argv[i], "inverted") == 0;
		if (strcmp(argv[i], "all-nodes") == 0)
			options.graph =
				(struct graph_limits){ .node_count = SIZE_MAX, .max_degree = 8 };
	}
	view->title = "test-server";
	view->subtitle = "made-up stacks";
	view->interval_bytes = 524288;
	read_stacks(view);
	if (has_allocated)
		add_allocated(view);
	if (!renderer->render(view, &options, &out, &err) ||
		!file_write_fd(1, "stdout", out.data, out.size, &err)) {
		fprintf(stderr, "draw_stacks: %s (%s)\n", err.message, err.hint);
		return 1;
	}
	return 0;
}
