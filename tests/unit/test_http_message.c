/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_message.h"

#include <string.h>

#include "failing_memory.h"
#include "unit.h"

/* Feeds all of `text` and returns the last event; the bodies are appended to `body`. */
static enum http_event feed(
	struct http_parser *parser, const char *text, struct buffer *body, struct error *err)
{
	const char *at = text;
	size_t size = strlen(text);
	struct http_body piece;

	for (;;) {
		const enum http_event event = http_parser_feed(parser, &at, &size, &piece, err);
		buffer_append(body, piece.data, piece.size);
		if (event == HTTP_MORE || event == HTTP_DONE || event == HTTP_FAILED)
			return event;
	}
}

struct fixture {
	struct http_parser parser;
	struct buffer body;
	struct error err;
};

static enum http_event parse(struct fixture *f, enum http_kind kind, const char *text)
{
	http_parser_init(&f->parser, kind, &memory_heap);
	buffer_init(&f->body, &memory_heap);
	return feed(&f->parser, text, &f->body, &f->err);
}

static void release(struct fixture *f)
{
	http_parser_deinit(&f->parser);
	buffer_deinit(&f->body);
}

static void reads_a_request(void **state)
{
	(void)state;
	struct fixture f;
	assert_int_equal(parse(&f, HTTP_REQUEST,
				 "\r\nPOST /v1/runs?a=1 HTTP/1.1\r\nHost: agent\r\nX:  y z \r\n"
				 "content-length: 3\r\n\r\nabc"),
		HTTP_DONE);
	assert_string_equal(f.parser.method, "POST");
	assert_string_equal(f.parser.target, "/v1/runs?a=1");
	assert_string_equal(http_parser_header(&f.parser, "x"), "y z");
	assert_null(http_parser_header(&f.parser, "y"));
	assert_true(f.parser.keep_alive);
	assert_string_equal(buffer_string(&f.body), "abc");
	release(&f);
}

static void reads_two_requests_from_one_buffer(void **state)
{
	(void)state;
	struct fixture f;
	http_parser_init(&f.parser, HTTP_REQUEST, &memory_heap);
	const char *at = "GET /a HTTP/1.1\n\nGET /b HTTP/1.0\n\n";
	size_t size = strlen(at);
	struct http_body body;
	assert_int_equal(http_parser_feed(&f.parser, &at, &size, &body, &f.err), HTTP_HEAD);
	assert_int_equal(http_parser_feed(&f.parser, &at, &size, &body, &f.err), HTTP_DONE);
	assert_string_equal(f.parser.target, "/a");
	http_parser_reset(&f.parser);
	assert_int_equal(http_parser_feed(&f.parser, &at, &size, &body, &f.err), HTTP_HEAD);
	assert_string_equal(f.parser.target, "/b");
	assert_false(f.parser.keep_alive);
	assert_int_equal(size, 0);
	http_parser_deinit(&f.parser);
}

static void refuses_bad_requests_with_their_status(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int status;
	} cases[] = {
		{ "GET /\r\n\r\n", 400 },
		{ "GET  / HTTP/1.1\r\n\r\n", 400 },
		{ "GET / HTTP/1.1 x\r\n\r\n", 400 },
		{ "G(T / HTTP/1.1\r\n\r\n", 400 },
		{ "GET / HTTP/2.0\r\n\r\n", 505 },
		{ "GET / HTTP/1.1\r\nno colon\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nName : x\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nA: \x01\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\r\nContent-Length: 4097\r\n\r\n", 413 },
		{ "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fixture f;
		assert_int_equal(parse(&f, HTTP_REQUEST, cases[i].text), HTTP_FAILED);
		assert_int_equal(f.parser.status, cases[i].status);
		assert_int_equal(f.err.kind, ERROR_INPUT);
		release(&f);
	}
}

