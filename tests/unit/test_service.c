/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/service.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "agent/settings.h"
#include "allocator_fake.h"
#include "unit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct scene {
	struct allocator_fake fake;
	struct core_activation activation;
	struct settings settings;
	struct log log;
	struct service service;
	char said[1024];
	bool was_locked; /* while the callback was called */
};

static void hear(void *context, int level, const char *message)
{
	struct scene *const scene = context;

	(void)level;
	strncat(scene->said, message, sizeof scene->said - strlen(scene->said) - 1);
	if (pthread_mutex_trylock(&lock) == 0)
		pthread_mutex_unlock(&lock);
	else
		scene->was_locked = true;
}

static char *no_variable(const char *name)
{
	(void)name;
	return NULL;
}

static void begin(struct scene *scene)
{
	memset(scene, 0, sizeof *scene);
	allocator_fake_init(&scene->fake);
	settings_read(&scene->settings, no_variable);
	scene->log = (struct log){ .write = hear, .context = scene };
	service_init(
		&scene->service, &(struct service_options){ .allocator = &scene->fake.allocator,
					 .memory = &memory_private,
					 .settings = &scene->settings,
					 .log = &scene->log,
					 .name = "test",
					 .activation = &scene->activation,
					 .lock = &lock,
					 .own_thread = true });
	/* The run alone decides. */
	scene->service.checks_done = SERVICE_CHECKS;
}

static void start_run(struct scene *scene)
{
	struct run run;
	struct error err;
	bool already_running = false;

	pthread_mutex_lock(&lock);
	const struct core_run_request request = { .duration_ms = 60000,
		.lg_sample = ALLOCATOR_LG_SAMPLE_KEEP };
	assert_true(core_run_start(&scene->service.core, &request, &run, &already_running, &err));
	pthread_mutex_unlock(&lock);
}

static void the_log_callback_is_called_without_the_lock(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene);
	start_run(&scene);
	allocator_fake_fail_next(&scene.fake, ERROR_SYSTEM, EFAULT, "no such name");
	assert_true(service_step(&scene.service, NULL, 0));
	assert_contains(scene.said, "own thread: no such name");
	assert_false(scene.was_locked);
	service_deinit(&scene.service);
}

static void the_thread_is_not_sampled_before_a_run_is_looked_at(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene);
	assert_true(service_step(&scene.service, NULL, 0));
	assert_int_equal(atomic_load(&scene.fake.threads_off), 0);
	start_run(&scene);
	assert_true(service_step(&scene.service, NULL, 0));
	assert_int_equal(atomic_load(&scene.fake.threads_off), 1);
	service_deinit(&scene.service);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_log_callback_is_called_without_the_lock),
	cmocka_unit_test(the_thread_is_not_sampled_before_a_run_is_looked_at),
};

UNIT_MAIN(tests)
