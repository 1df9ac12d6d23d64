/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolizes addresses of one file and prints what was found as JSON, for tests and benchmarks.
 *
 *	symbolize [OPTIONS] FILE [ADDRESS...]	addresses as in the file (vaddrs); '-' reads stdin
 *
 * The file is mapped at its own addresses, so that what is asked is what nm and addr2line take;
 * --map START-LIMIT:OFFSET=PATH gives a process' mappings instead. --brief prints the elapsed
 * milliseconds and counts only, --text what addr2line would print.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "symbol/elf_image.h"
#include "symbol/symbolizer.h"

enum { MAX_MAPPINGS = 64, PIECE_BYTES = 64 * 1024 };

struct request {
	struct symbolizer_options options;
	struct symbol_mapping mappings[MAX_MAPPINGS];
	size_t mapping_count;
	uint64_t *addresses;
	size_t address_count, address_capacity;
	const char *build_id;
	const char *override;
	const char *build_id_dirs[8];
	pid_t pid;
	bool deleted;
	bool brief;
	bool text;
};

static void add_address(struct request *request, const char *text)
{
	*XAPPEND(request->addresses, request->address_count, request->address_capacity) =
		strtoull(text, NULL, 16);
}

static void add_mapping(
	struct request *request, uint64_t start, uint64_t limit, uint64_t offset, const char *path)
{
	if (request->mapping_count == MAX_MAPPINGS)
		return;
	request->mappings[request->mapping_count++] = (struct symbol_mapping){
		.start = start,
		.limit = limit,
		.file_offset = offset,
		.path = path,
		.build_id = request->build_id,
		.file = request->override,
		.pid = request->pid,
		.deleted = request->deleted,
	};
}

/* Maps the file's segments where the file wants them. */
static bool add_own_mappings(struct request *request, const char *path)
{
	CLEANUP(elf_image_close) struct elf_image image = { 0 };
	struct error err;

	if (!elf_image_open(path, &image, &err)) {
		fprintf(stderr, "symbolize: %s\n", err.message);
		return false;
	}
	const uint64_t page = 4096;
	uint64_t limit = 0;
	for (size_t i = 0; i < image.segment_count; i++) {
		const struct elf_segment *const segment = &image.segments[i];
		limit = (segment->vaddr + segment->memory_bytes + page - 1) & -page;
		if (image.has_code)
			add_mapping(request, segment->vaddr & -page,
				(segment->vaddr + segment->file_bytes + page - 1) & -page,
				segment->offset & -page, path);
	}
	if (!image.has_code && image.segment_count != 0)
		add_mapping(request, image.segments[0].vaddr & -page, limit, 0, path);
	return true;
}

static void print_results(const struct request *request, const struct symbol_result *results,
	struct json_writer *json)
{
	json_member_array(json, "results");
	for (size_t i = 0; i < request->address_count; i++) {
		json_object_begin(json);
		json_member_unsigned(json, "address", request->addresses[i]);
		json_member_array(json, "frames");
		for (size_t j = 0; j < results[i].frame_count; j++) {
			const struct symbol_frame *const frame = &results[i].frames[j];
			json_object_begin(json);
			json_member_string(json, "function", frame->function);
			json_member_string(json, "linkage_name", frame->linkage_name);
			json_member_string(json, "file", frame->file);
			json_member_unsigned(json, "line", frame->line);
			json_member_unsigned(json, "start_line", frame->start_line);
			json_object_end(json);
		}
		json_array_end(json);
		json_member_unsigned(json, "function_start", results[i].function_start);
		json_object_end(json);
	}
	json_array_end(json);
}

static void print_reports(const struct symbolizer *symbolizer, struct json_writer *json)
{
	static const char *const sources[] = { "none", "dynamic", "table", "dwarf" };
	size_t count = 0;
	const struct symbol_module_report *const reports = symbolizer_reports(symbolizer, &count);

	json_member_array(json, "modules");
	for (size_t i = 0; i < count; i++) {
		json_object_begin(json);
		json_member_string(json, "path", reports[i].path);
		json_member_string(json, "file", reports[i].file);
		json_member_string(json, "debug_file", reports[i].debug_file);
		json_member_string(json, "build_id", reports[i].build_id);
		json_member_string(json, "source", sources[reports[i].source]);
		json_member_unsigned(json, "asked", reports[i].address_count);
		json_member_unsigned(json, "named", reports[i].named_count);
		json_member_string(json, "problem", reports[i].problem);
		json_member_string(json, "hint", reports[i].hint);
		json_member_bool(json, "from_cache", reports[i].from_cache);
		json_object_end(json);
	}
	json_array_end(json);
}

/* Long names make a long text: it is written in pieces. */
static void flush_text(struct buffer *out)
{
	fwrite(out->data, 1, out->size, stdout);
	buffer_clear(out);
}

