/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with an event loop of its own: the agent lives in it, without a thread.
 *
 *	MALLOC_CONF=prof:true,prof_active:false ./event_loop 7000 &
 *	heapctl record event_loop --duration 30s -o loop.heap
 *
 * It keeps every line that a client sends, and answers with the number of lines that it has.
 */
#include <arpa/inet.h>
#include <heapctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct line {
	struct line *next;
	char text[];
};

static struct line *lines;
static unsigned line_count;

static void keep_line(const char *text, size_t size)
{
	struct line *const line = malloc(sizeof *line + size + 1);

	if (line == NULL)
		return;
	memcpy(line->text, text, size);
	line->text[size] = '\0';
	line->next = lines;
	lines = line;
	line_count++;
}

static void log_to_stderr(void *context, int level, const char *message)
{
	(void)context;
	(void)level;
	fprintf(stderr, "%s\n", message);
}

/* The program works without the agent; that it does not profile is worth a line. */
static void start_agent(void)
{
	const struct heapctl_options options = { .size = sizeof options,
		.flags = HEAPCTL_NO_THREAD | HEAPCTL_NOT_IN_CHILDREN,
		.log = log_to_stderr };
	struct heapctl_status status = { .size = sizeof status };
	struct heapctl_error err;

	if (heapctl_start(&options, &err) != HEAPCTL_OK ||
		heapctl_get_status(&status, &err) != HEAPCTL_OK)
		fprintf(stderr, "no agent: %s\n", err.message);
	else if (status.available)
		fprintf(stderr, "profiling: %s %s\n", status.allocator, status.version);
	else
		fprintf(stderr, "no profiling: %s (%s)\n", status.reason, status.hint);
}

static int listen_on(const char *port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
		bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
		listen(fd, 16) != 0) {
		perror("listening");
		exit(1);
	}
	return fd;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		perror("epoll_ctl");
}

static void serve_client(int fd)
{
	char text[4096], answer[32];
	const ssize_t size = read(fd, text, sizeof text);

	if (size > 0) {
		keep_line(text, (size_t)size);
		const int length = snprintf(answer, sizeof answer, "%u\n", line_count);
		if (write(fd, answer, (size_t)length) == length)
			return;
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const int listener = listen_on(argc > 1 ? argv[1] : "7000");
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	start_agent();
	const int agent = heapctl_get_fd();
	watch(epoll, agent);
	watch(epoll, listener);
	while (epoll_wait(epoll, &event, 1, -1) != 0) {
		if (event.data.fd == agent)
			heapctl_process(NULL);
		else if (event.data.fd == listener)
			watch(epoll, accept(listener, NULL, NULL));
		else
			serve_client(event.data.fd);
	}
	return 0;
}
