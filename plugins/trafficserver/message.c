/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/message.h"

#include <string.h>

static const struct {
	const char *word;
	bool takes_argument;
} words[] = {
	[MESSAGE_EMPTY] = { "", false },
	[MESSAGE_ACTIVATE] = { "activate", false },
	[MESSAGE_DEACTIVATE] = { "deactivate", false },
	[MESSAGE_DUMP] = { "dump", false },
	[MESSAGE_STATS] = { "stats", false },
	[MESSAGE_STATUS] = { "status", false },
	[MESSAGE_START] = { "start", true },
	[MESSAGE_STOP] = { "stop", false },
	[MESSAGE_RESET] = { "reset", true },
};

void message_copy(struct message *message, const void *data, size_t size)
{
	const char *const text = data == NULL ? "" : data;
	size_t length = data == NULL ? 0 : size;

	if (length > 0 && text[length - 1] == '\0')
		length--;
	if (length >= sizeof message->text)
		length = sizeof message->text - 1;
	for (size_t i = 0; i < length; i++)
		message->text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	message->text[length] = '\0';
}

enum message_verb message_verb(const struct message *message, const char **argument)
{
	const char *const text = message->text;
	const size_t length = strcspn(text, " =");
	const size_t separator = text[length] == '=' ? 1 : strspn(text + length, " ");
	const char *const rest = text + length + separator;

	*argument = rest;
	for (size_t i = MESSAGE_EMPTY; i < sizeof words / sizeof words[0]; i++) {
		if (strlen(words[i].word) == length && memcmp(words[i].word, text, length) == 0 &&
			(*rest == '\0' || words[i].takes_argument))
			return (enum message_verb)i;
	}
	return MESSAGE_UNKNOWN;
}

bool message_number(const char *argument, int *number)
{
	int value = *argument == '\0' ? -1 : 0;
	const char *c = argument;

	for (; *c >= '0' && *c <= '9' && c - argument < 6; c++)
		value = value * 10 + (*c - '0');
	if (*c != '\0')
		return false;
	*number = value;
	return true;
}
