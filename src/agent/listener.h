/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket that clients connect to: FOLDER/PID.sock, mode 0600. It is made under a name of its
 * own and renamed when it listens, so a client that sees it can connect. While a process of another
 * pid namespace with the same pid listens there, which may be when containers share a folder, it is
 * FOLDER/PID.NAMESPACE.sock.
 */
#pragma once

#include <pthread.h>

#include "agent/descriptor.h"
#include "agent/folder.h"

struct agent_listener {
	struct descriptor socket;
	/* Where it is to be found; under the lock. */
	pthread_mutex_t lock;
	struct folder folder;
	char name[48];
	bool shares_folder; /* another process has PID.sock */
	uint64_t device;
	uint64_t inode;
	/* The root directory then: under another one the path is another, too. */
	uint64_t root_device;
	uint64_t root_inode;
	bool published;
};

void listener_init(struct agent_listener *listener);
void listener_deinit(struct agent_listener *listener);

/*
 * Listens, replacing an earlier socket of this listener. Removes the names that killed processes
 * left in the folder.
 */
MUST_CHECK bool listener_open(
	struct agent_listener *listener, const struct folder *folder, struct error *err);

/* Whether the socket is there and still ours. */
bool listener_is_open(const struct agent_listener *listener);

/* Whether it was open and the number refers to another file now. */
bool listener_is_lost(const struct agent_listener *listener);

/*
 * Whether its name is gone, or refers to another file now. False where the process cannot see
 * it, after a change of its user or its root: other processes still reach the socket there.
 */
bool listener_has_lost_name(struct agent_listener *listener);

/* The path that clients find it at, or "" while there is none. Any thread. */
void listener_path(struct agent_listener *listener, char *path, size_t size);

/* Stops listening and removes the name. */
void listener_close(struct agent_listener *listener);

/* Connects to the socket by its name and closes: a thread that waits for a client wakes up. */
MUST_CHECK bool listener_connect_self(struct agent_listener *listener, struct error *err);

/*
 * The next waiting client, or -1 with errno. The descriptor is close-on-exec and non-blocking.
 */
int listener_accept(const struct agent_listener *listener);

/* Whether the peer of a connection is root or the user that this process runs as now. */
bool listener_peer_is_allowed(int fd);
