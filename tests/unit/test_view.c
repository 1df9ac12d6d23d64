/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/view.h"

#include <stdlib.h>

#include "analysis/graph.h"

#include "unit.h"

enum { MAIN, SERVE, PARSE, LOG, NODES };

static struct view *make_view(void)
{
	static const char *const names[NODES] = { "main", "serve", "parse", "log" };
	struct view *const view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);

	for (int i = 0; i < NODES; i++)
		view_add_node(view, &(struct view_node){ .name = names[i], .function = names[i] });
	return view;
}

static void add(struct view *view, const uint32_t *nodes, size_t depth, double now, double base)
{
	struct view_path *const path = view_add_path(view, nodes, depth);

	estimate_add(&path->now[PROFILE_INUSE_SPACE], (struct estimate){ now, now, 1 });
	estimate_add(&view_path_base(view, path)[PROFILE_INUSE_SPACE],
		(struct estimate){ base, base, 1 });
}

#define ADD(view, now, base, ...)                      \
	add((view), (const uint32_t[]){ __VA_ARGS__ }, \
		sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), (now), (base))

static void makes_equal_paths_one(void **state)
{
	(void)state;
	struct view *const view = make_view();

	ADD(view, 1, 0, MAIN, SERVE);
	ADD(view, 2, 0, MAIN, SERVE);
	ADD(view, 4, 0, MAIN);
	assert_int_equal(view->path_count, 2);
	assert_true(view->paths[0].now[PROFILE_INUSE_SPACE].value == 3);
	view_free(view);
}

static void counts_a_recursive_node_once_for_a_path(void **state)
{
	(void)state;
	struct view *const view = make_view();

	ADD(view, 8, 0, MAIN, PARSE, PARSE, PARSE);
	ADD(view, 1, 0, MAIN, PARSE, LOG);
	struct view_totals *const totals = view_sum_nodes(view, PROFILE_INUSE_SPACE);
	assert_true(totals[PARSE].flat.value == 8);
	assert_true(totals[PARSE].cumulative.value == 9);
	assert_true(totals[PARSE].cumulative.variance == 9);
	assert_true(totals[MAIN].flat.value == 0);
	assert_true(totals[MAIN].cumulative.value == 9);
	assert_true(totals[SERVE].cumulative.value == 0);
	free(totals);
	view_free(view);
}

static void adds_the_variances_of_a_difference(void **state)
{
	(void)state;
	struct view *const view = make_view();

	view->is_difference = true;
	ADD(view, 5, 3, MAIN);
	const struct estimate sum = view_sum(view, PROFILE_INUSE_SPACE);
	assert_true(sum.value == 2);
	assert_true(sum.variance == 8);
	view_free(view);
}

static void takes_shares_of_all_changes_in_a_difference(void **state)
{
	(void)state;
	struct view *const view = make_view();

	view->is_difference = true;
	ADD(view, 10, 4, MAIN, SERVE);
	ADD(view, 0, 5, MAIN, LOG);
	assert_true(view_sum(view, PROFILE_INUSE_SPACE).value == 1);
	assert_true(view_whole(view, PROFILE_INUSE_SPACE) == 11);
	view_free(view);
}

static void takes_shares_of_everything_that_was_read_where_that_is_wanted(void **state)
{
	(void)state;
	struct view *const view = make_view();

	ADD(view, 10, 0, MAIN, SERVE);
	view->total[PROFILE_INUSE_SPACE] = 40;
	assert_true(view_whole(view, PROFILE_INUSE_SPACE) == 10);
	view->shares_are_of_all = true;
	assert_true(view_whole(view, PROFILE_INUSE_SPACE) == 40);
	view_free(view);
}

static void divides_values_with_their_errors_but_not_samples(void **state)
{
	(void)state;
	struct view *const view = make_view();

	view->is_difference = true;
	ADD(view, 8, 4, MAIN);
	ADD(view, 12, 0, MAIN, SERVE);
	view->total[PROFILE_INUSE_SPACE] = 20;
	view->base_total[PROFILE_INUSE_SPACE] = 4;
	view_divide(view, 4);
	const struct estimate sum = view_sum(view, PROFILE_INUSE_SPACE);
	assert_true(sum.value == 4);
	assert_true(sum.variance == 24.0 / 16);
	assert_true(sum.samples == 4);
	assert_true(view->total[PROFILE_INUSE_SPACE] == 5);
	assert_true(view->base_total[PROFILE_INUSE_SPACE] == 1);
	view_free(view);
}

