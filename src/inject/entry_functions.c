/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/entry_functions.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/proc_maps.h"
#include "base/xalloc.h"
#include "inject/prologue.h"
#include "inject/remote.h"
#include "sampler/entry_list.h"

enum {
	REACH = 0x7fff0000, /* how far a jump may be, less the area */
	GAP_BYTES_MIN = 1 << 20,
	FIRST_ADDRESS = 1 << 20, /* below, the kernel may not map (vm.mmap_min_addr) */
	COMPARED_BYTES = 32,
	PATH_BYTES = 64,
};

static const struct {
	const char *name;
	bool releases;
} list[] = {
#define ROW(symbol, field, releases) { symbol, releases },
	ENTRY_LIST(ROW)
#undef ROW
};

enum { LIST_COUNT = sizeof list / sizeof *list };

_Static_assert(sizeof list / sizeof *list <= (size_t)ENTRY_PATCHES_MAX, "each may be patched");

/* In front of jemalloc's names. */
static const char *const prefixes[] = { "", "je_", "_rjem_", "rjem_", "jemalloc_" };

enum { PREFIX_COUNT = sizeof prefixes / sizeof *prefixes };

/* --- Symbols of the file --- */

struct symbol_tables {
	const struct elf_image *image;
	bool (*visit)(void *context, const char *name, const Elf64_Sym *symbol);
	void *context;
};

/* False when `visit` has ended it. */
static bool visit_table(const struct symbol_tables *tables, const struct elf_section *section)
{
	const struct elf_image *const image = tables->image;

	if (section->link >= image->section_count ||
		image->sections[section->link].type != SHT_STRTAB)
		return true;
	const struct elf_section *const texts = &image->sections[section->link];
	const struct elf_bytes names = elf_text_table(image->data + texts->offset, texts->size);
	for (uint64_t at = 0; section->size - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;
		memcpy(&symbol, image->data + section->offset + at, sizeof symbol);
		if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
			!tables->visit(
				tables->context, elf_text_at(&names, symbol.st_name), &symbol))
			return false;
	}
	return true;
}

static void visit_functions(const struct symbol_tables *tables)
{
	for (size_t i = 0; i < tables->image->section_count; i++) {
		const struct elf_section *const section = &tables->image->sections[i];
		if ((section->type == SHT_SYMTAB || section->type == SHT_DYNSYM) &&
			!visit_table(tables, section))
			return;
	}
}

/* A global name before a local one, which may be another function of the same name. */
struct entry_candidate {
	uint64_t value, size;
	bool is_known, is_local;
};

struct entry_candidates {
	struct entry_candidate found[PREFIX_COUNT][LIST_COUNT];
};

/* Without a prefix all names; with one those of jemalloc, which C++ has not. */
static int find_in_list(const char *name)
{
	for (int i = 0; i < LIST_COUNT; i++) {
		if (strcmp(list[i].name, name) == 0)
			return i;
	}
	return -1;
}

static void note_candidate(struct entry_candidate *candidate, const Elf64_Sym *symbol)
{
	const bool is_local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL;

	if (candidate->is_known && (is_local || !candidate->is_local))
		return;
	*candidate = (struct entry_candidate){ symbol->st_value, symbol->st_size, true, is_local };
}

static bool note_symbol(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct entry_candidates *const candidates = context;

	for (int i = 0; i < PREFIX_COUNT; i++) {
		const size_t size = strlen(prefixes[i]);
		const int index =
			strncmp(name, prefixes[i], size) == 0 ? find_in_list(name + size) : -1;
		if (index >= 0)
			note_candidate(&candidates->found[i][index], symbol);
	}
	return true;
}

static bool has(const struct entry_candidate *found, const char *name)
{
	const int index = find_in_list(name);

	return index >= 0 && found[index].is_known;
}

/* Whether they are an allocator: what takes blocks and what gives them back. */
static bool is_allocator(const struct entry_candidate *found)
{
	/* A static program has those that it calls alone. */
	const bool takes = has(found, "malloc") || has(found, "calloc") || has(found, "realloc");

	return (takes && has(found, "free")) ||
	       (has(found, "mallocx") && (has(found, "dallocx") || has(found, "sdallocx"))) ||
	       (has(found, "mi_free") &&
		       (has(found, "mi_malloc") || has(found, "mi_malloc_aligned"))) ||
	       (has(found, "tc_malloc") && has(found, "tc_free"));
}

