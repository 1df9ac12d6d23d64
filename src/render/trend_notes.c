/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "render/render_trend.h"

void trend_notes_deinit(struct trend_notes *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		free(notes->items[i].text);
	free(notes->items);
	*notes = (struct trend_notes){ 0 };
}

static int by_time(const void *a, const void *b)
{
	const struct trend_note *const x = a, *const y = b;

	return (x->time_ms > y->time_ms) - (x->time_ms < y->time_ms);
}

void trend_notes_settle(struct trend_notes *notes, const struct trend *trend)
{
	size_t kept = 0;

	for (size_t i = 0; i < notes->count; i++) {
		struct trend_note *const note = &notes->items[i];
		if (trend->has_times && note->time_ms >= trend->first_ms &&
			note->time_ms <= trend->last_ms)
			notes->items[kept++] = *note;
		else
			free(note->text);
	}
	notes->count = kept;
	if (kept > 1)
		qsort(notes->items, kept, sizeof *notes->items, by_time);
}
