/* SPDX-License-Identifier: Apache-2.0 */
#include "client/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/user_name.h"
#include "client/stream_tls.h"

void stream_init(struct stream *stream, int64_t idle_ms, int64_t total_ms)
{
	*stream = (struct stream){
		.fd = -1,
		.cancel_fd = -1,
		.idle_ms = idle_ms,
		.deadline_ms = clock_monotonic_ms() + total_ms,
	};
}

void stream_close(struct stream *stream)
{
	stream_tls_free(stream->tls);
	stream->tls = NULL;
	fd_cleanup(&stream->fd);
	stream->fd = -1;
}

/* Waits until the descriptor can be read or written. */
static bool wait_for(struct stream *stream, short events, struct error *err)
{
	int64_t left_ms = stream->deadline_ms - clock_monotonic_ms();

	if (left_ms > stream->idle_ms)
		left_ms = stream->idle_ms;
	struct pollfd pollers[] = {
		{ .fd = stream->fd, .events = events },
		{ .fd = stream->cancel_fd, .events = POLLIN },
	};
	const int64_t end_ms = clock_monotonic_ms() + left_ms;
	while (left_ms > 0) {
		const bool is_part = stream->check != NULL && stream->check_ms < left_ms;
		const int count = poll(pollers, 2, (int)(is_part ? stream->check_ms : left_ms));
		if (count > 0 && pollers[1].revents != 0)
			return error_set(err, ERROR_TIMEOUT, "%s: cancelled", stream->peer);
		if (count > 0)
			return true;
		if (count < 0 && errno != EINTR)
			return error_system(err, errno, "%s: waiting", stream->peer);
		if (count == 0 && is_part && !stream->check(stream->check_context, err))
			return false;
		left_ms = end_ms - clock_monotonic_ms();
	}
	error_set(err, ERROR_TIMEOUT, "%s: no answer in time", stream->peer);
	err->errnum = ETIMEDOUT;
	return error_hint(err, "it is overloaded, stopped or hangs; try again later");
}

static bool finish_connect(struct stream *stream, struct error *err)
{
	int problem = 0;
	socklen_t size = sizeof problem;

	if (!wait_for(stream, POLLOUT, err))
		return false;
	getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &problem, &size);
	if (problem != 0)
		return error_system(err, problem, "connecting to %s", stream->peer);
	return true;
}

/* A path may be longer than a socket address; through a descriptor of its folder it is short. */
static bool unix_address(const char *path, bool by_folder, int *folder_fd,
	struct sockaddr_un *address, struct error *err)
{
	const char *const name = path_base_name(path);
	char folder[4096] = ".";

	address->sun_family = AF_UNIX;
	if (!by_folder && strlen(path) < sizeof address->sun_path) {
		strcpy(address->sun_path, path);
		return true;
	}
	if (name != path)
		snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
	*folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*folder_fd < 0)
		return error_system(err, errno, "%s", path);
	const int length = snprintf(address->sun_path, sizeof address->sun_path,
		"/proc/self/fd/%d/%s", *folder_fd, name);
	if ((size_t)length >= sizeof address->sun_path)
		return error_system(err, ENAMETOOLONG, "%s", path);
	return true;
}

/* Of this thread alone: the C library's function is of all threads. */
static bool set_effective_user(uid_t user)
{
	return syscall(SYS_setresuid, (uid_t)-1, user, (uid_t)-1) == 0;
}

/* EAGAIN: the queue of the listener is full; it is worth a few more tries. */
static int connect_patiently(int fd, const struct sockaddr_un *address)
{
	for (int attempt = 0; attempt < 50; attempt++) {
		if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
			return 0;
		if (errno != EAGAIN)
			break;
		poll(NULL, 0, 20);
	}
	return errno;
}

/* What a change of the user takes from the process is given back. 0, or an errno. */
static int connect_as(int fd, const struct sockaddr_un *address, uid_t user)
{
	const uid_t own = geteuid();
	const int dumpable = prctl(PR_GET_DUMPABLE);
	int death_signal = 0;

	prctl(PR_GET_PDEATHSIG, &death_signal);
	if (!set_effective_user(user))
		return errno;
	const int errnum = connect_patiently(fd, address);
	if (!set_effective_user(own))
		abort();
	if (dumpable == 1)
		prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, death_signal);
	return errnum;
}

static bool fail_connect(int errnum, const char *path, struct error *err)
{
	error_system(err, errnum, "%s", path);
	if (errnum == ENOENT || errnum == ECONNREFUSED || errnum == ENOTDIR)
		err->kind = ERROR_NOT_FOUND;
	if (errnum != EACCES && errnum != EPERM)
		return false;
	err->kind = ERROR_DENIED;
	return error_hint(err, "run heapctl as the user that it belongs to or as root");
}

bool stream_connect_unix_as(struct stream *stream, const char *path, uid_t user, struct error *err)
{
	struct sockaddr_un address = { 0 };
	CLEANUP(fd_cleanup) int folder_fd = -1;
	const bool is_other = user != USER_ANY;

	snprintf(stream->peer, sizeof stream->peer, "%s", path);
	/* The other user may enter less of the path than this one. */
	if (!unix_address(path, is_other, &folder_fd, &address, err))
		return fail_connect(err->errnum, path, err);
	stream->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (stream->fd < 0)
		return error_system(err, errno, "making a socket");
	const int errnum = is_other ? connect_as(stream->fd, &address, user)
				    : connect_patiently(stream->fd, &address);
	return errnum == 0 || fail_connect(errnum, path, err);
}