static void leaves_stacks_without_frames_out_of_shares(void **state)
{
	(void)state;
	struct view *const view = make_view();

	add(view, NULL, 0, 7, 0);
	ADD(view, 3, 0, MAIN);
	assert_true(view_sum(view, PROFILE_INUSE_SPACE).value == 10);
	assert_true(view_whole(view, PROFILE_INUSE_SPACE) == 3);
	view_free(view);
}

static const struct graph_edge *find_edge(const struct graph *graph, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < graph->edge_count; i++) {
		if (graph->nodes[graph->edges[i].from].node == from &&
			graph->nodes[graph->edges[i].to].node == to)
			return &graph->edges[i];
	}
	return NULL;
}

static struct view *make_busy_view(void)
{
	struct view *const view = make_view();

	ADD(view, 900, 0, MAIN, SERVE, PARSE);
	ADD(view, 90, 0, MAIN, PARSE);
	ADD(view, 9, 0, MAIN, SERVE, LOG);
	ADD(view, 1, 0, MAIN, LOG);
	return view;
}

static void orders_nodes_of_a_graph_and_drops_small_ones(void **state)
{
	(void)state;
	struct view *const view = make_busy_view();
	struct graph_limits limits = GRAPH_LIMITS_DEFAULT;

	limits.node_fraction = 0.01;
	struct graph *graph = graph_new(view, PROFILE_INUSE_SPACE, &limits);
	assert_int_equal(graph->node_count, 3);
	assert_int_equal(graph->nodes[0].node, MAIN);
	assert_int_equal(graph->nodes[1].node, PARSE);
	assert_int_equal(graph->nodes[2].node, SERVE);
	assert_true(graph->node_limit == 10);
	assert_null(find_edge(graph, MAIN, LOG));
	graph_free(graph);

	limits.node_count = 1;
	graph = graph_new(view, PROFILE_INUSE_SPACE, &limits);
	assert_int_equal(graph->node_count, 1);
	assert_int_equal(graph->edge_count, 0);
	graph_free(graph);
	view_free(view);
}

static void drops_small_edges_unless_nothing_else_leads_there(void **state)
{
	(void)state;
	struct view *const view = make_busy_view();
	struct graph_limits limits = GRAPH_LIMITS_DEFAULT;

	limits.node_fraction = 0;
	limits.edge_fraction = 0.1;
	struct graph *const graph = graph_new(view, PROFILE_INUSE_SPACE, &limits);
	/* 90 of 1000 is below a tenth, and SERVE leads to PARSE already. */
	assert_null(find_edge(graph, MAIN, PARSE));
	assert_non_null(find_edge(graph, SERVE, PARSE));
	/* 9 of 1000, but LOG's biggest. */
	assert_non_null(find_edge(graph, SERVE, LOG));
	assert_null(find_edge(graph, MAIN, LOG));
	graph_free(graph);
	view_free(view);
}

static void limits_the_edges_at_a_node(void **state)
{
	(void)state;
	struct view *const view = make_busy_view();
	struct graph_limits limits = { .node_count = 80, .max_degree = 1 };

	struct graph *const graph = graph_new(view, PROFILE_INUSE_SPACE, &limits);
	assert_non_null(find_edge(graph, MAIN, SERVE));
	assert_non_null(find_edge(graph, SERVE, PARSE));
	assert_null(find_edge(graph, MAIN, PARSE));
	graph_free(graph);
	view_free(view);
}

static void counts_an_edge_once_for_a_recursive_path(void **state)
{
	(void)state;
	struct view *const view = make_view();

	ADD(view, 5, 0, MAIN, PARSE, LOG, PARSE, LOG);
	const struct graph_limits all = { .node_count = 80, .max_degree = 80 };
	struct graph *const graph = graph_new(view, PROFILE_INUSE_SPACE, &all);
	assert_true(find_edge(graph, PARSE, LOG)->weight.value == 5);
	graph_free(graph);
	view_free(view);
}

