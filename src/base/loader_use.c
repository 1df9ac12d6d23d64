/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loader_use.h"

#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wiped_memory.h"

/* What the word counts: calls in its lower half, those that wait for forks as well; and forks. */
enum {
	ONE_CALL = 1,
	ONE_FORK = 1 << 16,
};

enum { WAIT_MAX_MS = 1000 };

static _Atomic uint32_t kept_by_fork;
static _Atomic uint32_t *word = &kept_by_fork;

/* One wait was too long: until its cause has ended, others of the same kind do not wait. */
static _Atomic bool forks_take_long, calls_take_long;

static uint32_t calls_of(uint32_t value)
{
	return value % ONE_FORK;
}

static uint32_t forks_of(uint32_t value)
{
	return value / ONE_FORK;
}

void loader_use_open(void)
{
	void *const wiped = wiped_memory_take(sizeof *word);

	if (wiped != NULL)
		word = wiped;
}

/* Until the word has another value. False when it is `until_ms`, or a sandbox forbids to wait. */
static bool wait_for_change(uint32_t value, int64_t until_ms)
{
	const int64_t left_ms = until_ms - clock_monotonic_ms();
	const struct timespec left = clock_timespec(left_ms);

	return left_ms > 0 &&
	       (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &left, NULL, 0) == 0 ||
		       errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT);
}

static void wake_all(void)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Forks that begin from now on wait; the others come to their end. */
void loader_use_begin(void)
{
	uint32_t value = atomic_fetch_add(word, ONE_CALL) + ONE_CALL;
	const int error_number = errno;

	if (forks_of(value) == 0 || atomic_load(&forks_take_long))
		return;
	const int64_t until_ms = clock_monotonic_ms() + WAIT_MAX_MS;
	while (forks_of(value) > 0) {
		if (!wait_for_change(value, until_ms)) {
			/* Not if the last of them has ended meanwhile. */
			atomic_store(&forks_take_long, true);
			atomic_store(&forks_take_long, forks_of(atomic_load(word)) > 0);
			break;
		}
		value = atomic_load(word);
	}
	errno = error_number;
}

bool loader_use_try_begin(void)
{
	uint32_t value = atomic_load(word);

	while (forks_of(value) == 0) {
		if (atomic_compare_exchange_weak(word, &value, value + ONE_CALL))
			return true;
	}
	return false;
}

void loader_use_end(void)
{
	const int error_number = errno;

	if (calls_of(atomic_fetch_sub(word, ONE_CALL)) == 1) {
		atomic_store(&calls_take_long, false);
		wake_all();
	}
	errno = error_number;
}

int loader_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *context)
{
	loader_use_begin();
	const int result = dl_iterate_phdr(callback, context);
	loader_use_end();
	return result;
}

void loader_use_before_fork(void)
{
	const int error_number = errno;
	uint32_t value = atomic_load(word);
	int64_t until_ms = 0;

	while (calls_of(value) > 0 ||
		!atomic_compare_exchange_weak(word, &value, value + ONE_FORK)) {
		if (calls_of(value) == 0)
			continue;
		if (until_ms == 0)
			until_ms = clock_monotonic_ms() + WAIT_MAX_MS;
		if (atomic_load(&calls_take_long) || !wait_for_change(value, until_ms)) {
			atomic_store(&calls_take_long, true);
			value = atomic_fetch_add(word, ONE_FORK);
			atomic_store(&calls_take_long, calls_of(value) > 0);
			break;
		}
		value = atomic_load(word);
	}
	errno = error_number;
}

void loader_use_after_fork(void)
{
	const uint32_t value = atomic_fetch_sub(word, ONE_FORK);

	if (forks_of(value) != 1)
		return;
	if (atomic_load(&forks_take_long))
		atomic_store(&forks_take_long, false);
	if (calls_of(value) > 0) {
		const int error_number = errno;
		wake_all();
		errno = error_number;
	}
}

__attribute__((hot)) void loader_use_after_fork_in_child(void)
{
	if (word == &kept_by_fork)
		atomic_store(word, 0);
}
