/* SPDX-License-Identifier: Apache-2.0 */
/* An agent for unit tests: a child process that answers each client with the same bytes. */
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/target.h"
#include "unit.h"

struct canned_agent {
	char folder[32];
	struct target target;
	pid_t pid;
};

static inline void canned_agent_serve(int listener, const char *head, size_t body_bytes)
{
	char bytes[4096];

	for (;;) {
		const int client = accept(listener, NULL, NULL);
		if (client < 0)
			_exit(0);
		if (read(client, bytes, sizeof bytes) > 0)
			send(client, head, strlen(head), MSG_NOSIGNAL);
		memset(bytes, 'x', sizeof bytes);
		for (size_t left = body_bytes; left > 0;) {
			const size_t size = left < sizeof bytes ? left : sizeof bytes;
			if (send(client, bytes, size, MSG_NOSIGNAL) < 0)
				break;
			left -= size;
		}
		shutdown(client, SHUT_WR);
		while (read(client, bytes, sizeof bytes) > 0)
			;
		close(client);
	}
}

static inline void canned_agent_start(
	struct canned_agent *agent, const char *head, size_t body_bytes)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*agent = (struct canned_agent){ .target = { .kind = TARGET_AGENT, .owner = geteuid() } };
	strcpy(agent->folder, "/tmp/hc-agent.XXXXXX");
	assert_non_null(mkdtemp(agent->folder));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/1.sock", agent->folder);
	strcpy(agent->target.socket_path, address.sun_path);
	strcpy(agent->target.label, "agent");
	const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(listener, 8), 0);
	agent->pid = fork();
	assert_true(agent->pid >= 0);
	if (agent->pid == 0) {
		alarm(60);
		canned_agent_serve(listener, head, body_bytes);
	}
	close(listener);
}

static inline void canned_agent_stop(struct canned_agent *agent)
{
	kill(agent->pid, SIGKILL);
	waitpid(agent->pid, NULL, 0);
	unlink(agent->target.socket_path);
	rmdir(agent->folder);
}
