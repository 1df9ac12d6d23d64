/* SPDX-License-Identifier: Apache-2.0 */
/* What heapctl has in place of the parts that only heapctl-net and heapctl-fleet have. */
#include "cli/note_store.h"
#include "cli/program_files.h"
#include "cli/watch_session.h"
#include "client/stream_tls.h"
#include "gateway/serve.h"

bool serve_run(const struct serve_options *options, struct error *err)
{
	(void)options;
	return net_program_exec(err);
}

bool watch_session_run(const struct watch_options *options, struct error *err)
{
	(void)options;
	return net_program_exec(err);
}

bool note_store_run(const struct note_request *request, json_t **answer, struct error *err)
{
	(void)request;
	(void)answer;
	return net_program_exec(err);
}

struct stream_tls *stream_tls_new(
	int fd, const char *host, const char *authorities, struct error *err)
{
	(void)fd;
	(void)host;
	(void)authorities;
	if (!net_program_exec(err))
		error_prefix(err, "TLS");
	return NULL;
}

void stream_tls_free(struct stream_tls *tls)
{
	(void)tls;
}

enum stream_tls_result stream_tls_handshake(struct stream_tls *tls, struct error *err)
{
	(void)tls;
	error_set(err, ERROR_STATE, "no TLS here");
	return STREAM_TLS_FAILED;
}

enum stream_tls_result stream_tls_send(
	struct stream_tls *tls, const void *data, size_t size, size_t *sent, struct error *err)
{
	(void)data;
	(void)size;
	(void)sent;
	return stream_tls_handshake(tls, err);
}

enum stream_tls_result stream_tls_receive(
	struct stream_tls *tls, void *data, size_t size, size_t *got, struct error *err)
{
	(void)data;
	(void)size;
	(void)got;
	return stream_tls_handshake(tls, err);
}