static void bounds_the_head(void **state)
{
	(void)state;
	struct fixture f;
	struct buffer text;
	buffer_init(&text, &memory_heap);
	buffer_append_string(&text, "GET / HTTP/1.1\r\nA: ");
	for (int i = 0; i < HTTP_REQUEST_HEAD_BYTES; i++)
		buffer_append_char(&text, 'x');
	assert_int_equal(parse(&f, HTTP_REQUEST, buffer_string(&text)), HTTP_FAILED);
	assert_int_equal(f.parser.status, 431);
	release(&f);

	buffer_clear(&text);
	buffer_append_string(&text, "GET / HTTP/1.1\r\n");
	for (int i = 0; i <= HTTP_HEADERS_MAX; i++)
		buffer_append_string(&text, "A: b\r\n");
	buffer_append_string(&text, "\r\n");
	assert_int_equal(parse(&f, HTTP_REQUEST, buffer_string(&text)), HTTP_FAILED);
	assert_contains(f.err.message, "too many headers");
	release(&f);
	buffer_deinit(&text);
}

static void reads_responses_of_every_framing(void **state)
{
	(void)state;
	struct fixture f;
	assert_int_equal(
		parse(&f, HTTP_RESPONSE, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
		HTTP_DONE);
	assert_int_equal(f.parser.status, 200);
	assert_string_equal(f.parser.reason, "OK");
	assert_string_equal(buffer_string(&f.body), "hello");
	release(&f);

	assert_int_equal(parse(&f, HTTP_RESPONSE,
				 "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\n"
				 "Transfer-Encoding: chunked\r\n\r\n"
				 "3;x\r\nabc\r\n2\r\nde\r\n0\r\nT: u\r\n\r\n"),
		HTTP_DONE);
	assert_int_equal(f.parser.status, 404);
	assert_string_equal(buffer_string(&f.body), "abcde");
	assert_true(f.parser.keep_alive);
	release(&f);

	assert_int_equal(parse(&f, HTTP_RESPONSE, "HTTP/1.0 200 OK\r\n\r\nabc"), HTTP_MORE);
	assert_int_equal(http_parser_end(&f.parser, &f.err), HTTP_DONE);
	assert_string_equal(buffer_string(&f.body), "abc");
	assert_false(f.parser.keep_alive);
	release(&f);
}

static void ends_a_stream_of_interim_answers(void **state)
{
	(void)state;
	char text[1024] = "";

	for (unsigned count = 0; count <= HTTP_INTERIM_MAX; count++)
		strcat(text, "HTTP/1.1 100 Continue\r\n\r\n");
	const char *const one_less = text + strlen("HTTP/1.1 100 Continue\r\n\r\n");
	struct fixture f;
	assert_int_equal(parse(&f, HTTP_RESPONSE, text), HTTP_FAILED);
	assert_non_null(strstr(f.err.message, "interim"));
	release(&f);
	assert_int_equal(parse(&f, HTTP_RESPONSE, one_less), HTTP_MORE);
	assert_int_equal(
		feed(&f.parser, "HTTP/1.1 204 No Content\r\n\r\n", &f.body, &f.err), HTTP_DONE);
	release(&f);
}

static void ends_a_trailer_without_an_end(void **state)
{
	(void)state;
	struct fixture f;
	enum http_event event = parse(&f, HTTP_RESPONSE,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n");

	for (size_t size = 0; event == HTTP_MORE && size <= HTTP_RESPONSE_HEAD_BYTES; size += 8)
		event = feed(&f.parser, "T: abc\r\n", &f.body, &f.err);
	assert_int_equal(event, HTTP_FAILED);
	assert_non_null(strstr(f.err.message, "trailer"));
	release(&f);
}

static void knows_answers_that_have_no_body(void **state)
{
	(void)state;
	struct fixture f;
	assert_int_equal(parse(&f, HTTP_RESPONSE, "HTTP/1.1 204 No Content\r\n\r\n"), HTTP_DONE);
	http_parser_reset(&f.parser);
	f.parser.without_body = true;
	assert_int_equal(
		feed(&f.parser, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", &f.body, &f.err),
		HTTP_DONE);
	assert_int_equal(f.parser.content_length, 7);
	release(&f);
}

static void says_that_an_answer_ends_too_early(void **state)
{
	(void)state;
	static const char *const cases[] = {
		"HTTP/1.1 200",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n",
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fixture f;
		assert_int_equal(parse(&f, HTTP_RESPONSE, cases[i]), HTTP_MORE);
		assert_int_equal(http_parser_end(&f.parser, &f.err), HTTP_FAILED);
		assert_contains(f.err.message, "too early");
		release(&f);
	}
}

static void refuses_bad_chunks(void **state)
{
	(void)state;
	static const char *const chunks[] = { "x\r\n", "\r\n", "ffffffffffffffff\r\n",
		"1\r\nab\r\n" };
	for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
		char text[200] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
		struct fixture f;
		strcat(text, chunks[i]);
		assert_int_equal(parse(&f, HTTP_RESPONSE, text), HTTP_FAILED);
		release(&f);
	}
}

static void a_connection_that_ends_between_messages_is_no_failure(void **state)
{
	(void)state;
	struct fixture f;
	assert_int_equal(parse(&f, HTTP_REQUEST, "\r\n"), HTTP_MORE);
	assert_false(http_parser_is_inside(&f.parser));
	assert_int_equal(http_parser_end(&f.parser, &f.err), HTTP_MORE);
	release(&f);
}

static void finds_words_in_lists(void **state)
{
	(void)state;
	assert_true(http_list_has("Keep-Alive , x", "keep-alive"));
	assert_true(http_list_has("a,\tClose", "close"));
	assert_false(http_list_has("closed, not-close", "close"));
	assert_false(http_list_has("", "close"));
}

static void survives_missing_memory(void **state)
{
	(void)state;
	const char text[] = "GET /a HTTP/1.1\r\nA: b\r\n\r\n";
	for (unsigned nth = 1;; nth++) {
		struct failing_memory memory = failing_memory_at(nth);
		struct http_parser parser;
		struct buffer body;
		struct error err;
		http_parser_init(&parser, HTTP_REQUEST, &memory.memory);
		buffer_init(&body, &memory_heap);
		const enum http_event event = feed(&parser, text, &body, &err);
		http_parser_deinit(&parser);
		buffer_deinit(&body);
		if (!memory.failed) {
			assert_int_equal(event, HTTP_DONE);
			assert_true(nth > 1);
			return;
		}
		assert_int_equal(event, HTTP_FAILED);
		assert_int_equal(err.kind, ERROR_MEMORY);
		assert_int_equal(parser.status, 500);
	}
}

static void writes_heads_that_nothing_can_add_lines_to(void **state)
{
	(void)state;
	const struct http_field fields[] = { { "X", "a\r\nEvil: 1" }, { NULL, NULL } };
	struct buffer out;
	buffer_init(&out, &memory_heap);
	http_write_response_head(&out, 409, fields, 12, false);
	assert_string_equal(buffer_string(&out),
		"HTTP/1.1 409 Conflict\r\nX: a  Evil: 1\r\nContent-Length: 12\r\n"
		"Connection: close\r\n\r\n");
	buffer_clear(&out);
	http_write_request_head(&out, "POST", "/v1/runs/stop", "agent", NULL, 0);
	assert_string_equal(buffer_string(&out),
		"POST /v1/runs/stop HTTP/1.1\r\nHost: agent\r\nContent-Length: 0\r\n\r\n");
	buffer_clear(&out);
	http_write_request_head(&out, "GET", "/", "agent", fields, 0);
	assert_string_equal(
		buffer_string(&out), "GET / HTTP/1.1\r\nHost: agent\r\nX: a  Evil: 1\r\n\r\n");
	buffer_deinit(&out);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_a_request),
	cmocka_unit_test(reads_two_requests_from_one_buffer),
	cmocka_unit_test(refuses_bad_requests_with_their_status),
	cmocka_unit_test(bounds_the_head),
	cmocka_unit_test(reads_responses_of_every_framing),
	cmocka_unit_test(ends_a_stream_of_interim_answers),
	cmocka_unit_test(ends_a_trailer_without_an_end),
	cmocka_unit_test(knows_answers_that_have_no_body),
	cmocka_unit_test(says_that_an_answer_ends_too_early),
	cmocka_unit_test(refuses_bad_chunks),
	cmocka_unit_test(a_connection_that_ends_between_messages_is_no_failure),
	cmocka_unit_test(finds_words_in_lists),
	cmocka_unit_test(survives_missing_memory),
	cmocka_unit_test(writes_heads_that_nothing_can_add_lines_to),
};
UNIT_MAIN(tests)
