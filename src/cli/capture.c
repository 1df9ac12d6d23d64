/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/capture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/allocator_frames.h"
#include "analysis/symbolize.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "base/rooted_file.h"
#include "base/xalloc.h"
#include "cli/report_session.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "client/kernel_view.h"
#include "profile/bundle.h"
#include "profile/codec.h"
#include "profile/input.h"
#include "profile/raw_write.h"
#include "profile/symbolized.h"
#include "profile/tar.h"
#include "render/quantity.h"
#include "symbol/elf_image.h"

static const char *const part_names[CAPTURE_PARTS] = {
	[CAPTURE_PROFILE] = BUNDLE_PROFILE,
	[CAPTURE_STATUS] = "status.json",
	[CAPTURE_STATS] = "stats.json",
	[CAPTURE_SMAPS] = "smaps",
	[CAPTURE_MAPS] = "maps",
	[CAPTURE_LIMITS] = "limits",
	[CAPTURE_PROCESS] = "process-status",
	[CAPTURE_CGROUP] = "cgroup",
};

void capture_init(struct capture *capture)
{
	*capture = (struct capture){ 0 };
	for (int i = 0; i < CAPTURE_PARTS; i++)
		buffer_init(&capture->parts[i], &memory_or_exit);
}

void capture_deinit(struct capture *capture)
{
	for (int i = 0; i < CAPTURE_PARTS; i++)
		buffer_deinit(&capture->parts[i]);
}

static bool is_bundle_file(const char *path)
{
	struct input input = { 0 };
	struct stat status;
	struct error ignored;

	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
		!input_open(path, NULL, &input, &ignored))
		return false;
	const bool is_bundle = bundle_detect(cursor_over(input.data, input.size));
	input_close(&input);
	return is_bundle;
}

static bool fetch(
	const struct target *target, const char *path, struct buffer *out, struct error *err)
{
	const struct agent_call call = { .method = "GET", .path = path };
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };

	http_answer_init(&answer);
	if (!agent_call(target, &call, &answer, err))
		return false;
	buffer_append(out, answer.body.data, answer.body.size);
	return true;
}

/* What the kernel refuses to show is left out; the bundle is worth having all the same. */
static void fetch_kernel_parts(const struct target *target, struct capture *capture)
{
	static const enum capture_part places[KERNEL_PARTS] = {
		[KERNEL_SMAPS] = CAPTURE_SMAPS,
		[KERNEL_MAPS] = CAPTURE_MAPS,
		[KERNEL_LIMITS] = CAPTURE_LIMITS,
		[KERNEL_STATUS] = CAPTURE_PROCESS,
		[KERNEL_CGROUP] = CAPTURE_CGROUP,
	};
	struct error ignored;

	for (int part = 0; part < KERNEL_MACHINE; part++) {
		struct buffer *const place = &capture->parts[places[part]];
		if (!kernel_view_fetch(target, (enum kernel_part)part, place, &ignored))
			buffer_clear(place);
	}
}

/* Which process it was, on what machine: that of a gateway's target is another one. */
static void read_whereabouts(const struct target *target, struct capture *capture)
{
	const struct buffer *const status = &capture->parts[CAPTURE_STATUS];
	CLEANUP(json_cleanup)
	json_t *parsed = json_loadb(status->size == 0 ? "" : status->data, status->size, 0, NULL);
	CLEANUP(buffer_cleanup) struct buffer machine = { 0 };
	struct error ignored;

	capture->own_pid = capture->pid != 0 ? capture->pid : json_number(parsed, "pid");
	buffer_init(&machine, &memory_or_exit);
	if (!kernel_view_fetch(target, KERNEL_MACHINE, &machine, &ignored))
		return;
	const char *const release = buffer_string(&machine);
	const char *const end = strchr(release, '\n');
	if (end == NULL)
		return;
	snprintf(capture->kernel, sizeof capture->kernel, "%.*s", (int)(end - release), release);
	snprintf(capture->machine, sizeof capture->machine, "%.*s", (int)strcspn(end + 1, "\n"),
		end + 1);
}

