/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/malloc_conf.h"
#include "base/xalloc.h"
#include "client/launch_note.h"

static void append(struct buffer *conf, const char *pairs)
{
	if (pairs == NULL || *pairs == '\0')
		return;
	if (conf->size > 0 && conf->data[conf->size - 1] != ',')
		buffer_append_char(conf, ',');
	buffer_append_string(conf, pairs);
}

/* jemalloc only mutters about these, so we say it while somebody is looking. */
static void note_problems(struct launch_plan *plan, const char *name, const char *text)
{
	struct error problem;

	for (size_t i = 0; text != NULL && malloc_conf_problem(text, i, &problem); i++)
		launch_note(plan, "%s: %s (%s)", name, problem.message, problem.hint);
}

/*
 * The part of an inherited text that jemalloc reads: what comes after would otherwise swallow
 * the pairs that are appended.
 */
static char *readable_part(const char *text)
{
	const char *at = text;
	struct malloc_conf_pair pair;

	while (malloc_conf_next(&at, &pair))
		;
	return xstrndup(text, (size_t)(at - text));
}

static void append_inherited(
	struct launch_plan *plan, struct buffer *conf, const char *name, const char *text)
{
	if (text == NULL)
		return;
	CLEANUP(free_cleanup) char *readable = readable_part(text);
	note_problems(plan, name, text);
	append(conf, readable);
}

static bool has(const char *conf, const char *key)
{
	struct malloc_conf_pair pair;

	return conf != NULL && malloc_conf_find(conf, key, &pair);
}

/* Options that write profiles by themselves, and would write empty ones while sampling is off. */
static const char *self_acting(const char *conf)
{
	static const char *const keys[] = { "prof_final", "prof_leak", "prof_gdump" };
	struct malloc_conf_pair pair;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if (malloc_conf_is_on(conf, keys[i], false))
			return keys[i];
	}
	if (malloc_conf_find(conf, "lg_prof_interval", &pair) && pair.value[0] != '-')
		return "lg_prof_interval";
	return NULL;
}

bool launch_conf(struct launch_plan *plan, const struct launch_request *request,
	const char *inherited, const char *misnamed, const char **value, struct error *err)
{
	struct buffer conf;

	if (request->conf != NULL && !malloc_conf_check(request->conf, err))
		return error_prefix(err, "--conf");
	buffer_init(&conf, &memory_or_exit);
	append(&conf, "prof:true,prof_active:false");
	append_inherited(plan, &conf, "JEMALLOC_CONF", misnamed);
	append_inherited(plan, &conf, "MALLOC_CONF", inherited);
	append(&conf, request->conf);

	const char *const acting = self_acting(buffer_string(&conf));
	if (acting != NULL && request->final_prefix == NULL && !has(inherited, "prof_active") &&
		!has(misnamed, "prof_active") && !has(request->conf, "prof_active")) {
		append(&conf, "prof_active:true");
		launch_note(plan,
			"sampling is on from the start, for the sake of %s "
			"(prof_active:false in --conf leaves it off)",
			acting);
	}
	if (!malloc_conf_is_on(buffer_string(&conf), "prof", false)) {
		if (has(request->conf, "prof")) {
			buffer_deinit(&conf);
			error_set(err, ERROR_USAGE, "--conf: prof:false forbids all profiling");
			return error_hint(err, "leave it out; prof_active:false is the default");
		}
		append(&conf, "prof:true");
		launch_note(plan, "prof:false of the environment is overruled: nothing could be "
				  "profiled with it");
	}
	if (request->final_prefix != NULL) {
		CLEANUP(free_cleanup)
		char *final = xasprintf(
			"prof_active:true,prof_final:true,prof_prefix:%s", request->final_prefix);
		append(&conf, final);
	}
	*value = string_pool_add(&plan->strings, buffer_string(&conf));
	buffer_deinit(&conf);
	return true;
}
