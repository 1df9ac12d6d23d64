/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/file_search.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "base/file.h"
#include "base/hash_index.h"
#include "base/rooted_file.h"
#include "base/xalloc.h"
#include "symbol/debuginfod.h"
#include "symbol/symbol_index_format.h"

static const char debug_root[] = "/usr/lib/debug";

void file_search_init(
	struct file_search *search, const struct symbolizer_options *options, pid_t pid)
{
	*search = (struct file_search){ .options = options, .pid = pid };
	buffer_init(&search->problem, &memory_or_exit);
	buffer_init(&search->hint, &memory_or_exit);
	pthread_mutex_init(&search->lock, NULL);
	work_budget_init(&search->budget);
}

void file_search_deinit(struct file_search *search)
{
	for (size_t i = 0; i < search->probe_count; i++)
		free(search->probes[i].path);
	free(search->probes);
	for (size_t i = 0; i < search->skipped_count; i++)
		free(search->skipped[i]);
	free(search->skipped);
	free(search->download);
	buffer_deinit(&search->problem);
	buffer_deinit(&search->hint);
	pthread_mutex_destroy(&search->lock);
	*search = (struct file_search){ 0 };
}

static struct file_identity identity_of(const struct stat *status)
{
	if (!S_ISREG(status->st_mode))
		return (struct file_identity){ 0 };
	return (struct file_identity){
		.device = status->st_dev,
		.inode = status->st_ino,
		.size = (uint64_t)status->st_size,
		.modified_ns = (uint64_t)status->st_mtim.tv_sec * 1000000000u +
			       (uint64_t)status->st_mtim.tv_nsec,
		.changed_ns = (uint64_t)status->st_ctim.tv_sec * 1000000000u +
			      (uint64_t)status->st_ctim.tv_nsec,
	};
}

struct file_identity file_identify(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? identity_of(&status) : (struct file_identity){ 0 };
}

/*
 * The part of a path below the root that the search looks through, which is copied to `root`; NULL
 * for a path that is ours.
 */
static const char *below_root(
	const struct file_search *search, const char *path, struct buffer *root)
{
	(void)file_search_place(search, "", 0, root);
	if (root->size == 0 || strncmp(path, root->data, root->size) != 0 ||
		path[root->size] != '/')
		return NULL;
	return path + root->size;
}

static int open_place(const struct file_search *search, const char *path, int flags)
{
	CLEANUP(buffer_deinit) struct buffer root = BUFFER_OR_EXIT;

	const char *const below = below_root(search, path, &root);
	return below == NULL ? open(path, flags | O_CLOEXEC)
			     : rooted_file_open(buffer_string(&root), below, flags);
}

struct file_identity file_search_identify(const struct file_search *search, const char *path)
{
	CLEANUP(buffer_deinit) struct buffer root = BUFFER_OR_EXIT;
	struct stat status;

	if (below_root(search, path, &root) == NULL)
		return file_identify(path);
	CLEANUP(fd_cleanup) const int fd = open_place(search, path, O_PATH);
	if (fd < 0 || fstat(fd, &status) != 0)
		return (struct file_identity){ 0 };
	return identity_of(&status);
}

/* Remembers what was at a path. Two answers for one path make the search unsteady. */
static void remember(
	struct file_search *search, const char *path, const struct file_identity *identity)
{
	const struct file_probe *known = NULL;

	pthread_mutex_lock(&search->lock);
	for (size_t i = 0; i < search->probe_count && known == NULL; i++)
		if (strcmp(search->probes[i].path, path) == 0)
			known = &search->probes[i];
	if (known == NULL) {
		*XAPPEND(search->probes, search->probe_count, search->probe_capacity) =
			(struct file_probe){ .path = xstrdup(path), .identity = *identity };
	} else if (!file_identity_equal(&known->identity, identity)) {
		search->is_unsteady = true;
	}
	pthread_mutex_unlock(&search->lock);
}

/*
 * What is remembered is what was opened, not what stat(2) said before: between the two another user
 * may have put another file there.
 */
