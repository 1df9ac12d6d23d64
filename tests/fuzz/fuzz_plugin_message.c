/* SPDX-License-Identifier: Apache-2.0 */
/* What traffic_ctl sends to memory_profile.so, and its arguments in plugin.config. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trafficserver/arguments.h"
#include "trafficserver/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const uint8_t *data, size_t size)
{
	struct message message;
	const char *argument = NULL;
	int number = 0;

	memset(&message, 0x5a, sizeof message);
	message_copy(&message, data, size);
	const size_t length = strnlen(message.text, sizeof message.text);
	assert(length < sizeof message.text);
	/* It goes into a log. */
	for (size_t i = 0; i < length; i++)
		assert(message.text[i] >= ' ' && message.text[i] <= '~');
	const enum message_verb verb = message_verb(&message, &argument);
	assert(argument >= message.text && argument <= message.text + length);
	/* Only two words take an argument. */
	assert(*argument == '\0' || verb == MESSAGE_UNKNOWN || verb == MESSAGE_START ||
		verb == MESSAGE_RESET);
	if (message_number(argument, &number))
		assert(number >= -1 && number < 1000000);
}

static void check_arguments(const uint8_t *data, size_t size)
{
	enum { WORDS = 8 };
	const char *words[WORDS + 1] = { "memory_profile.so" };
	char problem[80] = "";
	struct arguments arguments;
	int count = 1;
	char *const text = malloc(size + 1);

	if (text == NULL)
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	for (char *word = strtok(text, "\n"); word != NULL && count < WORDS;
		word = strtok(NULL, "\n"))
		words[count++] = word;
	if (arguments_read(count, words, &arguments, problem, sizeof problem))
		assert(arguments.keep <= 32 &&
			(arguments.folder == NULL || arguments.folder[0] == '/'));
	else
		assert(problem[0] != '\0');
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_message(data, size);
	check_arguments(data, size);
	return 0;
}
