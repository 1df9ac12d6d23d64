/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_message.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"

enum {
	STATUS_BAD_REQUEST = 400,
	STATUS_TOO_LARGE = 413,
	STATUS_HEAD_TOO_LARGE = 431,
	STATUS_NO_MEMORY = 500,
	STATUS_NOT_IMPLEMENTED = 501,
	STATUS_VERSION = 505,
};

void http_parser_init(struct http_parser *parser, enum http_kind kind, const struct memory *memory)
{
	*parser = (struct http_parser){ .kind = kind };
	buffer_init(&parser->head, memory);
	parser->head.limit =
		kind == HTTP_REQUEST ? HTTP_REQUEST_HEAD_BYTES : HTTP_RESPONSE_HEAD_BYTES;
}

void http_parser_deinit(struct http_parser *parser)
{
	buffer_deinit(&parser->head);
}

void http_parser_reset(struct http_parser *parser)
{
	struct buffer head = parser->head;

	buffer_clear(&head);
	*parser = (struct http_parser){ .kind = parser->kind, .head = head };
}

static enum http_event fail(
	struct http_parser *parser, int status, struct error *err, const char *problem)
{
	parser->state = HTTP_STATE_FAILED;
	parser->keep_alive = false;
	if (parser->kind == HTTP_REQUEST)
		parser->status = status;
	error_set(err, status == STATUS_NO_MEMORY ? ERROR_MEMORY : ERROR_INPUT, "%s %s",
		parser->kind == HTTP_REQUEST ? "the request" : "the answer", problem);
	return HTTP_FAILED;
}

/* strcasecmp() depends on the locale; header names are ASCII. */
static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_word(const char *a, const char *b, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (lower(a[i]) != lower(b[i]))
			return false;
	}
	return true;
}

static bool same_name(const char *a, const char *b)
{
	const size_t size = strlen(b);

	return strlen(a) == size && same_word(a, b, size);
}

/* RFC 9110 section 5.6.2. */
static bool is_token_char(char c)
{
	if ((c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z'))
		return true;
	return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static size_t token_length(const char *text)
{
	size_t length = 0;

	while (is_token_char(text[length]))
		length++;
	return length;
}

const char *http_parser_header(const struct http_parser *parser, const char *name)
{
	for (unsigned i = 0; i < parser->header_count; i++) {
		if (same_name(parser->head.data + parser->headers[i].name, name))
			return parser->head.data + parser->headers[i].value;
	}
	return NULL;
}

bool http_list_has(const char *list, const char *word)
{
	const size_t wanted = strlen(word);

	while (*list != '\0') {
		const char *const start = list + strspn(list, " \t,");
		size_t size = strcspn(start, ",");
		list = start + size;
		while (size > 0 && strchr(" \t", start[size - 1]) != NULL)
			size--;
		if (size == wanted && same_word(start, word, size))
			return true;
	}
	return false;
}

/* "HTTP/1.0" or "HTTP/1.1" at the start of `text`; the minor version, or -1. */
static int version_minor(const char *text)
{
	if (strncmp(text, "HTTP/1.", 7) != 0 || (text[7] != '0' && text[7] != '1'))
		return -1;
	return text[7] - '0';
}

/* METHOD SP TARGET SP VERSION; false with the status set. */
static bool parse_request_line(struct http_parser *parser, char *line, int *minor)
{
	const size_t method = token_length(line);

	parser->status = STATUS_BAD_REQUEST;
	if (method == 0 || line[method] != ' ')
		return false;
	char *const target = line + method + 1;
	const size_t length = strcspn(target, " ");
	if (length == 0 || target[length] != ' ')
		return false;
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)target[i] <= 0x20 || (unsigned char)target[i] >= 0x7f)
			return false;
	}
	const char *const version = target + length + 1;
	*minor = version_minor(version);
	if (*minor < 0 && strncmp(version, "HTTP/", 5) == 0)
		parser->status = STATUS_VERSION;
	if (*minor < 0 || version[8] != '\0')
		return false;
	line[method] = '\0';
	target[length] = '\0';
	parser->method = line;
	parser->target = target;
	parser->status = 0;
	return true;
}

/* VERSION SP 3DIGIT [SP reason] */
static bool parse_status_line(struct http_parser *parser, const char *line, int *minor)
{
	*minor = version_minor(line);
	if (*minor < 0 || line[8] != ' ')
		return false;
	const char *const digits = line + 9;
	for (int i = 0; i < 3; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return false;
	}
	if (digits[0] == '0' || (digits[3] != ' ' && digits[3] != '\0'))
		return false;
	parser->status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
	parser->reason = digits[3] == ' ' ? digits + 4 : digits + 3;
	return true;
}

