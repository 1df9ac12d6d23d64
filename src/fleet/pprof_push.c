/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/pprof_push.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/filtered_profile.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "profile/pprof.h"

enum { POST_SECONDS = 120, ANSWER_BYTES = 1 << 20 };

struct pprof_push {
	struct fleet_http *http;
	bool is_pyroscope;
};

static const struct fleet_scheme pyroscope = {
	.plain = "pyroscope://",
	.with_tls = "pyroscopes://",
	.port = "4040",
	.tls_port = "443",
	.hint = "pyroscope://HOST:4040",
};

static const struct fleet_scheme collector = {
	.plain = "otel-pprof://",
	.with_tls = "otel-pprofs://",
	.hint = "otel-pprof://HOST:PORT",
};

bool pprof_push_url_detect(const char *url)
{
	return fleet_scheme_detect(&pyroscope, url) || fleet_scheme_detect(&collector, url);
}

/* It becomes part of requests as it is. */
static bool is_plain_path(const char *path)
{
	for (const char *at = path; *at != '\0'; at++)
		if (!isalnum((unsigned char)*at) && strchr("/-._~", *at) == NULL)
			return false;
	return true;
}

bool pprof_push_open(
	const struct fleet_http_options *options, struct pprof_push **ret, struct error *err)
{
	CLEANUP(pprof_push_cleanup) struct pprof_push *push = xcalloc(1, sizeof *push);
	struct fleet_http_options wanted = *options;

	push->is_pyroscope = fleet_scheme_detect(&pyroscope, options->url);
	wanted.scheme = push->is_pyroscope ? &pyroscope : &collector;
	if (!fleet_http_open(&wanted, &push->http, err))
		return false;
	const char *const path = fleet_http_path(push->http);
	if (path[0] != '\0' && !push->is_pyroscope)
		return fleet_http_refuse_url(
			wanted.scheme, "a collector has no path but /v1/pprof", err);
	if (!is_plain_path(path))
		return fleet_http_refuse_url(
			wanted.scheme, "a path has letters, digits and -._~ alone", err);
	*ret = TAKE(push);
	return true;
}

void pprof_push_close(struct pprof_push *push)
{
	if (push == NULL)
		return;
	fleet_http_close(push->http);
	free(push);
}

bool pprof_push_is_exposed(const struct pprof_push *push)
{
	return fleet_http_is_exposed(push->http);
}

const char *pprof_push_name(const struct pprof_push *push)
{
	return fleet_http_name(push->http);
}

static void append_service(struct buffer *out, const char *name)
{
	for (; *name != '\0'; name++) {
		const bool is_allowed = isalnum((unsigned char)*name) || strchr("-_.", *name);
		buffer_append_char(out, is_allowed ? *name : '_');
	}
}

static void append_label(
	struct buffer *out, const char **comma, const char *name, const char *value)
{
	/* Those are Pyroscope's own. */
	if (value[0] == '\0' || strncmp(name, "__", 2) == 0)
		return;
	buffer_printf(out, "%s%s=", *comma, name);
	for (; *value != '\0'; value++)
		buffer_append_char(out, strchr(",{}=\"", *value) != NULL ? '_' : *value);
	*comma = ",";
}

void pprof_push_append_series(struct buffer *out, const struct snapshot_identity *identity)
{
	const char *comma = "";

	append_service(out, identity->service);
	buffer_append_char(out, '{');
	append_label(out, &comma, "host", identity->host);
	append_label(out, &comma, "version", identity->version);
	for (size_t i = 0; i < identity->label_count; i++)
		append_label(out, &comma, identity->labels[i].name, identity->labels[i].value);
	buffer_append_char(out, '}');
}

static void add_comment(struct profile *profile, const char *name, const char *value)
{
	CLEANUP(free_cleanup) char *text = xasprintf("%s=%s", name, value);

	if (value[0] != '\0')
		profile_add_comment(profile, text, strlen(text));
}

/* What pprof has no field for, and the collector does not learn otherwise. */
static void add_comments(struct profile *profile, const struct snapshot_identity *identity)
{
	add_comment(profile, "service", identity->service);
	add_comment(profile, "version", identity->version);
	add_comment(profile, "host", identity->host);
	for (size_t i = 0; i < identity->label_count; i++)
		add_comment(profile, identity->labels[i].name, identity->labels[i].value);
}