/* --- The file --- */

/* The mapping that has the module's code; its path is copied. */
static bool find_mapping(pid_t pid, uint64_t address, struct proc_map *map, char *path, size_t size)
{
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;

	if (!file_try_read(&maps, "/proc/%d/maps", (int)pid))
		return false;
	const char *at = maps.data;
	while (proc_map_next(&at, maps.data + maps.size, map)) {
		if (address >= map->start && address < map->limit) {
			snprintf(path, size, "%.*s", (int)map->path_size, map->path);
			map->path = path;
			return true;
		}
	}
	return false;
}

/* What is mapped: the kernel's own link to it, or the file of that path if it is the same one. */
static int open_mapped_file(pid_t pid, const struct proc_map *map, const char *path)
{
	CLEANUP(free_cleanup)
	char *link = xasprintf(
		"/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, map->start, map->limit);
	CLEANUP(free_cleanup) char *seen = xasprintf("/proc/%d/root%s", (int)pid, path);
	struct stat status;

	const int mapped = open(link, O_RDONLY | O_CLOEXEC);
	if (mapped >= 0)
		return mapped;
	CLEANUP(fd_cleanup) int fd = open(seen, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &status) != 0 || status.st_ino != map->inode)
		return -1;
	return TAKE_FD(fd);
}

/* The program's is there also for those that may not use the kernel's links. */
static int open_program(pid_t pid, const struct proc_map *map)
{
	char path[PATH_BYTES];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	CLEANUP(fd_cleanup) int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &status) == 0 && status.st_ino == map->inode ? TAKE_FD(fd) : -1;
}

static bool open_file(struct entry_functions *found, pid_t pid, const struct remote_module *module,
	struct error *err)
{
	struct proc_map map;

	if (!find_mapping(pid, module->begin, &map, found->where, sizeof found->where))
		return error_set(err, ERROR_NOT_FOUND, "the process has changed meanwhile");
	CLEANUP(fd_cleanup) int fd = open_mapped_file(pid, &map, found->where);
	if (fd < 0)
		fd = open_program(pid, &map);
	if (fd < 0)
		return error_set(err, ERROR_UNSUPPORTED,
			"%s cannot be read, or was replaced since: its functions are not known",
			found->where);
	return elf_image_open_fd(fd, found->where, &found->image, err);
}

/* The function's bytes in the file; NULL when they are not there. */
static const unsigned char *bytes_of(const struct elf_image *image, uint64_t value, uint64_t size)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct elf_segment *const segment = &image->segments[i];
		if (segment->executable && value >= segment->vaddr &&
			value - segment->vaddr < segment->file_bytes &&
			size <= segment->file_bytes - (value - segment->vaddr) &&
			segment->offset <= image->size &&
			segment->file_bytes <= image->size - segment->offset)
			return image->data + segment->offset + (value - segment->vaddr);
	}
	return NULL;
}

/* --- Each function --- */

static void note_missed(struct entry_functions *found, const char *name, const char *reason)
{
	const size_t used = strlen(found->missed);

	snprintf(found->missed + used, sizeof found->missed - used, "%s%s %s",
		used == 0 ? "" : "; ", name, reason);
}

/* Where the jump that another tool has put there leads to. */
static void explain_jump(
	pid_t pid, uint64_t address, const unsigned char *now, char *text, size_t size)
{
	struct proc_map map;
	char path[256] = "";
	int32_t distance = 0;

	memcpy(&distance, now + 1, sizeof distance);
	const uint64_t to = address + ENTRY_JUMP_BYTES + (uint64_t)(int64_t)distance;
	if (now[0] != 0xe9 || !find_mapping(pid, to, &map, path, sizeof path))
		path[0] = '\0';
	snprintf(text, size, "%s%s", path[0] == '\0' ? "" : ": it jumps into ", path);
}

static bool refuse_other_tool(pid_t pid, const struct entry_functions *found, const char *name,
	uint64_t address, const unsigned char *now, struct error *err)
{
	char more[300] = "";

	if (now[0] == 0xcc) {
		error_set(err, ERROR_STATE, "%s of %s has a breakpoint or a uprobe", name,
			found->where);
		return error_hint(err, "end the debugger or tracer first");
	}
	explain_jump(pid, address, now, more, sizeof more);
	error_set(
		err, ERROR_STATE, "another tool has patched %s of %s%s", name, found->where, more);
	return error_hint(err, "end that tool's session first, or use --method got");
}

