/* SPDX-License-Identifier: Apache-2.0 */
#include "client/program.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/string_pool.h"
#include "client/library_search.h"

static void elf_cleanup(Elf **elf)
{
	if (*elf != NULL)
		elf_end(*elf);
}

static bool ends_with(const char *text, const char *tail)
{
	const size_t size = strlen(text), tail_size = strlen(tail);

	return size >= tail_size && strcmp(text + size - tail_size, tail) == 0;
}

static bool find_in_table(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, char name[64])
{
	static const char companion[] = "mallctlnametomib";
	Elf_Data *const data = elf_getdata(section, NULL);

	if (data == NULL || header->sh_entsize == 0)
		return false;
	const size_t count = data->d_size / header->sh_entsize;
	for (size_t i = 0; i < count; i++) {
		GElf_Sym symbol;
		if (gelf_getsym(data, (int)i, &symbol) == NULL)
			return false;
		if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF)
			continue;
		const char *const text = elf_strptr(elf, header->sh_link, symbol.st_name);
		/* Many names end in "mallctl"; only jemalloc has this companion of it. */
		if (text != NULL && strlen(text) < 64 && ends_with(text, companion)) {
			snprintf(name, 64, "%.*smallctl", (int)(strlen(text) - strlen(companion)),
				text);
			return true;
		}
	}
	return false;
}

static bool find_mallctl(Elf *elf, char name[64])
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
		GElf_Shdr header;
		if (gelf_getshdr(section, &header) == NULL)
			continue;
		if ((header.sh_type == SHT_DYNSYM || header.sh_type == SHT_SYMTAB) &&
			find_in_table(elf, section, &header, name))
			return true;
	}
	return false;
}

bool program_find_mallctl(int fd, char name[64])
{
	elf_version(EV_CURRENT);
	CLEANUP(elf_cleanup) Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	return elf != NULL && elf_kind(elf) == ELF_K_ELF && find_mallctl(elf, name);
}

/* Whether the text is there with a NUL behind it, and no letter of a longer name before it. */
static bool has_name(const char *data, size_t size, const char *name)
{
	const size_t length = strlen(name) + 1;
	const char *at = data;

	while ((at = memmem(at, (size_t)(data + size - at), name, length)) != NULL) {
		if (at == data || (!isalnum((unsigned char)at[-1]) && at[-1] != '_'))
			return true;
		at++;
	}
	return false;
}

/* Where constant texts are. */
static bool has_text(Elf *elf, const char *name)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
		GElf_Shdr header;
		if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_PROGBITS ||
			(header.sh_flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR)) != SHF_ALLOC)
			continue;
		const Elf_Data *const data = elf_rawdata(section, NULL);
		if (data != NULL && data->d_buf != NULL &&
			has_name(data->d_buf, data->d_size, name))
			return true;
	}
	return false;
}

const char *program_conf_variable(
	int fd, const char *mallctl, char variable[MALLOC_CONF_VARIABLE_BYTES])
{
	malloc_conf_variable(mallctl[0] == '\0' ? "mallctl" : mallctl, variable);
	elf_version(EV_CURRENT);
	CLEANUP(elf_cleanup) Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	if (strcmp(variable, "MALLOC_CONF") != 0 && elf != NULL && elf_kind(elf) == ELF_K_ELF &&
		!has_text(elf, variable) && has_text(elf, "MALLOC_CONF"))
		strcpy(variable, "MALLOC_CONF");
	return variable;
}

