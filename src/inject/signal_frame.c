/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/signal_frame.h"

#include <string.h>

enum {
	FLAGS = 8,	     /* uc_flags */
	SEGMENTS = 192,	     /* cs is the lowest of four */
	FLAGS_MAX = 0xff,    /* three of them are used */
	USER_SEGMENT = 0x33, /* of 64-bit programs */
	CODE_BYTES = 9,
};

static uint64_t word_at(const unsigned char *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof word);
	return word;
}

/* rt_sigreturn, by what compilers and C libraries make of it. */
static bool returns_from_signal(const struct remote_process *remote, uint64_t address)
{
	static const struct {
		const char *bytes;
		size_t size;
	} codes[] = {
		{ "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9 }, /* mov $15, %rax; syscall */
		{ "\xb8\x0f\x00\x00\x00\x0f\x05", 7 },	       /* mov $15, %eax; syscall */
		{ "\x6a\x0f\x58\x0f\x05", 5 },		       /* push $15; pop %rax; syscall */
	};
	unsigned char code[CODE_BYTES];

	const size_t got = remote_copy_some(remote, address, code, sizeof code);
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
		if (got >= codes[i].size && memcmp(code, codes[i].bytes, codes[i].size) == 0)
			return true;
	}
	return false;
}

bool signal_frame_is(const struct remote_process *remote, const unsigned char *bytes)
{
	return word_at(bytes + FLAGS) <= FLAGS_MAX &&
	       (word_at(bytes + SEGMENTS) & UINT16_MAX) == USER_SEGMENT &&
	       remote_find(remote, word_at(bytes)) != NULL &&
	       returns_from_signal(remote, word_at(bytes));
}

uint64_t signal_frame_find(const struct remote_process *remote, uint64_t address,
	const unsigned char *bytes, size_t size)
{
	enum { WORD = 8 };

	for (size_t i = 0; i + SIGNAL_FRAME_BYTES <= size; i += WORD) {
		if (signal_frame_is(remote, bytes + i))
			return address + i;
	}
	return 0;
}
