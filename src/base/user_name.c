/* SPDX-License-Identifier: Apache-2.0 */
#include "base/user_name.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_BYTES = 16 * 1024 };

static bool is_plain(const char *name)
{
	return name[0] != '\0' && strlen(name) < USER_NAME_BYTES && strpbrk(name, "/@") == NULL &&
	       name[strspn(name, "0123456789")] != '\0';
}

void user_name_format(uid_t user, char name[USER_NAME_BYTES])
{
	char texts[ENTRY_BYTES];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(user, &entry, texts, sizeof texts, &found) == 0 && found != NULL &&
		is_plain(entry.pw_name))
		snprintf(name, USER_NAME_BYTES, "%s", entry.pw_name);
	else
		snprintf(name, USER_NAME_BYTES, "%u", (unsigned)user);
}

bool user_name_parse(const char *name, uid_t *user)
{
	const size_t digits = strspn(name, "0123456789");
	char texts[ENTRY_BYTES];
	struct passwd entry, *found = NULL;

	if (digits > 0 && name[digits] == '\0') {
		const unsigned long long number = strtoull(name, NULL, 10);
		if (digits > 10 || number >= USER_ANY)
			return false;
		*user = (uid_t)number;
		return true;
	}
	if (name[0] == '\0' || getpwnam_r(name, &entry, texts, sizeof texts, &found) != 0 ||
		found == NULL)
		return false;
	*user = entry.pw_uid;
	return true;
}

bool user_name_split(const char *text, char *name, size_t size, uid_t *user)
{
	const char *const at = strrchr(text, '@');

	if (at == NULL || at == text || (size_t)(at - text) >= size ||
		!user_name_parse(at + 1, user))
		return false;
	snprintf(name, size, "%.*s", (int)(at - text), text);
	return true;
}