bool capture_take(const struct target *target, struct capture *capture,
	struct error *without_profile, struct error *err)
{
	*without_profile = (struct error){ 0 };
	snprintf(capture->label, sizeof capture->label, "%s", target->label);
	snprintf(capture->process, sizeof capture->process, "%s", target->label);
	capture->time_ms = clock_realtime_ms();
	/* Statistics and the kernel's view one right after the other: they are compared. */
	if (!fetch(target, "/v1/status", &capture->parts[CAPTURE_STATUS], err) ||
		!fetch(target, "/v1/stats?options=Ja", &capture->parts[CAPTURE_STATS], err))
		return false;
	fetch_kernel_parts(target, capture);
	if (target->kind == TARGET_AGENT)
		capture->pid = target->process.pid;
	read_whereabouts(target, capture);
	if (fetch(target, "/v1/profile", &capture->parts[CAPTURE_PROFILE], without_profile))
		return true;
	buffer_clear(&capture->parts[CAPTURE_PROFILE]);
	if (without_profile->kind == ERROR_UNSUPPORTED || without_profile->kind == ERROR_STATE)
		return true;
	*err = *without_profile;
	return false;
}

static bool read_about(const struct input *input, struct capture *capture, struct error *err)
{
	struct cursor in = cursor_over(input->data, input->size), text;

	if (!bundle_find(&in, BUNDLE_ABOUT, &text))
		return cursor_error(&in, capture->label, err);
	if (!bundle_check(&text, err))
		return error_prefix(err, "%s", capture->label);
	CLEANUP(json_cleanup)
	json_t *about = json_loadb((const char *)text.start, cursor_left(&text), 0, NULL);
	snprintf(capture->process, sizeof capture->process, "%s", json_text(about, "target"));
	capture->time_ms = json_number(about, "time_ms");
	return true;
}

static bool read_bundle(const char *path, struct capture *capture, struct error *err)
{
	struct input input = { 0 };

	if (!input_open(path, NULL, &input, err))
		return false;
	snprintf(capture->label, sizeof capture->label, "%s", path);
	bool done = read_about(&input, capture, err);
	for (int i = 0; done && i < CAPTURE_PARTS; i++) {
		struct cursor in = cursor_over(input.data, input.size), member;
		done = bundle_find(&in, part_names[i], &member) || cursor_error(&in, path, err);
		if (done && member.start != NULL)
			buffer_append(&capture->parts[i], member.start, cursor_left(&member));
	}
	input_close(&input);
	return done;
}

bool capture_read_process(const char *path, char process[192])
{
	struct capture capture = { 0 };
	struct input input = { 0 };
	struct error ignored;

	if (!input_open(path, NULL, &input, &ignored))
		return false;
	const bool ok = bundle_detect(cursor_over(input.data, input.size)) &&
			read_about(&input, &capture, &ignored);
	input_close(&input);
	if (ok)
		memcpy(process, capture.process, sizeof capture.process);
	return ok;
}

bool capture_open(const char *operand, struct capture *capture, struct error *err)
{
	struct error without_profile;
	struct target target;
	struct stat status;

	const bool is_there = stat(operand, &status) == 0;
	if (is_there && S_ISDIR(status.st_mode)) {
		error_set(err, ERROR_USAGE, "%s is a folder, not a bundle", operand);
		return error_hint(
			err, "name one bundle; heapctl trend reads all profiles of a folder");
	}
	if (is_there && S_ISREG(status.st_mode)) {
		if (is_bundle_file(operand))
			return read_bundle(operand, capture, err);
		error_set(err, ERROR_USAGE, "%s is not a bundle: it has no statistics", operand);
		return error_hint(err,
			"heapctl dump --bundle TARGET writes a bundle; heapctl trend reads several "
			"profiles in a tar");
	}
	return target_resolve(operand, &target, err) &&
	       capture_take(&target, capture, &without_profile, err);
}

/* What the process has mapped under that name, through the kernel: it may have been replaced. */
static void set_build_id(pid_t pid, struct profile *profile, struct profile_mapping *mapping)
{
	CLEANUP(elf_image_cleanup) struct elf_image image = { 0 };
	struct error ignored;
	char path[96];

	snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)pid,
		(unsigned long long)mapping->start, (unsigned long long)mapping->limit);
	if (elf_image_open(path, &image, &ignored)) {
		mapping->build_id = profile_intern(profile, image.build_id);
		return;
	}
	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	CLEANUP(fd_cleanup)
	const int fd = mapping->deleted ? -1
					: rooted_file_open(path, mapping->path,
						  O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && elf_image_open_fd(fd, mapping->path, &image, &ignored))
		mapping->build_id = profile_intern(profile, image.build_id);
}