static void print_text(
	const struct request *request, const struct symbol_result *results, struct buffer *out)
{
	for (size_t i = 0; i < request->address_count; i++)
		for (size_t j = 0; j < results[i].frame_count; j++) {
			const struct symbol_frame *const frame = &results[i].frames[j];
			buffer_append_string(out, frame->function);
			buffer_append_char(out, '\n');
			buffer_append_string(out, frame->file);
			buffer_printf(out, ":%u\n", frame->line);
			if (out->size >= PIECE_BYTES)
				flush_text(out);
		}
	flush_text(out);
}

static int run(struct request *request)
{
	CLEANUP(symbolizer_cleanup) struct symbolizer *symbolizer = NULL;
	CLEANUP(free_cleanup) struct symbol_result *results = NULL;
	CLEANUP(buffer_deinit) struct buffer out = { 0 };
	struct json_writer json;

	const int64_t started_ns = clock_monotonic_ns();
	results = xcalloc(request->address_count, sizeof *results);
	symbolizer = symbolizer_new(&request->options);
	symbolizer_resolve(symbolizer, request->mappings, request->mapping_count,
		request->addresses, NULL, request->address_count, results);
	const int64_t elapsed_ns = clock_monotonic_ns() - started_ns;

	buffer_init(&out, &memory_or_exit);
	if (request->text) {
		print_text(request, results, &out);
		return 0;
	}
	json_init(&json, &out);
	json_object_begin(&json);
	json_member_real(&json, "milliseconds", (double)elapsed_ns / 1e6);
	if (!request->brief)
		print_results(request, results, &json);
	print_reports(symbolizer, &json);
	json_object_end(&json);
	puts(buffer_string(&out));
	return 0;
}

static void read_addresses(struct request *request, char **arguments)
{
	char line[64];

	for (; *arguments != NULL; arguments++) {
		if (strcmp(*arguments, "-") != 0) {
			add_address(request, *arguments);
			continue;
		}
		while (fgets(line, sizeof line, stdin) != NULL)
			add_address(request, line);
	}
}

static void read_mapping(struct request *request, char *text)
{
	char *at = text;
	const uint64_t start = strtoull(at, &at, 16);
	const uint64_t limit = strtoull(at + 1, &at, 16);
	const uint64_t offset = strtoull(at + 1, &at, 16);

	add_mapping(request, start, limit, offset, at + 1);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "map", required_argument, NULL, 'm' },
		{ "build-id", required_argument, NULL, 'i' },
		{ "build-id-dir", required_argument, NULL, 'd' },
		{ "sysroot", required_argument, NULL, 's' },
		{ "cache-dir", required_argument, NULL, 'c' },
		{ "debuginfod", required_argument, NULL, 'u' },
		{ "timeout", required_argument, NULL, 'w' },
		{ "file", required_argument, NULL, 'f' },
		{ "pid", required_argument, NULL, 'p' },
		{ "threads", required_argument, NULL, 't' },
		{ "deleted", no_argument, NULL, 'x' },
		{ "no-inlines", no_argument, NULL, 'n' },
		{ "no-demangle", no_argument, NULL, 'r' },
		{ "brief", no_argument, NULL, 'b' },
		{ "text", no_argument, NULL, 'o' },
		{ 0 },
	};
	struct request request = { .build_id = "" };
	int option = 0;

	request.options.build_id_dirs = request.build_id_dirs;
	request.options.debuginfod_timeout_ms = 5000;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'm':
			read_mapping(&request, optarg);
			break;
		case 'i':
			request.build_id = optarg;
			break;
		case 'd':
			if (request.options.build_id_dir_count < 8)
				request.build_id_dirs[request.options.build_id_dir_count++] =
					optarg;
			break;
		case 's':
			request.options.sysroot = optarg;
			break;
		case 'c':
			request.options.cache_dir = optarg;
			break;
		case 'u':
			request.options.debuginfod_urls = optarg;
			break;
		case 'w':
			request.options.debuginfod_timeout_ms = atoi(optarg);
			break;
		case 'f':
			request.override = optarg;
			break;
		case 'p':
			request.pid = (pid_t)atoi(optarg);
			break;
		case 't':
			request.options.threads = (unsigned)atoi(optarg);
			break;
		case 'x':
			request.deleted = true;
			break;
		case 'n':
			request.options.no_inlines = true;
			break;
		case 'r':
			request.options.no_demangle = true;
			break;
		case 'b':
			request.brief = true;
			break;
		case 'o':
			request.text = true;
			break;
		default:
			return 2;
		}
	}
	const bool has_maps = request.mapping_count != 0;
	/* Mappings name whole paths. */
	CLEANUP(free_cleanup)
	char *path = has_maps || optind >= argc ? NULL : realpath(argv[optind], NULL);
	if (!has_maps && (path == NULL || !add_own_mappings(&request, path)))
		return 2;
	read_addresses(&request, argv + optind + (has_maps ? 0 : 1));
	const int status = run(&request);
	free(request.addresses);
	return status;
}
