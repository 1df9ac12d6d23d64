/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users by name, and NAME@USER: the processes called NAME that belong to that user. Another user's
 * process may have any name, so a name alone does not say which program answers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { USER_NAME_BYTES = 48 };

/* No user in particular: of any. */
#define USER_ANY ((uid_t)-1)

/* The name of the user, or its number where it has none that can be part of a path. */
void user_name_format(uid_t user, char name[USER_NAME_BYTES]);

/* A user's name, or a number. False when there is no such user. */
bool user_name_parse(const char *name, uid_t *user);

/*
 * Splits "NAME@USER" at its last '@': copies NAME and sets *user. False, with nothing changed, when
 * no known user or number stands there, or NAME is empty or does not fit.
 */
bool user_name_split(const char *text, char *name, size_t size, uid_t *user);
