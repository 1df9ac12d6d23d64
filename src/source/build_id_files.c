/* SPDX-License-Identifier: Apache-2.0 */
#include "source/build_id_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/string_pool.h"
#include "base/xalloc.h"
#include "symbol/elf_image.h"

enum { DEPTH_MAX = 64 };

struct build_id_file {
	const char *path;
	int symbols; /* how much its names say */
};

struct build_id_files {
	struct string_pool strings;
	struct text_numbers numbers; /* of the build-ids, in `items` */
	struct build_id_file *items;
	size_t capacity;
};

struct build_id_files *build_id_files_new(void)
{
	struct build_id_files *const files = xcalloc(1, sizeof *files);

	string_pool_init(&files->strings);
	return files;
}

void build_id_files_free(struct build_id_files *files)
{
	if (files == NULL)
		return;
	string_pool_deinit(&files->strings);
	text_numbers_deinit(&files->numbers);
	free(files->items);
	free(files);
}

static int rate_symbols(const struct elf_image *image)
{
	if (elf_image_section(image, ".debug_info") != NULL ||
		elf_image_section(image, ".zdebug_info") != NULL)
		return 3;
	return elf_image_section(image, ".symtab") != NULL ? 2 : image->has_code;
}

static bool add_file(struct build_id_files *files, const char *path, struct error *err)
{
	CLEANUP(elf_image_close) struct elf_image image = { 0 };
	const size_t known = files->numbers.count;

	if (!elf_image_open(path, &image, err))
		return false;
	if (image.build_id[0] == '\0')
		return error_set(err, ERROR_INPUT, "%s has no build-id", path);
	const uint32_t at =
		text_numbers_add(&files->numbers, string_pool_add(&files->strings, image.build_id));
	const struct build_id_file file = { string_pool_add(&files->strings, path),
		rate_symbols(&image) };
	if (at == known) {
		files->items =
			xgrow(files->items, &files->capacity, known + 1, sizeof *files->items);
		files->items[at] = file;
	} else if (file.symbols > files->items[at].symbols) {
		files->items[at] = file;
	}
	return true;
}

static void dir_cleanup(DIR **dir)
{
	if (*dir != NULL)
		closedir(*dir);
}

static bool add_folder(
	struct build_id_files *files, const char *path, unsigned depth, struct error *err)
{
	CLEANUP(dir_cleanup) DIR *dir = opendir(path);
	const struct dirent *entry;

	if (dir == NULL)
		return error_system(err, errno, "reading the folder %s", path);
	while ((entry = readdir(dir)) != NULL) {
		CLEANUP(free_cleanup) char *below = xasprintf("%s/%s", path, entry->d_name);
		struct error ignored;
		struct stat status;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			lstat(below, &status) != 0)
			continue;
		/* What cannot be read below the folder is passed over. */
		if (S_ISDIR(status.st_mode) && depth < DEPTH_MAX)
			(void)!add_folder(files, below, depth + 1, &ignored);
		else if (S_ISREG(status.st_mode))
			(void)!add_file(files, below, &ignored);
	}
	return true;
}

bool build_id_files_add(struct build_id_files *files, const char *path, struct error *err)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return error_system(err, errno, "reading %s", path);
	return S_ISDIR(status.st_mode) ? add_folder(files, path, 0, err)
				       : add_file(files, path, err);
}

const char *build_id_files_find(const struct build_id_files *files, const char *build_id)
{
	for (uint32_t i = 0; i < files->numbers.count; i++)
		if (strcmp(files->numbers.texts[i], build_id) == 0)
			return files->items[i].path;
	return NULL;
}

size_t build_id_files_count(const struct build_id_files *files)
{
	return files->numbers.count;
}