bool stream_connect_unix(struct stream *stream, const char *path, struct error *err)
{
	return stream_connect_unix_as(stream, path, USER_ANY, err);
}

static void free_addresses(struct addrinfo **addresses)
{
	if (*addresses != NULL)
		freeaddrinfo(*addresses);
}

/* What to do about it, for the person at the command line. */
static bool advise(struct error *err)
{
	switch (err->errnum) {
	case ECONNREFUSED:
		return error_hint(err, "nothing listens there: check the host and the port, and "
				       "that heapctl serve or the server runs");
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ETIMEDOUT:
		return error_hint(err, "check the host, the network and its firewalls");
	default:
		break;
	}
	return false;
}

static bool explain_lookup(const char *host, const char *port, int problem, struct error *err)
{
	if (problem == EAI_SERVICE) {
		error_set(err, ERROR_USAGE, "'%s' is not a port", port);
		return error_hint(err, "a port is a number from 1 to 65535");
	}
	error_set(
		err, ERROR_NOT_FOUND, "finding the address of %s: %s", host, gai_strerror(problem));
	return error_hint(err, "check the host's name and the name server");
}

static bool connect_address(
	struct stream *stream, const struct addrinfo *address, struct error *err)
{
	fd_cleanup(&stream->fd);
	stream->fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		address->ai_protocol);
	if (stream->fd < 0)
		return error_system(err, errno, "making a socket");
	if (connect(stream->fd, address->ai_addr, address->ai_addrlen) == 0)
		return true;
	if (errno != EINPROGRESS)
		return error_system(err, errno, "connecting to %s", stream->peer);
	return finish_connect(stream, err);
}

bool stream_connect_tcp(
	struct stream *stream, const char *host, const char *port, struct error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	CLEANUP(free_addresses) struct addrinfo *addresses = NULL;

	snprintf(stream->peer, sizeof stream->peer, "%s:%s", host, port);
	const int problem = getaddrinfo(host, port, &hints, &addresses);
	if (problem != 0)
		return explain_lookup(host, port, problem, err);
	for (const struct addrinfo *a = addresses; a != NULL; a = a->ai_next) {
		if (connect_address(stream, a, err))
			return true;
	}
	return advise(err);
}

bool stream_start_tls(
	struct stream *stream, const char *host, const char *authorities, struct error *err)
{
	stream->tls = stream_tls_new(stream->fd, host, authorities, err);
	if (stream->tls == NULL)
		return error_prefix(err, "%s", stream->peer);
	for (;;) {
		switch (stream_tls_handshake(stream->tls, err)) {
		case STREAM_TLS_DONE:
			return true;
		case STREAM_TLS_WANTS_READ:
			if (!wait_for(stream, POLLIN, err))
				return false;
			break;
		case STREAM_TLS_WANTS_WRITE:
			if (!wait_for(stream, POLLOUT, err))
				return false;
			break;
		case STREAM_TLS_FAILED:
			return error_prefix(err, "%s", stream->peer);
		}
	}
}

static enum stream_tls_result send_some(
	struct stream *stream, const char *data, size_t size, size_t *sent, struct error *err)
{
	if (stream->tls != NULL)
		return stream_tls_send(stream->tls, data, size, sent, err);
	const ssize_t count = send(stream->fd, data, size, MSG_NOSIGNAL);
	if (count >= 0) {
		*sent = (size_t)count;
		return STREAM_TLS_DONE;
	}
	if (errno == EAGAIN || errno == EINTR)
		return STREAM_TLS_WANTS_WRITE;
	error_system(err, errno, "sending");
	return STREAM_TLS_FAILED;
}

bool stream_write(struct stream *stream, const void *data, size_t size, struct error *err)
{
	const char *at = data;

	while (size > 0) {
		size_t sent = 0;
		const enum stream_tls_result result = send_some(stream, at, size, &sent, err);
		if (result == STREAM_TLS_FAILED)
			return error_prefix(err, "%s", stream->peer);
		if (result != STREAM_TLS_DONE) {
			const short events = result == STREAM_TLS_WANTS_READ ? POLLIN : POLLOUT;
			if (!wait_for(stream, events, err))
				return false;
		}
		at += sent;
		size -= sent;
	}
	return true;
}

static enum stream_tls_result receive_some(
	struct stream *stream, void *data, size_t size, size_t *got, struct error *err)
{
	if (stream->tls != NULL)
		return stream_tls_receive(stream->tls, data, size, got, err);
	const ssize_t count = recv(stream->fd, data, size, 0);
	if (count >= 0) {
		*got = (size_t)count;
		return STREAM_TLS_DONE;
	}
	if (errno == EAGAIN || errno == EINTR)
		return STREAM_TLS_WANTS_READ;
	error_system(err, errno, "receiving");
	return STREAM_TLS_FAILED;
}

bool stream_read(struct stream *stream, void *data, size_t size, size_t *got, struct error *err)
{
	for (;;) {
		const enum stream_tls_result result = receive_some(stream, data, size, got, err);
		if (result == STREAM_TLS_DONE)
			return true;
		if (result == STREAM_TLS_FAILED)
			return error_prefix(err, "%s", stream->peer);
		const short events = result == STREAM_TLS_WANTS_WRITE ? POLLOUT : POLLIN;
		if (!wait_for(stream, events, err))
			return false;
	}
}
