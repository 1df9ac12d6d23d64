/* SPDX-License-Identifier: Apache-2.0 */
#include "client/program.h"

#include <elf.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/elf_file.h"
#include "base/file.h"
#include "base/string_pool.h"
#include "base/xalloc.h"

enum {
	/* Build systems write a folder per library into the run path. */
	RUN_PATH_BYTES = 64 * 1024,
};

/* Where the linker put this program's own header. */
extern const ElfW(Ehdr) own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

/* Many names end in "mallctl"; only jemalloc has this companion of it. */
static const char companion[] = "mallctlnametomib";

static bool take_mallctl(void *context, const char *name, uint64_t value)
{
	char *const mallctl = context;
	const size_t size = strlen(name);

	(void)value;
	if (size >= MALLCTL_NAME_BYTES)
		return true;
	snprintf(mallctl, MALLCTL_NAME_BYTES, "%.*smallctl", (int)(size - strlen(companion)), name);
	return false;
}

static bool find_mallctl(struct elf_file *elf, char name[MALLCTL_NAME_BYTES])
{
	name[0] = '\0';
	elf_file_functions(elf, companion, take_mallctl, name);
	return name[0] != '\0';
}

/* Whether a name of jemalloc ends at `end`, a NUL; its prefix goes into the name of mallctl. */
static bool take_name_before(const char *begin, const char *end, char name[MALLCTL_NAME_BYTES])
{
	const char *prefix = end - (sizeof companion - 1);
	const char *const behind = prefix;

	while (prefix > begin && (isalnum((unsigned char)prefix[-1]) || prefix[-1] == '_'))
		prefix--;
	const size_t size = (size_t)(behind - prefix);
	if (prefix == begin || prefix[-1] != '\0' || size + sizeof "mallctl" > MALLCTL_NAME_BYTES)
		return false;
	snprintf(name, MALLCTL_NAME_BYTES, "%.*smallctl", (int)size, prefix);
	return true;
}

/* A file for another machine, whose tables cannot be read: its names are found as text. */
static bool find_mallctl_text(int fd, char name[MALLCTL_NAME_BYTES])
{
	enum { BLOCK_BYTES = 1 << 16, OVERLAP_BYTES = MALLCTL_NAME_BYTES + sizeof companion };
	CLEANUP(free_cleanup) char *block = xmalloc(BLOCK_BYTES);
	ssize_t got;

	for (off_t at = 0; (got = pread(fd, block, BLOCK_BYTES, at)) > OVERLAP_BYTES;
		at += BLOCK_BYTES - OVERLAP_BYTES) {
		const char *const end = block + got;
		const char *from = block, *found;
		while ((found = memmem(from, (size_t)(end - from), companion, sizeof companion)) !=
			NULL) {
			from = found + sizeof companion;
			if (take_name_before(block, from - 1, name))
				return true;
		}
	}
	return false;
}

bool program_find_mallctl(int fd, char name[MALLCTL_NAME_BYTES])
{
	struct elf_file elf;
	struct error ignored;

	name[0] = '\0';
	if (elf_file_init_fd(&elf, fd, "", &ignored))
		return find_mallctl(&elf, name);
	return ignored.kind == ERROR_UNSUPPORTED && find_mallctl_text(fd, name);
}

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

bool program_library_is_sanitizer(const char *name)
{
	/* gcc's names, then clang's, whose other libraries of that kind replace nothing. */
	static const char *const beginnings[] = { "libasan.so", "libtsan.so", "liblsan.so",
		"libhwasan.so", "libclang_rt.asan", "libclang_rt.tsan", "libclang_rt.msan",
		"libclang_rt.lsan", "libclang_rt.hwasan" };

	for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
		if (begins_with(name, beginnings[i]))
			return true;
	}
	return false;
}

static bool take_sanitizer(void *context, const char *function, uint64_t value)
{
	static const char *const names[] = { "asan", "tsan", "msan", "lsan", "hwasan" };
	char *const name = context;
	char start[SANITIZER_NAME_BYTES + sizeof "___init"];

	(void)value;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(start, sizeof start, "__%s_init", names[i]);
		if (strcmp(function, start) != 0)
			continue;
		snprintf(name, SANITIZER_NAME_BYTES, "%s", names[i]);
		return false;
	}
	return true;
}

static bool find_sanitizer(struct elf_file *elf, char name[SANITIZER_NAME_BYTES])
{
	name[0] = '\0';
	elf_file_functions(elf, "san_init", take_sanitizer, name);
	return name[0] != '\0';
}

bool program_find_sanitizer(int fd, char name[SANITIZER_NAME_BYTES])
{
	struct elf_file elf;
	struct error ignored;

	name[0] = '\0';
	return elf_file_init_fd(&elf, fd, "", &ignored) && find_sanitizer(&elf, name);
}

