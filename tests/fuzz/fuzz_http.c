/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP parser and the target parser. The first byte says which kind of message and how large
 * the pieces are in which the rest arrives; however the bytes are cut, the outcome is the same.
 */
#include <stdint.h>
#include <string.h>

#include "wire/http_message.h"
#include "wire/http_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	unsigned messages;
	unsigned failures;
	uint64_t body_bytes;
	uint64_t body_sum;
};

static void look_at_head(const struct http_parser *parser)
{
	char target[HTTP_REQUEST_HEAD_BYTES];
	struct http_target parsed;
	struct error err;

	(void)http_parser_header(parser, "content-type");
	if (parser->kind != HTTP_REQUEST || strlen(parser->target) >= sizeof target)
		return;
	strcpy(target, parser->target);
	if (http_target_parse(target, &parsed, &err) && parsed.path[0] != '/')
		__builtin_trap();
}

static void feed(struct http_parser *parser, const char *at, size_t size, struct outcome *outcome)
{
	struct http_body body;
	struct error err;

	for (;;) {
		const enum http_event event = http_parser_feed(parser, &at, &size, &body, &err);
		if (event == HTTP_MORE)
			return;
		if (event == HTTP_FAILED) {
			outcome->failures = 1;
			return;
		}
		if (event == HTTP_HEAD)
			look_at_head(parser);
		for (size_t i = 0; i < body.size; i++)
			outcome->body_sum = outcome->body_sum * 31 + (unsigned char)body.data[i];
		outcome->body_bytes += body.size;
		if (event == HTTP_DONE) {
			outcome->messages++;
			http_parser_reset(parser);
		}
	}
}

static struct outcome run(enum http_kind kind, const char *data, size_t size, size_t piece)
{
	struct http_parser parser;
	struct outcome outcome = { 0 };
	struct error err;

	http_parser_init(&parser, kind, &memory_heap);
	for (size_t at = 0; at < size && outcome.failures == 0; at += piece)
		feed(&parser, data + at, size - at < piece ? size - at : piece, &outcome);
	if (outcome.failures == 0)
		outcome.failures = http_parser_end(&parser, &err) == HTTP_FAILED;
	http_parser_deinit(&parser);
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	const enum http_kind kind = (data[0] & 1) != 0 ? HTTP_RESPONSE : HTTP_REQUEST;
	const size_t piece = (size_t)(data[0] >> 1) + 1;
	const char *const bytes = (const char *)data + 1;
	const struct outcome whole = run(kind, bytes, size - 1, size);
	const struct outcome cut = run(kind, bytes, size - 1, piece);

	if (memcmp(&whole, &cut, sizeof whole) != 0)
		__builtin_trap();
	return 0;
}
