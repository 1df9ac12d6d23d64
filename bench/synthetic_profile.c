/* SPDX-License-Identifier: Apache-2.0 */
#include "synthetic_profile.h"

#include <stdint.h>
#include <stdio.h>

enum {
	MODULES = 12,
	CALL_SITES = 40000,
	CALLEES = 5,
	SITES_OF_A_FUNCTION = 4,
	SHALLOWEST = 12,
	DEEPEST = 40,
};

static uint64_t scramble(uint64_t value)
{
	value = (value ^ value >> 31) * UINT64_C(0x7fb5d329728ea185);
	value = (value ^ value >> 27) * UINT64_C(0x81dadef4bc2dd44d);
	return value ^ value >> 33;
}

static uint64_t next_random(uint64_t *state)
{
	return scramble(*state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t module_start(uint64_t module)
{
	return module == 0 ? UINT64_C(0x55d0a1c00000) : UINT64_C(0x7f3a10000000) + (module << 24);
}

static uint64_t address_of(uint64_t site)
{
	return module_start(site % MODULES) + scramble(site) % (1 << 22);
}

static void write_counters(struct buffer *out, const char *thread, uint64_t objects, uint64_t size)
{
	const uint64_t bytes = objects * size;

	buffer_printf(out, "  %s: %llu: %llu [0: 0]\n", thread, (unsigned long long)objects,
		(unsigned long long)bytes);
}

static void write_stack(struct buffer *out, uint64_t *random)
{
	const unsigned depth =
		SHALLOWEST + (unsigned)(next_random(random) % (DEEPEST - SHALLOWEST + 1));
	uint64_t sites[DEEPEST];
	uint64_t site = next_random(random) % 4;

	for (unsigned i = depth; i-- > 0;) {
		sites[i] = site;
		site = scramble(site * CALLEES + next_random(random) % CALLEES) % CALL_SITES;
	}
	buffer_append_char(out, '@');
	for (unsigned i = 0; i < depth; i++)
		buffer_printf(out, " 0x%llx", (unsigned long long)address_of(sites[i]));
	buffer_append_char(out, '\n');

	const uint64_t objects = 1 + next_random(random) % 50;
	const uint64_t size = UINT64_C(16) << next_random(random) % 12;
	write_counters(out, "t*", objects, size);
	for (uint64_t left = objects; left > 0;) {
		char thread[16];
		const uint64_t share = left == objects ? (left + 1) / 2 : left;
		snprintf(thread, sizeof thread, "t%u", (unsigned)(next_random(random) % 64));
		write_counters(out, thread, share, size);
		left -= share;
	}
}

void synthetic_profile_write_names(struct buffer *out)
{
	buffer_append_string(out, "--- symbol\nbinary=/opt/server/bin/server0\n");
	for (uint64_t site = 0; site < CALL_SITES; site++) {
		const uint64_t function = site / SITES_OF_A_FUNCTION;
		/* Tools look a call up by the address before the one it returns to. */
		buffer_printf(out, "0x%016llx server::part%llu::do_work_%llu\n",
			(unsigned long long)address_of(site) - 1,
			(unsigned long long)function % MODULES, (unsigned long long)function);
	}
	buffer_append_string(out, "---\n--- heap\n");
}

void synthetic_profile_write(struct buffer *out, size_t stack_count)
{
	uint64_t random = 1;

	buffer_append_string(out, "heap_v2/524288\n");
	write_counters(out, "t*", stack_count, 1024);
	for (size_t i = 0; i < stack_count; i++)
		write_stack(out, &random);
	buffer_append_string(out, "\nMAPPED_LIBRARIES:\n");
	for (uint64_t module = 0; module < MODULES; module++)
		buffer_printf(out,
			"%llx-%llx r-xp 00001000 fe:00 %llu                     "
			"/opt/server/%s%llu%s\n",
			(unsigned long long)module_start(module),
			(unsigned long long)module_start(module) + (1 << 22),
			(unsigned long long)module + 100,
			module == 0 ? "bin/server" : "lib/libpart", (unsigned long long)module,
			module == 0 ? "" : ".so");
}
