/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/clickhouse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/hash_index.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "fleet/clickhouse_text.h"
#include "fleet/http.h"

/*
 * A query of 27 million rows takes seconds; ten thousand stacks of a flame graph have 20 MB. An
 * insert without an answer is asked for again.
 */
enum {
	INSERT_SECONDS = 120,
	SELECT_SECONDS = 600,
	STOP_SECONDS = 2,
	ANSWER_BYTES = 64 << 20,
	ANSWER_VALUES = 4 << 20, /* each takes many times the memory of its text */
	SILENT_ANSWER_BYTES = 4096,
	CLUSTER_ANSWER_BYTES = 4 << 20, /* a line for each server */
};

struct clickhouse {
	struct fleet_http *http;
	char *database;
	bool is_writer;
	bool changes_tables;	    /* the last statement */
	bool (*is_cancelled)(void); /* NULL: never */
};

static const struct fleet_scheme scheme = {
	.plain = "clickhouse://",
	.with_tls = "clickhouses://",
	.port = "8123",
	.tls_port = "8443",
	.user = "default",
	.hint = "clickhouse://USER@HOST:8123/DATABASE",
};

bool clickhouse_url_detect(const char *url)
{
	return fleet_scheme_detect(&scheme, url);
}

bool clickhouse_open(
	const struct clickhouse_options *options, struct clickhouse **ret, struct error *err)
{
	CLEANUP(clickhouse_cleanup) struct clickhouse *to = xcalloc(1, sizeof *to);
	const struct fleet_http_options wanted = {
		.scheme = &scheme,
		.url = options->url,
		.password = options->password,
		.authorities = options->authorities,
	};

	if (!fleet_http_open(&wanted, &to->http, err))
		return false;
	const char *const path = fleet_http_path(to->http);
	to->database = xstrdup(path[0] == '\0' ? "default" : path + 1);
	if (!clickhouse_is_name(to->database))
		return fleet_http_refuse_url(
			&scheme, "a database has letters, digits and underscores", err);
	CLEANUP(free_cleanup)
	char *name = xasprintf("%s/%s", fleet_http_name(to->http), to->database);
	fleet_http_set_name(to->http, name);
	*ret = TAKE(to);
	return true;
}

void clickhouse_close(struct clickhouse *clickhouse)
{
	if (clickhouse == NULL)
		return;
	fleet_http_close(clickhouse->http);
	free(clickhouse->database);
	free(clickhouse);
}

void clickhouse_set_cancel(struct clickhouse *clickhouse, bool (*is_cancelled)(void))
{
	clickhouse->is_cancelled = is_cancelled;
	fleet_http_set_cancel(clickhouse->http, is_cancelled);
}

bool clickhouse_is_exposed(const struct clickhouse *clickhouse)
{
	return fleet_http_is_exposed(clickhouse->http);
}

const char *clickhouse_name(const struct clickhouse *clickhouse)
{
	return fleet_http_name(clickhouse->http);
}

const char *clickhouse_database(const struct clickhouse *clickhouse)
{
	return clickhouse->database;
}

static struct buffer *answer_of(struct clickhouse *clickhouse)
{
	return fleet_http_answer(clickhouse->http);
}

void clickhouse_begin_writing(struct clickhouse *clickhouse)
{
	clickhouse->is_writer = true;
}

/* The number of "Code: 60, ..." or "Code: 60. ..."; 0 when it is not there. */
static long exception_code(const char *text)
{
	const char *const at = strstr(text, "Code: ");

	return at == NULL ? 0 : strtol(at + strlen("Code: "), NULL, 10);
}

/* Codes of ClickHouse's ErrorCodes. */
static bool is_temporary_code(long code)
{
	static const long codes[] = {
		159, 160,	    /* took too long */
		202,		    /* too many queries */
		209, 210,	    /* between its own servers */
		216,		    /* the statement of this id still runs */
		236, 241, 242,	    /* aborted, memory, read-only for now */
		252,		    /* too many parts */
		285, 286, 319, 999, /* replicas */
	};

	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
		if (codes[i] == code)
			return true;
	return false;
}

