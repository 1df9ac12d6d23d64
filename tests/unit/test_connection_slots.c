/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connection_slots.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "unit.h"

/* A connection of a client that takes nothing of its answer. */
struct connection {
	struct connection_slots *slots;
	struct connection_slot *slot;
	struct blob *answer;
	int client_fd, server_fd;
	pthread_t thread;
};

/* A connection of a client that sends a body and then stalls. */
struct upload_connection {
	struct connection connection;
	struct byte_budget *budget;
	uint64_t bytes;
	pthread_barrier_t begun;
};

static void open_tcp(const char *client, struct connection *connection)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof address;
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	struct sockaddr_in from = { .sin_family = AF_INET };
	assert_int_equal(inet_pton(AF_INET, client, &from.sin_addr), 1);
	connection->client_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(connection->client_fd, (struct sockaddr *)&from, sizeof from), 0);
	assert_int_equal(connect(connection->client_fd, (struct sockaddr *)&address, size), 0);
	connection->server_fd = accept(listener, NULL, NULL);
	assert_true(connection->server_fd >= 0);
	close(listener);
}

static bool is_cut_off(const struct connection *connection)
{
	struct pollfd poller = { .fd = connection->client_fd, .events = POLLIN };

	return poll(&poller, 1, 0) == 1;
}

/* As the server's thread: drops the answer at the end of the stream. */
static void *serve(void *context)
{
	struct connection *const connection = context;
	struct pollfd poller = { .fd = connection->server_fd, .events = POLLIN };

	while (poll(&poller, 1, -1) != 1)
		continue;
	connection_slot_enter(connection->slots, connection->slot, CONNECTION_REQUEST, NULL);
	blob_drop(connection->answer);
	return NULL;
}

static void begin(struct connection_slots *slots, const char *client, struct byte_budget *budget,
	uint64_t bytes, struct connection *connection)
{
	struct buffer text = BUFFER_OR_EXIT;

	*connection = (struct connection){ .slots = slots };
	open_tcp(client, connection);
	connection->slot = connection_slot_attach(slots, connection->server_fd);
	buffer_append_string(&text, "an answer");
	connection->answer = blob_take(&text);
	assert_true(byte_budget_take(budget, 0, bytes));
	connection->answer->budget = budget;
	connection->answer->budget_bytes = bytes;
	connection_slot_enter(slots, connection->slot, CONNECTION_ANSWER, connection->answer);
	assert_int_equal(pthread_create(&connection->thread, NULL, serve, connection), 0);
}

static void end(struct connection *connection)
{
	close(connection->client_fd);
	pthread_join(connection->thread, NULL);
	connection_slot_detach(connection->slots, connection->slot);
	close(connection->server_fd);
}

static void the_client_that_holds_the_most_makes_room_for_others(void **state)
{
	static const char light[] = "127.0.0.1", heavy[] = "127.0.0.2";
	struct connection_slots slots;
	struct byte_budget budget = { .limit = 3200 };
	struct connection first, second, other, request;

	(void)state;
	if (unit_is_emulated())
		skip_because("the emulator does not tell what a connection has sent (TCP_INFO)");
	connection_slots_init(&slots, 16);
	budget.reclaim = connection_slots_reclaim;
	budget.reclaim_context = &slots;
	begin(&slots, heavy, &budget, 800, &first);
	begin(&slots, heavy, &budget, 700, &second);
	begin(&slots, light, &budget, 800, &other);
	nanosleep(&(struct timespec){ .tv_sec = CONNECTION_SLOW_MS / 1000,
			  .tv_nsec = 100 * 1000 * 1000 },
		NULL);

	begin(&slots, heavy, &budget, 1, &request);
	connection_slot_enter(&slots, request.slot, CONNECTION_WORK, NULL);
	assert_false(byte_budget_take(&budget, 0, 800)); /* Its own client holds the most. */
	assert_false(byte_budget_take(&budget, 0, 3000));
	assert_false(is_cut_off(&first) || is_cut_off(&second) || is_cut_off(&other));
	end(&request);

	begin(&slots, light, &budget, 1, &request);
	connection_slot_enter(&slots, request.slot, CONNECTION_WORK, NULL);
	assert_false(byte_budget_take(&budget, 0, 3000)); /* It would not fit into an empty one. */
	assert_false(is_cut_off(&first) || is_cut_off(&second) || is_cut_off(&other));
	assert_true(byte_budget_take(&budget, 0, 800));
	assert_true(is_cut_off(&first));
	assert_false(is_cut_off(&second) || is_cut_off(&other));
	/* Now its own client holds the most. */
	assert_false(byte_budget_take(&budget, 0, 800));
	assert_false(is_cut_off(&second) || is_cut_off(&other));
	end(&request);

	end(&first);
	end(&second);
	end(&other);
	assert_int_equal(budget.used, 800);
	connection_slots_deinit(&slots);
}

