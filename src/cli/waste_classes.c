/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/waste_classes.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/xalloc.h"
#include "cli/capture.h"
#include "client/agent_client.h"
#include "analysis/allocator_stats.h"

/* jemalloc names some keys twice, so this is not agent_call_json's business. */
static bool fetch_text(const char *operand, struct buffer *text, struct error *err)
{
	const struct agent_call call = { .method = "GET", .path = ALLOCATOR_STATS_CLASSES };
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	struct target target;

	http_answer_init(&answer);
	if (!target_resolve(operand, &target, err) || !agent_call(&target, &call, &answer, err))
		return false;
	buffer_append(text, answer.body.data, answer.body.size);
	return true;
}

static bool read_text(const char *operand, struct buffer *text, struct error *err)
{
	CLEANUP(capture_deinit) struct capture capture = { 0 };

	capture_init(&capture);
	if (!capture_open(operand, &capture, err))
		return false;
	const struct buffer *const part = &capture.parts[CAPTURE_STATS];
	buffer_append(text, part->data, part->size);
	return true;
}

static bool load_document(const char *operand, json_t **document, struct error *err)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };
	struct stat status;
	json_error_t problem;

	buffer_init(&text, &memory_or_exit);
	if (stat(operand, &status) == 0 && S_ISREG(status.st_mode)
			? !read_text(operand, &text, err)
			: !fetch_text(operand, &text, err))
		return false;
	*document = json_loadb(buffer_string(&text), text.size, 0, &problem);
	return *document != NULL ||
	       error_set(err, ERROR_INPUT, "%s has no statistics: %s", operand, problem.text);
}

bool waste_classes_load(
	const char *operand, struct waste_class **classes, size_t *count, struct error *err)
{
	CLEANUP(json_cleanup) json_t *document = NULL;
	struct allocator_stats stats = { 0 };

	if (!load_document(operand, &document, err) ||
		!allocator_stats_add_classes(&stats, document, err))
		return false;
	if (stats.class_count == 0)
		return error_set(err, ERROR_INPUT, "%s has no statistics of size classes", operand);
	*classes = xcalloc(stats.class_count, sizeof **classes);
	*count = 0;
	for (size_t i = 0; i < stats.class_count; i++) {
		const struct size_class *const class = &stats.classes[i];
		if (class->is_large ||
			(*count != 0 && (double)class->size <= (*classes)[*count - 1].size))
			continue;
		(*classes)[(*count)++] = (struct waste_class){ (double)class->size,
			class->held_bytes > class->allocated_bytes
				? (double)(class->held_bytes - class->allocated_bytes)
				: 0 };
	}
	allocator_stats_deinit(&stats);
	return true;
}