static const char *last_part(const char *path)
{
	const char *const slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

static bool begins_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The libraries still to be looked at; each once. */
struct closure {
	struct string_pool paths;
	size_t next;
};

static void note_library(struct program *program, const char *path)
{
	const char *const name = last_part(path);
	char *const slot =
		begins_with(name, "libjemalloc") ? program->jemalloc
		: begins_with(name, "libtcmalloc") || begins_with(name, "libmimalloc") ||
				begins_with(name, "libsnmalloc") || begins_with(name, "librpmalloc")
			? program->other_allocator
		: begins_with(name, "libasan.so") || begins_with(name, "libtsan.so") ||
				begins_with(name, "liblsan.so") || begins_with(name, "libhwasan.so")
			? program->sanitizer
			: NULL;

	if (slot != NULL && slot[0] == '\0')
		snprintf(slot, sizeof program->jemalloc, "%s", path);
}

static Elf_Scn *find_dynamic(Elf *elf, GElf_Shdr *header)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
		if (gelf_getshdr(section, header) != NULL && header->sh_type == SHT_DYNAMIC)
			return section;
	}
	return NULL;
}

/* Adds what the object needs to the closure. False when it has no dynamic section. */
static bool add_needed(Elf *elf, const char *path, struct closure *closure, struct program *program)
{
	GElf_Shdr header;
	Elf_Scn *const section = find_dynamic(elf, &header);
	Elf_Data *const data = section == NULL ? NULL : elf_getdata(section, NULL);
	const char *run_path = NULL;
	GElf_Dyn entry;

	if (data == NULL || header.sh_entsize == 0)
		return false;
	const int count = (int)(data->d_size / header.sh_entsize);
	for (int i = 0; i < count && gelf_getdyn(data, i, &entry) != NULL; i++) {
		if (entry.d_tag == DT_RUNPATH || (entry.d_tag == DT_RPATH && run_path == NULL))
			run_path = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
	}
	for (int i = 0; i < count && gelf_getdyn(data, i, &entry) != NULL; i++) {
		char found[LIBRARY_PATH_BYTES];
		if (entry.d_tag != DT_NEEDED)
			continue;
		const char *const name = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
		if (name == NULL || !library_search(name, path, run_path, found))
			continue;
		note_library(program, found);
		string_pool_add(&closure->paths, found);
	}
	return true;
}

static void walk_closure(struct closure *closure, struct program *program)
{
	while (closure->next < closure->paths.count) {
		const char *const path = closure->paths.strings[closure->next++];
		CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
		CLEANUP(elf_cleanup) Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

		if (elf == NULL || elf_kind(elf) != ELF_K_ELF)
			continue;
		add_needed(elf, path, closure, program);
	}
}

static bool has_interpreter(Elf *elf)
{
	size_t count = 0;

	elf_getphdrnum(elf, &count);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;
		if (gelf_getphdr(elf, (int)i, &header) != NULL && header.p_type == PT_INTERP)
			return true;
	}
	return false;
}

static bool is_foreign(Elf *elf)
{
	CLEANUP(fd_cleanup) const int own_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CLEANUP(elf_cleanup) Elf *own = elf_begin(own_fd, ELF_C_READ_MMAP, NULL);
	GElf_Ehdr ours, theirs;

	if (own == NULL || gelf_getehdr(own, &ours) == NULL || gelf_getehdr(elf, &theirs) == NULL)
		return false;
	return ours.e_machine != theirs.e_machine ||
	       ours.e_ident[EI_CLASS] != theirs.e_ident[EI_CLASS];
}

static bool inspect_elf(int fd, struct program *program, struct error *err)
{
	elf_version(EV_CURRENT);
	CLEANUP(elf_cleanup) Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	if (elf == NULL || elf_kind(elf) != ELF_K_ELF)
		return error_set(err, ERROR_INPUT, "%s: it is no program (ELF) and no script",
			program->path);
	program->is_foreign = is_foreign(elf);
	program->kind = has_interpreter(elf) ? PROGRAM_DYNAMIC : PROGRAM_STATIC;
	find_mallctl(elf, program->mallctl);

	struct closure closure = { 0 };
	string_pool_init(&closure.paths);
	if (add_needed(elf, program->path, &closure, program))
		walk_closure(&closure, program);
	string_pool_deinit(&closure.paths);
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
	if (strcmp(last_part(program->interpreter), "env") == 0) {
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
	if (!S_ISREG(status.st_mode))
		return error_set(err, ERROR_INPUT, "%s: it is no file", program->path);
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