/* As the server's thread: drops what came of the body at the end of the stream. */
static void *receive(void *context)
{
	struct upload_connection *const upload = context;
	struct pollfd poller = { .fd = upload->connection.server_fd, .events = POLLIN };

	connection_slot_enter(
		upload->connection.slots, upload->connection.slot, CONNECTION_UPLOAD, NULL);
	pthread_barrier_wait(&upload->begun);
	while (poll(&poller, 1, -1) != 1)
		continue;
	connection_slot_enter(
		upload->connection.slots, upload->connection.slot, CONNECTION_REQUEST, NULL);
	byte_budget_give(upload->budget, upload->bytes);
	return NULL;
}

static void begin_upload(struct connection_slots *slots, const char *client,
	struct byte_budget *budget, uint64_t bytes, struct upload_connection *upload)
{
	struct connection *const connection = &upload->connection;

	*upload =
		(struct upload_connection){ { .slots = slots }, .budget = budget, .bytes = bytes };
	open_tcp(client, connection);
	connection->slot = connection_slot_attach(slots, connection->server_fd);
	pthread_barrier_init(&upload->begun, NULL, 2);
	assert_int_equal(pthread_create(&connection->thread, NULL, receive, upload), 0);
	pthread_barrier_wait(&upload->begun);
	assert_true(byte_budget_take(budget, 0, bytes));
	connection_slot_hold(slots, connection->slot, budget, bytes);
}

static void end_upload(struct upload_connection *upload)
{
	end(&upload->connection);
	pthread_barrier_destroy(&upload->begun);
}

static void wait_until_slow(void)
{
	nanosleep(&(struct timespec){ .tv_sec = CONNECTION_SLOW_MS / 1000,
			  .tv_nsec = 100 * 1000 * 1000 },
		NULL);
}

static void a_body_that_comes_slowly_makes_room_for_others(void **state)
{
	static const uint64_t mib = 1024 * 1024;
	struct connection_slots slots;
	struct byte_budget budget = { .limit = 404 * mib };
	struct upload_connection stalled, fast;
	struct connection request;

	(void)state;
	connection_slots_init(&slots, 16);
	budget.reclaim = connection_slots_reclaim;
	budget.reclaim_context = &slots;
	begin_upload(&slots, "127.0.0.2", &budget, 100 * mib, &stalled);
	begin_upload(&slots, "127.0.0.3", &budget, 100 * mib, &fast);
	begin(&slots, "127.0.0.1", &budget, 1, &request);
	connection_slot_enter(&slots, request.slot, CONNECTION_WORK, NULL);
	/* Both came at once: none is slow yet. */
	assert_false(byte_budget_take(&budget, 0, 120 * mib));
	wait_until_slow();

	/* Much at first and nearly nothing later is slow. */
	connection_slot_hold(&slots, stalled.connection.slot, &budget, 100 * mib);
	wait_until_slow();
	connection_slot_hold(&slots, stalled.connection.slot, &budget, 100 * mib + 1);
	assert_true(byte_budget_take(&budget, 100 * mib, 100 * mib));
	connection_slot_hold(&slots, fast.connection.slot, &budget, 200 * mib);
	fast.bytes += 100 * mib;
	assert_false(is_cut_off(&stalled.connection) || is_cut_off(&fast.connection));
	byte_budget_give(&budget, 60 * mib);
	assert_true(byte_budget_take(&budget, 0, 120 * mib));
	assert_true(is_cut_off(&stalled.connection));
	assert_false(is_cut_off(&fast.connection));

	end(&request);
	end_upload(&stalled);
	end_upload(&fast);
	assert_int_equal(budget.used, 60 * mib);
	connection_slots_deinit(&slots);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_body_that_comes_slowly_makes_room_for_others),
	cmocka_unit_test(the_client_that_holds_the_most_makes_room_for_others),
};

UNIT_MAIN(tests)
