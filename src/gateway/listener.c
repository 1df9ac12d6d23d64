/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { BACKLOG = 256 };

static bool is_loopback(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *const in = (const void *)address;
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	}
	const struct sockaddr_in6 *const in6 = (const void *)address;
	return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) && in6->sin6_addr.s6_addr[12] == 127);
}

static void describe_tcp(struct listener *listener, const struct sockaddr_storage *address)
{
	char host[INET6_ADDRSTRLEN] = "?";

	listener->is_private = is_loopback(address);
	if (address->ss_family == AF_INET) {
		const struct sockaddr_in *const in = (const void *)address;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		snprintf(listener->where, sizeof listener->where, "%s:%d", host,
			ntohs(in->sin_port));
		return;
	}
	const struct sockaddr_in6 *const in6 = (const void *)address;
	inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
	snprintf(listener->where, sizeof listener->where, "[%s]:%d", host, ntohs(in6->sin6_port));
}

/* Whether its file's mode excludes other users; an abstract socket has no file and is open to all.
 */
static bool is_restricted(const char *path)
{
	struct stat status;

	return *path != '\0' && stat(path, &status) == 0 && (status.st_mode & S_IWOTH) == 0;
}

bool listener_adopt(int fd, struct listener *listener, struct error *err)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof address;
	int is_listening = 0;
	socklen_t flag_size = sizeof is_listening;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &flag_size) != 0)
		return error_system(err, errno, "descriptor %d is not a socket", fd);
	if (!is_listening)
		return error_set(err, ERROR_INPUT, "the socket %d does not listen", fd);
	if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		return error_system(err, errno, "reading the port of a socket");
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	*listener = (struct listener){ .fd = fd };
	switch (address.ss_family) {
	case AF_UNIX:
		listener->is_unix = true;
		listener->is_private = is_restricted(
			((const struct sockaddr_un *)(const void *)&address)->sun_path);
		snprintf(listener->where, sizeof listener->where, "%s",
			((const struct sockaddr_un *)(const void *)&address)->sun_path);
		return true;
	case AF_INET:
	case AF_INET6:
		describe_tcp(listener, &address);
		return true;
	default:
		return error_set(err, ERROR_UNSUPPORTED, "the socket %d is of an unknown kind", fd);
	}
}

/* An existing file may be replaced only when it is a socket without a listener. */
static bool check_way(const char *path, const struct sockaddr_un *address, struct error *err)
{
	struct stat status;

	if (lstat(path, &status) != 0)
		return errno == ENOENT || error_system(err, errno, "%s", path);
	if (!S_ISSOCK(status.st_mode)) {
		error_set(err, ERROR_STATE, "%s exists and is not a socket", path);
		return error_hint(err, "use another path, or remove that file");
	}
	CLEANUP(fd_cleanup) int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return error_system(err, errno, "making a socket");
	if (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0) {
		error_set(err, ERROR_STATE, "%s: another process listens there", path);
		return error_hint(err, "use another path, or end that process");
	}
	return errno == ECONNREFUSED || error_system(err, errno, "%s", path);
}

static bool open_unix(const char *path, struct listener *listener, struct error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct sockaddr_un temporary = { .sun_family = AF_UNIX };

	if (*path == '\0') {
		error_set(err, ERROR_USAGE, "unix: has no path");
		return error_hint(err, "write unix:PATH, such as unix:/run/heapctl.sock");
	}
	/* Room for the suffix of the temporary name. */
	if (strlen(path) + 12 >= sizeof address.sun_path) {
		error_set(err, ERROR_USAGE, "%s: the path is too long for a socket", path);
		return error_hint(
			err, "use one of at most %zu bytes", sizeof address.sun_path - 13);
	}
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	snprintf(temporary.sun_path, sizeof temporary.sun_path, "%s.%d", path, (int)getpid());
	if (!check_way(path, &address, err))
		return false;
	CLEANUP(fd_cleanup) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_system(err, errno, "making a socket");
	const mode_t mask = umask(0177);
	const int bound = bind(fd, (const struct sockaddr *)&temporary, sizeof temporary);
	const int bind_errno = errno;
	umask(mask);
	if (bound != 0)
		return error_system(err, bind_errno, "listening on %s", path);
	if (listen(fd, BACKLOG) != 0 || rename(temporary.sun_path, path) != 0) {
		error_system(err, errno, "listening on %s", path);
		unlink(temporary.sun_path);
		return false;
	}
	if (!listener_adopt(fd, listener, err))
		return false;
	listener->is_private = true;
	snprintf(listener->where, sizeof listener->where, "%s", path);
	snprintf(listener->socket_path, sizeof listener->socket_path, "%s", path);
	(void)TAKE_FD(fd);
	return true;
}

static bool is_port(const char *text)
{
	const size_t digits = strspn(text, "0123456789");

	/* getaddrinfo(3) takes the rest of a number that is too large. */
	return *text != '\0' &&
	       (text[digits] != '\0' || (digits <= 5 && strtol(text, NULL, 10) <= 65535));
}