static bool is_known_address(const struct entry_functions *found, uint64_t address)
{
	for (size_t i = 0; i < found->count; i++) {
		if (found->functions[i].address == address)
			return true;
	}
	return false;
}

static bool compare_with_memory(const struct remote_process *remote,
	const struct entry_functions *found, const struct entry_function *function,
	struct error *err)
{
	unsigned char now[COMPARED_BYTES];
	const size_t size = function->size < sizeof now ? function->size : sizeof now;

	if (!remote_copy(remote, function->address, now, size))
		return error_set(err, ERROR_NOT_FOUND, "the process has ended");
	return memcmp(now, function->bytes, size) == 0 ||
	       refuse_other_tool(
		       remote->thread, found, function->name, function->address, now, err);
}

/* Why it cannot be patched wherever the area will be; NULL: it can. */
static const char *find_obstacle(const struct entry_functions *found,
	const struct entry_function *function, struct prologue *prologue, struct error *err)
{
	enum { PAGE = 4096 };

	if (function->bytes == NULL || function->size < ENTRY_JUMP_BYTES)
		return "is too short";
	/* It is written at once, and that is one write in one page only. */
	if (function->address % PAGE > PAGE - ENTRY_JUMP_BYTES)
		return "begins at the end of a page";
	if (!prologue_move(prologue, function->bytes, function->size, function->address,
		    found->first, err))
		return err->message;
	return NULL;
}

/* How far behind each of them the next function begins. */
struct entry_distances {
	const struct entry_candidate *candidates;
	uint64_t next[LIST_COUNT];
};

static bool note_distance(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct entry_distances *const distances = context;

	(void)name;
	for (int i = 0; i < LIST_COUNT; i++) {
		const uint64_t distance = symbol->st_value - distances->candidates[i].value;
		if (distance > 0 && distance < distances->next[i])
			distances->next[i] = distance;
	}
	return true;
}

static void find_distances(struct entry_distances *distances, const struct elf_image *image,
	const struct entry_candidate *candidates)
{
	const struct symbol_tables tables = { image, note_distance, distances };

	*distances = (struct entry_distances){ .candidates = candidates };
	memset(distances->next, 0xff, sizeof distances->next);
	visit_functions(&tables);
}

static bool add_function(struct entry_functions *found, const struct remote_process *remote,
	const struct remote_module *module, const struct entry_distances *distances, int index,
	struct error *err)
{
	const struct entry_candidate *const candidate = &distances->candidates[index];
	const uint64_t address = module->bias + candidate->value;
	const struct entry_function function = { .name = list[index].name,
		.index = (uint8_t)index,
		.releases = list[index].releases,
		.address = address,
		.bytes = bytes_of(&found->image, candidate->value, candidate->size),
		.size = candidate->size };
	struct prologue prologue;
	struct error reason = { 0 };

	if (is_known_address(found, address))
		return true;
	const char *obstacle = find_obstacle(found, &function, &prologue, &reason);
	if (obstacle == NULL && distances->next[index] < prologue.length)
		obstacle = "has another function in its first bytes";
	if (obstacle != NULL && function.releases) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s of %s cannot be patched, so freed blocks would seem to stay: it %s",
			function.name, found->where, obstacle);
		return error_hint(err, "%s", reason.hint);
	}
	if (obstacle != NULL) {
		note_missed(found, function.name, obstacle);
		return true;
	}
	if (!compare_with_memory(remote, found, &function, err))
		return false;
	found->functions[found->count++] = function;
	return true;
}

/* C++'s operators only if the module has both kinds: it frees by what it allocates with. */
static bool is_left_out(const struct entry_candidate *candidates, int index)
{
	return strncmp(list[index].name, "_Z", 2) == 0 &&
	       !(has(candidates, "_Znwm") && has(candidates, "_ZdlPv"));
}

/* --- Where the area may be --- */

/*
 * The largest free range below the module: a small one may be where stacks of threads come and go.
 * Above it, where the heap may grow, only if there is none below.
 */
