/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source_name.h"

#include <stdio.h>
#include <string.h>

static const char digits[] = "0123456789";

/* Takes ".PID" off the end of a text; false when it is not there. */
static bool cut_pid(const char *text, size_t *size)
{
	size_t end = *size;

	while (end > 0 && strchr(digits, text[end - 1]) != NULL)
		end--;
	if (end == *size || end < 2 || text[end - 1] != '.')
		return false;
	*size = end - 1;
	return true;
}

/* "20261121-101500", perhaps "-2" behind it: the length of it, or 0. */
static size_t moment_size(const char *text)
{
	if (strspn(text, digits) != 8 || text[8] != '-' || strspn(text + 9, digits) != 6)
		return 0;
	const size_t more = text[15] == '-' ? strspn(text + 16, digits) : 0;
	return more == 0 ? 15 : 16 + more;
}

/* NAME.PID.YYYYMMDD-HHMMSS.heap, of dump and record. */
static bool find_dumped(const char *file, size_t *name_size)
{
	for (const char *dot = strchr(file, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
		const size_t moment = moment_size(dot + 1);
		*name_size = (size_t)(dot - file);
		if (moment != 0 && dot[1 + moment] == '.' && cut_pid(file, name_size))
			return true;
	}
	return false;
}

/* NUMBER-YYYYMMDDTHHMMSSZ-REASON-NAME.PID.heap, of watch: where NAME begins, or NULL. */
static const char *find_captured(const char *file, size_t *name_size)
{
	const size_t number = strspn(file, digits);
	const char *const moment = file + number + 1;
	const char *const end = strstr(file, ".heap");

	if (number < 8 || file[number] != '-' || end == NULL || strspn(moment, digits) != 8 ||
		moment[8] != 'T' || strspn(moment + 9, digits) != 6 || moment[15] != 'Z' ||
		moment[16] != '-')
		return NULL;
	const char *const dash = strchr(moment + 17, '-');
	if (dash == NULL || dash > end)
		return NULL;
	*name_size = (size_t)(end - dash - 1);
	return cut_pid(dash + 1, name_size) ? dash + 1 : NULL;
}

bool source_name_of_file(const char *path, char *name, size_t size)
{
	const char *const slash = strrchr(path, '/');
	const char *const file = slash == NULL ? path : slash + 1;
	size_t name_size = 0;
	const char *const start =
		find_dumped(file, &name_size) ? file : find_captured(file, &name_size);

	if (start == NULL)
		return false;
	snprintf(name, size, "%.*s", (int)name_size, start);
	return true;
}