/* What only heapctl fleet schema runs. */
static bool detect_change_of_tables(const char *statement)
{
	static const char *const words[] = { "CREATE ", "ALTER ", "RENAME ", "DROP " };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strncmp(statement, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

static void add_hint(long status, long code, bool changes_tables, struct error *err)
{
	switch (code) {
	case 60:
	case 16:
	case 47:
	case 81:
		error_hint(err, "heapctl fleet schema --apply makes the tables");
		return;
	case 192:
	case 193:
	case 194:
	case 516:
		error_hint(err, "the user is in the URL, the password in the file of "
				"--password-file");
		return;
	case 164:
	case 497:
		error_hint(err, "%s",
			changes_tables
				? "grant the user CREATE, SELECT and INSERT for the tables, ALTER "
				  "for --keep, DROP for tables of an earlier heapctl; without "
				  "readonly"
				: "grant the user SELECT, and INSERT to send, without readonly");
		return;
	default:
		if (status == 401 || status == 403)
			error_hint(err, "the user is in the URL, the password in the file of "
					"--password-file");
	}
}

/* What the server says is wrong, in one line. */
static bool fail_by_answer(struct clickhouse *clickhouse, long status, struct error *err)
{
	const char *text = buffer_string(answer_of(clickhouse));
	const long code = exception_code(text);
	const char *const said = strstr(text, "DB::Exception: ");
	CLEANUP(buffer_deinit) struct buffer line = BUFFER_OR_EXIT;

	text = said == NULL ? text : said + strlen("DB::Exception: ");
	const char *const end = strstr(text, ", e.what()");
	size_t size = end == NULL ? strcspn(text, "\n") : (size_t)(end - text);
	size = size > 250 ? 250 : size;
	utf8_append_printable(&line, text, size);
	const bool is_temporary =
		is_temporary_code(code) ||
		(code == 0 && (status == 429 || status == 408 || (status >= 502 && status <= 504)));
	const bool is_denied = status == 401 || status == 403 || code == 164 || code == 497;
	error_set(err,
		is_temporary ? ERROR_STATE
		: is_denied  ? ERROR_DENIED
			     : ERROR_INPUT,
		"%s: ClickHouse answered %ld%s%s", clickhouse_name(clickhouse), status,
		line.size == 0 ? "" : ": ", buffer_string(&line));
	add_hint(status, code, clickhouse->changes_tables, err);
	return false;
}

struct clickhouse_request {
	const char *statement;	/* in the URL; NULL: it is the body */
	const char *parameters; /* "" or "&..." */
	const void *body;
	size_t size;
	bool is_compressed;
	bool has_database;
	long seconds;
	size_t limit; /* of the answer */
};

static bool perform(
	struct clickhouse *clickhouse, const struct clickhouse_request *request, struct error *err)
{
	CLEANUP(free_cleanup)
	char *statement = request->statement == NULL
				  ? NULL
				  : fleet_http_escape(clickhouse->http, request->statement);
	CLEANUP(free_cleanup)
	/* 18.16 takes a parameter without a name for a setting: nothing precedes the first one. */
	char *path = xasprintf("/?%s%s%s%s%s%s", request->has_database ? "database=" : "",
		request->has_database ? clickhouse->database : "",
		request->parameters + (!request->has_database && request->parameters[0] == '&'),
		clickhouse->is_writer && request->has_database
			? "&insert_distributed_sync=1&load_balancing=in_order"
			: "",
		statement == NULL ? "" : "&query=", statement == NULL ? "" : statement);
	const char *const headers[] = { "Content-Type: text/plain; charset=UTF-8",
		request->is_compressed ? "Content-Encoding: gzip" : NULL, NULL };
	long status = 0;

	clickhouse->changes_tables =
		request->statement == NULL && detect_change_of_tables(request->body);
	return fleet_http_post(clickhouse->http,
		       &(struct fleet_http_request){
			       .path = path,
			       .headers = headers,
			       .body = request->body,
			       .size = request->size,
			       .is_fresh = request->is_compressed,
			       .seconds = request->seconds,
			       .limit = request->limit,
		       },
		       &status, err) &&
	       (status == 200 || fail_by_answer(clickhouse, status, err));
}

/* What does not answer has to answer nothing. */
static bool perform_silent(
	struct clickhouse *clickhouse, const struct clickhouse_request *request, struct error *err)
{
	if (!perform(clickhouse, request, err))
		return false;
	return answer_of(clickhouse)->size == 0 || fail_by_answer(clickhouse, 200, err);
}

bool clickhouse_run(struct clickhouse *clickhouse, const char *statement, const char *parameters,
	bool has_database, struct error *err)
{
	return perform_silent(clickhouse,
		&(struct clickhouse_request){
			.parameters = parameters,
			.body = statement,
			.size = strlen(statement),
			.has_database = has_database,
			.seconds = SELECT_SECONDS,
			.limit = SILENT_ANSWER_BYTES,
		},
		err);
}

/* Lines of host, port, status and error: the status is 0. */
static bool check_servers(struct clickhouse *clickhouse, struct error *err)
{
	const char *line = buffer_string(answer_of(clickhouse));

	if (strstr(line, "DB::Exception") != NULL)
		return fail_by_answer(clickhouse, 200, err);
	for (size_t size; *line != '\0'; line += size + (line[size] == '\n')) {
		char status[8] = "";
		size = strcspn(line, "\n");
		if (sscanf(line, "%*[^\t\n]\t%*[0-9]\t%7[^\t\n]\t", status) != 1 ||
			strcmp(status, "0") != 0) {
			CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
			utf8_append_printable(&text, line, size > 200 ? 200 : size);
			return error_set(err, ERROR_STATE,
				"%s: a server of the cluster answered %s",
				clickhouse_name(clickhouse), buffer_string(&text));
		}
	}
	return true;
}

bool clickhouse_run_for_all(struct clickhouse *clickhouse, const char *statement, struct error *err)
{
	enum { TIMEOUT_EXCEEDED = 159 };

	if (perform(clickhouse,
		    &(struct clickhouse_request){
			    .parameters = "",
			    .body = statement,
			    .size = strlen(statement),
			    .seconds = SELECT_SECONDS,
			    .limit = CLUSTER_ANSWER_BYTES,
		    },
		    err) &&
		check_servers(clickhouse, err))
		return true;
	if (exception_code(buffer_string(answer_of(clickhouse))) == TIMEOUT_EXCEEDED)
		error_hint(err, "give the command again; a server that stays behind says why in "
				"its log, and may have to be restarted");
	return false;
}

static bool compress_rows(const struct buffer *rows, struct buffer *out, struct error *err)
{
	enum { GZIP = 16 };
	z_stream stream = { 0 };

	if (rows->size > UINT32_MAX / 2 || deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + GZIP, 8,
						   Z_DEFAULT_STRATEGY) != Z_OK)
		return error_set(err, ERROR_MEMORY, "no memory to compress %zu bytes", rows->size);
	const size_t bound = deflateBound(&stream, rows->size);
	buffer_reserve(out, bound);
	stream.next_in = (Bytef *)rows->data;
	stream.avail_in = (uInt)rows->size;
	stream.next_out = (Bytef *)out->data + out->size;
	stream.avail_out = (uInt)bound;
	const bool is_done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
	out->size += bound - stream.avail_out;
	deflateEnd(&stream);
	return is_done || error_set(err, ERROR_MEMORY, "compressing %zu bytes failed", rows->size);
}

bool clickhouse_insert(struct clickhouse *clickhouse, const char *statement,
	const struct buffer *rows, const char *id, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup)
	char *parameters = xasprintf("%s%s", id == NULL ? "" : "&query_id=", id == NULL ? "" : id);

	return compress_rows(rows, &body, err) && perform_silent(clickhouse,
							  &(struct clickhouse_request){
								  .statement = statement,
								  .parameters = parameters,
								  .body = body.data,
								  .size = body.size,
								  .is_compressed = true,
								  .has_database = true,
								  .seconds = INSERT_SECONDS,
								  .limit = SILENT_ANSWER_BYTES,
							  },
							  err);
}

