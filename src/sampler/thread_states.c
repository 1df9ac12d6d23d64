/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/thread_states.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

enum {
	STATES = 8192, /* a power of two */
	STATES_BITS = 13,
	PROBES = 32,
	/* Calls without a state between two looks for one of an ended thread. */
	LOOK_AGAIN = 4096,
};

struct kept_state {
	_Atomic uintptr_t pointer; /* 0: unused */
	_Atomic int number;	   /* of the thread, for the kernel; 0: not known yet */
	int error_number;
	struct sampler_thread thread;
};

static struct kept_state states[STATES];

/* Of threads without room: never sampled. What they write here is not used. */
static struct kept_state others = { .thread = { .is_left_out = true, .is_sampling = true } };

/* Not by syscall(), which sets errno, which is here. */
static long call_kernel(long number, long first, long second, long third)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
}

static uintptr_t own_pointer(void)
{
	uintptr_t pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

static size_t first_of(uintptr_t pointer)
{
	return (size_t)((uint64_t)pointer * UINT64_C(0x9e3779b97f4a7c15) >> (64 - STATES_BITS));
}

static struct kept_state *begin_state(struct kept_state *state)
{
	state->thread = (struct sampler_thread){ 0 };
	state->error_number = 0;
	atomic_store(&state->number, (int)call_kernel(SYS_gettid, 0, 0, 0));
	return state;
}

/* One that was sampling may hold the lock: it is in a child, of a thread that is not there. */
static bool has_ended(struct kept_state *state)
{
	const int number = atomic_load(&state->number);

	return number != 0 && !state->thread.is_sampling &&
	       call_kernel(SYS_tgkill, call_kernel(SYS_getpid, 0, 0, 0), number, 0) == -ESRCH;
}

static struct kept_state *take_over(uintptr_t pointer)
{
	static _Atomic unsigned calls;

	if (atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) % LOOK_AGAIN != 0)
		return &others;
	for (size_t i = 0; i < PROBES; i++) {
		struct kept_state *const state = &states[(first_of(pointer) + i) % STATES];
		uintptr_t before = atomic_load(&state->pointer);
		if (has_ended(state) &&
			atomic_compare_exchange_strong(&state->pointer, &before, pointer))
			return begin_state(state);
	}
	return &others;
}

static struct kept_state *find_state(void)
{
	const uintptr_t pointer = own_pointer();
	const size_t first = first_of(pointer);

	for (size_t i = 0; i < PROBES; i++) {
		struct kept_state *const state = &states[(first + i) % STATES];
		uintptr_t found = atomic_load_explicit(&state->pointer, memory_order_relaxed);
		if (found == pointer)
			return state;
		if (found == 0 && atomic_compare_exchange_strong(&state->pointer, &found, pointer))
			return begin_state(state);
		/* A signal handler may have been here in between. */
		if (found == pointer)
			return state;
	}
	return take_over(pointer);
}

struct sampler_thread *sampler_thread_find(void)
{
	return &find_state()->thread;
}

int *thread_states_errno(void)
{
	return &find_state()->error_number;
}
