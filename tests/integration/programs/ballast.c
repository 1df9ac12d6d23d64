/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Traffic Server plugin that gives a profile something to show: the message "ballast N" makes N
 * allocations, each by a call path of its own, and keeps them; "ballast dump" makes jemalloc write
 * a profile under the next name of its own.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <ts/ts.h>

enum { BLOCK_BYTES = 8192, DEPTH = 20 };

static void *kept; /* a list */

static void even(unsigned path, int depth);
static void odd(unsigned path, int depth);

static void go_on(unsigned path, int depth)
{
	if (depth < DEPTH) {
		(path % 2 == 0 ? even : odd)(path / 2, depth + 1);
		return;
	}
	void **const block = malloc(BLOCK_BYTES);
	if (block == NULL)
		return;
	*block = kept;
	kept = block;
}

/* Not the last call, so that it stays on the stack. */
static __attribute__((noinline)) void even(unsigned path, int depth)
{
	go_on(path, depth);
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void odd(unsigned path, int depth)
{
	go_on(path, depth);
	__asm__ volatile("" ::: "memory");
}

static void dump_by_jemalloc(void)
{
	int (*mallctl)(const char *, void *, size_t *, void *, size_t) = NULL;
	const void *const symbol = dlsym(RTLD_DEFAULT, "mallctl");

	memcpy(&mallctl, &symbol, sizeof mallctl);
	TSNote("[ballast] dump: %d", mallctl("prof.dump", NULL, NULL, NULL, 0));
}

static int handle_message(TSCont continuation, TSEvent event, void *data)
{
	const TSPluginMsg *const message = data;

	(void)continuation;
	(void)event;
	if (strcmp(message->tag, "ballast") != 0 || message->data == NULL)
		return 0;
	if (strcmp(message->data, "dump") == 0) {
		dump_by_jemalloc();
		return 0;
	}
	const unsigned count = (unsigned)strtoul(message->data, NULL, 10);
	for (unsigned i = 0; i < count; i++)
		go_on(i, 0);
	TSNote("[ballast] %u", count);
	return 0;
}

__attribute__((visibility("default"))) void TSPluginInit(int argc, const char *argv[])
{
	const TSPluginRegistrationInfo info = { "ballast", "heapctl", "" };

	(void)argc;
	(void)argv;
	TSPluginRegister(&info);
	TSLifecycleHookAdd(TS_LIFECYCLE_MSG_HOOK, TSContCreate(handle_message, NULL));
}
