/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/clickhouse.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/utf8.h"
#include "base/xalloc.h"

/*
 * A query of 27 million rows takes seconds; ten thousand stacks of a flame graph have 20 MB. An
 * insert without an answer is asked for again.
 */
enum {
	CONNECT_SECONDS = 10,
	INSERT_SECONDS = 120,
	SELECT_SECONDS = 600,
	ANSWER_BYTES = 64 << 20,
	ANSWER_VALUES = 4 << 20, /* each takes many times the memory of its text */
	SILENT_ANSWER_BYTES = 4096,
};

struct clickhouse {
	CURL *curl;
	char *base; /* "http://host:8123/?" */
	char *name, *database, *user, *password, *authorities;
	char problem[CURL_ERROR_SIZE];
	struct buffer answer;
	size_t limit;
	bool is_above_limit;
	bool has_tls, is_local;
};

static const char plain[] = "clickhouse://", with_tls[] = "clickhouses://";

bool clickhouse_url_detect(const char *url)
{
	return strncmp(url, plain, sizeof plain - 1) == 0 ||
	       strncmp(url, with_tls, sizeof with_tls - 1) == 0;
}

static bool refuse_url(const char *why, struct error *err)
{
	error_set(err, ERROR_USAGE, "the URL of the store is wrong: %s", why);
	return error_hint(err, "write clickhouse://USER@HOST:8123/DATABASE, or clickhouses:// for "
			       "TLS, and the password into a file for --password-file");
}

/* A part of the URL, decoded; NULL where it has none. */
static char *url_part(CURLU *url, CURLUPart part, unsigned flags)
{
	char *text = NULL;

	if (curl_url_get(url, part, &text, flags) != CURLUE_OK)
		return NULL;
	char *const copy = xstrdup(text);
	curl_free(text);
	return copy;
}

