/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints as JSON what the allocator module finds in this process, after doing what its arguments
 * say, in order: each is a word of the table below, some followed by values. Preloaded into the
 * variants of allocator_host.c, or linked with a main of its own (PROBE_ALONE).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "allocator/allocator.h"
#include "base/file.h"

struct probe {
	struct allocator allocator;
	struct json_writer json;
	char **arguments; /* those not used yet */
};

static const char *next_argument(struct probe *probe)
{
	return *probe->arguments == NULL ? "" : *probe->arguments++;
}

static void report_outcome(struct probe *probe, bool ok, const struct error *err)
{
	json_member_bool(&probe->json, "ok", ok);
	if (ok)
		return;
	json_member_string(&probe->json, "kind", error_kind_name(err->kind));
	json_member_integer(&probe->json, "errnum", err->errnum);
	json_member_string(&probe->json, "message", err->message);
	json_member_string(&probe->json, "hint", err->hint);
}

static void do_active(struct probe *probe)
{
	struct error err;
	bool was = false, now = false;
	const bool wanted = strcmp(next_argument(probe), "true") == 0;
	const bool ok = allocator_active_set(&probe->allocator, wanted, &was, &err) &&
			allocator_active_get(&probe->allocator, &now, &err);

	report_outcome(probe, ok, &err);
	json_member_bool(&probe->json, "was", was);
	json_member_bool(&probe->json, "now", now);
}

static void do_quiet(struct probe *probe)
{
	struct error err;

	report_outcome(probe, allocator_thread_sampling_off(&probe->allocator, &err), &err);
}

/* Keeps that many MiB in blocks of 1 KiB. */
static void do_allocate(struct probe *probe)
{
	const long mebibytes = strtol(next_argument(probe), NULL, 10);
	void *volatile block = NULL;

	for (long i = 0; i < mebibytes * 1024; i++) {
		void **const made = malloc(1024);
		if (made == NULL)
			break;
		*made = block;
		block = made;
	}
	json_member_bool(&probe->json, "ok", block != NULL);
}

static void do_dump(struct probe *probe)
{
	struct error err;
	struct file_map map = { 0 };
	CLEANUP(fd_cleanup) const int fd = memfd_create("probe", MFD_CLOEXEC);
	const bool ok = allocator_dump_fd(&probe->allocator, fd, &err) &&
			file_map_fd(fd, "dump", &map, &err);

	report_outcome(probe, ok, &err);
	json_key(&probe->json, "text");
	json_put_string_sized(&probe->json, map.data == NULL ? "" : map.data, map.size);
	file_unmap(&map);
}

static void do_dump_path(struct probe *probe)
{
	struct error err;
	const char *const path = next_argument(probe);

	report_outcome(probe, allocator_dump_path(&probe->allocator, path, &err), &err);
}

/* Through a descriptor open on that path. */
static void do_dump_open(struct probe *probe)
{
	struct error err;
	CLEANUP(fd_cleanup) const int fd = open(next_argument(probe), O_WRONLY | O_CLOEXEC);

	report_outcome(probe, allocator_dump_fd(&probe->allocator, fd, &err), &err);
}

static void do_stats(struct probe *probe)
{
	struct error err;
	struct buffer out;
	const char *const options = next_argument(probe);

	buffer_init(&out, &memory_pages);
	report_outcome(probe,
		allocator_stats(&probe->allocator, options[0] == '-' ? NULL : options, &out, &err),
		&err);
	json_member_string(&probe->json, "text", buffer_string(&out));
	buffer_deinit(&out);
}

static void do_memory(struct probe *probe)
{
	struct error err;
	struct allocator_memory figures = { 0 };

	report_outcome(probe, allocator_memory(&probe->allocator, &figures, &err), &err);
	json_member_unsigned(&probe->json, "allocated", figures.allocated);
	json_member_unsigned(&probe->json, "active", figures.active);
	json_member_unsigned(&probe->json, "metadata", figures.metadata);
	json_member_unsigned(&probe->json, "resident", figures.resident);
	json_member_unsigned(&probe->json, "mapped", figures.mapped);
	json_member_unsigned(&probe->json, "retained", figures.retained);
}

static void do_reset(struct probe *probe)
{
	struct error err;
	unsigned lg_sample = 0;
	const int wanted = (int)strtol(next_argument(probe), NULL, 10);
	const bool ok = allocator_reset(&probe->allocator, wanted, false, &err) &&
			allocator_lg_sample(&probe->allocator, &lg_sample, &err);

	report_outcome(probe, ok, &err);
	json_member_unsigned(&probe->json, "lg_sample", lg_sample);
}

static void do_read(struct probe *probe)
{
	struct error err;
	struct mallctl_value value = { 0 };
	const char *const name = next_argument(probe);
	const enum mallctl_type type = mallctl_type_parse(next_argument(probe));

	report_outcome(probe, allocator_read(&probe->allocator, name, type, &value, &err), &err);
	json_member_string(&probe->json, "name", name);
	json_member_string(&probe->json, "type", mallctl_type_name(value.type));
	json_key(&probe->json, "value");
	mallctl_value_json(&probe->json, &value);
}

static void do_write(struct probe *probe)
{
	struct error err;
	const char *const name = next_argument(probe);
	const char *const text = next_argument(probe);
	const bool force = strcmp(next_argument(probe), "force") == 0;

	report_outcome(probe,
		allocator_write(&probe->allocator, name, MALLCTL_UNKNOWN, text, force, &err), &err);
}

