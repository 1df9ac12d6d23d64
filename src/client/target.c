/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

/* The process that called listen() on the other end, as the kernel noted. */
static bool read_peer(const struct stream *stream, struct ucred *peer, struct error *err)
{
	socklen_t size = sizeof *peer;

	if (getsockopt(stream->fd, SOL_SOCKET, SO_PEERCRED, peer, &size) != 0)
		return error_system(err, errno, "%s: reading the user of the socket", stream->peer);
	return true;
}

static bool is_user_of(const struct process *process, uid_t user)
{
	return user == process->uid || user == process->effective_uid;
}

/* A server that acts for one user after another (seteuid) may do so at any moment. */
static bool becomes_user(pid_t pid, uid_t user)
{
	enum { WATCH_MS = 500, LOOK_US = 500 };
	const int64_t until_ms = clock_monotonic_ms() + WATCH_MS;
	struct process process;
	struct error ignored;

	while (clock_monotonic_ms() < until_ms && process_read(pid, &process, &ignored)) {
		if (is_user_of(&process, user))
			return true;
		clock_sleep_us(LOOK_US);
	}
	return false;
}

static bool is_trusted(const struct ucred *peer, const struct process *process, uid_t owner)
{
	if (peer->uid == 0 || peer->uid == geteuid())
		return true;
	if (process->pid != 0)
		return is_user_of(process, peer->uid) || becomes_user(process->pid, peer->uid);
	/* Root may use any user's agent, as long as its socket is that user's own. */
	return geteuid() == 0 && peer->uid == owner;
}

static bool check_peer(const struct stream *stream, const char *path, const struct process *process,
	struct error *err)
{
	struct stat status;
	struct ucred peer;

	if (!read_peer(stream, &peer, err))
		return false;
	if (process->pid != 0 && peer.pid != process->pid) {
		error_set(err, ERROR_DENIED, "%s: process %d listens there, not %d", path,
			(int)peer.pid, (int)process->pid);
		return error_hint(err, "two containers share the folder, or another user put it "
				       "there: heapctl ps lists the agents that answer");
	}
	if (lstat(path, &status) != 0)
		return error_system(err, errno, "%s", path);
	if (is_trusted(&peer, process, status.st_uid))
		return true;
	error_set(err, ERROR_DENIED, "%s: the socket belongs to untrusted user %u", path, peer.uid);
	return error_hint(err, "run heapctl as that user to talk to it");
}

static bool shares_users(pid_t pid)
{
	char path[32];
	struct stat own, its;

	snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
	return stat("/proc/self/ns/user", &own) != 0 || stat(path, &its) != 0 ||
	       (own.st_ino == its.st_ino && own.st_dev == its.st_dev);
}

/* A namespace may have no number for root, and its agents take no unknown user. */
static uid_t user_to_connect_as(const struct process *process)
{
	const bool needs_other = geteuid() == 0 && process->pid != 0 &&
				 process->effective_uid != 0 && !shares_users(process->pid);

	return needs_other ? process->effective_uid : USER_ANY;
}

bool target_connect_socket(const struct target *target, struct stream *stream, struct error *err)
{
	const uid_t user = user_to_connect_as(&target->process);

	if (stream_connect_unix_as(stream, target->socket_path, user, err))
		return check_peer(stream, target->socket_path, &target->process, err);
	if (user != USER_ANY && err->errnum == EPERM) {
		error_set(err, ERROR_DENIED,
			"%s is in a user namespace that does not know root, and this root may not "
			"become user %u",
			target->label, user);
		return error_hint(err, "give heapctl CAP_SETUID");
	}
	/* Its queue is full: it has not taken a connection for long. */
	if (err->errnum == EAGAIN && target->process.pid != 0 &&
		process_explain_silence(
			&(struct process_watch){ .process = &target->process }, err))
		error_set(err, ERROR_TIMEOUT, "%s takes no connections: its agent is busy or hangs",
			target->label);
	return false;
}

void target_set_names(struct target *target)
{
	const struct process *const process = &target->process;

	snprintf(target->label, sizeof target->label, "%s[%d]", process->name, (int)process->pid);
	snprintf(target->file_stem, sizeof target->file_stem, "%s.%d", process->name,
		(int)process->pid);
	for (char *c = target->file_stem; *c != '\0'; c++) {
		if (*c == '/' || *c == ' ' || (unsigned char)*c < 0x20)
			*c = '_';
	}
	if (target->file_stem[0] == '.' || target->file_stem[0] == '-')
		target->file_stem[0] = '_';
}