bool program_is_foreign(int fd)
{
	struct elf_file elf;
	struct error problem;

	return elf_file_init_fd(&elf, fd, "", &problem)
		       ? elf.header.e_machine != own_header.e_machine
		       : problem.kind == ERROR_UNSUPPORTED;
}

bool program_is_go(int fd)
{
	struct elf_file elf;
	struct error ignored;

	return elf_file_init_fd(&elf, fd, "", &ignored) && elf_file_is_go(&elf);
}

bool program_has_allocator(int fd)
{
	struct elf_file elf;
	struct error ignored;

	/* The C library calls malloc too, so the linker shows it the program's, if it has one. */
	return elf_file_init_fd(&elf, fd, "", &ignored) &&
	       (elf_file_function(&elf, "malloc") != 0 ||
		       elf_file_has_text(&elf, 'I', "nvalid conf pair"));
}

static bool has_function(struct elf_file *elf, const char *prefix, const char *name)
{
	char whole[MALLCTL_NAME_BYTES];

	snprintf(whole, sizeof whole, "%s%s", prefix, name);
	return elf_file_function(elf, whole) != 0;
}

enum malloc_symbols program_malloc_symbols(int fd)
{
	/* The C library's names first, then those of jemalloc, mimalloc and tcmalloc. */
	static const char *const prefixes[] = { "", "je_", "_rjem_", "rjem_", "jemalloc_", "mi_",
		"tc_" };
	struct elf_file elf;
	struct error ignored;
	bool takes = false;

	if (!elf_file_init_fd(&elf, fd, "", &ignored))
		return MALLOC_STRIPPED;
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		if (!has_function(&elf, prefixes[i], "malloc") &&
			!has_function(&elf, prefixes[i], "calloc") &&
			!has_function(&elf, prefixes[i], "realloc"))
			continue;
		if (has_function(&elf, prefixes[i], "free"))
			return MALLOC_SHOWN;
		takes = true;
	}
	if (takes)
		return MALLOC_WITHOUT_FREE;
	return elf_file_has_symbol_table(&elf) ? MALLOC_MISSING : MALLOC_STRIPPED;
}

const char *program_conf_variable(
	int fd, const char *mallctl, char variable[MALLOC_CONF_VARIABLE_BYTES])
{
	struct elf_file elf;
	struct error ignored;

	malloc_conf_variable(mallctl[0] == '\0' ? "mallctl" : mallctl, variable);
	if (strcmp(variable, "MALLOC_CONF") != 0 && elf_file_init_fd(&elf, fd, "", &ignored) &&
		!elf_file_has_name(&elf, variable) && elf_file_has_name(&elf, "MALLOC_CONF"))
		strcpy(variable, "MALLOC_CONF");
	return variable;
}

/* The libraries still to be read; each once. */
struct closure {
	struct program *program;
	struct string_pool paths;
	size_t next;
	const char *path; /* of the object that is read */
	char run_path[RUN_PATH_BYTES];
	char text[LIBRARY_PATH_BYTES];
};

static void note_library(struct program *program, const char *path)
{
	const char *const name = path_base_name(path);
	char *const slot = begins_with(name, "libjemalloc") ? program->jemalloc
			   : begins_with(name, "libtcmalloc") || begins_with(name, "libmimalloc") ||
					   begins_with(name, "libsnmalloc") ||
					   begins_with(name, "librpmalloc")
				   ? program->other_allocator
			   : program_library_is_sanitizer(name) ? program->sanitizer
								: NULL;

	if (slot != NULL && slot[0] == '\0')
		snprintf(slot, sizeof program->jemalloc, "%s", path);
}

static bool take_first(void *context, const char *text)
{
	(void)context;
	(void)text;
	return false;
}

static bool add_library(void *context, const char *name)
{
	struct closure *const closure = context;
	char found[LIBRARY_PATH_BYTES];

	if (strcmp(name, "libc.so") == 0 || begins_with(name, "libc.musl"))
		closure->program->is_musl = true;
	if (library_search(name, closure->path, closure->run_path, found)) {
		note_library(closure->program, found);
		string_pool_add(&closure->paths, found);
	}
	return true;
}

static void add_needed(struct closure *closure, struct elf_file *elf, const char *path)
{
	closure->path = path;
	closure->run_path[0] = '\0';
	elf_file_dynamic_texts(
		elf, DT_RPATH, closure->run_path, sizeof closure->run_path, take_first, NULL);
	elf_file_dynamic_texts(
		elf, DT_RUNPATH, closure->run_path, sizeof closure->run_path, take_first, NULL);
	elf_file_dynamic_texts(
		elf, DT_NEEDED, closure->text, sizeof closure->text, add_library, closure);
}

