/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl render-worker: what the gateway starts to render a profile (gateway/worker.h). It puts
 * limits on itself and then is `heapctl report`, `heapctl trend` or `heapctl fleet`, or looks up
 * addresses.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "analysis/allocator_frames.h"
#include "base/file.h"
#include "base/proc_maps.h"
#include "base/sanitizer.h"
#include "base/string_pool.h"
#include "base/xalloc.h"
#include "cli/fleet_session.h"
#include "cli/verb.h"
#include "gateway/worker.h"
#include "symbol/debuginfod.h"
#include "symbol/symbolizer.h"

enum { WORKER_NICE = 5 };

/* Address space includes mapped debug files, which may have gigabytes. */
#define WORKER_MEMORY_BYTES (UINT64_C(6) << 30)

static void limit(int resource, rlim_t value)
{
	const struct rlimit limits = { .rlim_cur = value, .rlim_max = value };

	setrlimit(resource, &limits);
}

static void restrain(void)
{
	/* The gateway ends a worker with what it has started. */
	setpgid(0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	/* Sanitizers reserve terabytes of address space. */
#if !IS_SANITIZED
	limit(RLIMIT_AS, WORKER_MEMORY_BYTES);
#endif
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, WORKER_WALL_MS / 1000);
	limit(RLIMIT_FSIZE, WORKER_OUTPUT_BYTES);
	/* A debug file of more bytes than that costs the names of its functions, not the picture.
	 */
	signal(SIGXFSZ, SIG_IGN);
	if (nice(WORKER_NICE) < 0)
		return;
}

/* The mappings and addresses of /pprof/symbol. */
struct question {
	struct string_pool strings;
	struct symbol_mapping *mappings;
	size_t mapping_count, mapping_capacity;
	uint64_t *addresses;
	size_t address_count, address_capacity;
};

static void add_mapping(struct question *question, const struct proc_map *map)
{
	*XAPPEND(question->mappings, question->mapping_count,
		question->mapping_capacity) = (struct symbol_mapping){
		.start = map->start,
		.limit = map->limit,
		.file_offset = map->file_offset,
		.path = string_pool_add_sized(&question->strings, map->path, map->path_size),
		.build_id = "",
		.deleted = map->deleted,
	};
}

static void add_address(struct question *question, const char *line)
{
	char *end;
	const uint64_t address = strtoull(line, &end, 16);

	if (end == line)
		return;
	*XAPPEND(question->addresses, question->address_count, question->address_capacity) =
		address;
}

static void parse(struct question *question, const char *text)
{
	bool in_addresses = false;

	while (*text != '\0') {
		const size_t size = strcspn(text, "\n");
		struct proc_map map;
		if (size == 0)
			in_addresses = true;
		else if (in_addresses)
			add_address(question, text);
		else if (proc_map_parse(text, size, &map))
			add_mapping(question, &map);
		text += size + (text[size] == '\n');
	}
}

/* Without line breaks and tabs, which the protocol uses. */
static void append_name(struct buffer *out, const char *name)
{
	for (; *name != '\0'; name++)
		buffer_append_char(out, (unsigned char)*name < 0x20 ? ' ' : *name);
}

static bool is_in_allocator(const struct question *question, uint64_t address)
{
	for (size_t i = 0; i < question->mapping_count; i++) {
		const struct symbol_mapping *const mapping = &question->mappings[i];
		if (address >= mapping->start && address < mapping->limit)
			return allocator_frame_has_module(PROFILE_HEAP, mapping->path);
	}
	return false;
}

static void append_answer(const struct question *question, uint64_t address,
	const struct symbol_result *result, struct buffer *out)
{
	/*
	 * jeprof strips the allocator's own frames by their names, and a stripped libjemalloc has
	 * none. This is a name that jeprof strips.
	 */
	if (result->frame_count == 0 && is_in_allocator(question, address))
		buffer_printf(out, "0x%" PRIx64 "\tmalloc\n", address);
	if (result->frame_count == 0)
		return;
	buffer_printf(out, "0x%" PRIx64 "\t", address);
	for (size_t i = 0; i < result->frame_count; i++) {
		if (i > 0)
			buffer_append_string(out, "--");
		append_name(out,
			result->frames[i].function[0] == '\0' ? "??" : result->frames[i].function);
	}
	buffer_append_char(out, '\n');
}

static void answer(const struct question *question, struct buffer *out)
{
	const struct symbolizer_options options = { 0 };
	CLEANUP(symbolizer_cleanup) struct symbolizer *symbolizer = symbolizer_new(&options);
	CLEANUP(free_cleanup)
	struct symbol_result *results = xcalloc(question->address_count, sizeof *results);

	symbolizer_resolve(symbolizer, question->mappings, question->mapping_count,
		question->addresses, NULL, question->address_count, results);
	for (size_t i = 0; i < question->address_count; i++)
		append_answer(question, question->addresses[i], &results[i], out);
}

/*
 * Reads mappings as in /proc/PID/maps, an empty line and one address in each line from descriptor
 * `in` to its end, and writes "0xADDRESS<tab>INNER--OUTER" to `out` for each that has a name.
 * Addresses are looked up as they are: the protocol's clients step back by themselves.
 */
static bool look_up_symbols(int in, int out, struct error *err)
{
	struct question question = { 0 };
	struct buffer text, written;

	buffer_init(&text, &memory_or_exit);
	buffer_init(&written, &memory_or_exit);
	string_pool_init(&question.strings);
	bool ok = file_read_fd(in, "standard input", &text, err);
	if (ok) {
		parse(&question, buffer_string(&text));
		answer(&question, &written);
		ok = file_write_fd(out, "standard output", written.data, written.size, err);
	}
	free(question.mappings);
	free(question.addresses);
	string_pool_deinit(&question.strings);
	buffer_deinit(&written);
	buffer_deinit(&text);
	return ok;
}

/* The gateway answers by the kind of the failure. */
static int ask_fleet(int argc, char **argv)
{
	struct error err = { 0 };
	const int code = fleet_command_run(&verb_fleet, argc, argv, &err);

	return code == EXIT_DONE || err.kind == ERROR_NONE ? code
							   : WORKER_EXIT_KIND + (int)err.kind;
}

static int report(int argc, char **argv)
{
	const int code = verb_report.run(&verb_report, argc, argv);

	/* What is missing here is not the input's fault. */
	if (code == EXIT_FAILED && verb_failure_kind() == ERROR_UNSUPPORTED)
		return WORKER_EXIT_KIND + ERROR_UNSUPPORTED;
	return code == EXIT_DONE && debuginfod_has_failed() ? WORKER_EXIT_PARTIAL : code;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct error err = { 0 };

	if (argc < 2)
		return verb_usage(verb, "only the gateway starts it");
	restrain();
	if (strcmp(argv[1], "report") == 0)
		return report(argc - 1, argv + 1);
	if (strcmp(argv[1], "trend") == 0)
		return verb_trend.run(&verb_trend, argc - 1, argv + 1);
	if (strcmp(argv[1], "fleet") == 0)
		return ask_fleet(argc - 1, argv + 1);
	if (strcmp(argv[1], "symbols") == 0)
		return look_up_symbols(STDIN_FILENO, STDOUT_FILENO, &err) ? EXIT_DONE
									  : verb_fail(&err);
	return verb_usage(verb, "unknown work '%s'", argv[1]);
}

const struct verb verb_render_worker = {
	.name = "render-worker",
	.arguments = "report|trend|fleet|symbols ...",
	.summary = "draw a profile for the gateway",
	.description = "",
	.is_hidden = true,
	.stops_at_operand = true,
	.run = run,
};