static void add_build_ids(pid_t pid, struct profile *profile)
{
	for (size_t i = 0; i < profile->mapping_count; i++) {
		struct profile_mapping *const mapping = &profile->mappings[i];
		if (mapping->executable && mapping->path[0] == '/' && mapping->build_id[0] == '\0')
			set_build_id(pid, profile, mapping);
	}
}

static bool add_names(pid_t pid, struct profile *profile, struct error *err)
{
	const struct report_options options = { .pid = pid };
	CLEANUP(report_session_close) struct report_session session = { .options = &options };

	session.profiles = xmalloc(sizeof(void *));
	session.profiles[0] = profile;
	session.profile_count = session.profile_capacity = 1;
	const bool done = report_session_add_symbols(&session, err);
	session.profile_count = 0;
	return done;
}

/* The profile with its build-ids, and with names if they are wanted. */
static bool enrich(struct capture *capture, bool with_symbols, struct error *err)
{
	struct buffer *const part = &capture->parts[CAPTURE_PROFILE];
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };

	buffer_init(&text, &memory_or_exit);
	if (part->size == 0)
		return true;
	if (!profile_read(capture->label, part->data, part->size, NULL, &profile, err))
		return false;
	if (capture->pid != 0)
		add_build_ids(capture->pid, profile);
	if (with_symbols && !add_names(capture->pid, profile, err))
		return false;
	if (with_symbols ? !symbolized_write(profile, allocator_frame_has_module, &text, err)
			 : !raw_write(profile, &text, err))
		return false;
	buffer_clear(part);
	buffer_append(part, text.data, text.size);
	return true;
}

static void write_about(const struct capture *capture, bool has_symbols,
	const struct error *without_profile, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_integer(&json, "bundle", BUNDLE_FORMAT);
	json_member_integer(&json, "time_ms", capture->time_ms);
	json_member_string(&json, "target", capture->label);
	json_member_integer(&json, "pid", capture->own_pid);
	json_member_bool(&json, "has_symbols", has_symbols);
	json_member_string(&json, "heapctl_version", HEAPCTL_VERSION);
	if (capture->kernel[0] != '\0') {
		json_member_string(&json, "kernel", capture->kernel);
		json_member_string(&json, "machine", capture->machine);
	}
	if (without_profile->message[0] != '\0')
		json_member_string(&json, "without_profile", without_profile->message);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

bool capture_save(
	const struct target *target, bool with_symbols, struct output *output, struct error *err)
{
	CLEANUP(capture_deinit) struct capture capture = { 0 };
	CLEANUP(buffer_cleanup) struct buffer about = { 0 };
	CLEANUP(buffer_cleanup) struct buffer out = { 0 };
	struct error without_profile;

	capture_init(&capture);
	buffer_init(&about, &memory_or_exit);
	buffer_init(&out, &memory_or_exit);
	if (!capture_take(target, &capture, &without_profile, err) ||
		!enrich(&capture, with_symbols, err))
		return false;
	if (without_profile.message[0] != '\0')
		verb_warn("the bundle has no profile: %s", without_profile.message);
	write_about(&capture, with_symbols, &without_profile, &about);
	tar_append(&out, BUNDLE_ABOUT, about.data, about.size, capture.time_ms);
	for (int i = 0; i < CAPTURE_PARTS; i++) {
		if (capture.parts[i].size != 0)
			tar_append(&out, part_names[i], capture.parts[i].data,
				capture.parts[i].size, capture.time_ms);
	}
	tar_finish(&out);
	if (!file_write_fd(output_fd(output), output_name(output), out.data, out.size, err) ||
		!output_commit(output, err))
		return false;
	fprintf(stderr, "%s: %s\n", output_name(output),
		quantity_format(QUANTITY_BYTES, (double)out.size, false).text);
	return true;
}
