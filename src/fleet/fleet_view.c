/* SPDX-License-Identifier: Apache-2.0 */
/* Sites as a view, which every renderer draws. */
#include <math.h>
#include <string.h>

#include "base/xalloc.h"
#include "fleet/questions.h"

struct view_maker {
	struct view *view;
	struct text_numbers names; /* nodes by their name */
	uint32_t *path;
	size_t capacity;
};

static uint32_t node_of(struct view_maker *maker, const char *name)
{
	/* Of both sides of a difference: equal names are one pointer in the view's pool. */
	const char *const shown =
		string_pool_add(&maker->view->strings, name[0] == '\0' ? "[unknown]" : name);
	const uint32_t number = text_numbers_add(&maker->names, shown);

	if (number == maker->view->node_count)
		view_add_node(maker->view,
			&(struct view_node){
				.name = shown, .function = shown, .file = "", .module = "" });
	return number;
}

static struct view_path *path_of(
	struct view_maker *maker, const struct fleet_finding *finding, bool has_services)
{
	size_t depth = 0;

	maker->path = xgrow(maker->path, &maker->capacity, finding->depth + 1, sizeof *maker->path);
	if (has_services)
		maker->path[depth++] = node_of(maker, finding->service);
	for (size_t i = 0; i < finding->depth; i++)
		maker->path[depth++] = node_of(maker, finding->frames[i]);
	return view_add_path(maker->view, maker->path, depth);
}

static void add_finding(struct view_maker *maker, const struct fleet_finding *finding,
	bool has_services, bool is_base)
{
	struct view *const view = maker->view;
	struct view_path *const path = path_of(maker, finding, has_services);
	struct estimate *const to = is_base ? view_path_base(view, path) : path->now;
	double *const total = is_base ? view->base_total : view->total;

	estimate_add(&to[PROFILE_INUSE_SPACE],
		(struct estimate){ finding->value, finding->variance, finding->samples });
	estimate_add(&to[PROFILE_INUSE_OBJECTS],
		(struct estimate){ finding->objects, 0, finding->samples });
	total[PROFILE_INUSE_SPACE] += finding->value;
	total[PROFILE_INUSE_OBJECTS] += finding->objects;
}

static void add_findings(struct view_maker *maker, const struct fleet_findings *findings,
	bool has_services, bool is_base)
{
	static const char *others = "[smaller sites]";
	double rest = findings->total, variance = findings->total_variance;

	maker->view->lacks_errors |= isnan(findings->total_variance);
	for (size_t i = 0; i < findings->count; i++) {
		add_finding(maker, &findings->items[i], has_services, is_base);
		rest -= findings->items[i].value;
		variance -= findings->items[i].variance;
	}
	/* Less is a rounding error, or what was added between two questions. */
	if (rest > findings->total * 1e-4)
		add_finding(maker,
			&(struct fleet_finding){ .service = others,
				.frames = &others,
				.depth = has_services ? 0 : 1,
				.value = rest,
				.variance = variance > 0 ? variance : 0 },
			has_services, is_base);
}

struct view *fleet_view_make(const struct fleet_findings *now, const struct fleet_findings *base,
	bool has_services, const char *title, const char *subtitle)
{
	struct view_maker maker = { .view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS) };
	struct view *const view = maker.view;

	view->counter = PROFILE_INUSE_SPACE;
	view->title = string_pool_add(&view->strings, title);
	view->subtitle = string_pool_add(&view->strings, subtitle);
	view->is_difference = base != NULL;
	add_findings(&maker, now, has_services, false);
	if (base != NULL)
		add_findings(&maker, base, has_services, true);
	text_numbers_deinit(&maker.names);
	free(maker.path);
	return view;
}