/* NAME ":" OWS VALUE OWS; NULL or what is wrong. */
static const char *parse_header(struct http_parser *parser, char *line)
{
	const size_t name = token_length(line);

	if (name == 0 || line[name] != ':')
		return "has an invalid header line";
	if (parser->header_count == HTTP_HEADERS_MAX)
		return "has too many headers";
	line[name] = '\0';
	char *const value = line + name + 1 + strspn(line + name + 1, " \t");
	size_t size = strlen(value);
	while (size > 0 && strchr(" \t", value[size - 1]) != NULL)
		size--;
	value[size] = '\0';
	parser->headers[parser->header_count].name = (uint32_t)(line - parser->head.data);
	parser->headers[parser->header_count].value = (uint32_t)(value - parser->head.data);
	parser->header_count++;
	return NULL;
}

static bool parse_decimal(const char *text, uint64_t *value)
{
	*value = 0;
	for (const char *c = text; *c != '\0'; c++) {
		if (*c < '0' || *c > '9' || __builtin_mul_overflow(*value, UINT64_C(10), value) ||
			__builtin_add_overflow(*value, (uint64_t)(*c - '0'), value))
			return false;
	}
	return *text != '\0';
}

/* All Content-Length fields must be one number that says the same. */
static bool parse_content_length(struct http_parser *parser)
{
	for (unsigned i = 0; i < parser->header_count; i++) {
		uint64_t length = 0;
		if (!same_name(parser->head.data + parser->headers[i].name, "content-length"))
			continue;
		if (!parse_decimal(parser->head.data + parser->headers[i].value, &length))
			return false;
		if (parser->has_length && length != parser->content_length)
			return false;
		parser->has_length = true;
		parser->content_length = length;
	}
	return true;
}

/* How the body of a response ends (RFC 9112 section 6.3). */
static enum http_event frame_response(struct http_parser *parser, struct error *err)
{
	const char *const coding = http_parser_header(parser, "transfer-encoding");

	if (parser->without_body || parser->status == 204 || parser->status == 304) {
		parser->state = HTTP_STATE_COMPLETE;
	} else if (coding != NULL) {
		if (parser->has_length || !same_name(coding, "chunked"))
			return fail(parser, 0, err, "has an unknown transfer coding");
		parser->state = HTTP_STATE_CHUNK_LINE;
	} else if (parser->has_length) {
		parser->state = HTTP_STATE_BODY;
		parser->left = parser->content_length;
	} else {
		parser->state = HTTP_STATE_BODY_TO_END;
		parser->keep_alive = false;
	}
	return HTTP_HEAD;
}

static enum http_event frame_request(struct http_parser *parser, struct error *err)
{
	if (http_parser_header(parser, "transfer-encoding") != NULL)
		return fail(parser, STATUS_NOT_IMPLEMENTED, err,
			"has a body of unknown length; send Content-Length");
	if (parser->content_length > HTTP_REQUEST_BODY_BYTES)
		return fail(parser, STATUS_TOO_LARGE, err, "has a body of more than 4096 bytes");
	parser->state = HTTP_STATE_BODY;
	parser->left = parser->content_length;
	return HTTP_HEAD;
}

static void decide_keep_alive(struct http_parser *parser, int minor)
{
	const char *const connection = http_parser_header(parser, "connection");

	parser->keep_alive = minor == 1;
	if (connection != NULL && http_list_has(connection, "keep-alive"))
		parser->keep_alive = true;
	if (connection != NULL && http_list_has(connection, "close"))
		parser->keep_alive = false;
}

/* Cuts the next line of the head off: NUL-terminated, without its CR LF. */
static char *next_line(char **at, const char *end)
{
	char *const line = *at;
	char *newline = memchr(line, '\n', (size_t)(end - line));

	*at = newline + 1;
	if (newline > line && newline[-1] == '\r')
		newline--;
	*newline = '\0';
	return line;
}

