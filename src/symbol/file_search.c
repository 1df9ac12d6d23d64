/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/file_search.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/xalloc.h"
#include "symbol/debuginfod.h"
#include "symbol/elf_identity.h"

static const char debug_root[] = "/usr/lib/debug";

void file_search_init(
	struct file_search *search, const struct symbolizer_options *options, pid_t pid)
{
	*search = (struct file_search){ .options = options, .pid = pid };
	buffer_init(&search->problem, &memory_or_exit);
	buffer_init(&search->cure, &memory_or_exit);
	pthread_mutex_init(&search->lock, NULL);
}

void file_search_deinit(struct file_search *search)
{
	for (size_t i = 0; i < search->probe_count; i++)
		free(search->probes[i].path);
	free(search->probes);
	buffer_deinit(&search->problem);
	buffer_deinit(&search->cure);
	pthread_mutex_destroy(&search->lock);
	*search = (struct file_search){ 0 };
}

struct file_identity file_identify(const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
		return (struct file_identity){ 0 };
	return (struct file_identity){
		.device = status.st_dev,
		.inode = status.st_ino,
		.size = (uint64_t)status.st_size,
		.modified_ns = (uint64_t)status.st_mtim.tv_sec * 1000000000u +
			       (uint64_t)status.st_mtim.tv_nsec,
	};
}

bool file_search_probe(struct file_search *search, const char *path)
{
	const struct file_identity identity = file_identify(path);
	bool known = false;

	pthread_mutex_lock(&search->lock);
	for (size_t i = 0; i < search->probe_count && !known; i++)
		known = strcmp(search->probes[i].path, path) == 0;
	if (!known) {
		search->probes = xgrow(search->probes, &search->probe_capacity,
			search->probe_count + 1, sizeof *search->probes);
		search->probes[search->probe_count++] =
			(struct file_probe){ .path = xstrdup(path), .identity = identity };
	}
	pthread_mutex_unlock(&search->lock);
	return identity.inode != 0;
}

bool file_search_place(
	const struct file_search *search, const char *path, unsigned which, struct buffer *place)
{
	const char *const sysroot = search->options->sysroot;
	const bool has_process = sysroot == NULL && search->pid > 0;

	buffer_clear(place);
	if (which > (has_process ? 1u : 0u))
		return false;
	if (sysroot != NULL)
		buffer_append_string(place, sysroot);
	else if (has_process && which == 0)
		buffer_printf(place, "/proc/%d/root", (int)search->pid);
	buffer_append_string(place, path);
	return true;
}

static bool is_debug_useful(const struct elf_image *image)
{
	return elf_image_section(image, ".debug_info") != NULL ||
	       elf_image_section(image, ".zdebug_info") != NULL ||
	       elf_image_section(image, ".symtab") != NULL;
}

/* Opens what is there if it has this build-id. */
static bool open_build_id(
	struct file_search *search, const char *path, const char *build_id, struct elf_image *image)
{
	struct elf_image opened;
	struct error err;

	if (!file_search_probe(search, path) || !elf_image_open(path, &opened, &err))
		return false;
	if (strcmp(opened.build_id, build_id) != 0) {
		elf_image_close(&opened);
		return false;
	}
	*image = opened;
	return true;
}

bool file_search_build_id(struct file_search *search, const char *build_id, const char *suffix,
	struct elf_image *image)
{
	const struct symbolizer_options *const options = search->options;
	CLEANUP(buffer_cleanup) struct buffer path = { 0 };
	CLEANUP(buffer_cleanup) struct buffer name = { 0 };

	buffer_init(&path, &memory_or_exit);
	buffer_init(&name, &memory_or_exit);
	if (strlen(build_id) < 4 || strspn(build_id, "0123456789abcdef") != strlen(build_id))
		return false;
	buffer_printf(&name, "/%.2s/%s%s", build_id, build_id + 2, suffix);
	for (size_t i = 0; i < options->build_id_dir_count; i++) {
		static const char *const below[] = { "", "/.build-id", "/usr/lib/debug/.build-id" };
		for (size_t j = 0; j < sizeof below / sizeof *below; j++) {
			buffer_clear(&path);
			buffer_printf(&path, "%s%s%s", options->build_id_dirs[i], below[j],
				buffer_string(&name));
			if (open_build_id(search, buffer_string(&path), build_id, image))
				return true;
		}
	}
	CLEANUP(buffer_cleanup) struct buffer inside = { 0 };
	buffer_init(&inside, &memory_or_exit);
	buffer_printf(&inside, "%s/.build-id%s", debug_root, buffer_string(&name));
	for (unsigned which = 0; file_search_place(search, buffer_string(&inside), which, &path);
		which++)
		if (open_build_id(search, buffer_string(&path), build_id, image))
			return true;
	return false;
}

