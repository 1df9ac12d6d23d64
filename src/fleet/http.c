/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/http.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash_index.h"
#include "base/utf8.h"
#include "base/xalloc.h"

enum { CONNECT_SECONDS = 10, FIRST_WAIT_MS = 500 };

struct fleet_http {
	CURL *curl;
	const struct fleet_scheme *scheme;
	char *base; /* "http://host:8123" */
	char *name, *path, *user, *password, *authorities;
	char problem[CURL_ERROR_SIZE];
	struct buffer answer;
	size_t limit;
	bool is_above_limit;
	bool has_tls, is_local;
	bool (*is_cancelled)(void); /* NULL: never */
};

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

bool fleet_scheme_detect(const struct fleet_scheme *scheme, const char *url)
{
	return begins_with(url, scheme->plain) || begins_with(url, scheme->with_tls);
}

bool fleet_http_refuse_url(const struct fleet_scheme *scheme, const char *why, struct error *err)
{
	error_set(err, ERROR_USAGE, "the URL is wrong: %s", why);
	return error_hint(err,
		"write %s, or %s for TLS, and the password into a file for "
		"--password-file",
		scheme->hint, scheme->with_tls);
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

static bool take_url_parts(struct fleet_http *http, CURLU *url, struct error *err)
{
	const struct fleet_scheme *const scheme = http->scheme;
	CLEANUP(free_cleanup) char *host = url_part(url, CURLUPART_HOST, 0);
	CLEANUP(free_cleanup) char *port = url_part(url, CURLUPART_PORT, 0);
	CLEANUP(free_cleanup) char *path = url_part(url, CURLUPART_PATH, CURLU_URLDECODE);
	CLEANUP(free_cleanup) char *password = url_part(url, CURLUPART_PASSWORD, 0);
	CLEANUP(free_cleanup) char *query = url_part(url, CURLUPART_QUERY, 0);
	CLEANUP(free_cleanup) char *fragment = url_part(url, CURLUPART_FRAGMENT, 0);

	if (password != NULL)
		return fleet_http_refuse_url(
			scheme, "every user of the machine can see a password in it", err);
	if (host == NULL || query != NULL || fragment != NULL)
		return fleet_http_refuse_url(scheme, "it has more than a host and a path", err);
	http->user = url_part(url, CURLUPART_USER, CURLU_URLDECODE);
	if (http->user != NULL && (strchr(http->user, ':') != NULL ||
					  !utf8_is_printable(http->user, strlen(http->user))))
		return fleet_http_refuse_url(scheme, "no user is called that", err);
	const char *const at = port != NULL    ? port
			       : http->has_tls ? scheme->tls_port
					       : scheme->port;
	if (at == NULL)
		return fleet_http_refuse_url(scheme, "it has no port", err);
	http->base = xasprintf("http%s://%s:%s", http->has_tls ? "s" : "", host, at);
	http->is_local = strcmp(host, "localhost") == 0 || begins_with(host, "127.") ||
			 strcmp(host, "[::1]") == 0;
	http->name = xasprintf("%s:%s", host, at);
	http->path = TAKE(path);
	if (http->path == NULL || strcmp(http->path, "/") == 0) {
		free(http->path);
		http->path = xstrdup("");
	}
	return true;
}

static bool parse_url(struct fleet_http *http, const char *text, struct error *err)
{
	CURLU *const url = curl_url();

	if (url == NULL)
		return error_set(err, ERROR_MEMORY, "no memory for a URL");
	http->has_tls = begins_with(text, http->scheme->with_tls);
	/* The password of a wrong URL must not become part of a message either. */
	const bool is_done =
		!fleet_scheme_detect(http->scheme, text)
			? fleet_http_refuse_url(
				  http->scheme, "it does not begin with a scheme and a host", err)
		: curl_url_set(url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK
			? fleet_http_refuse_url(http->scheme,
				  "its host is missing, or its host, port or path cannot be read",
				  err)
			: take_url_parts(http, url, err);
	curl_url_cleanup(url);
	return is_done;
}

static size_t take_answer(char *data, size_t size, size_t count, void *context)
{
	struct fleet_http *const http = context;
	const size_t bytes = size * count;

	if (bytes > http->limit - http->answer.size) {
		http->is_above_limit = true;
		return 0;
	}
	buffer_append(&http->answer, data, bytes);
	return bytes;
}

bool fleet_http_open(
	const struct fleet_http_options *options, struct fleet_http **ret, struct error *err)
{
	CLEANUP(fleet_http_cleanup) struct fleet_http *http = xcalloc(1, sizeof *http);

	http->scheme = options->scheme;
	buffer_init(&http->answer, &memory_or_exit);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
		(http->curl = curl_easy_init()) == NULL)
		return error_set(err, ERROR_MEMORY, "libcurl cannot be initialised");
	if (!parse_url(http, options->url, err))
		return false;
	http->password = options->password == NULL ? NULL : xstrdup(options->password);
	http->authorities = options->authorities == NULL ? NULL : xstrdup(options->authorities);
	*ret = TAKE(http);
	return true;
}

void fleet_http_close(struct fleet_http *http)
{
	if (http == NULL)
		return;
	if (http->curl != NULL)
		curl_easy_cleanup(http->curl);
	buffer_deinit(&http->answer);
	if (http->password != NULL)
		explicit_bzero(http->password, strlen(http->password));
	free(http->password);
	free(http->authorities);
	free(http->base);
	free(http->name);
	free(http->path);
	free(http->user);
	free(http);
}

void fleet_http_set_cancel(struct fleet_http *http, bool (*is_cancelled)(void))
{
	http->is_cancelled = is_cancelled;
}

bool fleet_http_is_exposed(const struct fleet_http *http)
{
	return http->password != NULL && !http->has_tls && !http->is_local;
}

const char *fleet_http_name(const struct fleet_http *http)
{
	return http->name;
}

void fleet_http_set_name(struct fleet_http *http, const char *name)
{
	char *const copy = xstrdup(name);

	free(http->name);
	http->name = copy;
}

const char *fleet_http_path(const struct fleet_http *http)
{
	return http->path;
}

char *fleet_http_escape(struct fleet_http *http, const char *text)
{
	char *const escaped = curl_easy_escape(http->curl, text, 0);
	char *const copy = xstrdup(escaped == NULL ? "" : escaped);

	curl_free(escaped);
	return copy;
}

struct buffer *fleet_http_answer(struct fleet_http *http)
{
	return &http->answer;
}

static bool fail(struct fleet_http *http, CURLcode result, struct error *err)
{
	const char *const why =
		http->problem[0] != '\0' ? http->problem : curl_easy_strerror(result);

	switch ((int)result) {
	case CURLE_ABORTED_BY_CALLBACK:
		return error_set(err, ERROR_STATE, "%s: cancelled", http->name);
	case CURLE_OPERATION_TIMEDOUT:
		return error_set(err, ERROR_TIMEOUT, "%s: %s", http->name, why);
	case CURLE_COULDNT_RESOLVE_HOST:
		error_set(err, ERROR_STATE, "%s: %s", http->name, why);
		return error_hint(err, "check the name of the host in the URL");
	case CURLE_COULDNT_CONNECT:
		error_set(err, ERROR_STATE, "%s: %s", http->name, why);
		return error_hint(err, "check that the server runs, and that it listens at this "
				       "address and port");
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
		return error_set(err, ERROR_STATE, "%s: %s", http->name, why);
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		error_set(err, ERROR_DENIED, "%s: %s", http->name, why);
		return error_hint(
			err, "HEAPCTL_CACERT names a file with the authority of the certificate");
	default:
		return error_set(err, ERROR_INPUT, "%s: %s", http->name, why);
	}
}

/* libcurl calls it about once a second, also while nothing arrives. */
static int cancel_when_asked(
	void *context, curl_off_t to_get, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
	const struct fleet_http *const http = context;

	(void)to_get;
	(void)got;
	(void)to_send;
	(void)sent;
	return http->is_cancelled != NULL && http->is_cancelled();
}

static void set_login(struct fleet_http *http)
{
	CURL *const curl = http->curl;
	const char *const password = http->password != NULL ? http->password : "";
	const char *const user = http->user != NULL ? http->user : http->scheme->user;

	if (user != NULL) {
		curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		curl_easy_setopt(curl, CURLOPT_USERNAME, user);
		curl_easy_setopt(curl, CURLOPT_PASSWORD, password);
	} else if (http->password != NULL) {
		curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, password);
	}
}