/*
 * A socket is named after the inner pid of its process; /proc may have more. Where it does not, the
 * process belongs to the user of the listening socket.
 */
static void learn_process(const struct stream *stream, struct target *target)
{
	struct ucred peer;
	struct error err;

	target->process = (struct process){ .name = "process" };
	target->owner = USER_ANY;
	if (!read_peer(stream, &peer, &err))
		return;
	target->owner = peer.uid;
	if (peer.pid == 0)
		return;
	if (!process_read(peer.pid, &target->process, &err)) {
		target->process = (struct process){ .name = "process", .pid = peer.pid };
	} else if (peer.uid == 0 || peer.uid == target->process.uid ||
		   peer.uid == target->process.effective_uid) {
		target->owner = target->process.uid;
	} else {
		/* The number is another user's process by now: a child kept the socket. */
		target->process = (struct process){ .name = "process" };
	}
}

/* The kind of file (S_IFMT) at the path, links followed; 0 when there is none. */
static mode_t file_kind(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

static bool refuse_file(const char *path, struct error *err)
{
	error_set(err, ERROR_USAGE, "%s is not a socket", path);
	return error_hint(
		err, file_kind(path) == S_IFDIR
			     ? "heapctl trend takes a folder"
			     : "heapctl report shows a file; heapctl ps lists the targets");
}

/* A file without a '/' in its name, such as a profile; programs may be started later. */
static bool is_plain_file(const char *name)
{
	struct process process;
	struct error ignored;

	return file_kind(name) == S_IFREG && access(name, X_OK) != 0 &&
	       !process_find(name, &process, &ignored) && ignored.kind == ERROR_NOT_FOUND;
}

bool target_check_path(const char *text, struct error *err)
{
	if (strchr(text, '/') == NULL)
		return !is_plain_file(text) || refuse_file(text, err);
	const mode_t kind = file_kind(text);
	return kind == 0 || kind == S_IFSOCK || refuse_file(text, err);
}

bool target_of_socket(const char *path, struct target *target, struct error *err)
{
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };
	struct target found = { .kind = TARGET_AGENT };

	stream_init(&stream, TARGET_PROBE_MS, TARGET_PROBE_MS);
	if (!stream_connect_unix(&stream, path, err)) {
		if (err->errnum == EAGAIN) {
			error_set(err, ERROR_TIMEOUT, "%s takes no connections", path);
			error_hint(err, "its process hangs or is stopped; "
					"heapctl status PID shows which");
		}
		if (err->errnum == ECONNREFUSED && file_kind(path) != S_IFSOCK)
			return refuse_file(path, err);
		if (err->errnum == ECONNREFUSED) {
			error_set(err, ERROR_NOT_FOUND, "%s: no process listens there any more",
				path);
			error_hint(err, "its process has ended; heapctl ps lists the targets");
		}
		if (err->errnum == ENOENT || err->errnum == ENOTDIR)
			error_hint(err, "heapctl ps lists the targets");
		return false;
	}
	if (!check_peer(&stream, path, &found.process, err))
		return false;
	learn_process(&stream, &found);
	snprintf(found.socket_path, sizeof found.socket_path, "%s", path);
	target_set_names(&found);
	*target = found;
	return true;
}

void target_set_gateway_names(struct target *target)
{
	const char *const name = strrchr(target->url.prefix, '/');

	snprintf(target->label, sizeof target->label, "%.60s:%s%.50s", target->url.host,
		target->url.port, target->url.prefix);
	snprintf(target->file_stem, sizeof target->file_stem, "%.100s",
		name == NULL ? target->url.host : name + 1);
	for (char *c = target->file_stem; *c != '\0'; c++) {
		if (strchr("/ %:", *c) != NULL)
			*c = '_';
	}
	if (target->file_stem[0] == '.' || target->file_stem[0] == '-')
		target->file_stem[0] = '_';
}

bool target_parse_url(const char *url, struct target *target, struct error *err)
{
	struct target found = { .kind = TARGET_GATEWAY };

	if (!gateway_url_parse(url, &found.url, err))
		return false;
	target_set_gateway_names(&found);
	*target = found;
	return true;
}

bool socket_address_detect(const char *text)
{
	return strncmp(text, TARGET_SOCKET_SCHEME, strlen(TARGET_SOCKET_SCHEME)) == 0 &&
	       strchr(text, '/') != NULL;
}