bool file_search_download(struct file_search *search, const char *build_id, struct elf_image *image)
{
	CLEANUP(buffer_cleanup) struct buffer path = { 0 };

	buffer_init(&path, &memory_or_exit);
	return search->debuginfod != NULL && build_id[0] != '\0' &&
	       debuginfod_fetch(
		       search->debuginfod, build_id, &path, &search->problem, &search->cure) &&
	       open_build_id(search, buffer_string(&path), build_id, image);
}

/* Opens what a debug link names if it is what the link means. */
static bool open_linked(struct file_search *search, const char *path, const struct elf_image *image,
	uint32_t crc, struct elf_image *debug)
{
	struct elf_image opened;
	struct error err;

	if (strcmp(path, image->path) == 0 || !file_search_probe(search, path) ||
		!elf_image_open(path, &opened, &err))
		return false;
	bool fits = is_debug_useful(&opened);
	if (image->build_id[0] != '\0' && opened.build_id[0] != '\0')
		fits = fits && strcmp(image->build_id, opened.build_id) == 0;
	else if (fits)
		fits = crc32_z(0, opened.data, opened.size) == crc;
	if (!fits) {
		elf_image_close(&opened);
		return false;
	}
	*debug = opened;
	return true;
}

/* Cuts the last part off a path and leaves its directory without a slash. */
static void cut_to_directory(struct buffer *path)
{
	while (path->size > 0 && path->data[path->size - 1] != '/')
		path->size--;
	if (path->size > 0)
		path->size--;
}

/* The directory of a file where the process saw it: without sysroot or /proc/PID/root. */
static const char *inside_path(
	const struct file_search *search, const char *path, struct buffer *prefix)
{
	(void)file_search_place(search, "", 0, prefix);
	if (prefix->size != 0 && strncmp(path, prefix->data, prefix->size) == 0)
		return path + prefix->size;
	return path;
}

static bool find_linked(
	struct file_search *search, const struct elf_image *image, struct elf_image *debug)
{
	uint32_t crc = 0;
	const char *const link = elf_image_debug_link(image, &crc);
	CLEANUP(buffer_cleanup) struct buffer directory = { 0 };
	CLEANUP(buffer_cleanup) struct buffer path = { 0 };
	CLEANUP(buffer_cleanup) struct buffer place = { 0 };

	buffer_init(&directory, &memory_or_exit);
	buffer_init(&path, &memory_or_exit);
	buffer_init(&place, &memory_or_exit);
	/* The name is joined to directories: one with a slash could lead anywhere. */
	if (link == NULL || strchr(link, '/') != NULL)
		return false;
	/*
	 * Packages name the directory where the file really is, not one behind a link; but links
	 * below /proc lead out of the process' own view.
	 */
	const bool is_proc = strncmp(image->path, "/proc/", 6) == 0;
	CLEANUP(free_cleanup)
	char *real = is_proc ? NULL : realpath(image->path, NULL);
	buffer_append_string(&directory, real != NULL ? real : image->path);
	cut_to_directory(&directory);
	static const char *const below[] = { "", "/.debug" };
	for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
		buffer_clear(&path);
		buffer_printf(&path, "%s%s/%s", buffer_string(&directory), below[i], link);
		if (open_linked(search, buffer_string(&path), image, crc, debug))
			return true;
	}
	const char *const inside = inside_path(search, buffer_string(&directory), &place);
	buffer_clear(&path);
	buffer_printf(&path, "%s%s/%s", debug_root, inside, link);
	for (unsigned which = 0; file_search_place(search, buffer_string(&path), which, &place);
		which++)
		if (open_linked(search, buffer_string(&place), image, crc, debug))
			return true;
	return false;
}

bool file_search_debug(
	struct file_search *search, const struct elf_image *image, struct elf_image *debug)
{
	return file_search_build_id(search, image->build_id, ".debug", debug) ||
	       find_linked(search, image, debug) ||
	       file_search_download(search, image->build_id, debug);
}

bool file_search_alternate(
	struct file_search *search, const struct elf_image *debug, struct elf_image *alternate)
{
	char build_id[ELF_BUILD_ID_TEXT_BYTES];
	const char *const link = elf_image_alternate_link(debug, build_id);
	CLEANUP(buffer_cleanup) struct buffer path = { 0 };
	CLEANUP(buffer_cleanup) struct buffer place = { 0 };

	if (link == NULL)
		return false;
	buffer_init(&path, &memory_or_exit);
	buffer_init(&place, &memory_or_exit);
	if (file_search_build_id(search, build_id, ".debug", alternate))
		return true;
	if (link[0] != '/') {
		buffer_append_string(&path, debug->path);
		cut_to_directory(&path);
		buffer_printf(&path, "/%s", link);
		return open_build_id(search, buffer_string(&path), build_id, alternate);
	}
	for (unsigned which = 0; file_search_place(search, link, which, &place); which++)
		if (open_build_id(search, buffer_string(&place), build_id, alternate))
			return true;
	return false;
}