static void set_options(struct fleet_http *http, const char *url)
{
	CURL *const curl = http->curl;

	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, http->has_tls ? "https" : "http");
	/* A proxy that is meant for the web would see the data and the password. */
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, http->problem);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, http);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, cancel_when_asked);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, http);
	if (http->authorities != NULL)
		curl_easy_setopt(curl, CURLOPT_CAINFO, http->authorities);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "heapctl/" HEAPCTL_VERSION);
	set_login(http);
}

bool fleet_http_post(struct fleet_http *http, const struct fleet_http_request *request,
	long *status, struct error *err)
{
	CLEANUP(free_cleanup) char *url = xasprintf("%s%s", http->base, request->path);
	struct curl_slist *headers = curl_slist_append(NULL, "Expect:");

	for (size_t i = 0; request->headers[i] != NULL; i++)
		headers = curl_slist_append(headers, request->headers[i]);
	set_options(http, url);
	curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(http->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(http->curl, CURLOPT_POSTFIELDS, request->body);
	curl_easy_setopt(http->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->size);
	curl_easy_setopt(http->curl, CURLOPT_TIMEOUT, request->seconds);
	/*
	 * On a connection that was used before, libcurl sends a request again when there was no
	 * answer, which may have been done already.
	 */
	curl_easy_setopt(http->curl, CURLOPT_FRESH_CONNECT, (long)request->is_fresh);
	buffer_clear(&http->answer);
	http->problem[0] = '\0';
	http->is_above_limit = false;
	http->limit = request->limit;
	const CURLcode result = curl_easy_perform(http->curl);
	*status = 0;
	curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, status);
	curl_slist_free_all(headers);
	if (http->is_above_limit) {
		error_set(err, ERROR_INPUT, "%s: the answer has more than %zu bytes", http->name,
			request->limit);
		return error_hint(err, "ask for less: --service, --since");
	}
	return result == CURLE_OK || fail(http, result, err);
}