/* Splits "HOST:PORT" into the caller's copy. */
static bool split_address(char *text, const char **host, const char **port, struct error *err)
{
	char *const colon = strrchr(text, ':');
	char *const bracket = strchr(text, ']');

	*port = colon == NULL ? text : colon + 1;
	if (!is_port(*port) || (colon == NULL && text[strspn(text, "0123456789")] != '\0')) {
		if (**port != '\0' && (*port)[strspn(*port, "0123456789")] == '\0')
			error_set(err, ERROR_USAGE, "the port of '%s' is too large", text);
		else
			error_set(err, ERROR_USAGE, "the address '%s' has no port", text);
		return error_hint(err, "write HOST:PORT, with a port from 0 to 65535");
	}
	*host = colon == NULL ? "127.0.0.1" : *text == ':' && colon == text ? NULL : text;
	if (colon == NULL)
		return true;
	if (*text == '[' ? bracket == NULL || bracket + 1 != colon
			 : memchr(text, ':', (size_t)(colon - text)) != NULL) {
		error_set(err, ERROR_USAGE, "the address '%s' has more than one ':'", text);
		return error_hint(err, "write an IPv6 address in brackets: [::1]:7070");
	}
	*colon = '\0';
	if (*text == '[') {
		*bracket = '\0';
		*host = text + 1;
	}
	return true;
}

static bool explain_bind(int errnum, struct error *err)
{
	error_system(err, errnum, "listening");
	if (errnum == EADDRINUSE)
		return error_hint(err, "another process listens there: use another port");
	if (errnum == EADDRNOTAVAIL)
		return error_hint(err, "use an address of this machine");
	if (errnum == EACCES)
		return error_hint(err, "use a port from 1024 on, or run heapctl as root");
	return false;
}

static bool bind_tcp(const struct addrinfo *candidate, struct listener *listener, struct error *err)
{
	const int yes = 1, no = 0;
	CLEANUP(fd_cleanup)
	int fd = socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC, candidate->ai_protocol);

	if (fd < 0)
		return error_system(err, errno, "making a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (candidate->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
	if (bind(fd, candidate->ai_addr, candidate->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
		return explain_bind(errno, err);
	if (!listener_adopt(fd, listener, err))
		return false;
	(void)TAKE_FD(fd);
	return true;
}

static bool open_tcp(const char *address, struct listener *listener, struct error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *candidates = NULL;
	const char *host = NULL, *port = NULL;
	char text[256];

	if (strlen(address) >= sizeof text)
		return error_set(err, ERROR_USAGE, "the address is too long");
	snprintf(text, sizeof text, "%s", address);
	if (!split_address(text, &host, &port, err))
		return false;
	const int failure = getaddrinfo(host, port, &hints, &candidates);
	if (failure == EAI_SERVICE) {
		error_set(err, ERROR_USAGE, "the address '%s' has no port: '%s' is not a number",
			address, port);
		return error_hint(err, "write HOST:PORT, with a port from 0 to 65535");
	}
	if (failure != 0) {
		error_set(err, ERROR_USAGE, "finding the address of '%s': %s",
			host == NULL ? "*" : host, gai_strerror(failure));
		return error_hint(
			err, "use an address of this machine, such as 127.0.0.1:%s", port);
	}
	/* All addresses means IPv6 with IPv4 in it where the kernel has both. */
	const bool prefers_v6 = host == NULL;
	bool ok = false;
	for (int round = 0; round < 2 && !ok; round++) {
		for (struct addrinfo *each = candidates; each != NULL && !ok; each = each->ai_next)
			ok = (each->ai_family == AF_INET6) == (prefers_v6 == (round == 0)) &&
			     bind_tcp(each, listener, err);
	}
	freeaddrinfo(candidates);
	return ok || error_prefix(err, "%s", address);
}

bool listener_open(const char *address, struct listener *listener, struct error *err)
{
	if (strncmp(address, "unix:", 5) == 0)
		return open_unix(address + 5, listener, err);
	if (*address == '/' || *address == '.')
		return open_unix(address, listener, err);
	return open_tcp(address, listener, err);
}

int listener_inherited_count(void)
{
	const char *const pid = getenv("LISTEN_PID");
	const char *const count = getenv("LISTEN_FDS");

	/* sd_listen_fds(3): the descriptors are for the process that LISTEN_PID names. */
	if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != (long)getpid())
		return 0;
	const long number = strtol(count, NULL, 10);
	return number < 0 ? 0 : number > LISTENERS_MAX ? LISTENERS_MAX : (int)number;
}

void listener_close(struct listener *listener)
{
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->socket_path[0] != '\0')
		unlink(listener->socket_path);
	listener->fd = -1;
	listener->socket_path[0] = '\0';
}
