/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/elf_file.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/http_client.h"
#include "client/kernel_view.h"
#include "client/process.h"
#include "profile/bundle.h"
#include "profile/profile_read.h"
#include "profile/readers.h"
#include "store/capture_list.h"
#include "client/target_resolve.h"

static const char digits[] = "0123456789";

/* Takes ".PID" off the end of a text; false when it is not there. */
static bool cut_pid(const char *text, size_t *size)
{
	size_t end = *size;

	while (end > 0 && strchr(digits, text[end - 1]) != NULL)
		end--;
	if (end == *size || end < 2 || text[end - 1] != '.')
		return false;
	*size = end - 1;
	return true;
}

/* "20261121-101500", optionally followed by "-2": its length, or 0. */
static size_t timestamp_size(const char *text)
{
	if (strspn(text, digits) != 8 || text[8] != '-' || strspn(text + 9, digits) != 6)
		return 0;
	const size_t more = text[15] == '-' ? strspn(text + 16, digits) : 0;
	return more == 0 ? 15 : 16 + more;
}

/* NAME.PID.YYYYMMDD-HHMMSS.heap, of dump and record. */
static bool find_dumped(const char *file, size_t *name_size)
{
	for (const char *dot = strchr(file, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
		const size_t timestamp = timestamp_size(dot + 1);
		*name_size = (size_t)(dot - file);
		if (timestamp != 0 && dot[1 + timestamp] == '.' && cut_pid(file, name_size))
			return true;
	}
	return false;
}

/* NUMBER-YYYYMMDDTHHMMSSZ-REASON-NAME.PID.heap, of watch: where NAME begins, or NULL. */
static const char *find_captured(const char *file, size_t *name_size)
{
	const size_t number = strspn(file, digits);
	const char *const timestamp = file + number + 1;
	const char *const end = strstr(file, ".heap");

	if (number < 8 || file[number] != '-' || end == NULL || strspn(timestamp, digits) != 8 ||
		timestamp[8] != 'T' || strspn(timestamp + 9, digits) != 6 || timestamp[15] != 'Z' ||
		timestamp[16] != '-')
		return NULL;
	const char *const dash = strchr(timestamp + 17, '-');
	if (dash == NULL || dash > end)
		return NULL;
	*name_size = (size_t)(end - dash - 1);
	return cut_pid(dash + 1, name_size) ? dash + 1 : NULL;
}

/* PREFIX.PID.NUMBER.iNUMBER.heap, of jemalloc: where PID begins, or NULL. */
static const char *find_numbered(const char *file)
{
	const char *found = NULL;

	for (const char *dot = strchr(file, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
		const char *at = dot + 1;
		const size_t pid_size = strspn(at, digits);
		if (pid_size == 0 || at[pid_size] != '.')
			continue;
		at += pid_size + 1;
		const size_t number_size = strspn(at, digits);
		if (number_size == 0 || at[number_size] != '.' ||
			!islower((unsigned char)at[number_size + 1]))
			continue;
		at += number_size + 2;
		if (strncmp(at + strspn(at, digits), ".heap", 5) == 0)
			found = dot + 1;
	}
	return found;
}

pid_t source_pid_of_file(const char *path)
{
	const char *const file = path_base_name(path);
	const char *name = file, *pid = find_numbered(file);
	size_t size = 0;

	if (pid == NULL && find_dumped(file, &size))
		pid = file + size + 1;
	if (pid == NULL && (name = find_captured(file, &size)) != NULL)
		pid = name + size + 1;
	const long value = pid == NULL ? 0 : strtol(pid, NULL, 10);
	return value > 0 && value <= INT32_MAX ? (pid_t)value : 0;
}

bool source_name_of_file(const char *path, char *name, size_t size)
{
	const char *const file = path_base_name(path);
	size_t name_size = 0;
	const char *const start =
		find_dumped(file, &name_size) ? file : find_captured(file, &name_size);

	if (start == NULL)
		return false;
	snprintf(name, size, "%.*s", (int)name_size, start);
	return true;
}

const char *const source_part_names[SOURCE_PARTS] = {
	[SOURCE_PROFILE] = BUNDLE_PROFILE,
	[SOURCE_STATUS] = "status.json",
	[SOURCE_STATS] = "stats.json",
	[SOURCE_SMAPS] = "smaps",
	[SOURCE_MAPS] = "maps",
	[SOURCE_LIMITS] = "limits",
	[SOURCE_PROCESS] = "process-status",
	[SOURCE_CGROUP] = "cgroup",
};

bool source_is_program(const char *operand)
{
	char magic[4] = "";
	struct stat status;

	if (stat(operand, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	CLEANUP(fd_cleanup) const int fd = open(operand, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, magic, sizeof magic) == sizeof magic &&
	       memcmp(magic, "\177ELF", sizeof magic) == 0;
}

/* The count in "host@3/path" and the text after it; NULL when it is another operand. */
static const char *find_host_count(const char *operand, long *count)
{
	const char *const at = strrchr(operand, '@');
	char *rest = NULL;

	if (at == NULL || !isdigit((unsigned char)at[1]))
		return NULL;
	*count = strtol(at + 1, &rest, 10);
	const bool is_list = *count > 0 && (*rest == '\0' || *rest == '/');
	return is_list && access(operand, F_OK) != 0 ? rest : NULL;
}

size_t source_operand_count(const char *operand)
{
	long count;

	return find_host_count(operand, &count) == NULL ? 1 : (size_t)count;
}

char *source_operand_at(const char *operand, size_t at)
{
	long count;
	const char *const rest = find_host_count(operand, &count);

	if (rest == NULL)
		return xstrdup(operand);
	return xasprintf("%zu.%.*s%s", at, (int)(strrchr(operand, '@') - operand), operand, rest);
}

/* Names that are almost always those of files, so that a typing error is reported as one. */
static bool has_suffix(const char *operand)
{
	const char *const dot = strrchr(operand, '.');

	return dot != NULL && strspn(dot + 1, "0123456789") != strlen(dot + 1);
}

/* The one place that decides what an operand is. */
static enum source_kind kind_of(const char *operand, const struct source_options *options)
{
	struct stat status;

	if (strcmp(operand, "-") == 0)
		return SOURCE_FILE;
	if (stat(operand, &status) == 0) {
		if (S_ISDIR(status.st_mode) || strcmp(path_base_name(operand), CAPTURE_LIST) == 0)
			return SOURCE_FOLDER;
		return S_ISSOCK(status.st_mode) ? SOURCE_TARGET : SOURCE_FILE;
	}
	if (socket_address_detect(operand) ||
		(options->needs_agent &&
			(gateway_url_detect(operand) || strchr(operand, '/') != NULL)))
		return SOURCE_TARGET;
	if (server_url_detect(operand))
		return SOURCE_URL;
	return strchr(operand, '/') != NULL ? SOURCE_FILE : SOURCE_TARGET;
}

static void source_init(struct source *source, const struct source_options *options,
	enum source_kind kind, const char *name)
{
	*source = (struct source){ .options = *options, .kind = kind, .name = xstrdup(name) };
	for (int i = 0; i < SOURCE_PARTS; i++)
		buffer_init(&source->fetched[i], &memory_or_exit);
}

static struct profile_read_options read_options_of(const struct source *source)
{
	return (struct profile_read_options){ .leaves_out_threads =
						      source->options.leaves_out_threads };
}

/* "NAME[PID]"; the others are URLs of a gateway's targets. */
static bool has_pid(const char *process)
{
	const size_t size = strlen(process);

	return size > 0 && process[size - 1] == ']';
}

/* What a bundle says of itself. */
static bool read_about(struct source *source, const struct cursor *text, struct error *err)
{
	if (!bundle_check(text, err))
		return error_prefix(err, "%s", source->name);
	CLEANUP(json_cleanup)
	json_t *about = json_loadb((const char *)text->start, cursor_left(text), 0, NULL);
	snprintf(source->process, sizeof source->process, "%s", json_text(about, "target"));
	source->time_ms = json_number(about, "time_ms");
	const char *const pid = strrchr(source->process, '[');
	if (source->program_name[0] == '\0' && pid != NULL && has_pid(source->process))
		snprintf(source->program_name, sizeof source->program_name, "%.*s",
			(int)(pid - source->process), source->process);
	return true;
}

/* Finds all parts in one pass. A damaged bundle may still have a profile. */
static void index_bundle(struct source *source)
{
	struct cursor in = cursor_over(source->input.data, source->input.size);
	struct cursor about = { 0 };
	struct tar_member member;

	while (tar_next(&in, &member)) {
		if (!member.is_file)
			continue;
		if (about.start == NULL && strcmp(member.name, BUNDLE_ABOUT) == 0)
			about = member.data;
		for (int i = 0; i < SOURCE_PARTS; i++) {
			if (source->texts[i].start == NULL &&
				strcmp(member.name, source_part_names[i]) == 0)
				source->texts[i] = member.data;
		}
	}
	if (read_about(source, &about, &source->about_error) && !cursor_ok(&in))
		(void)cursor_error(&in, source->name, &source->about_error);
	if (source->program_name[0] == '\0')
		snprintf(source->program_name, sizeof source->program_name, "%s",
			json_text(source_status(source), "name"));
}

/* Reads the file and looks what it is. */
static bool read_file(struct source *source, struct error *err)
{
	const struct profile_read_options wanted = read_options_of(source);
	struct stat status;

	if (!input_open(source->path, &wanted, &source->input, err))
		return false;
	if (strcmp(source->path, "-") != 0 && stat(source->path, &status) == 0 &&
		S_ISREG(status.st_mode)) {
		source->file_time_ms =
			status.st_mtim.tv_sec * INT64_C(1000) + status.st_mtim.tv_nsec / 1000000;
		(void)source_name_of_file(
			source->path, source->program_name, sizeof source->program_name);
	}
	const struct cursor in = cursor_over(source->input.data, source->input.size);
	if (bundle_reader.detect(in)) {
		source->kind = SOURCE_BUNDLE;
		if (!input_expand(&source->input, err))
			return false;
		index_bundle(source);
	} else if (tar_detect(in)) {
		source->kind = SOURCE_SERIES;
	}
	return true;
}

bool source_open_file(const char *path, const struct source_options *options, struct source *source,
	struct error *err)
{
	source_init(source, options, SOURCE_FILE, strcmp(path, "-") == 0 ? "standard input" : path);
	source->path = xstrdup(path);
	return read_file(source, err);
}

void source_of_target(
	const struct target *target, const struct source_options *options, struct source *source)
{
	source_init(source, options, SOURCE_TARGET, target->label);
	source->target = *target;
	snprintf(source->process, sizeof source->process, "%s", target->label);
	if (target->kind != TARGET_AGENT)
		return;
	source->pid = target->process.pid;
	snprintf(source->program_name, sizeof source->program_name, "%s", target->process.name);
}

static bool open_target(const char *operand, const struct source_options *options,
	struct source *source, struct error *err)
{
	struct target target;
	struct process process;
	struct error ignored;

	if (target_resolve(operand, &target, err)) {
		source_of_target(&target, options, source);
		return true;
	}
	source_init(source, options, SOURCE_TARGET, operand);
	if (err->kind != ERROR_NOT_FOUND || strchr(operand, '/') != NULL)
		return false;
	if (has_suffix(operand))
		return file_open_failed(operand, ENOENT, err);
	if (options->needs_agent || process_find(operand, &process, &ignored) ||
		ignored.kind == ERROR_USAGE)
		return false;
	/* What became of a pid is said already. */
	if (operand[strspn(operand, "0123456789")] == '\0')
		return error_hint(err, "there is no file of that name either; heapctl ps --all "
				       "lists the processes");
	error_set(err, ERROR_NOT_FOUND, "there is no file '%s', and no process is called so",
		operand);
	return error_hint(err, "heapctl ps --all lists the processes");
}

/* Parts of it are at the gateway's target that the URL leads to. */
static bool open_url(struct source *source, const char *operand, struct error *err)
{
	if (!server_url_parse(operand, source->options.server.page, &source->url, err))
		return false;
	source->target = source->url.target;
	snprintf(source->target.url.prefix, sizeof source->target.url.prefix, "%s",
		source->url.base);
	return true;
}

/* A folder that was named by its catalogue is the folder. */
static char *folder_of(const char *operand)
{
	struct stat status;
	const size_t size = (size_t)(path_base_name(operand) - operand);

	if (stat(operand, &status) == 0 && S_ISDIR(status.st_mode))
		return xstrdup(operand);
	return size == 0 ? xstrdup(".") : xstrndup(operand, size == 1 ? 1 : size - 1);
}

bool source_open(const char *operand, const struct source_options *options, struct source *source,
	struct error *err)
{
	const enum source_kind kind = kind_of(operand, options);

	if (kind == SOURCE_FILE)
		return source_open_file(operand, options, source, err);
	if (kind == SOURCE_TARGET)
		return open_target(operand, options, source, err);
	source_init(source, options, kind, operand);
	if (kind == SOURCE_URL)
		return open_url(source, operand, err);
	source->path = folder_of(operand);
	return true;
}

void source_close(struct source *source)
{
	for (int i = 0; i < SOURCE_PARTS; i++)
		if (source->fetched[i].memory != NULL)
			buffer_deinit(&source->fetched[i]);
	input_close(&source->input);
	json_decref(source->status);
	json_decref(source->stats);
	free(source->name);
	free(source->path);
	*source = (struct source){ 0 };
}

static bool fetch_page(
	const struct source *source, const char *path, struct buffer *out, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };

	if (!agent_get(&source->target, path, &answer, err))
		return false;
	buffer_append(out, answer.body.data, answer.body.size);
	return true;
}

static bool fetch_part(struct source *source, enum source_part part, struct error *err)
{
	struct buffer *const out = &source->fetched[part];
	struct error ignored;

	switch (part) {
	case SOURCE_PROFILE:
		return fetch_page(source, "/v1/profile", out, err);
	case SOURCE_STATUS:
		return fetch_page(source, "/v1/status", out, err);
	case SOURCE_STATS:
		/* Without single arenas. */
		return fetch_page(source,
			source->options.walks_heap ? "/v1/stats?options=Jaw"
						   : "/v1/stats?options=Ja",
			out, err);
	case SOURCE_SMAPS:
	case SOURCE_MAPS:
	case SOURCE_LIMITS:
	case SOURCE_PROCESS:
	case SOURCE_CGROUP:
		break;
	case SOURCE_PARTS:
		return true;
	}
	/* What the kernel refuses to show is left out: the rest is useful without it. */
	if (!kernel_view_fetch(&source->target,
		    (enum kernel_part)(part - SOURCE_SMAPS + KERNEL_SMAPS), out, &ignored))
		buffer_clear(out);
	return true;
}

static bool is_remote(const struct source *source)
{
	return source->kind == SOURCE_TARGET || source->kind == SOURCE_URL;
}

static bool refuse_folder(const struct source *source, enum error_kind kind, struct error *err)
{
	error_set(err, kind, "%s is a folder", source->path);
	return error_hint(err, "heapctl trend reads all profiles of a folder");
}

bool source_text(
	struct source *source, enum source_part part, struct cursor *text, struct error *err)
{
	if (source->kind == SOURCE_FOLDER)
		return refuse_folder(source, ERROR_USAGE, err);
	if (source->kind == SOURCE_BUNDLE) {
		if (source->about_error.kind != ERROR_NONE) {
			*err = source->about_error;
			return false;
		}
		*text = source->texts[part];
		return true;
	}
	if (!is_remote(source)) {
		error_set(
			err, ERROR_USAGE, "%s is not a bundle: it has no statistics", source->name);
		return error_hint(err,
			"heapctl dump --bundle TARGET writes a bundle; heapctl trend reads several "
			"profiles in a tar");
	}
	if (!source->is_fetched[part]) {
		if (source->time_ms == 0)
			source->time_ms = clock_realtime_ms();
		if (!fetch_part(source, part, err))
			return false;
		source->is_fetched[part] = true;
	}
	*text = cursor_over(source->fetched[part].data, source->fetched[part].size);
	return true;
}

static bool has_build_id(const char *path, const char *build_id)
{
	struct elf_file elf;
	struct error ignored;
	char id[ELF_BUILD_ID_MAX];

	if (!elf_file_open(&elf, path, &ignored))
		return false;
	const bool is_same = elf_file_build_id(&elf, id) && strcmp(id, build_id) == 0;
	elf_file_close(&elf);
	return is_same;
}

/*
 * Our pprof has the path of a link that the process was called by, for the title that pprof shows.
 * The other forms have the file's, which tells its package and its debug file.
 */
static void follow_program_link(struct profile *profile)
{
	const char *const path = profile_main_path(profile);
	const char *const build_id = profile_main_build_id(profile);
	struct stat status;

	if (path[0] != '/' || build_id[0] == '\0' || lstat(path, &status) != 0 ||
		!S_ISLNK(status.st_mode) || stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
		!has_build_id(path, build_id))
		return;
	CLEANUP(free_cleanup) char *real = realpath(path, NULL);
	if (real == NULL)
		return;
	const char *const file = profile_intern(profile, real);
	if (profile->process_name[0] == '\0')
		profile->process_name = profile_intern(profile, path_base_name(path));
	for (size_t i = 0; i < profile->mapping_count; i++) {
		if (strcmp(profile->mappings[i].path, path) == 0)
			profile->mappings[i].path = file;
	}
	profile->program = file;
}

static bool read_input(struct source *source, const struct profile_read_options *wanted,
	struct profile **profile, struct error *err)
{
	if (!profile_read_input(source->name, &source->input, wanted, profile, err))
		return false;
	follow_program_link(*profile);
	return true;
}

bool source_profile(struct source *source, struct profile **profile, struct error *err)
{
	const struct profile_read_options wanted = read_options_of(source);
	struct cursor text;

	if (source->kind == SOURCE_FOLDER)
		return refuse_folder(source, ERROR_INPUT, err);
	if (source->kind == SOURCE_URL)
		return server_profile_read(&source->url, source->name, &source->options.server,
			source->options.warn, profile, err);
	if (source->kind == SOURCE_FILE || source->kind == SOURCE_BUNDLE ||
		source->kind == SOURCE_SERIES)
		return read_input(source, &wanted, profile, err);
	return source_text(source, SOURCE_PROFILE, &text, err) &&
	       profile_read(source->name, text.start, cursor_left(&text), &wanted, profile, err);
}

static bool advise_without_stats(const struct source *source, struct error *err)
{
	return error_hint(err, "%s",
		is_remote(source) ? "check that it is an agent or a gateway of heapctl"
				  : "write the bundle again with heapctl dump --bundle TARGET");
}

bool source_stats(struct source *source, const json_t **stats, struct error *err)
{
	json_error_t problem;
	struct cursor text;

	if (source->stats == NULL) {
		if (!source_text(source, SOURCE_STATS, &text, err))
			return false;
		if (cursor_left(&text) == 0) {
			error_set(err, ERROR_INPUT, "%s has no statistics", source->name);
			return advise_without_stats(source, err);
		}
		/* jemalloc names some keys twice, so duplicates are accepted. */
		source->stats =
			agent_json_parse((const char *)text.start, cursor_left(&text), 0, &problem);
		if (source->stats == NULL) {
			error_set(err, ERROR_INPUT, "%s has no statistics: %s", source->name,
				problem.text);
			return advise_without_stats(source, err);
		}
	}
	*stats = source->stats;
	return true;
}

const json_t *source_status(struct source *source)
{
	struct error ignored;
	json_error_t problem;
	struct cursor text;

	if (!source->is_status_parsed && source_text(source, SOURCE_STATUS, &text, &ignored) &&
		cursor_left(&text) != 0)
		source->status =
			agent_json_parse((const char *)text.start, cursor_left(&text), 0, &problem);
	source->is_status_parsed = true;
	return source->status;
}

const char *source_process(struct source *source)
{
	if (source->process[0] == '\0' || has_pid(source->process))
		return source->process;
	const json_t *const status = source_status(source);
	const char *const name = json_text(status, "name");
	const int64_t pid = json_number(status, "pid");
	if (name[0] != '\0' && pid > 0)
		snprintf(source->process, sizeof source->process, "%.64s[%" PRId64 "]", name, pid);
	return source->process;
}
