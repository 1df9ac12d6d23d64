/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/watch_view.h"

#include <stdio.h>
#include <string.h>

bool watch_view_is_about(const struct watch_report *report, const char *name)
{
	char number[16];

	snprintf(number, sizeof number, "%d", (int)report->pid);
	return strcmp(report->name, name) == 0 || (report->pid != 0 && strcmp(number, name) == 0);
}

bool watch_view_take_all(struct gateway *gateway, struct watch_view *view, struct error *err)
{
	if (gateway->watch_manager == NULL) {
		error_set(err, ERROR_NOT_FOUND, "this gateway watches nothing");
		return error_hint(err, "start heapctl serve with --watch-file FILE");
	}
	view->count = watch_manager_report(gateway->watch_manager, &view->state, &view->reports);
	return true;
}

bool watch_view_take(struct gateway *gateway, const struct request *request,
	struct watch_view *view, struct error *err)
{
	size_t kept = 0;

	if (!watch_view_take_all(gateway, view, err) ||
		!gateway_find_name(gateway, request, view->name, err))
		return false;
	for (size_t i = 0; i < view->count; i++) {
		if (watch_view_is_about(&view->reports[i], view->name))
			view->reports[kept++] = view->reports[i];
	}
	view->count = kept;
	return true;
}
