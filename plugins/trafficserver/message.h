/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin message: one word, for some words an argument after a space or a '=' (traffic_ctl sends
 * one word of its command line only). Words match whole: "d" is not "dump". Pure text; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MESSAGE_TEXT_BYTES = 64 };

/* As it came. What cannot be printed is a '?', so that it can stand in a log. */
struct message {
	char text[MESSAGE_TEXT_BYTES];
};

enum message_verb {
	MESSAGE_UNKNOWN,
	MESSAGE_EMPTY,
	MESSAGE_ACTIVATE,
	MESSAGE_DEACTIVATE,
	MESSAGE_DUMP,
	MESSAGE_STATS,
	MESSAGE_STATUS,
	MESSAGE_START,
	MESSAGE_STOP,
	MESSAGE_RESET,
};

/* Every word, for people. */
#define MESSAGE_WORDS \
	"activate, deactivate, dump, stats, status, start=DURATION, stop, reset[=LG_SAMPLE]"

/* `data` may be NULL, and may end in one NUL, as traffic_ctl 9 sends it. Too long a text is cut. */
void message_copy(struct message *message, const void *data, size_t size);

/*
 * The verb, and what follows it (in `message`; "" when nothing does). A verb that takes nothing
 * and has something after it is unknown.
 */
enum message_verb message_verb(const struct message *message, const char **argument);

/* "" or a decimal number: -1 for "". False for anything else. */
bool message_number(const char *argument, int *number);
