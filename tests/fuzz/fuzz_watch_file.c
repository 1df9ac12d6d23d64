/* SPDX-License-Identifier: Apache-2.0 */
/* The watch file, with and without a history to go to: what is taken has conditions and a place. */
#include <stdint.h>

#include "watch/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text, size_t size, bool has_history)
{
	struct watch_file file = { 0 };
	struct error err;

	if (!watch_file_parse("file", text, size, has_history, &file, &err))
		return;
	for (size_t i = 0; i < file.count; i++) {
		const struct watch_settings *const settings = &file.sections[i].settings;
		const bool has_purpose = settings->rule_count > 0 || settings->adopt[0] != '\0';
		if (!has_purpose || (settings->keep[0] == '\0' && !has_history))
			__builtin_trap();
	}
	watch_file_deinit(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	parse((const char *)data, size, false);
	parse((const char *)data, size, true);
	return 0;
}