static bool make_pprof(const struct fleet_snapshot *snapshot, const struct profile *profile,
	struct buffer *out, struct error *err)
{
	static const struct filter_text everything;
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	CLEANUP(profile_cleanup) struct profile *made = NULL;
	const struct view_input input = { .profile = profile };

	if (profile->kind != PROFILE_HEAP)
		return error_set(err, ERROR_UNSUPPORTED, "%s is no heap profile", profile->name);
	if (!filter_new(&everything, &filter, err))
		return false;
	const struct filtered_profile_request request = {
		.filter = filter,
		.counter = PROFILE_INUSE_SPACE,
		.pruning = PRUNE_ALLOCATOR,
	};
	if (!filtered_profile_make(&input, 1, &request, &made, err))
		return false;
	made->time_ms = snapshot->time_ms;
	add_comments(made, &snapshot->identity);
	return pprof_write(made, made->samples, made->sample_count, NULL, out, err);
}

struct post {
	struct pprof_push *push;
	char *path;
	struct buffer *body;
	bool is_refused;
};

static bool fail_by_status(struct post *post, long status, struct error *err)
{
	struct fleet_http *const http = post->push->http;
	CLEANUP(buffer_deinit) struct buffer line = BUFFER_OR_EXIT;
	const char *const text = buffer_string(fleet_http_answer(http));
	const size_t size = strcspn(text, "\r\n");

	utf8_append_printable(&line, text, size > 200 ? 200 : size);
	post->is_refused = status == 400 || status == 413 || status == 422;
	const bool is_temporary = status == 408 || status == 429 || status >= 500;
	const bool is_denied = status == 401 || status == 403;
	error_set(err,
		is_temporary ? ERROR_STATE
		: is_denied  ? ERROR_DENIED
			     : ERROR_INPUT,
		"%s answered %ld%s%s", fleet_http_name(http), status, line.size == 0 ? "" : ": ",
		buffer_string(&line));
	if (is_denied)
		return error_hint(err, "the password of the URL's user, or a token, is in the "
				       "file of --password-file");
	return post->is_refused || is_temporary
		       ? false
		       : error_hint(err, "is it %s?",
				 post->push->is_pyroscope ? "a Pyroscope"
							  : "the collector's receiver for pprof");
}

static bool attempt(void *context, struct error *err)
{
	static const char *const headers[] = { "Content-Type: application/octet-stream", NULL };
	struct post *const post = context;
	long status = 0;

	if (!fleet_http_post(post->push->http,
		    &(struct fleet_http_request){
			    .path = post->path,
			    .headers = headers,
			    .body = post->body->data,
			    .size = post->body->size,
			    .is_fresh = true,
			    .seconds = POST_SECONDS,
			    .limit = ANSWER_BYTES,
		    },
		    &status, err))
		return false;
	return (status >= 200 && status < 300) || fail_by_status(post, status, err);
}

static char *make_path(struct pprof_push *push, const struct fleet_snapshot *snapshot)
{
	CLEANUP(buffer_deinit) struct buffer series = BUFFER_OR_EXIT;

	if (!push->is_pyroscope)
		return xstrdup("/v1/pprof");
	pprof_push_append_series(&series, &snapshot->identity);
	CLEANUP(free_cleanup)
	char *name = fleet_http_escape(push->http, buffer_string(&series));
	return xasprintf("%s/ingest?name=%s&from=%" PRId64 "&until=%" PRId64
			 "&format=pprof&spyName=heapctl",
		fleet_http_path(push->http), name, snapshot->time_ms / 1000,
		snapshot->time_ms / 1000);
}

bool pprof_push_send(struct pprof_push *push, const struct fleet_retry *retry,
	const struct fleet_snapshot *snapshot, const struct profile *profile, bool *is_refused,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup) char *path = make_path(push, snapshot);
	struct post post = { .push = push, .path = path, .body = &body };

	*is_refused = true;
	if (!make_pprof(snapshot, profile, &body, err))
		return false;
	const bool is_done = fleet_retry_run(retry, attempt, &post, err);
	*is_refused = post.is_refused;
	return is_done;
}
