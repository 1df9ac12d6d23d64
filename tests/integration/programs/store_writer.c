/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_writer FOLDER COUNT BYTES [KEEP_BYTES [FREE_BYTES [TARGET]]]: adds snapshots to a store, of
 * captures with STORE_USE=captures,
 * and prints "ID NUMBER" for each as soon as it is acknowledged, NUMBER being what its profile
 * contains. With COUNT 0 it only opens. BYTES is the size of a profile that cannot be compressed
 * much.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "store/store.h"

static void fill(char *profile, size_t size, uint64_t number)
{
	uint64_t random = number * 2 + 1;

	const int head = snprintf(profile, size, "heap_v2/524288\n%" PRIu64 "\n", number);
	for (size_t i = (size_t)head; i < size; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		profile[i] = (char)('0' + (random >> 60));
	}
}

int main(int argc, char **argv)
{
	const char *const use = getenv("STORE_USE");
	const bool is_captures = use != NULL && strcmp(use, "captures") == 0;
	const struct store_limits limits = {
		.keep_ms = INT64_MAX / 2,
		.bytes = argc > 4 ? strtoull(argv[4], NULL, 10) : INT64_MAX,
		.free_bytes = argc > 5 ? strtoull(argv[5], NULL, 10) : 0,
	};
	const char *const target = argc > 6 ? argv[6] : "writer";
	struct store *store = NULL;
	struct error err;

	if (argc < 4)
		return 2;
	const int count = atoi(argv[2]);
	const size_t size = (size_t)atol(argv[3]);
	CLEANUP(free_cleanup) char *profile = xmalloc(size + 100);
	if (!store_open(
		    argv[1], is_captures ? STORE_CAPTURES : STORE_HISTORY, &limits, &store, &err)) {
		fprintf(stderr, "%s (%s)\n", err.message, err.hint);
		return 1;
	}
	for (int i = 0; i < count; i++) {
		const uint64_t number = (uint64_t)clock_monotonic_ns();
		struct snapshot snapshot = { .time_ms = 1000000000000 + (int64_t)(number / 1000),
			.pid = 1 };
		snprintf(snapshot.target, sizeof snapshot.target, "%s", target);
		fill(profile, size, number);
		if (!store_add(store, &snapshot, profile, size, &err)) {
			fprintf(stderr, "%s\n", err.message);
			store_close(store);
			return 1;
		}
		printf("%" PRId64 " %" PRIu64 "\n", snapshot.id, number);
		fflush(stdout);
	}
	store_close(store);
	return 0;
}