/* Bytes that no head may hold: controls except tab, and CR that no LF follows. */
static bool has_strange_bytes(const struct buffer *head)
{
	for (size_t i = 0; i < head->size; i++) {
		const unsigned char c = (unsigned char)head->data[i];
		if (c == '\r' && (i + 1 == head->size || head->data[i + 1] != '\n'))
			return true;
		if ((c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f)
			return true;
	}
	return false;
}

static enum http_event parse_head(struct http_parser *parser, struct error *err)
{
	char *at = parser->head.data;
	const char *const end = at + parser->head.size;
	int minor = 0;

	if (has_strange_bytes(&parser->head))
		return fail(
			parser, STATUS_BAD_REQUEST, err, "has control characters in its header");
	char *const first = next_line(&at, end);
	if (parser->kind == HTTP_REQUEST && !parse_request_line(parser, first, &minor))
		return fail(parser, parser->status, err, "has an invalid request line");
	if (parser->kind == HTTP_RESPONSE && !parse_status_line(parser, first, &minor))
		return fail(parser, 0, err, "has an invalid status line");
	for (char *line = next_line(&at, end); *line != '\0'; line = next_line(&at, end)) {
		const char *const problem = parse_header(parser, line);
		if (problem != NULL)
			return fail(parser, STATUS_BAD_REQUEST, err, problem);
	}
	if (!parse_content_length(parser))
		return fail(parser, STATUS_BAD_REQUEST, err, "has an invalid Content-Length");
	decide_keep_alive(parser, minor);
	if (parser->kind == HTTP_REQUEST)
		return frame_request(parser, err);
	if (parser->status >= 100 && parser->status < 200 && parser->status != 101) {
		/* An interim answer: the real one follows. Without a limit a server could keep its
		 * client for as long as it likes, because each answer is a sign of life. */
		const bool without_body = parser->without_body;
		const unsigned interim_count = parser->interim_count + 1;
		if (interim_count > HTTP_INTERIM_MAX)
			return fail(parser, 0, err, "has too many interim answers before it");
		http_parser_reset(parser);
		parser->without_body = without_body;
		parser->interim_count = interim_count;
		return HTTP_MORE;
	}
	return frame_response(parser, err);
}

/* Whether the line that ends at the end of `head` is empty. */
static bool line_is_blank(const struct http_parser *parser)
{
	const char *const line = parser->head.data + parser->line_start;
	const size_t size = parser->head.size - parser->line_start;

	return size == 1 || (size == 2 && line[0] == '\r');
}

/* Collects lines up to the empty one. */
static enum http_event feed_head(
	struct http_parser *parser, const char **data, size_t *size, struct error *err)
{
	struct buffer *const head = &parser->head;

	while (*size > 0) {
		const char *const newline = memchr(*data, '\n', *size);
		const size_t take = newline == NULL ? *size : (size_t)(newline + 1 - *data);
		if (take > head->limit - head->size)
			return fail(parser, STATUS_HEAD_TOO_LARGE, err, "has too large a header");
		buffer_append(head, *data, take);
		if (head->failed)
			return fail(parser, STATUS_NO_MEMORY, err, "found no memory");
		*data += take;
		*size -= take;
		if (newline == NULL)
			return HTTP_MORE;
		if (!line_is_blank(parser)) {
			parser->line_start = head->size;
			continue;
		}
		if (parser->line_start > 0) {
			const enum http_event event = parse_head(parser, err);
			if (event != HTTP_MORE)
				return event;
		} else {
			/* Empty lines before a message are to be skipped. */
			head->size = 0;
		}
	}
	return HTTP_MORE;
}

static enum http_event take_body(
	struct http_parser *parser, const char **data, size_t *size, struct http_body *body)
{
	size_t take = *size;

	if (parser->state != HTTP_STATE_BODY_TO_END) {
		if (take > parser->left)
			take = (size_t)parser->left;
		parser->left -= take;
	}
	*body = (struct http_body){ .data = *data, .size = take };
	*data += take;
	*size -= take;
	return HTTP_BODY;
}

/* Collects a line of the chunk framing; true when it is complete, NUL-terminated, without CR LF. */
static bool feed_chunk_line(struct http_parser *parser, const char **data, size_t *size)
{
	while (*size > 0) {
		const char c = **data;
		(*data)++;
		(*size)--;
		parser->framing_bytes++;
		if (c == '\n') {
			size_t end = parser->chunk_line_size;
			if (end > 0 && parser->chunk_line[end - 1] == '\r')
				end--;
			parser->chunk_line[end] = '\0';
			parser->chunk_line_size = 0;
			return true;
		}
		/* What is cut off here can only be an extension or a trailer: both are ignored. */
		if (parser->chunk_line_size < sizeof parser->chunk_line - 1)
			parser->chunk_line[parser->chunk_line_size++] = c;
	}
	return false;
}

static bool parse_chunk_size(const char *line, uint64_t *value)
{
	size_t digits = 0;

	*value = 0;
	for (int digit; (digit = hex_digit(line[digits])) >= 0; digits++)
		*value = *value * 16 + (uint64_t)digit;
	const char after = line[digits];
	return digits > 0 && digits <= 15 &&
	       (after == '\0' || after == ';' || after == ' ' || after == '\t');
}

static enum http_event feed_chunk_framing(
	struct http_parser *parser, const char **data, size_t *size, struct error *err)
{
	const bool is_whole = feed_chunk_line(parser, data, size);

	if (parser->framing_bytes > HTTP_RESPONSE_HEAD_BYTES)
		return fail(parser, 0, err, "has too large a trailer");
	if (!is_whole)
		return HTTP_MORE;
	if (parser->state == HTTP_STATE_CHUNK_END) {
		if (parser->chunk_line[0] != '\0')
			return fail(parser, 0, err, "has a chunk of another size than it says");
		parser->state = HTTP_STATE_CHUNK_LINE;
	} else if (parser->state == HTTP_STATE_TRAILER) {
		if (parser->chunk_line[0] == '\0')
			parser->state = HTTP_STATE_COMPLETE;
	} else {
		if (!parse_chunk_size(parser->chunk_line, &parser->left))
			return fail(parser, 0, err, "has an invalid chunk size");
		parser->state = parser->left == 0 ? HTTP_STATE_TRAILER : HTTP_STATE_CHUNK;
		parser->framing_bytes = 0;
	}
	return HTTP_MORE;
}

static enum http_event feed_once(struct http_parser *parser, const char **data, size_t *size,
	struct http_body *body, struct error *err)
{
	switch (parser->state) {
	case HTTP_STATE_HEAD:
		return feed_head(parser, data, size, err);
	case HTTP_STATE_BODY:
	case HTTP_STATE_BODY_TO_END:
		return take_body(parser, data, size, body);
	case HTTP_STATE_CHUNK:
		take_body(parser, data, size, body);
		if (parser->left == 0)
			parser->state = HTTP_STATE_CHUNK_END;
		return HTTP_BODY;
	case HTTP_STATE_CHUNK_LINE:
	case HTTP_STATE_CHUNK_END:
	case HTTP_STATE_TRAILER:
		return feed_chunk_framing(parser, data, size, err);
	case HTTP_STATE_COMPLETE:
		return HTTP_DONE;
	case HTTP_STATE_FAILED:
		break;
	}
	return fail(parser, STATUS_BAD_REQUEST, err, "was malformed before");
}

enum http_event http_parser_feed(struct http_parser *parser, const char **data, size_t *size,
	struct http_body *body, struct error *err)
{
	*body = (struct http_body){ 0 };
	for (;;) {
		if (parser->state == HTTP_STATE_BODY && parser->left == 0)
			parser->state = HTTP_STATE_COMPLETE;
		if (*size == 0 && parser->state != HTTP_STATE_COMPLETE)
			return HTTP_MORE;
		const enum http_event event = feed_once(parser, data, size, body, err);
		if (event != HTTP_MORE)
			return event;
	}
}

enum http_event http_parser_end(struct http_parser *parser, struct error *err)
{
	if (parser->state == HTTP_STATE_BODY_TO_END)
		parser->state = HTTP_STATE_COMPLETE;
	if (parser->state == HTTP_STATE_COMPLETE)
		return HTTP_DONE;
	if (!http_parser_is_inside(parser))
		return HTTP_MORE;
	return fail(parser, STATUS_BAD_REQUEST, err, "ends too early");
}

bool http_parser_is_inside(const struct http_parser *parser)
{
	return parser->state == HTTP_STATE_HEAD ? parser->head.size > 0
						: parser->state != HTTP_STATE_COMPLETE;
}

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 204, "No Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
		if (reasons[i].status == status)
			return reasons[i].reason;
	}
	return "Unknown";
}