static void walk_closure(struct elf_file *elf, struct program *program)
{
	CLEANUP(free_cleanup) struct closure *closure = xcalloc(1, sizeof *closure);
	struct error ignored;

	closure->program = program;
	string_pool_init(&closure->paths);
	add_needed(closure, elf, program->path);
	while (closure->next < closure->paths.count) {
		const char *const path = closure->paths.strings[closure->next++];
		if (!elf_file_open(elf, path, &ignored))
			continue;
		add_needed(closure, elf, path);
		elf_file_close(elf);
	}
	string_pool_deinit(&closure->paths);
}

static bool inspect_elf(int fd, struct program *program, struct error *err)
{
	struct elf_file elf;
	struct error problem;

	if (!elf_file_init_fd(&elf, fd, program->path, &problem)) {
		program->is_foreign = problem.kind == ERROR_UNSUPPORTED;
		if (program->is_foreign)
			return true;
		error_set(err, ERROR_INPUT, "%s: it is neither a program (ELF) nor a script",
			program->path);
		return error_hint(err, "a script begins with #! and its interpreter");
	}
	program->is_foreign = elf.header.e_machine != own_header.e_machine;
	program->kind = elf_file_has_interpreter(&elf) ? PROGRAM_DYNAMIC : PROGRAM_STATIC;
	program->is_go = elf_file_is_go(&elf);
	find_mallctl(&elf, program->mallctl);
	find_sanitizer(&elf, program->sanitizer);
	walk_closure(&elf, program);
	return true;
}

/* The word of a script's first line that begins at `*at`, and moves behind it. */
static size_t take_word(const char **at, const char **word)
{
	*word = *at + strspn(*at, " \t");
	const size_t size = strcspn(*word, " \t\r\n");
	*at = *word + size;
	return size;
}

/* "#!/bin/sh -e", or "#!/usr/bin/env python3", where env is only the way to the interpreter. */
static void inspect_script(const char *line, struct program *program)
{
	const char *at = line + 2, *word;
	size_t size = take_word(&at, &word);

	snprintf(program->interpreter, sizeof program->interpreter, "%.*s", (int)size, word);
	if (strcmp(path_base_name(program->interpreter), "env") == 0) {
		do {
			size = take_word(&at, &word);
		} while (size > 0 && (word[0] == '-' || memchr(word, '=', size) != NULL));
		if (size > 0)
			snprintf(program->interpreter, sizeof program->interpreter, "%.*s",
				(int)size, word);
	}
	program->kind = PROGRAM_SCRIPT;
}

