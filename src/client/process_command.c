/* SPDX-License-Identifier: Apache-2.0 */
#include "client/process_command.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "base/xalloc.h"

char *process_command_read(pid_t pid, bool *is_title)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT, shown = BUFFER_OR_EXIT;
	struct error ignored;
	char path[64];

	*is_title = false;
	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	if (!file_read(path, &text, &ignored))
		return xstrdup("");
	while (text.size > 0 && text.data[text.size - 1] == '\0')
		text.size--;
	/* A program that shows a title writes one text, with blanks, over its arguments. */
	*is_title = memchr(text.data, '\0', text.size) == NULL &&
		    memchr(text.data, ' ', text.size) != NULL;
	/* The end of an argument, and of a line in a script that is one. */
	for (size_t i = 0; i < text.size; i++) {
		if (memchr("\n\t", text.data[i], sizeof "\n\t") != NULL)
			text.data[i] = ' ';
	}
	utf8_append_printable(&shown, text.data, text.size);
	return buffer_take(&shown);
}
