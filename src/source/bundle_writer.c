/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/json_writer.h"
#include "base/rooted_file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/kernel_view.h"
#include "profile/bundle.h"
#include "symbol/elf_image.h"

/* What the process has mapped under that name, through the kernel: it may have been replaced. */
static void set_build_id(pid_t pid, struct profile *profile, struct profile_mapping *mapping)
{
	CLEANUP(elf_image_close) struct elf_image image = { 0 };
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

bool bundle_fetch(struct source *source, struct profile **profile, struct error *without_profile,
	struct error *err)
{
	struct profile *fetched = NULL;
	struct cursor text;

	*without_profile = (struct error){ 0 };
	/* Statistics and the kernel's view one right after the other: they are compared. */
	for (int i = SOURCE_STATUS; i < SOURCE_PARTS; i++) {
		struct error problem;
		if (source_text(source, (enum source_part)i, &text, &problem))
			continue;
		/* Some allocators report no statistics. */
		if (i == SOURCE_STATS && problem.kind == ERROR_UNSUPPORTED)
			continue;
		*err = problem;
		return false;
	}
	if (source_text(source, SOURCE_PROFILE, &text, without_profile)) {
		if (!source_profile(source, &fetched, err))
			return false;
		if (source->pid != 0)
			add_build_ids(source->pid, fetched);
	} else if (without_profile->kind != ERROR_UNSUPPORTED &&
		   without_profile->kind != ERROR_STATE) {
		*err = *without_profile;
		return false;
	}
	*profile = fetched;
	return true;
}

/* The release of the kernel and the kind of machine; a gateway's target is on another one. */
static void write_machine(const struct source *source, struct json_writer *json)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct error ignored;

	if (!kernel_view_fetch(&source->target, KERNEL_MACHINE, &text, &ignored))
		return;
	const char *const release = buffer_string(&text);
	const char *const end = strchr(release, '\n');
	if (end == NULL || end == release)
		return;
	CLEANUP(free_cleanup) char *kernel = xstrndup(release, (size_t)(end - release));
	CLEANUP(free_cleanup) char *machine = xstrndup(end + 1, strcspn(end + 1, "\n"));
	json_member_string(json, "kernel", kernel);
	json_member_string(json, "machine", machine);
}

static void write_about(struct source *source, bool has_symbols,
	const struct error *without_profile, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_integer(&json, "bundle", BUNDLE_FORMAT);
	json_member_integer(&json, "time_ms", source->time_ms);
	json_member_string(&json, "target", source_process(source));
	if (source->target.kind == TARGET_GATEWAY)
		json_member_string(&json, "gateway", source->name);
	json_member_integer(&json, "pid",
		source->pid != 0 ? source->pid : json_number(source_status(source), "pid"));
	json_member_bool(&json, "has_symbols", has_symbols);
	json_member_string(&json, "heapctl_version", HEAPCTL_VERSION);
	write_machine(source, &json);
	if (without_profile->message[0] != '\0')
		json_member_string(&json, "without_profile", without_profile->message);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

void bundle_write(struct source *source, const struct buffer *profile_text, bool has_symbols,
	const struct error *without_profile, struct buffer *out)
{
	CLEANUP(buffer_deinit) struct buffer about = BUFFER_OR_EXIT;
	struct error ignored;

	write_about(source, has_symbols, without_profile, &about);
	tar_append(out, BUNDLE_ABOUT, about.data, about.size, source->time_ms);
	for (int i = 0; i < SOURCE_PARTS; i++) {
		struct cursor text = cursor_over(profile_text->data, profile_text->size);
		if (i != SOURCE_PROFILE &&
			!source_text(source, (enum source_part)i, &text, &ignored))
			continue;
		if (cursor_left(&text) != 0)
			tar_append(out, source_part_names[i], text.start, cursor_left(&text),
				source->time_ms);
	}
	tar_finish(out);
}
