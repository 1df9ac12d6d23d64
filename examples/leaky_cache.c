/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service with a leak, for docs/tutorial.md: users log in, and each has a session with a basket.
 * It ends by itself after ten minutes, with about 600 MB.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { USERS = 100, LOGINS_PER_SECOND = 500, BASKET_BYTES = 2000, SECONDS = 600 };

struct session {
	unsigned user;
	char *basket;
};

static struct session *sessions[USERS];

static __attribute__((noinline)) char *load_basket(unsigned user)
{
	char *const basket = malloc(BASKET_BYTES);

	if (basket != NULL)
		memset(basket, (int)(user % 128), BASKET_BYTES);
	return basket;
}

static void forget(struct session *old)
{
	free(old);
}

static __attribute__((noinline)) void log_in(unsigned user)
{
	struct session *const session = malloc(sizeof *session);

	if (session == NULL)
		return;
	session->user = user;
	session->basket = load_basket(user);
	if (sessions[user] != NULL)
		forget(sessions[user]);
	sessions[user] = session;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 1000000000 / LOGINS_PER_SECOND };
	uint32_t random = 1;

	puts("ready");
	fflush(stdout);
	for (int i = 0; i < SECONDS * LOGINS_PER_SECOND; i++) {
		random = random * 1664525 + 1013904223;
		log_in((random >> 16) % USERS);
		nanosleep(&pause, NULL);
	}
	return 0;
}