/* As the kernel decides on secure mode (capabilities(7)): only what the user gains counts. */
static bool is_privileged(int fd, const struct stat *status)
{
	if ((status->st_mode & S_ISUID) != 0 && status->st_uid != getuid())
		return true;
	if ((status->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		status->st_gid != getgid())
		return true;
	return getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

static bool try_path(const char *folder, size_t size, const char *command, char path[4096])
{
	struct stat status;

	if (size == 0)
		snprintf(path, 4096, "./%s", command);
	else
		snprintf(path, 4096, "%.*s/%s", (int)size, folder, command);
	return access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool find_command(const char *command, char path[4096], struct error *err)
{
	const char *list = getenv("PATH");

	if (strchr(command, '/') != NULL) {
		snprintf(path, 4096, "%s", command);
		return true;
	}
	for (list = list == NULL ? "/usr/bin:/bin" : list; list != NULL;) {
		const size_t size = strcspn(list, ":");
		if (try_path(list, size, command, path))
			return true;
		list = list[size] == '\0' ? NULL : list + size + 1;
	}
	error_set(err, ERROR_NOT_FOUND, "%s: there is no such command", command);
	return error_hint(err, "check the name and PATH");
}

static bool inspect_file(struct program *program, struct error *err)
{
	CLEANUP(fd_cleanup) const int fd = open(program->path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	char line[4096] = "";

	if (fd < 0 || fstat(fd, &status) != 0) {
		error_system(err, errno, "%s", program->path);
		if (errno == ENOENT || errno == ENOTDIR)
			err->kind = ERROR_NOT_FOUND;
		else if (errno == EACCES)
			err->kind = ERROR_DENIED;
		return false;
	}
	if (!S_ISREG(status.st_mode)) {
		error_set(err, ERROR_INPUT, "%s: it is not a regular file", program->path);
		return error_hint(err, "name the program itself");
	}
	program->is_privileged = is_privileged(fd, &status);
	const ssize_t size = pread(fd, line, sizeof line - 1, 0);
	if (size > 2 && line[0] == '#' && line[1] == '!') {
		inspect_script(line, program);
		return true;
	}
	return inspect_elf(fd, program, err);
}

bool program_inspect(const char *command, struct program *program, struct error *err)
{
	struct program found = { 0 };

	if (!find_command(command, found.path, err) || !inspect_file(&found, err))
		return false;
	*program = found;
	return true;
}

/* A library for another kind of machine has the same name, in another folder. */
static bool is_for_this_machine(const char *path)
{
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr theirs, ours;

	if (fd < 0 || read(fd, &theirs, sizeof theirs) != sizeof theirs)
		return false;
	CLEANUP(fd_cleanup) const int own_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (own_fd < 0 || read(own_fd, &ours, sizeof ours) != sizeof ours)
		return memcmp(theirs.e_ident, ELFMAG, SELFMAG) == 0;
	return memcmp(theirs.e_ident, ours.e_ident, EI_DATA + 1) == 0 &&
	       theirs.e_machine == ours.e_machine;
}

/* One folder of a list: FOLDER/NAME, with $ORIGIN written out. */
static bool try_folder(const char *folder, size_t size, const char *origin, const char *name,
	char path[LIBRARY_PATH_BYTES])
{
	static const char *const origins[] = { "$ORIGIN", "${ORIGIN}" };
	const char *const slash = strrchr(origin, '/');
	const int origin_size = slash == NULL ? 0 : (int)(slash - origin);

	for (size_t i = 0; i < 2; i++) {
		const size_t token = strlen(origins[i]);
		if (size < token || memcmp(folder, origins[i], token) != 0)
			continue;
		snprintf(path, LIBRARY_PATH_BYTES, "%.*s%.*s/%s", origin_size, origin,
			(int)(size - token), folder + token, name);
		return is_for_this_machine(path);
	}
	if (size == 0)
		return false;
	snprintf(path, LIBRARY_PATH_BYTES, "%.*s/%s", (int)size, folder, name);
	return is_for_this_machine(path);
}

static bool try_list(
	const char *list, const char *origin, const char *name, char path[LIBRARY_PATH_BYTES])
{
	while (list != NULL && *list != '\0') {
		const size_t size = strcspn(list, ":;");
		if (try_folder(list, size, origin, name, path))
			return true;
		list += size + (list[size] != '\0');
	}
	return false;
}

/* The header and the entries of /etc/ld.so.cache, as glibc writes them since 2.2. */
struct cache_header {
	char magic[20];
	uint32_t count;
	uint32_t string_bytes;
	uint8_t flags;
	uint8_t padding[3];
	uint32_t extension_offset;
	uint32_t unused[3];
};

struct cache_entry {
	int32_t flags;
	uint32_t name;
	uint32_t path;
	uint32_t os_version;
	uint64_t hardware;
};

static const char *cache_string(const char *cache, size_t size, uint32_t offset)
{
	if (offset >= size || memchr(cache + offset, '\0', size - offset) == NULL)
		return "";
	return cache + offset;
}

static bool try_cache_bytes(
	const char *cache, size_t size, const char *name, char path[LIBRARY_PATH_BYTES])
{
	static const char magic[] = "glibc-ld.so.cache1.1";
	struct cache_header header;

	if (size < sizeof header || memcmp(cache, magic, sizeof header.magic) != 0)
		return false;
	memcpy(&header, cache, sizeof header);
	if (header.count > (size - sizeof header) / sizeof(struct cache_entry))
		return false;
	for (uint32_t i = 0; i < header.count; i++) {
		struct cache_entry entry;
		memcpy(&entry, cache + sizeof header + i * sizeof entry, sizeof entry);
		if (strcmp(cache_string(cache, size, entry.name), name) != 0)
			continue;
		snprintf(path, LIBRARY_PATH_BYTES, "%s", cache_string(cache, size, entry.path));
		if (is_for_this_machine(path))
			return true;
	}
	return false;
}

static bool try_cache(const char *name, char path[LIBRARY_PATH_BYTES])
{
	struct file_map map;
	struct error err;

	if (!file_map("/etc/ld.so.cache", &map, &err))
		return false;
	const bool found = map.data != NULL && try_cache_bytes(map.data, map.size, name, path);
	file_unmap(&map);
	return found;
}

bool library_search(const char *name, const char *needed_by, const char *run_path,
	char path[LIBRARY_PATH_BYTES])
{
	static const char defaults[] =
		"/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib/aarch64-linux-gnu:"
		"/usr/lib/aarch64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib";

	if (strchr(name, '/') != NULL) {
		snprintf(path, LIBRARY_PATH_BYTES, "%s", name);
		return is_for_this_machine(path);
	}
	return try_list(run_path, needed_by, name, path) ||
	       try_list(getenv("LD_LIBRARY_PATH"), needed_by, name, path) ||
	       try_cache(name, path) || try_list(defaults, needed_by, name, path);
}