static void write_field(struct buffer *out, const char *name, const char *value)
{
	buffer_append_string(out, name);
	buffer_append_string(out, ": ");
	for (const char *c = value; *c != '\0'; c++)
		buffer_append_char(out, (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c);
	buffer_append_string(out, "\r\n");
}

static void write_fields(struct buffer *out, const struct http_field *fields)
{
	for (; fields != NULL && fields->name != NULL; fields++)
		write_field(out, fields->name, fields->value);
}

void http_write_request_head(struct buffer *out, const char *method, const char *target,
	const char *host, const struct http_field *fields, uint64_t body_bytes)
{
	buffer_printf(out, "%s %s HTTP/1.1\r\n", method, target);
	write_field(out, "Host", host);
	write_fields(out, fields);
	if (body_bytes > 0 || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0)
		buffer_printf(out, "Content-Length: %" PRIu64 "\r\n", body_bytes);
	buffer_append_string(out, "\r\n");
}

void http_write_response_head(struct buffer *out, int status, const struct http_field *fields,
	uint64_t body_bytes, bool keep_alive)
{
	buffer_printf(out, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
	write_fields(out, fields);
	buffer_printf(out, "Content-Length: %" PRIu64 "\r\n", body_bytes);
	if (!keep_alive)
		buffer_append_string(out, "Connection: close\r\n");
	buffer_append_string(out, "\r\n");
}
