/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "client/doctor.h"

void diagnosis_init(struct diagnosis *diagnosis)
{
	*diagnosis = (struct diagnosis){ 0 };
	string_pool_init(&diagnosis->strings);
}

void diagnosis_deinit(struct diagnosis *diagnosis)
{
	string_pool_deinit(&diagnosis->strings);
	free(diagnosis->items);
}

bool diagnosis_is_well(const struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->count; i++) {
		if (diagnosis->items[i].level == FINDING_WRONG)
			return false;
	}
	return true;
}

void diagnosis_add(struct diagnosis *diagnosis, enum finding_level level, const char *code,
	const char *hint, const char *format, ...)
{
	va_list arguments;

	diagnosis->items = xgrow(diagnosis->items, &diagnosis->capacity, diagnosis->count + 1,
		sizeof *diagnosis->items);
	struct finding *const finding = &diagnosis->items[diagnosis->count++];
	finding->level = level;
	finding->code = string_pool_add(&diagnosis->strings, code);
	snprintf(finding->hint, sizeof finding->hint, "%s", hint);
	va_start(arguments, format);
	vsnprintf(finding->message, sizeof finding->message, format, arguments);
	va_end(arguments);
}

bool diagnosis_has(const struct diagnosis *diagnosis, const char *code)
{
	for (size_t i = 0; i < diagnosis->count; i++) {
		if (strcmp(diagnosis->items[i].code, code) == 0)
			return true;
	}
	return false;
}
