/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/command_line.h"

#include <stdlib.h>

#include "base/xalloc.h"

void command_line_add(struct command_line *line, const char *name, const char *value)
{
	if (line->count == WORKER_ARGUMENTS_MAX)
		return;
	line->texts[line->count] = value == NULL ? xstrdup(name) : xasprintf("%s=%s", name, value);
	line->arguments[line->count] = line->texts[line->count];
	line->count++;
}

void command_line_add_given(struct command_line *line, const char *name, const char *value)
{
	if (value != NULL)
		command_line_add(line, name, value);
}

void command_line_deinit(struct command_line *line)
{
	for (size_t i = 0; i < line->count; i++)
		free(line->texts[i]);
	*line = (struct command_line){ 0 };
}
