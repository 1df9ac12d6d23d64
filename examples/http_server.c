/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with libmicrohttpd that mounts the agent's requests (docs/protocol.md) at /heapctl: no
 * socket, no port of their own.
 *
 *	MALLOC_CONF=prof:true,prof_active:false ./http_server 8080 &
 *	curl -X POST localhost:8080/heapctl/v1/activate
 *	curl -o server.heap localhost:8080/heapctl/v1/profile
 *	heapctl report --flame server.heap -o server.html
 *
 * It listens on the loopback interface only: the program decides which clients may send requests.
 */
#include <arpa/inet.h>
#include <heapctl.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char mount[] = "/heapctl/";

/* What is remembered of a request until all of it is there. */
struct exchange {
	char *target; /* as it came: libmicrohttpd takes the query apart otherwise */
	char form[2048];
	size_t form_size;
	bool begun;
};

/* Called before anything else of a request; what it returns is the handler's `context`. */
static void *begin_exchange(void *unused, const char *uri, struct MHD_Connection *connection)
{
	struct exchange *const exchange = calloc(1, sizeof *exchange);

	(void)unused;
	(void)connection;
	if (exchange != NULL)
		exchange->target = strdup(uri);
	return exchange;
}

static void end_exchange(void *unused, struct MHD_Connection *connection, void **context,
	enum MHD_RequestTerminationCode why)
{
	struct exchange *const exchange = *context;

	(void)unused;
	(void)connection;
	(void)why;
	if (exchange != NULL)
		free(exchange->target);
	free(exchange);
}

static struct MHD_Response *respond_with_text(const char *text, size_t size)
{
	char *const copy = malloc(size + 1);

	if (copy == NULL)
		return NULL;
	memcpy(copy, text, size);
	return MHD_create_response_from_buffer(size, copy, MHD_RESPMEM_MUST_FREE);
}

/* A profile is a file, which libmicrohttpd sends and closes: it gets a descriptor of its own. */
static struct MHD_Response *respond_with(const struct heapctl_response *answer)
{
	if (answer->fd >= 0)
		return MHD_create_response_from_fd64(answer->body_size, dup(answer->fd));
	return respond_with_text(answer->body == NULL ? "" : answer->body, answer->body_size);
}

static enum MHD_Result send_response(struct MHD_Connection *connection, int status,
	const char *content_type, struct MHD_Response *response)
{
	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
	const enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result ask_agent(
	struct MHD_Connection *connection, const char *method, struct exchange *exchange)
{
	const struct heapctl_request request = { .size = sizeof request,
		.method = method,
		.target = exchange->target + strlen(mount) - 1,
		.form = exchange->form_size == 0 ? NULL : exchange->form };
	struct heapctl_response answer = { .size = sizeof answer };
	struct heapctl_error err;

	if (heapctl_handle(&request, &answer, &err) != HEAPCTL_OK)
		return send_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
			respond_with_text(err.message, strlen(err.message)));
	const enum MHD_Result result = send_response(
		connection, answer.status, answer.content_type, respond_with(&answer));
	heapctl_response_release(&answer);
	return result;
}

static enum MHD_Result handle(void *unused, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **context)
{
	static const char greeting[] = "Hello. My heap is at /heapctl/v1/status.\n";
	struct exchange *const exchange = *context;

	(void)unused;
	(void)version;
	if (exchange == NULL || exchange->target == NULL)
		return MHD_NO;
	/* First only the headers are there, then pieces of the body, at last nothing more. */
	if (!exchange->begun) {
		exchange->begun = true;
		return MHD_YES;
	}
	if (*upload_size > 0) {
		if (*upload_size >= sizeof exchange->form - exchange->form_size)
			return MHD_NO;
		memcpy(exchange->form + exchange->form_size, upload, *upload_size);
		exchange->form_size += *upload_size;
		*upload_size = 0;
		return MHD_YES;
	}
	if (strncmp(url, mount, strlen(mount)) == 0)
		return ask_agent(connection, method, exchange);
	return send_response(connection, MHD_HTTP_OK, "text/plain",
		respond_with_text(greeting, strlen(greeting)));
}

int main(int argc, char **argv)
{
	const struct heapctl_options options = { .size = sizeof options,
		.flags = HEAPCTL_NO_SOCKET };
	const struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(argc > 1 ? argv[1] : "8080")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct heapctl_error err;

	if (heapctl_start(&options, &err) != HEAPCTL_OK)
		fprintf(stderr, "no agent: %s\n", err.message);
	struct MHD_Daemon *const daemon =
		MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, NULL,
			MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_URI_LOG_CALLBACK, begin_exchange,
			NULL, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, NULL, MHD_OPTION_END);
	if (daemon == NULL) {
		perror("the HTTP server");
		return 1;
	}
	for (;;)
		pause();
}