/* Code without a file, as a just-in-time compiler makes. */
static void do_jit(struct probe *probe)
{
	const void *const code =
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	json_member_bool(&probe->json, "ok", code != MAP_FAILED);
}

static const struct {
	const char *word;
	void (*act)(struct probe *probe);
} actions[] = {
	{ "active", do_active },
	{ "quiet", do_quiet },
	{ "allocate", do_allocate },
	{ "dump", do_dump },
	{ "dump-path", do_dump_path },
	{ "dump-open", do_dump_open },
	{ "stats", do_stats },
	{ "memory", do_memory },
	{ "reset", do_reset },
	{ "read", do_read },
	{ "write", do_write },
	{ "jit", do_jit },
};

static void act(struct probe *probe, const char *word)
{
	json_object_begin(&probe->json);
	json_member_string(&probe->json, "action", word);
	for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
		if (strcmp(word, actions[i].word) == 0)
			actions[i].act(probe);
	}
	json_object_end(&probe->json);
}

static void report_warning(void *context, const struct allocator_warning *warning)
{
	struct json_writer *const json = context;

	json_object_begin(json);
	json_member_string(json, "code", warning->code);
	json_member_string(json, "message", warning->message);
	json_member_string(json, "hint", warning->hint);
	json_object_end(json);
}

static void report_identity(struct json_writer *json, const struct allocator_identity *identity)
{
	json_member_object(json, "identity");
	json_member_string(json, "name", identity->name);
	json_member_string(json, "version", identity->version);
	json_member_unsigned(json, "major", identity->major);
	json_member_unsigned(json, "minor", identity->minor);
	json_member_unsigned(json, "patch", identity->patch);
	json_member_string(json, "symbol", identity->symbol);
	json_member_string(json, "prefix", identity->prefix);
	json_member_string(json, "where", identity->where);
	json_member_string(json, "found_by", identity->found_by);
	json_member_bool(json, "owns_malloc", identity->owns_malloc);
	json_member_string(json, "malloc_name", identity->malloc_name);
	json_member_string(json, "malloc_where", identity->malloc_where);
	json_member_unsigned(json, "jemalloc_count", identity->jemalloc_count);
	json_member_string(json, "other_jemalloc", identity->other_jemalloc);
	json_object_end(json);
}

static void report_profiling(struct json_writer *json, const struct allocator_profiling *profiling)
{
	json_member_object(json, "profiling");
	json_member_bool(json, "compiled_in", profiling->compiled_in);
	json_member_bool(json, "enabled", profiling->enabled);
	json_member_bool(json, "active_at_start", profiling->active_at_start);
	json_member_bool(json, "thread_active_init", profiling->thread_active_init);
	json_member_unsigned(json, "lg_sample", profiling->lg_sample);
	json_member_integer(json, "lg_interval", profiling->lg_interval);
	json_member_string(json, "unwinder", profiling->unwinder);
	json_member_string(json, "prefix", profiling->prefix);
	json_object_end(json);
}

static void report_configuration(
	struct json_writer *json, const struct allocator_configuration *configuration)
{
	json_member_object(json, "configuration");
	json_member_string(json, "variable", configuration->variable);
	json_member_string(json, "environment", configuration->environment);
	json_member_string(json, "program", configuration->program);
	json_member_string(json, "ignored_variable", configuration->ignored_variable);
	json_member_string(json, "file", configuration->file);
	json_member_bool(json, "secure", configuration->secure);
	json_object_end(json);
}

static void report_everything(struct probe *probe)
{
	struct json_writer *const json = &probe->json;
	struct error err;

	report_identity(json, &probe->allocator.identity);
	report_profiling(json, &probe->allocator.profiling);
	report_configuration(json, &probe->allocator.configuration);
	json_member_object(json, "available");
	report_outcome(probe, allocator_available(&probe->allocator, &err), &err);
	json_object_end(json);
	json_member_array(json, "capabilities");
	for (size_t i = 0; allocator_capability_names[i] != NULL; i++) {
		if (allocator_has(&probe->allocator, allocator_capability_names[i]))
			json_put_string(json, allocator_capability_names[i]);
	}
	json_array_end(json);
	json_member_array(json, "warnings");
	allocator_warnings(&probe->allocator, report_warning, json);
	json_array_end(json);
}

__attribute__((visibility("default"))) int allocator_probe(char **arguments);

int allocator_probe(char **arguments)
{
	static struct probe probe;
	struct buffer out;
	struct error err;

	buffer_init(&out, &memory_pages);
	json_init(&probe.json, &out);
	probe.arguments = arguments;
	allocator_find(&probe.allocator);
	json_object_begin(&probe.json);
	json_key(&probe.json, "actions");
	json_array_begin(&probe.json);
	while (*probe.arguments != NULL)
		act(&probe, next_argument(&probe));
	json_array_end(&probe.json);
	report_everything(&probe);
	json_object_end(&probe.json);
	const bool ok = file_write_fd(STDOUT_FILENO, "stdout", out.data, out.size, &err);
	buffer_deinit(&out);
	return ok ? 0 : 1;
}

#ifdef PROBE_ALONE
int main(int argc, char **argv)
{
	(void)argc;
	return allocator_probe(argv + 1);
}
#endif
