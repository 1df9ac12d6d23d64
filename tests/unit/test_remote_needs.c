/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/remote_needs.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static void read_own(struct remote_process *remote)
{
	struct error err;

	if (!remote_read(remote, getpid(), &err))
		fail_msg("%s", err.message);
	remote_find_needs(remote);
}

static const struct remote_module *find(const struct remote_process *remote, uint64_t address)
{
	const struct remote_module *const module = remote_find(remote, address);

	assert_non_null(module);
	return module;
}

static void the_program_and_what_it_needs_stay(void **state)
{
	struct remote_process remote;

	(void)state;
	if (unit_is_emulated())
		skip_because("the process's program is the emulator");
	read_own(&remote);
	assert_true(find(&remote, (uint64_t)(uintptr_t)find)->is_program);
	assert_true(find(&remote, (uint64_t)(uintptr_t)find)->stays);
	/* By another library that the program needs, or by itself. */
	assert_true(find(&remote, (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "getpid"))->stays);
	assert_true(
		find(&remote, (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"))
			->stays);
	remote_deinit(&remote);
}

static void a_library_that_the_program_has_loaded_may_go(void **state)
{
	/* Of glibc, and needed by nothing. */
	void *const library = dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL);
	struct remote_process remote;
	struct link_map *map = NULL;
	size_t count = 0;

	(void)state;
	if (library == NULL)
		skip_because("the C library has no libBrokenLocale.so.1 to load");
	assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	read_own(&remote);
	for (size_t i = 0; i < remote.count; i++) {
		if (remote.modules[i].bias != map->l_addr)
			continue;
		assert_false(remote.modules[i].stays);
		count++;
	}
	assert_int_equal(count, 1);
	remote_deinit(&remote);
	dlclose(library);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_and_what_it_needs_stay),
		cmocka_unit_test(a_library_that_the_program_has_loaded_may_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