static void shares_the_beginnings_of_paths_in_a_tree(void **state)
{
	(void)state;
	struct view *const view = make_busy_view();
	struct tree *const tree = tree_new(view, PROFILE_INUSE_SPACE, false, -1);
	const struct tree_node *const root = &tree->nodes[0];

	assert_int_equal(tree->node_count, 7);
	assert_true(root->total.value == 1000);
	const struct tree_node *const main_node = &tree->nodes[root->first_child];
	assert_int_equal(main_node->node, MAIN);
	assert_int_equal(main_node->next_sibling, TREE_NONE);
	const struct tree_node *const serve = &tree->nodes[main_node->first_child];
	assert_int_equal(serve->node, SERVE);
	assert_true(serve->total.value == 909);
	assert_true(serve->self.value == 0);
	assert_int_equal(tree->nodes[serve->next_sibling].node, PARSE);
	assert_int_equal(tree->nodes[serve->first_child].depth, 3);
	tree_free(tree);
	view_free(view);
}

static void turns_a_tree_upside_down(void **state)
{
	(void)state;
	struct view *const view = make_busy_view();
	struct tree *const tree = tree_new(view, PROFILE_INUSE_SPACE, true, -1);
	const struct tree_node *const parse = &tree->nodes[tree->nodes[0].first_child];

	assert_int_equal(parse->node, PARSE);
	assert_true(parse->total.value == 990);
	assert_int_equal(tree->nodes[parse->first_child].node, SERVE);
	tree_free(tree);
	view_free(view);
}

static void divides_only_large_nodes_of_a_tree(void **state)
{
	(void)state;
	struct view *const view = make_busy_view();
	struct tree *const all = tree_new(view, PROFILE_INUSE_SPACE, false, -1);
	struct tree *const tree = tree_new(view, PROFILE_INUSE_SPACE, false, 950);

	/* The root, MAIN, and its children. */
	assert_int_equal(all->node_count, 7);
	assert_int_equal(tree->node_count, 5);
	const struct tree_node *const main_node = &tree->nodes[tree->nodes[0].first_child];
	const struct tree_node *const serve = &tree->nodes[main_node->first_child];
	assert_int_equal(serve->node, SERVE);
	assert_true(serve->total.value == 909);
	assert_int_equal(serve->first_child, TREE_NONE);
	assert_int_equal(tree->nodes[serve->next_sibling].node, PARSE);
	tree_free(tree);
	tree_free(all);
	view_free(view);
}

static void makes_a_tree_and_a_graph_of_nothing(void **state)
{
	(void)state;
	struct view *const view = make_view();
	struct tree *const tree = tree_new(view, PROFILE_INUSE_SPACE, false, -1);
	const struct graph_limits limits = GRAPH_LIMITS_DEFAULT;
	struct graph *const graph = graph_new(view, PROFILE_INUSE_SPACE, &limits);

	assert_int_equal(tree->node_count, 1);
	assert_int_equal(graph->node_count, 0);
	tree_free(tree);
	graph_free(graph);
	view_free(view);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(makes_equal_paths_one),
	cmocka_unit_test(counts_a_recursive_node_once_for_a_path),
	cmocka_unit_test(adds_the_variances_of_a_difference),
	cmocka_unit_test(takes_shares_of_all_changes_in_a_difference),
	cmocka_unit_test(takes_shares_of_everything_that_was_read_where_that_is_wanted),
	cmocka_unit_test(divides_values_with_their_errors_but_not_samples),
	cmocka_unit_test(leaves_stacks_without_frames_out_of_shares),
	cmocka_unit_test(orders_nodes_of_a_graph_and_drops_small_ones),
	cmocka_unit_test(drops_small_edges_unless_nothing_else_leads_there),
	cmocka_unit_test(limits_the_edges_at_a_node),
	cmocka_unit_test(counts_an_edge_once_for_a_recursive_path),
	cmocka_unit_test(shares_the_beginnings_of_paths_in_a_tree),
	cmocka_unit_test(turns_a_tree_upside_down),
	cmocka_unit_test(divides_only_large_nodes_of_a_tree),
	cmocka_unit_test(makes_a_tree_and_a_graph_of_nothing),
};

UNIT_MAIN(tests)
