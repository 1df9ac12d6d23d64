/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failing_memory.h"
#include "unit.h"

static struct {
	unsigned requests;
	char last[128];
	size_t body_size; /* of the answers */
	bool from_file;
} script;

static void handle(void *context, const struct agent_request *request, struct response *response)
{
	(void)context;
	script.requests++;
	snprintf(script.last, sizeof script.last, "%s %s %s", request->method, request->target,
		request->form);
	if (script.from_file) {
		struct error err;
		const int fd = memfd_create("test", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, (off_t)script.body_size), 0);
		assert_true(descriptor_own(fd, &response->file, &err));
		response->file_size = script.body_size;
		return;
	}
	for (size_t i = 0; i < script.body_size; i++)
		buffer_append_char(&response->body, 'x');
}

static const struct connection_handler handler = { .handle = handle };
static char block[CONNECTION_BLOCK_BYTES];

struct pair {
	struct connection connection;
	int client;
	bool alive;
};

static void open_pair(struct pair *pair, const struct memory *memory)
{
	struct descriptor own;
	struct error err;
	int fds[2];

	memset(&script, 0, sizeof script);
	script.body_size = 2;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	assert_true(descriptor_own(fds[0], &own, &err));
	connection_init(&pair->connection, memory, &own, 0);
	pair->client = fds[1];
	pair->alive = true;
}

static void close_pair(struct pair *pair)
{
	connection_deinit(&pair->connection);
	if (pair->client >= 0)
		close(pair->client);
}

