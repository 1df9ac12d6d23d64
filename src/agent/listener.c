/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/thread_names.h"
#include "base/clock.h"

enum { BACKLOG = 64 };

void listener_init(struct agent_listener *listener)
{
	*listener = (struct agent_listener){ .socket = DESCRIPTOR_NONE };
	pthread_mutex_init(&listener->lock, NULL);
}

void listener_deinit(struct agent_listener *listener)
{
	listener_close(listener);
	pthread_mutex_destroy(&listener->lock);
}

/* A folder's path may be longer than an address; then the way is through its descriptor. */
static bool make_address(const struct folder *folder, int folder_fd, const char *name,
	struct sockaddr_un *address, struct error *err)
{
	const size_t max = sizeof address->sun_path;

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int length = snprintf(address->sun_path, max, "%s/%s", folder->path, name);
	if ((size_t)length >= max)
		length = snprintf(
			address->sun_path, max, "/proc/thread-self/fd/%d/%s", folder_fd, name);
	if ((size_t)length >= max)
		return error_system(err, ENAMETOOLONG, "%s", folder->path);
	return true;
}

/*
 * It is the mode of the name, in a folder that other users cannot enter: a program may close our
 * descriptors at any time and open its own file under the number, which fchmod would change.
 */
static bool bind_and_listen(int fd, const struct sockaddr_un *address, const struct folder *folder,
	int folder_fd, const char *name, struct error *err)
{
	if (bind(fd, (const struct sockaddr *)address, sizeof *address) != 0)
		return error_system(err, errno, "creating a socket in %s", folder->path);
	if (fchmodat(folder_fd, name, 0600, 0) != 0)
		return error_system(err, errno, "the mode of the agent's socket");
	if (listen(fd, BACKLOG) != 0)
		return error_system(err, errno, "listening in %s", folder->path);
	return true;
}

/* Connects without waiting: 0, or an errno; *peer is the listener's pid, 0 when not known. */
static int probe(const struct folder *folder, int folder_fd, const char *name, pid_t *peer)
{
	struct sockaddr_un address;
	struct error ignored;
	struct ucred credentials;
	socklen_t size = sizeof credentials;
	CLEANUP(fd_cleanup)
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*peer = 0;
	if (fd < 0 || !make_address(folder, folder_fd, name, &address, &ignored))
		return EMFILE;
	if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
		return errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0)
		*peer = credentials.pid;
	return 0;
}

/* Whether another process, which has our pid in its pid namespace, listens there. */
static bool is_taken(const struct agent_listener *listener, int folder_fd)
{
	pid_t peer;
	const int errnum = probe(&listener->folder, folder_fd, listener->name, &peer);

	return (errnum == 0 && peer != getpid()) || errnum == EAGAIN;
}

/* The number of this process' pid namespace, or any other where there is no /proc. */
static uint64_t namespace_number(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino
						       : (uint64_t)clock_monotonic_ns();
}

/* "4711.sock"; "4711.4026532281.sock" while a process of another pid namespace has that name. */
static void choose_name(struct agent_listener *listener, int folder_fd)
{
	snprintf(listener->name, sizeof listener->name, "%d.sock", getpid());
	listener->shares_folder = is_taken(listener, folder_fd);
	if (listener->shares_folder)
		snprintf(listener->name, sizeof listener->name, "%d.%llu.sock", getpid(),
			(unsigned long long)namespace_number());
}

static bool publish(
	struct agent_listener *listener, int folder_fd, const char *temporary, struct error *err)
{
	struct stat status;