static bool find_range(struct entry_functions *found, pid_t pid, const struct remote_module *module,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;
	const uint64_t low =
		module->end > REACH + (uint64_t)FIRST_ADDRESS ? module->end - REACH : FIRST_ADDRESS;
	const uint64_t high = module->begin + REACH;
	uint64_t last = FIRST_ADDRESS, largest = 0;
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	if (!file_read(path, &maps, err))
		return false;
	const char *at = maps.data;
	struct proc_map map;
	while (proc_map_next(&at, maps.data + maps.size, &map)) {
		const uint64_t first = last > low ? last : low;
		const uint64_t limit = map.start < high ? map.start : high;
		const bool is_below = limit <= module->begin;
		const uint64_t size = limit > first ? limit - first : 0;
		if (size >= GAP_BYTES_MIN && (is_below ? size > largest : found->limit == 0)) {
			largest = size;
			/* The agent's own stacks and arena come to its upper end meanwhile. */
			found->first = is_below && size > REACH / 32 ? first + size / 2 : first;
			found->limit = limit;
		}
		last = map.limit;
	}
	found->first = (found->first + 0xfff) & ~UINT64_C(0xfff);
	return found->limit != 0 ||
	       error_set(err, ERROR_UNSUPPORTED, "there are no free addresses within 2 GiB of %s",
		       found->where);
}

/* --- The allocator --- */

static bool use_module(struct entry_functions *found, const struct remote_process *remote,
	const struct remote_module *module, struct error *err)
{
	CLEANUP(free_cleanup) struct entry_candidates *candidates = xcalloc(1, sizeof *candidates);
	struct entry_distances distances;
	int prefix = 0;

	if (!open_file(found, remote->thread, module, err))
		return false;
	const struct symbol_tables tables = { &found->image, note_symbol, candidates };
	visit_functions(&tables);
	while (prefix < PREFIX_COUNT && !is_allocator(candidates->found[prefix]))
		prefix++;
	if (prefix == PREFIX_COUNT)
		return error_set(
			err, ERROR_NOT_FOUND, "%s has no allocator with symbols", found->where);
	if (!find_range(found, remote->thread, module, err))
		return false;
	const struct entry_candidate *const chosen = candidates->found[prefix];
	find_distances(&distances, &found->image, chosen);
	for (int i = 0; i < LIST_COUNT; i++) {
		if (chosen[i].is_known && !is_left_out(chosen, i) &&
			!add_function(found, remote, module, &distances, i, err))
			return false;
	}
	return true;
}

static const struct remote_module *find_module(
	const struct remote_process *remote, enum remote_role role)
{
	for (size_t i = 0; i < remote->count; i++) {
		if (remote->modules[i].role == role && !remote->modules[i].is_apart &&
			(role == REMOTE_PROGRAM || remote->modules[i].has_malloc))
			return &remote->modules[i];
	}
	return NULL;
}

static bool find_in_modules(struct entry_functions *found, const struct remote_process *remote,
	enum entry_scope scope, struct error *err)
{
	static const enum remote_role roles[] = { REMOTE_PROGRAM, REMOTE_ALLOCATOR, REMOTE_LIBC };
	const size_t count = scope == ENTRY_OF_PROGRAM ? 1 : sizeof roles / sizeof *roles;

	struct error reason;

	error_set(&reason, ERROR_NOT_FOUND, "its program has no allocator with symbols");
	for (size_t i = 0; i < count && reason.kind == ERROR_NOT_FOUND; i++) {
		const struct remote_module *const module = find_module(remote, roles[i]);
		entry_functions_deinit(found);
		if (module != NULL && use_module(found, remote, module, &reason))
			return true;
	}
	*err = reason;
	return false;
}

bool entry_functions_find(
	struct entry_functions *found, pid_t pid, enum entry_scope scope, struct error *err)
{
	struct remote_process remote;

	*found = (struct entry_functions){ 0 };
#ifndef __x86_64__
	return error_set(err, ERROR_UNSUPPORTED, "heapctl patches functions on x86-64 only");
#endif
	const bool done =
		remote_read(&remote, pid, err) && find_in_modules(found, &remote, scope, err);
	remote_deinit(&remote);
	return done;
}

void entry_functions_deinit(struct entry_functions *found)
{
	elf_image_close(&found->image);
	*found = (struct entry_functions){ 0 };
}