/* Integers of 64 bits come as texts or as numbers, by a setting of the server. */
static bool is_unsigned(const json_t *value)
{
	if (json_is_integer(value))
		return json_integer_value(value) >= 0;
	const char *const text = json_string_value(value);
	char *end = NULL;
	if (text == NULL || !isdigit((unsigned char)text[0]) || strlen(text) > 20)
		return false;
	errno = 0;
	(void)strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool is_of_type(const json_t *value, char type)
{
	size_t index;
	json_t *element;

	switch (type) {
	case 'u':
		return is_unsigned(value);
	case 'f':
		return json_is_number(value) || json_is_null(value);
	case 's':
		return json_is_string(value);
	default:
		if (!json_is_array(value))
			return false;
		json_array_foreach(value, index, element)
		{
			if (!json_is_string(element))
				return false;
		}
		return true;
	}
}

static bool is_row(const json_t *row, const char *types)
{
	const size_t count = strlen(types);

	if (!json_is_array(row) || json_array_size(row) != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!is_of_type(json_array_get(row, i), types[i]))
			return false;
	return true;
}

/* `rows` counts them: an answer that was cut off is no JSON. */
static bool check_rows(const json_t *answer, const char *types)
{
	const json_t *const rows = json_object_get(answer, "data");
	size_t index;
	json_t *row;

	if (!json_is_array(rows) || !json_is_integer(json_object_get(answer, "rows")) ||
		(size_t)json_integer_value(json_object_get(answer, "rows")) !=
			json_array_size(rows))
		return false;
	json_array_foreach(rows, index, row)
	{
		if (!is_row(row, types))
			return false;
	}
	return true;
}

/* A number of values that is at least that of the text. */
static size_t count_values(const struct buffer *text)
{
	size_t count = 0;

	for (size_t i = 0; i < text->size; i++)
		count += text->data[i] == ',' || text->data[i] == '[' || text->data[i] == '{';
	return count;
}

/*
 * The server works on after its client has left. Each user, also one that may only read, may stop
 * its own queries; where the URL is that of several servers, the query may be another one's.
 */
static void stop_query(struct clickhouse *clickhouse, const char *id)
{
	CLEANUP(free_cleanup)
	char *statement = xasprintf("KILL QUERY WHERE query_id = '%s' ASYNC", id);
	struct error ignored;

	fleet_http_set_cancel(clickhouse->http, NULL);
	(void)!perform(clickhouse,
		&(struct clickhouse_request){
			.parameters = "",
			.body = statement,
			.size = strlen(statement),
			.seconds = STOP_SECONDS,
			.limit = ANSWER_BYTES,
		},
		&ignored);
	fleet_http_set_cancel(clickhouse->http, clickhouse->is_cancelled);
}

static bool is_left_running(const struct clickhouse *clickhouse, const struct error *err)
{
	return err->kind == ERROR_TIMEOUT ||
	       (clickhouse->is_cancelled != NULL && clickhouse->is_cancelled());
}

static bool select_rows(struct clickhouse *clickhouse, const char *query, const char *types,
	bool has_database, json_t **rows, struct error *err)
{
	CLEANUP(free_cleanup) char *body = xasprintf("%s FORMAT JSONCompact", query);
	CLEANUP(free_cleanup)
	char *id = xasprintf("heapctl-%016" PRIx64 "%016" PRIx64, hash_seed(), hash_seed());
	CLEANUP(free_cleanup) char *parameters = xasprintf("&query_id=%s", id);
	json_error_t problem = { .text = "too many values" };

	if (!perform(clickhouse,
		    &(struct clickhouse_request){
			    .parameters = parameters,
			    .body = body,
			    .size = strlen(body),
			    .has_database = has_database,
			    .seconds = SELECT_SECONDS,
			    .limit = ANSWER_BYTES,
		    },
		    err)) {
		if (is_left_running(clickhouse, err))
			stop_query(clickhouse, id);
		return false;
	}
	json_t *const answer =
		count_values(answer_of(clickhouse)) > ANSWER_VALUES ||
				answer_of(clickhouse)->size == 0
			? NULL
			: json_loadb(answer_of(clickhouse)->data, answer_of(clickhouse)->size,
				  JSON_REJECT_DUPLICATES, &problem);
	/* An exception in the middle of a result follows what was sent of it. */
	if (answer == NULL && strstr(buffer_string(answer_of(clickhouse)), "DB::Exception") != NULL)
		return fail_by_answer(clickhouse, 200, err);
	const bool is_good = answer != NULL && check_rows(answer, types);
	if (is_good)
		*rows = json_incref(json_object_get(answer, "data"));
	json_decref(answer);
	return is_good || error_set(err, ERROR_INPUT, "%s: the answer is not ClickHouse's (%s)",
				  clickhouse_name(clickhouse),
				  answer == NULL ? problem.text : "other columns than asked for");
}

bool clickhouse_select(struct clickhouse *clickhouse, const char *query, const char *types,
	json_t **rows, struct error *err)
{
	return select_rows(clickhouse, query, types, true, rows, err);
}

bool clickhouse_select_system(struct clickhouse *clickhouse, const char *query, const char *types,
	json_t **rows, struct error *err)
{
	return select_rows(clickhouse, query, types, false, rows, err);
}

uint64_t clickhouse_unsigned(const json_t *row, size_t column)
{
	const json_t *const value = json_array_get(row, column);

	return json_is_integer(value) ? (uint64_t)json_integer_value(value)
				      : strtoull(json_string_value(value), NULL, 10);
}

double clickhouse_real(const json_t *row, size_t column)
{
	const json_t *const value = json_array_get(row, column);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *clickhouse_text(const json_t *row, size_t column)
{
	return json_string_value(json_array_get(row, column));
}

bool clickhouse_version(struct clickhouse *clickhouse, unsigned *version, struct error *err)
{
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;

	if (!clickhouse_select_system(clickhouse, "SELECT version()", "s", &rows, err))
		return false;
	if (json_array_size(rows) != 1)
		return error_set(
			err, ERROR_INPUT, "%s has no version", clickhouse_name(clickhouse));
	*version = (unsigned)strtoul(clickhouse_text(json_array_get(rows, 0), 0), NULL, 10);
	return true;
}