static void say(const struct pair *pair, const char *text)
{
	assert_int_equal(send(pair->client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* As a poll loop would: as long as something is ready. */
static void serve(struct pair *pair, int64_t now_ms)
{
	for (int i = 0; i < 100 && pair->alive; i++) {
		struct pollfd fd = { .fd = pair->connection.socket.fd,
			.events = connection_events(&pair->connection) };
		if (poll(&fd, 1, 0) != 1)
			return;
		pair->alive =
			connection_step(&pair->connection, fd.revents, &handler, block, now_ms);
	}
}

static const char *hear(const struct pair *pair)
{
	static char text[8192];
	const ssize_t got = recv(pair->client, text, sizeof text - 1, 0);

	text[got < 0 ? 0 : got] = '\0';
	return text;
}

static void serves_one_request_after_another(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	say(&pair, "GET /a HT");
	serve(&pair, 0);
	assert_int_equal(script.requests, 0);
	say(&pair, "TP/1.1\r\n\r\n");
	serve(&pair, 0);
	assert_string_equal(script.last, "GET /a ");
	assert_contains(hear(&pair), "\r\n\r\nxx");
	say(&pair, "POST /b HTTP/1.1\r\nContent-Length: 3\r\n"
		   "Content-Type: application/x-www-form-urlencoded\r\n\r\na=1");
	serve(&pair, 0);
	assert_string_equal(script.last, "POST /b a=1");
	assert_true(pair.alive);
	close_pair(&pair);
}

static void serves_requests_that_came_together(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	say(&pair, "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nHEAD /c HTTP/1.0\r\n\r\n");
	serve(&pair, 0);
	assert_int_equal(script.requests, 3);
	assert_string_equal(script.last, "HEAD /c ");
	assert_false(pair.alive);
	const char *const text = hear(&pair);
	assert_contains(text, "Content-Length: 2\r\nConnection: close\r\n\r\n");
	assert_string_equal(text + strlen(text) - 4, "\r\n\r\n");
	close_pair(&pair);
}

static void answers_a_half_closed_client(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	say(&pair, "GET /a HTTP/1.1\r\n\r\n");
	shutdown(pair.client, SHUT_WR);
	serve(&pair, 0);
	assert_contains(hear(&pair), "200 OK");
	assert_false(pair.alive);
	close_pair(&pair);
}

static void refuses_a_body_that_is_no_form(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	say(&pair, "POST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
	serve(&pair, 0);
	assert_int_equal(script.requests, 0);
	assert_contains(hear(&pair), "HTTP/1.1 400");
	assert_false(pair.alive);
	close_pair(&pair);
}

static void tells_what_is_malformed_and_ends(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	say(&pair, "nonsense\r\n\r\n");
	serve(&pair, 0);
	assert_contains(hear(&pair), "HTTP/1.1 400");
	assert_false(pair.alive);
	close_pair(&pair);
}

static void sends_a_large_file_as_the_client_takes_it(void **state)
{
	(void)state;
	struct pair pair;
	size_t total = 0;
	open_pair(&pair, &memory_heap);
	script.from_file = true;
	script.body_size = 5 << 20;
	say(&pair, "GET /a HTTP/1.1\r\n\r\n");
	while (pair.alive && total <= script.body_size) {
		char bytes[65536];
		serve(&pair, 0);
		const ssize_t got = recv(pair.client, bytes, sizeof bytes, 0);
		if (got <= 0)
			break;
		total += (size_t)got;
	}
	assert_true(total > script.body_size);
	assert_false(pair.connection.answering);
	close_pair(&pair);
}

static void a_client_that_leaves_ends_it(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	script.from_file = true;
	script.body_size = 5 << 20;
	say(&pair, "GET /a HTTP/1.1\r\n\r\n");
	serve(&pair, 0);
	assert_true(pair.alive);
	close(pair.client);
	pair.client = -1;
	serve(&pair, 0);
	assert_false(pair.alive);
	close_pair(&pair);
}

static void limits_in_time(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	assert_int_equal(pair.connection.deadline_ms, CONNECTION_IDLE_MS);
	say(&pair, "GET /");
	serve(&pair, 1000);
	assert_int_equal(pair.connection.deadline_ms, 1000 + CONNECTION_REQUEST_MS);
	say(&pair, "a");
	serve(&pair, 3000);
	assert_int_equal(pair.connection.deadline_ms, 1000 + CONNECTION_REQUEST_MS);
	assert_true(connection_expire(&pair.connection, 6000));
	serve(&pair, 6000);
	assert_contains(hear(&pair), "HTTP/1.1 408");
	assert_false(pair.alive);
	close_pair(&pair);

	open_pair(&pair, &memory_heap);
	assert_false(connection_expire(&pair.connection, CONNECTION_IDLE_MS));
	script.body_size = 5 << 20;
	script.from_file = true;
	say(&pair, "GET / HTTP/1.1\r\n\r\n");
	serve(&pair, 7000);
	assert_int_equal(pair.connection.deadline_ms, 7000 + CONNECTION_ANSWER_MS);
	assert_false(connection_expire(&pair.connection, 40000));
	close_pair(&pair);
}

static void a_number_that_the_program_reused_is_left_alone(void **state)
{
	(void)state;
	struct pair pair;
	open_pair(&pair, &memory_heap);
	const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int number = pair.connection.socket.fd;
	/* As a program that closes all descriptors and opens its own. */
	assert_int_equal(dup2(other, number), number);
	assert_false(connection_step(&pair.connection, POLLIN, &handler, block, 0));
	connection_deinit(&pair.connection);
	assert_true(fcntl(number, F_GETFD) >= 0);
	close(number);
	close(other);
	close(pair.client);
}

static void survives_missing_memory(void **state)
{
	(void)state;
	for (unsigned nth = 1;; nth++) {
		struct failing_memory memory = failing_memory_at(nth);
		struct pair pair;
		open_pair(&pair, &memory.memory);
		say(&pair, "POST /a HTTP/1.1\r\nContent-Length: 3\r\n"
			   "Content-Type: application/x-www-form-urlencoded\r\n\r\nb=1"
			   "GET /b HTTP/1.1\r\n\r\n");
		serve(&pair, 0);
		hear(&pair);
		close_pair(&pair);
		if (!memory.failed) {
			assert_true(nth > 4);
			return;
		}
	}
}

/* A listener whose socket is one end of a pair would not accept: these use a real one. */
struct world {
	struct folder folder;
	struct agent_listener listener;
	struct agent_server server;
};

static void open_world(struct world *world)
{
	struct error err;

	memset(&script, 0, sizeof script);
	strcpy(world->folder.path, "/tmp/heapctl-test-XXXXXX");
	assert_non_null(mkdtemp(world->folder.path));
	listener_init(&world->listener);
	assert_true(listener_open(&world->listener, &world->folder, &err));
	server_init(&world->server, &world->listener, &memory_heap, &handler);
}

static void close_world(struct world *world)
{
	server_deinit(&world->server);
	listener_deinit(&world->listener);
	assert_int_equal(rmdir(world->folder.path), 0);
}

static bool turn(struct world *world, int64_t now_ms)
{
	struct pollfd fds[SERVER_POLL_MAX];
	bool listening = true;

	for (int i = 0; i < 50 && listening; i++) {
		const size_t count = server_poll_list(&world->server, now_ms, fds);
		const int ready = poll(fds, count, 0);
		listening = server_step(&world->server, fds, count, now_ms);
		if (ready <= 0)
			break;
	}
	return listening;
}

static int connect_to(const struct world *world)
{
	struct sockaddr_un {
		unsigned short family;
		char path[108];
	} address = { .family = AF_UNIX };

	snprintf(address.path, sizeof address.path, "%.80s/%d.sock", world->folder.path, getpid());
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

static void one_client_too_many_is_refused(void **state)
{
	(void)state;
	struct world world;
	int clients[SERVER_CONNECTIONS_MAX + 1];
	char text[512] = "";
	open_world(&world);
	assert_int_equal(server_wait_ms(&world.server, 0), -1);
	for (int i = 0; i <= SERVER_CONNECTIONS_MAX; i++)
		clients[i] = connect_to(&world);
	assert_true(turn(&world, 0));
	assert_int_equal(world.server.count, SERVER_CONNECTIONS_MAX);
	assert_true(recv(clients[SERVER_CONNECTIONS_MAX], text, sizeof text - 1, 0) > 0);
	assert_contains(text, "HTTP/1.1 503");
	assert_contains(text, "\"hint\":\"close one of them");
	/* The others are still served. */
	assert_int_equal(send(clients[3], "GET /a HTTP/1.1\r\n\r\n", 19, 0), 19);
	turn(&world, 0);
	assert_int_equal(script.requests, 1);
	/* Clients that send nothing are closed in the end. */
	assert_int_equal(server_wait_ms(&world.server, 1000), CONNECTION_IDLE_MS - 1000);
	turn(&world, CONNECTION_IDLE_MS);
	assert_int_equal(world.server.count, 0);
	assert_int_equal(server_wait_ms(&world.server, 0), -1);
	for (int i = 0; i <= SERVER_CONNECTIONS_MAX; i++)
		close(clients[i]);
	close_world(&world);
}

static void a_listener_that_was_closed_is_noticed(void **state)
{
	(void)state;
	struct world world;
	struct error err;
	open_world(&world);
	close(world.listener.socket.fd);
	assert_false(turn(&world, 0));
	assert_true(listener_open(&world.listener, &world.folder, &err));
	const int client = connect_to(&world);
	assert_true(turn(&world, 0));
	assert_int_equal(world.server.count, 1);
	close(client);
	close_world(&world);
}

static void only_its_own_name_is_removed(void **state)
{
	(void)state;
	struct world world;
	char path[128];
	open_world(&world);
	snprintf(path, sizeof path, "%.80s/%d.sock", world.folder.path, getpid());
	unlink(path);
	const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	listener_close(&world.listener);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	close(fd);
	close_world(&world);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(serves_one_request_after_another),
	cmocka_unit_test(serves_requests_that_came_together),
	cmocka_unit_test(answers_a_half_closed_client),
	cmocka_unit_test(refuses_a_body_that_is_no_form),
	cmocka_unit_test(tells_what_is_malformed_and_ends),
	cmocka_unit_test(sends_a_large_file_as_the_client_takes_it),
	cmocka_unit_test(a_client_that_leaves_ends_it),
	cmocka_unit_test(limits_in_time),
	cmocka_unit_test(a_number_that_the_program_reused_is_left_alone),
	cmocka_unit_test(survives_missing_memory),
	cmocka_unit_test(one_client_too_many_is_refused),
	cmocka_unit_test(a_listener_that_was_closed_is_noticed),
	cmocka_unit_test(only_its_own_name_is_removed),
};
UNIT_MAIN(tests)