	choose_name(listener, folder_fd);
	if (renameat(folder_fd, temporary, folder_fd, listener->name) != 0 ||
		fstatat(folder_fd, listener->name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return error_system(err, errno, "%s/%s", listener->folder.path, listener->name);
	listener->device = status.st_dev;
	listener->inode = status.st_ino;
	const bool has_root = stat("/", &status) == 0;
	listener->root_device = has_root ? status.st_dev : 0;
	listener->root_inode = has_root ? status.st_ino : 0;
	listener->published = true;
	return true;
}

static bool open_in(struct agent_listener *listener, int folder_fd, struct error *err)
{
	char temporary[FOLDER_NAME_MAX];
	struct sockaddr_un address;
	struct descriptor own;

	folder_random_name(temporary);
	if (!make_address(&listener->folder, folder_fd, temporary, &address, err))
		return false;
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		error_system(err, errno, "making a socket");
		return (err->errnum == EPERM || err->errnum == EACCES) &&
		       error_hint(err, "its sandbox (seccomp) or a security module of the kernel "
				       "forbids that: profile it without the sandbox");
	}
	if (!descriptor_own(fd, &own, err))
		return false;
	if (bind_and_listen(own.fd, &address, &listener->folder, folder_fd, temporary, err) &&
		publish(listener, folder_fd, temporary, err)) {
		listener->socket = own;
		return true;
	}
	unlinkat(folder_fd, temporary, 0);
	descriptor_close(&own);
	return false;
}

struct sweep {
	const struct folder *folder;
	int folder_fd;
};

static const char *skip_digits(const char *text)
{
	while (*text >= '0' && *text <= '9')
		text++;
	return text;
}

/* "4711.sock", "4711.4026532281.sock": 4711; 0 for another name. */
static pid_t pid_of_name(const char *name)
{
	const char *end = skip_digits(name);

	if (end == name || end - name > 9)
		return 0;
	if (end[0] == '.' && end[1] >= '0' && end[1] <= '9')
		end = skip_digits(end + 1);
	return strcmp(end, ".sock") == 0 ? atoi(name) : 0;
}

/* Between bind() and its new name a socket does not listen. That never takes so long. */
enum { UNFINISHED_S = 10 };

/* A socket that still has the name it was bound to: its process ended before it could rename it. */
static bool is_unfinished(const struct sweep *sweep, const char *name, bool is_pid_gone)
{
	struct stat status;

	return fstatat(sweep->folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISSOCK(status.st_mode) &&
	       (is_pid_gone || clock_realtime_ms() / 1000 - status.st_ctim.tv_sec > UNFINISHED_S);
}

struct thread_search {
	int tasks;
	unsigned left; /* to be read */
	bool found;
};

static bool is_agent_thread(void *context, const char *thread)
{
	struct thread_search *const search = context;

	search->found = thread_names_is_agent(search->tasks, thread);
	return !search->found && --search->left > 0;
}

/* Of its first threads, where one that was started with the process is; also when it is unknown. */
static bool has_agent_thread(pid_t pid)
{
	struct thread_search search = { .left = 8 };
	struct error ignored;
	char path[32];

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	CLEANUP(fd_cleanup) const int tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	search.tasks = tasks;
	return tasks < 0 || !folder_list(tasks, is_agent_thread, &search, &ignored) || search.found;
}

/*
 * The kernel gives the first numbers once: outside of a container they are those of init and of the
 * kernel's threads, which never end.
 */
static bool is_another_process(pid_t pid)
{
	enum { RESERVED_PIDS = 300 };

	return pid < RESERVED_PIDS && pid != getpid() && !has_agent_thread(pid);
}

/*
 * The process may be of another pid namespace that shares the folder: so the socket is tried, too.
 * Those of living processes are not, as that would wake them up.
 */
static bool remove_if_dead(void *context, const char *name)
{
	const struct sweep *const sweep = context;
	const pid_t writer = folder_pid_of_random_name(name);
	const pid_t pid = writer > 0 ? writer : pid_of_name(name);
	pid_t peer;

	if (pid <= 0)
		return true;
	const bool is_pid_gone = (kill(pid, 0) != 0 && errno == ESRCH) || is_another_process(pid);
	if ((writer > 0 ? is_unfinished(sweep, name, is_pid_gone) : is_pid_gone) &&
		probe(sweep->folder, sweep->folder_fd, name, &peer) == ECONNREFUSED)
		unlinkat(sweep->folder_fd, name, 0);
	return true;
}

/* While no agent is just making a socket. */
static void remove_dead_names(const struct folder *folder, int folder_fd)
{
	struct sweep sweep = { .folder = folder, .folder_fd = folder_fd };
	struct error ignored;

	if (!folder_list(folder_fd, remove_if_dead, &sweep, &ignored)) {
		/* Some of them stay until the next agent. */
	}
}

bool listener_open(struct agent_listener *listener, const struct folder *folder, struct error *err)
{
	CLEANUP(fd_cleanup) int folder_fd = -1;

	descriptor_close(&listener->socket);
	if (!folder_open(folder, true, &folder_fd, err))
		return false;
	pthread_mutex_lock(&listener->lock);
	listener->folder = *folder;
	const bool is_alone = folder_lock(folder_fd);
	const bool done = open_in(listener, folder_fd, err);
	pthread_mutex_unlock(&listener->lock);
	if (is_alone) {
		remove_dead_names(folder, folder_fd);
		folder_unlock(folder_fd);
	}
	return done;
}

bool listener_is_open(const struct agent_listener *listener)
{
	return descriptor_is_ours(&listener->socket);
}

bool listener_is_lost(const struct agent_listener *listener)
{
	return listener->socket.fd >= 0 && !listener_is_open(listener);
}

void listener_path(struct agent_listener *listener, char *path, size_t size)
{
	pthread_mutex_lock(&listener->lock);
	if (listener->published)
		snprintf(path, size, "%s/%s", listener->folder.path, listener->name);
	else
		path[0] = '\0';
	pthread_mutex_unlock(&listener->lock);
}

static bool is_named(const struct agent_listener *listener, int folder_fd)
{
	struct stat status;

	return fstatat(folder_fd, listener->name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       status.st_dev == listener->device && status.st_ino == listener->inode;
}

static bool has_same_root(const struct agent_listener *listener)
{
	struct stat status;

	return stat("/", &status) == 0 && status.st_dev == listener->root_device &&
	       status.st_ino == listener->root_inode;
}

/* By its path, as clients do: the folder may be another one by now. */
static bool is_name_gone(const struct agent_listener *listener)
{
	char path[sizeof listener->folder.path + sizeof listener->name];
	struct stat status;

	snprintf(path, sizeof path, "%s/%s", listener->folder.path, listener->name);
	if (fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
	return status.st_dev != listener->device || status.st_ino != listener->inode;
}

bool listener_has_lost_name(struct agent_listener *listener)
{
	pthread_mutex_lock(&listener->lock);
	const bool has_lost =
		listener->published && has_same_root(listener) && is_name_gone(listener);
	pthread_mutex_unlock(&listener->lock);
	return has_lost;
}

static void unpublish(struct agent_listener *listener)
{
	struct error ignored;
	CLEANUP(fd_cleanup) int folder_fd = -1;

	if (!listener->published || !folder_open(&listener->folder, false, &folder_fd, &ignored))
		return;
	if (is_named(listener, folder_fd))
		unlinkat(folder_fd, listener->name, 0);
	listener->published = false;
}

void listener_close(struct agent_listener *listener)
{
	pthread_mutex_lock(&listener->lock);
	unpublish(listener);
	pthread_mutex_unlock(&listener->lock);
	/* A child may have inherited it: no client may wait in a queue that nothing reads. */
	if (descriptor_is_ours(&listener->socket))
		shutdown(listener->socket.fd, SHUT_RDWR);
	descriptor_close(&listener->socket);
}

static bool connect_self(const struct agent_listener *listener, struct error *err)
{
	struct sockaddr_un address;
	CLEANUP(fd_cleanup) int folder_fd = -1;
	CLEANUP(fd_cleanup)
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (!folder_open(&listener->folder, false, &folder_fd, err) ||
		!make_address(&listener->folder, folder_fd, listener->name, &address, err))
		return false;
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
		return true;
	/* A full queue wakes the thread, too; waiting for room in it would be a deadlock. */
	if (fd >= 0 && errno == EAGAIN)
		return true;
	return error_system(err, errno, "%s/%s", listener->folder.path, listener->name);
}

bool listener_connect_self(struct agent_listener *listener, struct error *err)
{
	pthread_mutex_lock(&listener->lock);
	const bool done = listener->published ? connect_self(listener, err)
					      : error_set(err, ERROR_STATE, "it has no socket");
	pthread_mutex_unlock(&listener->lock);
	return done;
}

int listener_accept(const struct agent_listener *listener)
{
	if (!listener_is_open(listener)) {
		errno = EBADF;
		return -1;
	}
	return accept4(listener->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool listener_peer_is_allowed(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}