bool file_search_open(struct file_search *search, const char *path, struct elf_image *image,
	bool *is_there, struct error *err)
{
	struct file_identity identity = file_search_identify(search, path);
	struct stat status;

	*is_there = false;
	error_set(err, ERROR_NOT_FOUND, "%s: not found", path);
	/* Opening what is no regular file may have effects. */
	if (identity.inode == 0) {
		remember(search, path, &identity);
		return false;
	}
	CLEANUP(fd_cleanup)
	const int fd = open_place(search, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	const int failure = errno;
	if (fd >= 0 && fstat(fd, &status) == 0)
		identity = identity_of(&status);
	remember(search, path, &identity);
	if (fd < 0) {
		*is_there = true;
		return error_system(err, failure, "%s", path);
	}
	if (identity.inode == 0)
		return false;
	*is_there = true;
	return elf_image_open_fd(fd, path, image, err);
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

/* The first one: what is there and cannot be used must not be called missing. */
static void note_damaged(struct file_search *search, struct buffer *refused, const char *why)
{
	if (refused->size != 0)
		return;
	buffer_append_string(refused, why);
	search->found_damaged = true;
}

static void note_other_build(struct buffer *refused, const char *path)
{
	if (refused->size == 0)
		buffer_printf(refused, "%s is of another build", path);
}

static void note_useless(struct file_search *search, const struct buffer *refused, const char *what,
	const char *hint)
{
	if (refused->size == 0 || search->problem.size > 0)
		return;
	buffer_printf(&search->problem, "its %s cannot be used: ", what);
	buffer_append(&search->problem, refused->data, refused->size);
	buffer_clear(&search->hint);
	buffer_append_string(&search->hint, hint);
}

static void note_refused_debug(struct file_search *search, const struct buffer *refused)
{
	note_useless(search, refused, "debug file", "put the debug file of this build there");
}

/* Opens what is there if it has this build-id. Why not goes to `refused` unless it has a reason. */
static bool open_build_id(struct file_search *search, const char *path, const char *build_id,
	struct elf_image *image, struct buffer *refused)
{
	struct elf_image opened;
	bool is_there = false;
	struct error err;

	if (!file_search_open(search, path, &opened, &is_there, &err)) {
		if (is_there)
			note_damaged(search, refused, err.message);
		return false;
	}
	if (strcmp(opened.build_id, build_id) != 0) {
		note_other_build(refused, path);
		elf_image_close(&opened);
		return false;
	}
	*image = opened;
	return true;
}

/* The debug files that were found, of which the best one is kept. */
struct candidates {
	struct elf_image *best; /* empty when there is none */
	enum symbol_source source;
	bool is_any_enough; /* the first one is taken */
};

/* What names can be taken from. */
static enum symbol_source debug_source(
	struct file_search *search, const struct elf_image *image, struct buffer *refused)
{
	enum symbol_source source = SYMBOL_SOURCE_NONE;
	struct error err;

	for (size_t i = 0; i < search->skipped_count; i++)
		if (strcmp(search->skipped[i], image->path) == 0)
			return SYMBOL_SOURCE_NONE;
	if (search->skips_indexes && elf_image_section(image, SYMBOL_INDEX_SECTION) != NULL) {
		if (refused->size == 0)
			buffer_printf(
				refused, "%s is an index of symbols, no debug file", image->path);
		return SYMBOL_SOURCE_NONE;
	}
	if (!search->debug_source(image, &source, &err))
		note_damaged(search, refused, err.message);
	return source;
}

/* Takes the image over. True when the search ends with it. */
static bool add_candidate(struct file_search *search, struct candidates *candidates,
	struct elf_image *image, struct buffer *refused)
{
	const enum symbol_source source = candidates->is_any_enough
						  ? SYMBOL_SOURCE_DWARF
						  : debug_source(search, image, refused);

	/* The stripped program itself may be there: it is no debug file. */
	if (source <= candidates->source) {
		elf_image_close(image);
		return false;
	}
	elf_image_close(candidates->best);
	*candidates->best = *image;
	candidates->source = source;
	return source == SYMBOL_SOURCE_DWARF;
}

/* At least a byte for the folder and one for the file. */
static bool is_build_id(const char *build_id)
{
	return strlen(build_id) >= 4 && strspn(build_id, "0123456789abcdef") == strlen(build_id);
}

bool file_search_index_path(const char *build_id, struct buffer *path)
{
	if (!is_build_id(build_id))
		return false;
	buffer_printf(path, "/.build-id/%.2s/%s.debug", build_id, build_id + 2);
	return true;
}

bool file_search_index(struct file_search *search, const char *build_id, struct elf_image *image)
{
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer refused = BUFFER_OR_EXIT;
	struct elf_image opened;

	if (search->options->cache_dir == NULL)
		return false;
	buffer_append_string(&path, search->options->cache_dir);
	if (!file_search_index_path(build_id, &path))
		return false;
	if (!open_build_id(search, buffer_string(&path), build_id, &opened, &refused)) {
		note_useless(search, &refused, "index of symbols",
			"make it again with heapctl symbols index");
		return false;
	}
	if (elf_image_section(&opened, SYMBOL_INDEX_SECTION) == NULL) {
		elf_image_close(&opened);
		return false;
	}
	*image = opened;
	return true;
}

static bool find_build_id(struct file_search *search, const char *build_id, const char *suffix,
	struct candidates *candidates, struct buffer *refused)
{
	const struct symbolizer_options *const options = search->options;
	struct elf_image opened;
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer name = BUFFER_OR_EXIT;

	if (!is_build_id(build_id))
		return false;
	buffer_printf(&name, "/%.2s/%s%s", build_id, build_id + 2, suffix);
	for (size_t i = 0; i < options->build_id_dir_count; i++) {
		static const char *const below[] = { "", "/.build-id", "/usr/lib/debug/.build-id" };
		for (size_t j = 0; j < sizeof below / sizeof *below; j++) {
			buffer_clear(&path);
			buffer_printf(&path, "%s%s%s", options->build_id_dirs[i], below[j],
				buffer_string(&name));
			if (open_build_id(
				    search, buffer_string(&path), build_id, &opened, refused) &&
				add_candidate(search, candidates, &opened, refused))
				return true;
		}
	}
	CLEANUP(buffer_deinit) struct buffer inside = BUFFER_OR_EXIT;
	buffer_printf(&inside, "%s/.build-id%s", debug_root, buffer_string(&name));
	for (unsigned which = 0; file_search_place(search, buffer_string(&inside), which, &path);
		which++)
		if (open_build_id(search, buffer_string(&path), build_id, &opened, refused) &&
			add_candidate(search, candidates, &opened, refused))
			return true;
	return false;
}

/* The first one there. */
static bool find_any(struct file_search *search, const char *build_id, const char *suffix,
	struct elf_image *image, struct buffer *refused)
{
	struct elf_image found = { 0 };
	struct candidates candidates = { .best = &found, .is_any_enough = true };

	if (!find_build_id(search, build_id, suffix, &candidates, refused))
		return false;
	*image = found;
	return true;
}

bool file_search_build_id(struct file_search *search, const char *build_id, const char *suffix,
	struct elf_image *image)
{
	CLEANUP(buffer_deinit) struct buffer refused = BUFFER_OR_EXIT;
	const bool is_found = find_any(search, build_id, suffix, image, &refused);

	note_refused_debug(search, &refused);
	return is_found;
}

const char *file_search_hint(
	const struct file_search *search, const char *path, const char *hint, struct buffer *out)
{
	if (search->download == NULL || strcmp(search->download, path) != 0)
		return hint;
	buffer_clear(out);
	buffer_printf(out, "remove %s, so that the debuginfod servers are asked again", path);
	return buffer_string(out);
}

/* The cache belongs to the client, and to other tools with it: nothing is removed there. */
static void note_refused_download(struct file_search *search, const struct buffer *refused)
{
	CLEANUP(buffer_deinit) struct buffer hint = BUFFER_OR_EXIT;

	note_useless(search, refused, "debug file",
		file_search_hint(search, search->download, "", &hint));
}

bool file_search_download(struct file_search *search, const char *build_id, struct elf_image *image)
{
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer refused = BUFFER_OR_EXIT;

	if (search->debuginfod == NULL || build_id[0] == '\0')
		return false;
	search->is_missed = !debuginfod_fetch(
		search->debuginfod, build_id, &path, &search->problem, &search->hint);
	if (search->is_missed)
		return false;
	free(search->download);
	search->download = xstrdup(buffer_string(&path));
	if (open_build_id(search, search->download, build_id, image, &refused))
		return true;
	note_refused_download(search, &refused);
	return false;
}

/* Opens what a debug link names if it is what the link means. */
static bool open_linked(struct file_search *search, const char *path, const struct elf_image *image,
	uint32_t crc, struct elf_image *debug, struct buffer *refused)
{
	struct elf_image opened;
	bool is_there = false;
	struct error err;

	if (strcmp(path, image->path) == 0)
		return false;
	if (!file_search_open(search, path, &opened, &is_there, &err)) {
		if (is_there)
			note_damaged(search, refused, err.message);
		return false;
	}
	/* Another path of the stripped program itself is not. */
	const bool is_useful = elf_image_section(&opened, ".debug_info") != NULL ||
			       elf_image_section(&opened, ".zdebug_info") != NULL ||
			       elf_image_section(&opened, ".symtab") != NULL ||
			       elf_image_section(&opened, SYMBOL_INDEX_SECTION) != NULL;
	bool fits = is_useful;
	if (image->build_id[0] != '\0' && opened.build_id[0] != '\0')
		fits = fits && strcmp(image->build_id, opened.build_id) == 0;
	else if (fits)
		fits = crc32_z(0, opened.data, opened.size) == crc;
	if (!fits) {
		if (is_useful)
			note_other_build(refused, path);
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
	const char *const below = below_root(search, path, prefix);

	return below == NULL ? path : below;
}

/*
 * Where a file really is, not behind a link; NULL when that is not known. Below another root the
 * link is resolved there.
 */
static char *real_path(const struct file_search *search, const char *path)
{
	CLEANUP(buffer_deinit) struct buffer root = BUFFER_OR_EXIT;
	char link[64];
	char target[PATH_MAX];

	if (strncmp(path, "/proc/", 6) == 0)
		return NULL;
	if (below_root(search, path, &root) == NULL)
		return realpath(path, NULL);
	CLEANUP(free_cleanup) char *real_root = realpath(buffer_string(&root), NULL);
	CLEANUP(fd_cleanup) const int fd = open_place(search, path, O_PATH);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	const ssize_t size = readlink(link, target, sizeof target - 1);
	if (real_root == NULL || size <= 0)
		return NULL;
	target[size] = '\0';
	const size_t root_size = strcmp(real_root, "/") == 0 ? 0 : strlen(real_root);
	if (strncmp(target, real_root, root_size) != 0 || target[root_size] != '/')
		return NULL;
	return xasprintf("%s%s", buffer_string(&root), target + root_size);
}

/* The directory where a file really is, which the links of packages start from. */
static void append_directory(
	const struct file_search *search, const char *path, struct buffer *directory)
{
	CLEANUP(free_cleanup) char *real = real_path(search, path);

	buffer_append_string(directory, real != NULL ? real : path);
	cut_to_directory(directory);
}

static bool find_linked(struct file_search *search, const struct elf_image *image,
	struct candidates *candidates, struct buffer *refused)
{
	struct elf_image opened;
	uint32_t crc = 0;
	const char *const link = elf_image_debug_link(image, &crc);
	CLEANUP(buffer_deinit) struct buffer directory = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer place = BUFFER_OR_EXIT;

	/* The name is joined to directories: one with a slash could lead anywhere. */
	if (link == NULL || strchr(link, '/') != NULL)
		return false;
	append_directory(search, image->path, &directory);
	static const char *const below[] = { "", "/.debug" };
	for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
		buffer_clear(&path);
		buffer_printf(&path, "%s%s/%s", buffer_string(&directory), below[i], link);
		if (open_linked(search, buffer_string(&path), image, crc, &opened, refused) &&
			add_candidate(search, candidates, &opened, refused))
			return true;
	}
	const char *const inside = inside_path(search, buffer_string(&directory), &place);
	buffer_clear(&path);
	buffer_printf(&path, "%s%s/%s", debug_root, inside, link);
	for (unsigned which = 0; file_search_place(search, buffer_string(&path), which, &place);
		which++)
		if (open_linked(search, buffer_string(&place), image, crc, &opened, refused) &&
			add_candidate(search, candidates, &opened, refused))
			return true;
	return false;
}

bool file_search_debug(
	struct file_search *search, const struct elf_image *image, struct elf_image *debug)
{
	CLEANUP(buffer_deinit) struct buffer refused = BUFFER_OR_EXIT;
	struct elf_image best = { 0 };
	struct candidates candidates = { .best = &best };
	const bool is_complete =
		find_build_id(search, image->build_id, ".debug", &candidates, &refused) ||
		find_linked(search, image, &candidates, &refused);
	struct elf_image opened;

	if (candidates.source < SYMBOL_SOURCE_DWARF)
		note_refused_debug(search, &refused);
	if (!is_complete && file_search_download(search, image->build_id, &opened)) {
		CLEANUP(buffer_deinit) struct buffer refused_download = BUFFER_OR_EXIT;
		(void)add_candidate(search, &candidates, &opened, &refused_download);
		if (candidates.source < SYMBOL_SOURCE_DWARF)
			note_refused_download(search, &refused_download);
	}
	if (candidates.source == SYMBOL_SOURCE_NONE)
		return false;
	*debug = best;
	return true;
}

void file_search_skip(struct file_search *search, const char *path)
{
	search->skipped = xgrow(search->skipped, &search->skipped_capacity,
		search->skipped_count + 1, sizeof(char *));
	search->skipped[search->skipped_count++] = xstrdup(path);
}

static bool find_alternate(struct file_search *search, const struct elf_image *debug,
	struct elf_image *alternate, struct buffer *refused)
{
	char build_id[ELF_BUILD_ID_TEXT_BYTES];
	const char *const link = elf_image_alternate_link(debug, build_id);
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer place = BUFFER_OR_EXIT;

	if (link == NULL)
		return false;
	if (find_any(search, build_id, ".debug", alternate, refused))
		return true;
	if (link[0] != '/') {
		append_directory(search, debug->path, &path);
		buffer_printf(&path, "/%s", link);
		return open_build_id(search, buffer_string(&path), build_id, alternate, refused);
	}
	for (unsigned which = 0; file_search_place(search, link, which, &place); which++)
		if (open_build_id(search, buffer_string(&place), build_id, alternate, refused))
			return true;
	return false;
}

bool file_search_alternate(struct file_search *search, const struct elf_image *debug,
	struct elf_image *alternate, struct buffer *problem)
{
	char build_id[ELF_BUILD_ID_TEXT_BYTES];

	buffer_clear(problem);
	if (find_alternate(search, debug, alternate, problem))
		return true;
	const char *const link = elf_image_alternate_link(debug, build_id);
	if (problem->size == 0 && link != NULL)
		buffer_printf(problem, "%s was not found", link);
	return false;
}

static const char directory_path[] = "/var/lib/dpkg/info";
static const char suffix[] = ".list";

struct package_path {
	const char *text;
	size_t size;
};

/* Lists may say /lib where the file system says /usr/lib: they are the same directory. */
static struct package_path key_of(const char *path, size_t size)
{
	const size_t usr = sizeof "/usr" - 1;

	if (size > usr && memcmp(path, "/usr/", usr + 1) == 0)
		return (struct package_path){ path + usr, size - usr };
	return (struct package_path){ path, size };
}

static bool is_path(const void *items, uint32_t position, const void *key)
{
	const struct package_path *const wanted = key;
	const char *const path = ((const char *const *)items)[position];
	const struct package_path have = key_of(path, strlen(path));

	return have.size == wanted->size && memcmp(have.text, wanted->text, have.size) == 0;
}

struct lookup {
	const char *const *paths;
	char **names;
	size_t left; /* paths without a name yet */
	struct hash_index index;
	uint64_t last_characters[4]; /* a bit for each last character of a path: most lines miss */
};

static void look_up_line(
	struct lookup *lookup, const char *line, size_t size, const char *list, size_t name_size)
{
	const unsigned char last = (unsigned char)line[size - 1];

	if ((lookup->last_characters[last / 64] >> (last % 64) & 1) == 0)
		return;
	const struct package_path key = key_of(line, size);
	const uint32_t found = hash_index_find(
		&lookup->index, hash_bytes(key.text, key.size), is_path, lookup->paths, &key);
	if (found == HASH_INDEX_NONE || lookup->names[found] != NULL)
		return;
	lookup->names[found] = xstrndup(list, name_size);
	lookup->left--;
}

/* The length of the package's name: "redis-tools.list", "libc6:amd64.list" */
static size_t package_size(const char *list)
{
	const size_t size = strcspn(list, ":");

	return list[size] == ':' ? size : size - (sizeof suffix - 1);
}

static void look_up_list(struct lookup *lookup, const struct buffer *text, const char *list)
{
	const size_t name_size = package_size(list);
	const char *const limit = text->data + text->size;

	for (const char *line = text->data; line < limit;) {
		const char *const newline = memchr(line, '\n', (size_t)(limit - line));
		const char *const end = newline == NULL ? limit : newline;
		if (end > line)
			look_up_line(lookup, line, (size_t)(end - line), list, name_size);
		line = end + 1;
	}
}

/* Whether this is a list, and of a package that can have programs or libraries in it. */
static bool is_wanted_list(const char *name)
{
	static const char *const without_code[] = { "-dev", "-doc", "-data", "-dbg", "-locales" };
	const size_t size = strlen(name);

	if (size < sizeof suffix || strcmp(name + size - (sizeof suffix - 1), suffix) != 0)
		return false;
	const size_t name_size = package_size(name);
	for (size_t i = 0; i < sizeof without_code / sizeof *without_code; i++) {
		const size_t ending = strlen(without_code[i]);
		if (name_size > ending &&
			memcmp(name + name_size - ending, without_code[i], ending) == 0)
			return false;
	}
	return true;
}

struct list {
	char *name;
	size_t likeness; /* characters that it has in common with the beginning of a file's name */
};

struct lists {
	struct list *items;
	size_t count, capacity;
};

static void lists_deinit(struct lists *lists)
{
	for (size_t i = 0; i < lists->count; i++)
		free(lists->items[i].name);
	free(lists->items);
}

static size_t likeness_of(const char *list, const char *const *paths, size_t path_count)
{
	const size_t name_size = package_size(list);
	size_t best = 0;

	for (size_t i = 0; i < path_count; i++) {
		const char *const file = path_base_name(paths[i]);
		size_t same = 0;
		while (same < name_size && file[same] == list[same])
			same++;
		best = same > best ? same : best;
	}
	return best;
}

static int compare_likeness(const void *a, const void *b)
{
	const struct list *const left = a;
	const struct list *const right = b;

	if (left->likeness != right->likeness)
		return left->likeness > right->likeness ? -1 : 1;
	return strcmp(left->name, right->name);
}

static void find_lists(
	DIR *directory, const char *const *paths, size_t path_count, struct lists *lists)
{
	for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		if (!is_wanted_list(entry->d_name))
			continue;
		*XAPPEND(lists->items, lists->count, lists->capacity) = (struct list){
			.name = xstrdup(entry->d_name),
			.likeness = likeness_of(entry->d_name, paths, path_count),
		};
	}
	qsort(lists->items, lists->count, sizeof *lists->items, compare_likeness);
}

/*
 * Packages are mostly called like their programs and libraries (libssl3 has libssl.so.3), so a few
 * lists of the many are enough when those that look alike are read first.
 */
static void read_lists(struct lookup *lookup, size_t path_count)
{
	DIR *const directory = opendir(directory_path);
	CLEANUP(lists_deinit) struct lists lists = { 0 };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (directory == NULL)
		return;
	find_lists(directory, lookup->paths, path_count, &lists);
	for (size_t i = 0; i < lists.count && lookup->left > 0; i++) {
		const char *const name = lists.items[i].name;
		struct error err;
		CLEANUP(fd_cleanup)
		const int fd = openat(dirfd(directory), name, O_RDONLY | O_CLOEXEC);
		buffer_clear(&text);
		if (fd >= 0 && file_read_fd(fd, name, &text, &err))
			look_up_list(lookup, &text, name);
	}
	closedir(directory);
}

void debian_package_find(const char *const *paths, size_t count, char **names)
{
	struct lookup lookup = { .paths = paths, .names = names };

	hash_index_init(&lookup.index);
	for (size_t i = 0; i < count; i++) {
		const struct package_path key = key_of(paths[i], strlen(paths[i]));
		names[i] = NULL;
		if (key.size == 0)
			continue;
		const unsigned char last = (unsigned char)key.text[key.size - 1];
		lookup.last_characters[last / 64] |= UINT64_C(1) << (last % 64);
		if (hash_index_add(&lookup.index, hash_bytes(key.text, key.size), is_path, paths,
			    &key, (uint32_t)i) == HASH_INDEX_NONE)
			lookup.left++;
	}
	if (count != 0)
		read_lists(&lookup, count);
	hash_index_deinit(&lookup.index);
}