static bool is_database(const char *name)
{
	return name[0] != '\0' && strlen(name) <= 64 &&
	       name[strspn(name,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}

static bool take_url_parts(struct clickhouse *to, CURLU *url, struct error *err)
{
	CLEANUP(free_cleanup) char *host = url_part(url, CURLUPART_HOST, 0);
	CLEANUP(free_cleanup) char *port = url_part(url, CURLUPART_PORT, 0);
	CLEANUP(free_cleanup) char *path = url_part(url, CURLUPART_PATH, CURLU_URLDECODE);
	CLEANUP(free_cleanup) char *password = url_part(url, CURLUPART_PASSWORD, 0);
	CLEANUP(free_cleanup) char *query = url_part(url, CURLUPART_QUERY, 0);
	CLEANUP(free_cleanup) char *fragment = url_part(url, CURLUPART_FRAGMENT, 0);

	if (password != NULL)
		return refuse_url("every user of the machine can see a password in it", err);
	if (host == NULL || query != NULL || fragment != NULL)
		return refuse_url("it has a host and the name of a database", err);
	const char *const database = path == NULL || strcmp(path, "/") == 0 ? "default" : path + 1;
	if (!is_database(database))
		return refuse_url("a database has letters, digits and underscores", err);
	to->user = url_part(url, CURLUPART_USER, CURLU_URLDECODE);
	if (to->user != NULL &&
		(strchr(to->user, ':') != NULL || !utf8_is_printable(to->user, strlen(to->user))))
		return refuse_url("no user is called that", err);
	const char *const at = port != NULL ? port : to->has_tls ? "8443" : "8123";
	to->base = xasprintf("http%s://%s:%s/?", to->has_tls ? "s" : "", host, at);
	to->is_local = strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
		       strcmp(host, "[::1]") == 0;
	to->name = xasprintf("%s:%s/%s", host, at, database);
	to->database = xstrdup(database);
	return true;
}

static bool parse_url(struct clickhouse *to, const char *text, struct error *err)
{
	CURLU *const url = curl_url();

	if (url == NULL)
		return error_set(err, ERROR_MEMORY, "no memory for a URL");
	to->has_tls = strncmp(text, with_tls, sizeof with_tls - 1) == 0;
	/* The password of a wrong URL must not become part of a message either. */
	const bool is_done =
		(clickhouse_url_detect(text) && curl_url_set(url, CURLUPART_URL, text,
							CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK)
			? take_url_parts(to, url, err)
			: refuse_url("it does not begin with clickhouse:// and a host", err);
	curl_url_cleanup(url);
	return is_done;
}

static size_t take_answer(char *data, size_t size, size_t count, void *context)
{
	struct clickhouse *const clickhouse = context;
	const size_t bytes = size * count;

	if (bytes > clickhouse->limit - clickhouse->answer.size) {
		clickhouse->is_above_limit = true;
		return 0;
	}
	buffer_append(&clickhouse->answer, data, bytes);
	return bytes;
}

bool clickhouse_open(
	const struct clickhouse_options *options, struct clickhouse **ret, struct error *err)
{
	CLEANUP(clickhouse_cleanup) struct clickhouse *to = xcalloc(1, sizeof *to);

	buffer_init(&to->answer, &memory_or_exit);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
		(to->curl = curl_easy_init()) == NULL)
		return error_set(err, ERROR_MEMORY, "libcurl cannot be initialised");
	if (!parse_url(to, options->url, err))
		return false;
	to->password = options->password == NULL ? NULL : xstrdup(options->password);
	to->authorities = options->authorities == NULL ? NULL : xstrdup(options->authorities);
	*ret = TAKE(to);
	return true;
}

void clickhouse_close(struct clickhouse *clickhouse)
{
	if (clickhouse == NULL)
		return;
	if (clickhouse->curl != NULL)
		curl_easy_cleanup(clickhouse->curl);
	buffer_deinit(&clickhouse->answer);
	if (clickhouse->password != NULL)
		explicit_bzero(clickhouse->password, strlen(clickhouse->password));
	free(clickhouse->password);
	free(clickhouse->authorities);
	free(clickhouse->base);
	free(clickhouse->name);
	free(clickhouse->database);
	free(clickhouse->user);
	free(clickhouse);
}

bool clickhouse_is_exposed(const struct clickhouse *clickhouse)
{
	return clickhouse->password != NULL && !clickhouse->has_tls && !clickhouse->is_local;
}

const char *clickhouse_name(const struct clickhouse *clickhouse)
{
	return clickhouse->name;
}

const char *clickhouse_database(const struct clickhouse *clickhouse)
{
	return clickhouse->database;
}

bool clickhouse_is_temporary(const struct error *err)
{
	return err->kind == ERROR_STATE || err->kind == ERROR_TIMEOUT;
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

static void add_hint(long status, long code, struct error *err)
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
		error_hint(err, "grant the user SELECT, and INSERT to send");
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
	const char *text = buffer_string(&clickhouse->answer);
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
		"%s: ClickHouse answered %ld%s%s", clickhouse->name, status,
		line.size == 0 ? "" : ": ", buffer_string(&line));
	add_hint(status, code, err);
	return false;
}

static bool fail_by_curl(struct clickhouse *clickhouse, CURLcode result, struct error *err)
{
	const char *const why =
		clickhouse->problem[0] != '\0' ? clickhouse->problem : curl_easy_strerror(result);

	switch ((int)result) {
	case CURLE_OPERATION_TIMEDOUT:
		return error_set(err, ERROR_TIMEOUT, "%s: %s", clickhouse->name, why);
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return error_set(err, ERROR_STATE, "%s: %s", clickhouse->name, why);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		error_set(err, ERROR_DENIED, "%s: %s", clickhouse->name, why);
		return error_hint(
			err, "HEAPCTL_CACERT names a file with the authority of the certificate");
	default:
		return error_set(err, ERROR_INPUT, "%s: %s", clickhouse->name, why);
	}
}

static void set_options(struct clickhouse *clickhouse, const char *url)
{
	CURL *const curl = clickhouse->curl;

	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, clickhouse->has_tls ? "https" : "http");
	/* A proxy that is meant for the web would see the data and the password. */
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, clickhouse->problem);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, clickhouse);
	curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
	curl_easy_setopt(
		curl, CURLOPT_USERNAME, clickhouse->user != NULL ? clickhouse->user : "default");
	curl_easy_setopt(
		curl, CURLOPT_PASSWORD, clickhouse->password != NULL ? clickhouse->password : "");
	if (clickhouse->authorities != NULL)
		curl_easy_setopt(curl, CURLOPT_CAINFO, clickhouse->authorities);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "heapctl/" HEAPCTL_VERSION);
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
	char *const statement = request->statement == NULL
					? NULL
					: curl_easy_escape(clickhouse->curl, request->statement, 0);
	CLEANUP(free_cleanup)
	char *url = xasprintf("%s%s%s%s%s%s", clickhouse->base,
		request->has_database ? "database=" : "",
		request->has_database ? clickhouse->database : "", request->parameters,
		statement == NULL ? "" : "&query=", statement == NULL ? "" : statement);
	struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
	long status = 0;

	curl_free(statement);
	headers = curl_slist_append(headers, "Content-Type: text/plain; charset=UTF-8");
	if (request->is_compressed)
		headers = curl_slist_append(headers, "Content-Encoding: gzip");
	set_options(clickhouse, url);
	curl_easy_setopt(clickhouse->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(clickhouse->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(clickhouse->curl, CURLOPT_POSTFIELDS, request->body);
	curl_easy_setopt(clickhouse->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->size);
	curl_easy_setopt(clickhouse->curl, CURLOPT_TIMEOUT, request->seconds);
	/*
	 * On a connection that was used before, libcurl sends a request again when there was no
	 * answer, which may have been done already.
	 */
	curl_easy_setopt(clickhouse->curl, CURLOPT_FRESH_CONNECT, (long)request->is_compressed);
	buffer_clear(&clickhouse->answer);
	clickhouse->problem[0] = '\0';
	clickhouse->is_above_limit = false;
	clickhouse->limit = request->limit;
	const CURLcode result = curl_easy_perform(clickhouse->curl);
	curl_easy_getinfo(clickhouse->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_slist_free_all(headers);
	if (clickhouse->is_above_limit) {
		error_set(err, ERROR_INPUT, "%s: the answer has more than %zu bytes",
			clickhouse->name, request->limit);
		return error_hint(err, "ask for less: --service, --since");
	}
	if (result != CURLE_OK)
		return fail_by_curl(clickhouse, result, err);
	return status == 200 || fail_by_answer(clickhouse, status, err);
}

/* What does not answer has to answer nothing. */
static bool perform_silent(
	struct clickhouse *clickhouse, const struct clickhouse_request *request, struct error *err)
{
	if (!perform(clickhouse, request, err))
		return false;
	return clickhouse->answer.size == 0 || fail_by_answer(clickhouse, 200, err);
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
	CLEANUP(free_cleanup) char *parameters = xasprintf("&query_id=%s", id);

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

static bool select_rows(struct clickhouse *clickhouse, const char *query, const char *types,
	bool has_database, json_t **rows, struct error *err)
{
	CLEANUP(free_cleanup) char *body = xasprintf("%s FORMAT JSONCompact", query);
	json_error_t problem = { .text = "too many values" };

	if (!perform(clickhouse,
		    &(struct clickhouse_request){
			    .parameters = "",
			    .body = body,
			    .size = strlen(body),
			    .has_database = has_database,
			    .seconds = SELECT_SECONDS,
			    .limit = ANSWER_BYTES,
		    },
		    err))
		return false;
	json_t *const answer =
		count_values(&clickhouse->answer) > ANSWER_VALUES || clickhouse->answer.size == 0
			? NULL
			: json_loadb(clickhouse->answer.data, clickhouse->answer.size,
				  JSON_REJECT_DUPLICATES, &problem);
	/* An exception in the middle of a result follows what was sent of it. */
	if (answer == NULL && strstr(buffer_string(&clickhouse->answer), "DB::Exception") != NULL)
		return fail_by_answer(clickhouse, 200, err);
	const bool is_good = answer != NULL && check_rows(answer, types);
	if (is_good)
		*rows = json_incref(json_object_get(answer, "data"));
	json_decref(answer);
	return is_good || error_set(err, ERROR_INPUT, "%s: the answer is not ClickHouse's (%s)",
				  clickhouse->name,
				  answer == NULL ? problem.text : "other columns than asked for");
}

bool clickhouse_select(struct clickhouse *clickhouse, const char *query, const char *types,
	json_t **rows, struct error *err)
{
	return select_rows(clickhouse, query, types, true, rows, err);
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

	/* The database may have to be made yet. */
	if (!select_rows(clickhouse, "SELECT version()", "s", false, &rows, err))
		return false;
	if (json_array_size(rows) != 1)
		return error_set(err, ERROR_INPUT, "%s has no version", clickhouse->name);
	*version = (unsigned)strtoul(clickhouse_text(json_array_get(rows, 0), 0), NULL, 10);
	return true;
}