bool fleet_http_is_temporary(const struct error *err)
{
	return err->kind == ERROR_STATE || err->kind == ERROR_TIMEOUT;
}

/* Between half of the wait and all of it: thousands of hosts must not come back at once. */
static int64_t with_jitter(int64_t wait_ms)
{
	return wait_ms / 2 + (int64_t)(hash_seed() % (uint64_t)(wait_ms / 2 + 1));
}

bool fleet_retry_run(const struct fleet_retry *retry,
	bool (*attempt)(void *context, struct error *err), void *context, struct error *err)
{
	const int64_t begin_ms = clock_monotonic_ms();
	int64_t wait_ms = FIRST_WAIT_MS;

	for (struct error problem = { 0 }; !attempt(context, &problem);) {
		const int64_t pause_ms = with_jitter(wait_ms);
		if (!fleet_http_is_temporary(&problem) ||
			clock_monotonic_ms() - begin_ms + pause_ms > retry->limit_ms) {
			*err = problem;
			return false;
		}
		if (retry->waits != NULL)
			retry->waits(retry->context, pause_ms, &problem);
		clock_sleep_us(pause_ms * 1000);
		wait_ms = wait_ms * 2 > retry->max_wait_ms ? retry->max_wait_ms : wait_ms * 2;
	}
	return true;
}
