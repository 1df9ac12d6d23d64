/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree as text:
 *
 *	      MB   share     self
 *	    56.9  100.0%      0.0  redis-server
 *	    50.1   88.0%      0.0    main
 *	    50.1   88.0%      0.0    aeMain
 *	    28.1   49.3%      0.0      readQueryFromClient
 *
 * A line is indented only where the tree forks, so that long chains stay on the screen. Branches
 * below the fraction for nodes of the call graph are left out and counted.
 */
#include "render/renderers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/graph.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "render/quantity.h"

struct printer {
	const struct view *view;
	const struct tree *tree;
	const struct render_options *options;
	struct buffer *out;
	double whole;
	double limit;
};

static struct estimate total_of(const struct printer *printer, const struct tree_node *node)
{
	return printer->view->is_difference ? estimate_difference(node->total, node->base_total)
					    : node->total;
}

static struct estimate self_of(const struct printer *printer, const struct tree_node *node)
{
	return printer->view->is_difference ? estimate_difference(node->self, node->base_self)
					    : node->self;
}

static void print_line(const struct printer *printer, struct estimate total, double self,
	unsigned indent, const char *name)
{
	const struct view *const view = printer->view;

	buffer_printf(printer->out, "%8s ",
		jeprof_value_format(view, printer->options, total.value).text);
	if (printer->options->confidence)
		buffer_printf(printer->out, "%8s %7.0f ",
			jeprof_value_format(view, printer->options, sqrt(total.variance)).text,
			total.samples);
	buffer_printf(printer->out, "%6s %8s  %*s%s\n",
		jeprof_value_percent(total.value, printer->whole).text,
		jeprof_value_format(view, printer->options, self).text, (int)(2 * indent), "",
		name);
}

static bool is_visible(const struct printer *printer, const struct tree_node *node)
{
	return fabs(node->total.value - node->base_total.value) > printer->limit;
}

/* One line for the children from here on: they are in falling order, and this one is too small. */
static void print_rest(const struct printer *printer, uint32_t child, unsigned indent)
{
	struct estimate rest = { 0 };
	size_t count = 0;
	char name[64];

	for (; child != TREE_NONE; child = printer->tree->nodes[child].next_sibling) {
		estimate_add(&rest, total_of(printer, &printer->tree->nodes[child]));
		count++;
	}
	if (count == 0 || fabs(rest.value) <= printer->limit)
		return;
	snprintf(name, sizeof name, "(%zu smaller)", count);
	print_line(printer, rest, 0, indent, name);
}

/* Where the walk is: a tree is as deep as the stacks, so it must not be walked by recursion. */
struct place {
	uint32_t next;
	unsigned indent;
};

static bool forks(const struct printer *printer, uint32_t child)
{
	const struct tree_node *const nodes = printer->tree->nodes;

	return child != TREE_NONE && nodes[child].next_sibling != TREE_NONE &&
	       is_visible(printer, &nodes[nodes[child].next_sibling]);
}

static void print_tree(const struct printer *printer, struct place *places)
{
	const struct tree_node *const nodes = printer->tree->nodes;
	size_t depth = 1;

	places[0] = (struct place){ nodes[0].first_child, 0 };
	while (depth > 0) {
		struct place *const place = &places[depth - 1];
		if (place->next == TREE_NONE || !is_visible(printer, &nodes[place->next])) {
			print_rest(printer, place->next, place->indent);
			depth--;
			continue;
		}
		const struct tree_node *const node = &nodes[place->next];
		print_line(printer, total_of(printer, node), self_of(printer, node).value,
			place->indent, printer->view->nodes[node->node].name);
		place->next = node->next_sibling;
		places[depth++] = (struct place){ node->first_child,
			place->indent + (forks(printer, node->first_child) ? 1 : 0) };
	}
}

static uint32_t deepest(const struct tree *tree)
{
	uint32_t depth = 0;

	for (size_t i = 0; i < tree->node_count; i++) {
		if (tree->nodes[i].depth > depth)
			depth = tree->nodes[i].depth;
	}
	return depth;
}

bool render_tree(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	CLEANUP(tree_cleanup)
	struct tree *tree = tree_new(view, view->counter, options->is_inverted);
	struct printer printer = {
		.view = view,
		.tree = tree,
		.options = options,
		.out = out,
		/* Stacks without frames are in the root. */
		.whole = view->is_difference ? view_whole(view, view->counter)
					     : view_sum(view, view->counter).value,
	};
	CLEANUP(free_cleanup)
	struct place *places = xcalloc(deepest(tree) + 2, sizeof *places);

	(void)err;
	printer.limit = options->graph.node_fraction * printer.whole;
	CLEANUP(buffer_deinit) struct buffer title = BUFFER_OR_EXIT;
	utf8_append_printable(&title, view->title, strlen(view->title));
	buffer_printf(out, "%8s ", jeprof_value_unit(view, options));
	if (options->confidence)
		buffer_printf(out, "%8s %7s ", "+-", "samples");
	buffer_printf(out, "%6s %8s\n", "share", "self");
	print_line(&printer, total_of(&printer, &tree->nodes[0]),
		self_of(&printer, &tree->nodes[0]).value, 0,
		title.size == 0 ? "all" : buffer_string(&title));
	print_tree(&printer, places);
	return true;
}
