/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks, one line for each distinct path: "main;server;alloc 4096". Figures are whole
 * bytes or objects; what rounding takes from a line the next one gets, so that the sum is right.
 * Frames are separated by semicolons, so those in names become colons; blanks
 * stay, since readers take the figure from the end of the line. Inlined frames end in "[inline]"
 * as jeprof has it.
 */
#include "render/renderers.h"

#include <math.h>
#include <string.h>

static void append_frame(struct buffer *out, const struct view_node *node)
{
	static const char suffix[] = " (inline)";
	size_t size = strlen(node->name);
	const size_t suffix_size = sizeof suffix - 1;

	if (node->is_inlined && size > suffix_size &&
		strcmp(node->name + size - suffix_size, suffix) == 0)
		size -= suffix_size;
	for (size_t i = 0; i < size; i++) {
		const char c = node->name[i];
		buffer_append_char(out, c == ';' ? ':' : c == '\n' ? ' ' : c);
	}
	if (node->is_inlined)
		buffer_append_string(out, "[inline]");
}

bool render_collapsed(const struct view *view, const struct render_options *options,
	struct buffer *out, struct error *err)
{
	double carried = 0;

	(void)options;
	(void)err;
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		const double wanted = view_path_estimate(view, path, view->counter).value + carried;
		const double value = round(wanted);
		carried = wanted - value;
		if (value == 0)
			continue;
		for (uint32_t at = 0; at < path->depth; at++) {
			if (at != 0)
				buffer_append_char(out, ';');
			append_frame(out, &view->nodes[view->path_nodes[path->first + at]]);
		}
		if (path->depth == 0)
			buffer_append_string(out, "[no stack]");
		buffer_printf(out, " %.0f\n", value);
	}
	return true;
}
