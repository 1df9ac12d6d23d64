/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/remote.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/elf_file.h"
#include "base/file.h"
#include "base/proc_maps.h"
#include "base/xalloc.h"
#include "unwind/table.h"

enum {
	PAGE = 4096,
	MODULES_MAX = 4096,
	HEADERS_MAX = 64,
	DYNAMIC_MAX = 256,
	NAME_BYTES = 64,
	CHAIN_MAX = 65536,
};

size_t remote_copy_some(
	const struct remote_process *remote, uint64_t address, void *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		const ssize_t got = pread(
			remote->memory, (char *)bytes + done, size - done, (off_t)(address + done));
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

bool remote_copy(const struct remote_process *remote, uint64_t address, void *bytes, size_t size)
{
	return remote_copy_some(remote, address, bytes, size) == size;
}

bool remote_write(
	const struct remote_process *remote, uint64_t address, const void *bytes, size_t size)
{
	return pwrite(remote->memory, bytes, size, (off_t)address) == (ssize_t)size;
}

/* The file reads as empty then, at any address. */
bool remote_is_gone(const struct remote_process *remote)
{
	char byte;

	return pread(remote->memory, &byte, 1, PAGE) == 0;
}

static bool copy_for_table(void *context, uint64_t address, void *bytes, size_t size)
{
	return remote_copy(context, address, bytes, size);
}

/* --- Symbols --- */

/* glibc has put the bias into the addresses of a dynamic section, the vDSO's are as linked. */
static uint64_t address_of(const struct remote_module *module, uint64_t value)
{
	return value < module->bias ? module->bias + value : value;
}

static void read_dynamic(
	struct remote_process *remote, struct remote_module *module, const Elf64_Phdr *segment)
{
	Elf64_Dyn entries[DYNAMIC_MAX];
	size_t size = segment->p_memsz < sizeof entries ? segment->p_memsz : sizeof entries;

	module->dynamic = module->bias + segment->p_vaddr;
	module->dynamic_bytes = segment->p_memsz;
	size = remote_copy_some(
		remote, module->bias + segment->p_vaddr, entries, size - size % sizeof *entries);
	for (size_t i = 0; i < size / sizeof *entries && entries[i].d_tag != DT_NULL; i++) {
		const uint64_t value = entries[i].d_un.d_val;
		switch (entries[i].d_tag) {
		case DT_SYMTAB:
			module->symbols = address_of(module, value);
			break;
		case DT_STRTAB:
			module->strings = address_of(module, value);
			break;
		case DT_STRSZ:
			module->strings_bytes = value;
			break;
		case DT_GNU_HASH:
			module->hash = address_of(module, value);
			break;
		case DT_HASH:
			module->old_hash = address_of(module, value);
			break;
		default:
			break;
		}
	}
}

static bool is_called(const struct remote_process *remote, const struct remote_module *module,
	const Elf64_Sym *symbol, const char *name)
{
	const size_t size = strlen(name) + 1;
	char text[NAME_BYTES];

	return symbol->st_name < module->strings_bytes && size <= sizeof text &&
	       remote_copy(remote, module->strings + symbol->st_name, text, size) &&
	       memcmp(text, name, size) == 0;
}

static bool read_function(const struct remote_process *remote, const struct remote_module *module,
	uint32_t number, const char *name, struct remote_function *function)
{
	Elf64_Sym symbol;

	if (!remote_copy(remote, module->symbols + (uint64_t)number * sizeof symbol, &symbol,
		    sizeof symbol) ||
		symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
		!is_called(remote, module, &symbol, name))
		return false;
	const uint64_t begin = module->bias + symbol.st_value;
	*function = (struct remote_function){ begin, begin + symbol.st_size };
	return true;
}

/* The table of DT_HASH: counts of buckets and of symbols; the buckets, the chains. */
static size_t functions_by_old_hash(const struct remote_process *remote,
	const struct remote_module *module, const char *name, struct remote_function *functions,
	size_t max)
{
	uint32_t head[2], number = STN_UNDEF;
	size_t count = 0;

	if (module->old_hash == 0 || !remote_copy(remote, module->old_hash, head, sizeof head) ||
		head[0] == 0)
		return 0;
	const uint64_t buckets = module->old_hash + sizeof head;
	const uint64_t chains = buckets + (uint64_t)head[0] * sizeof number;
	uint64_t at = buckets + (uint64_t)(elf_old_hash(name) % head[0]) * sizeof number;
	for (uint32_t i = 0; i < CHAIN_MAX && count < max; i++) {
		if (!remote_copy(remote, at, &number, sizeof number) || number == STN_UNDEF)
			break;
		count += read_function(remote, module, number, name, &functions[count]);
		at = chains + (uint64_t)number * sizeof number;
	}
	return count;
}

/*
 * By GNU's hash table: counts of buckets, of the first symbol and of the filter's words, a shift;
 * then the filter, the buckets, and a chain for each that ends at an odd hash.
 */
size_t remote_functions(const struct remote_process *remote, const struct remote_module *module,
	const char *name, struct remote_function *functions, size_t max)
{
	const uint32_t hash = elf_gnu_hash(name);
	uint32_t head[4], found = 0, index = 0;
	size_t count = 0;

	if (module->symbols == 0 || module->strings == 0)
		return 0;
	if (module->hash == 0)
		return functions_by_old_hash(remote, module, name, functions, max);
	if (!remote_copy(remote, module->hash, head, sizeof head) || head[0] == 0)
		return 0;
	const uint64_t buckets = module->hash + sizeof head + (uint64_t)head[2] * sizeof(uint64_t);
	const uint64_t chains = buckets + (uint64_t)head[0] * sizeof(uint32_t);
	if (!remote_copy(remote, buckets + (uint64_t)(hash % head[0]) * sizeof index, &index,
		    sizeof index) ||
		index < head[1])
		return 0;
	for (uint32_t i = index; i - index < CHAIN_MAX && (found & 1) == 0 && count < max; i++) {
		if (!remote_copy(remote, chains + (uint64_t)(i - head[1]) * sizeof found, &found,
			    sizeof found))
			break;
		if ((found | 1) == (hash | 1))
			count += read_function(remote, module, i, name, &functions[count]);
	}
	return count;
}

uint64_t remote_function(
	const struct remote_process *remote, enum remote_role role, const char *name)
{
	for (size_t i = 0; i < remote->count; i++) {
		struct remote_function function;
		if (remote->modules[i].role == role && !remote->modules[i].is_apart &&
			remote_functions(remote, &remote->modules[i], name, &function, 1) == 1)
			return function.begin;
	}
	return 0;
}

static bool defines(
	const struct remote_process *remote, const struct remote_module *module, const char *name)
{
	struct remote_function ignored;

	return remote_functions(remote, module, name, &ignored, 1) == 1;
}

/* Its C library is its loader. */
static bool module_is_musl(const struct remote_process *remote, const struct remote_module *module)
{
	return defines(remote, module, "__tls_get_addr") &&
	       defines(remote, module, "__libc_start_main");
}

static enum remote_role role_of(
	const struct remote_process *remote, const struct remote_module *module, bool is_program)
{
	if (defines(remote, module, "gnu_get_libc_version") || module_is_musl(remote, module))
		return REMOTE_LIBC;
	if (defines(remote, module, "__tls_get_addr"))
		return REMOTE_LOADER;
	/* libpthread, which libc has contained since 2.34. */
	if (defines(remote, module, "pthread_create") && defines(remote, module, "sem_wait"))
		return REMOTE_LIBC;
	if (is_program)
		return REMOTE_PROGRAM;
	return module->has_malloc ? REMOTE_ALLOCATOR : REMOTE_LIBRARY;
}

/* --- Modules --- */

static void add_code(struct remote_module *module, const Elf64_Phdr *segment)
{
	const uint64_t begin = module->bias + segment->p_vaddr;
	const uint64_t end = begin + segment->p_memsz;

	if (begin < module->begin)
		module->begin = begin;
	if (end <= module->end)
		return;
	module->end = end;
	/* Whole words, for they are written as words. */
	module->spare = (end + 15) & ~UINT64_C(15);
	module->spare_bytes = (PAGE - module->spare % PAGE) % PAGE;
}

static void build_table(
	struct remote_process *remote, struct remote_module *module, const Elf64_Phdr *frames)
{
	const struct unwind_loaded header = { .address = module->bias + frames->p_vaddr,
		.size = frames->p_memsz,
		.copy = copy_for_table,
		.context = remote };
	struct error ignored;

	if (!unwind_loaded_table(&module->table, UNWIND_OWN_MACHINE, &header, module->begin,
		    &memory_heap, &ignored))
		module->table = (struct unwind_table){ 0 };
}

/* What is mapped at `start` is the beginning of a file: whether it is a module. */
static void add_module(struct remote_process *remote, uint64_t start)
{
	struct remote_module module = { .begin = UINT64_MAX };
	const Elf64_Phdr *frames = NULL, *dynamic = NULL, *interpreter = NULL;
	Elf64_Phdr headers[HEADERS_MAX];
	bool has_bias = false;
	Elf64_Ehdr header;

	if (remote->count == MODULES_MAX || !remote_copy(remote, start, &header, sizeof header) ||
		memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
		header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof *headers ||
		header.e_phnum > HEADERS_MAX ||
		!remote_copy(
			remote, start + header.e_phoff, headers, header.e_phnum * sizeof *headers))
		return;
	for (size_t i = 0; i < header.e_phnum; i++) {
		const Elf64_Phdr *const segment = &headers[i];
		if (segment->p_type == PT_LOAD && !has_bias) {
			module.bias = start - (segment->p_vaddr & ~(uint64_t)(PAGE - 1));
			has_bias = true;
		}
		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0)
			add_code(&module, segment);
		if (segment->p_type == PT_GNU_EH_FRAME)
			frames = segment;
		if (segment->p_type == PT_DYNAMIC)
			dynamic = segment;
		if (segment->p_type == PT_INTERP)
			interpreter = segment;
	}
	if (module.begin >= module.end)
		return;
	if (dynamic != NULL)
		read_dynamic(remote, &module, dynamic);
	if (frames != NULL)
		build_table(remote, &module, frames);
	module.has_malloc = defines(remote, &module, "malloc");
	module.is_program = start + header.e_phoff == remote->program_headers;
	/* A static program may be relocatable (static-pie), and is known by its headers. */
	module.role = role_of(remote, &module,
		interpreter != NULL || header.e_type == ET_EXEC || module.is_program);
	module.has_interpreter = interpreter != NULL;
	remote->modules =
		xreallocarray(remote->modules, remote->count + 1, sizeof *remote->modules);
	remote->modules[remote->count++] = module;
}

/* --- The loader's list --- */

enum { LIST_MAX = 16384 };

/* Its beginning; 0 when the module does not show it, as only programs do (DT_DEBUG). */
static uint64_t list_of(const struct remote_process *remote, const struct remote_module *module)
{
	struct r_debug debug;
	Elf64_Dyn entry;

	for (uint64_t at = 0; module->dynamic_bytes - at >= sizeof entry; at += sizeof entry) {
		if (!remote_copy(remote, module->dynamic + at, &entry, sizeof entry) ||
			entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_DEBUG)
			return remote_copy(remote, entry.d_un.d_ptr, &debug, sizeof debug)
				       ? (uint64_t)(uintptr_t)debug.r_map
				       : 0;
	}
	return 0;
}

/* Whether the program itself is in the list; marks what is not. */
static bool mark_by_list(struct remote_process *remote, uint64_t at)
{
	bool has_program = false;
	struct link_map link;

	for (size_t i = 0; i < remote->count; i++)
		remote->modules[i].is_apart = remote->modules[i].dynamic != 0;
	for (size_t i = 0; i < LIST_MAX && at != 0; i++) {
		if (!remote_copy(remote, at, &link, sizeof link))
			return false;
		for (size_t j = 0; j < remote->count; j++) {
			struct remote_module *const module = &remote->modules[j];
			if (module->dynamic != (uint64_t)(uintptr_t)link.l_ld)
				continue;
			module->is_apart = false;
			has_program = has_program || module->is_program;
		}
		at = (uint64_t)(uintptr_t)link.l_next;
	}
	return has_program;
}

static bool is_static(const struct remote_module *program)
{
	return program->is_program && !program->has_interpreter &&
	       (program->role == REMOTE_PROGRAM || program->role == REMOTE_ALLOCATOR);
}

/* Nothing is marked where no list can be read, as the loader begins. */
static void mark_apart(struct remote_process *remote, uint64_t vdso)
{
	bool has_static = false;

	for (size_t i = 0; i < remote->count; i++)
		has_static = has_static || is_static(&remote->modules[i]);
	for (size_t i = 0; i < remote->count && !has_static; i++) {
		const uint64_t list = list_of(remote, &remote->modules[i]);
		if (list != 0 && mark_by_list(remote, list))
			return;
	}
	/* A static program calls no other module, also where it opens some. */
	for (size_t i = 0; i < remote->count; i++)
		remote->modules[i].is_apart = has_static && !remote->modules[i].is_program &&
					      remote->modules[i].bias != vdso;
}

static void note_kinds(struct remote_process *remote)
{
	for (size_t i = 0; i < remote->count; i++) {
		const struct remote_module *const module = &remote->modules[i];
		if (module->is_apart)
			continue;
		remote->has_interpreter = remote->has_interpreter || module->has_interpreter;
		remote->has_musl = remote->has_musl || module_is_musl(remote, module);
		remote->has_libc = remote->has_libc || module->role == REMOTE_LIBC;
	}
}

static void note_gap(struct remote_process *remote, uint64_t begin, uint64_t end)
{
	/* Of the user's half of the addresses; not where a stack may still grow to. */
	static const uint64_t limit = UINT64_C(0x7f0000000000);

	end = end < limit ? end : limit;
	if (begin < end && end - begin > remote->gap_bytes) {
		remote->gap = begin;
		remote->gap_bytes = end - begin;
	}
}

static int compare_modules(const void *left, const void *right)
{
	const struct remote_module *const a = left, *const b = right;

	return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Not of a thread that has ended: its memory cannot be opened, or is empty. */
static bool open_memory(struct remote_process *remote, pid_t thread)
{
	char path[64];

	if (remote->memory >= 0)
		close(remote->memory);
	snprintf(path, sizeof path, "task/%d/mem", (int)thread);
	remote->memory = openat(remote->folder, path, O_RDWR | O_CLOEXEC);
	remote->thread = thread;
	return remote->memory >= 0 && !remote_is_gone(remote);
}

static bool open_memory_of_others(struct remote_process *remote)
{
	bool done = false;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/task", (int)remote->pid);
	DIR *const tasks = opendir(path);
	for (struct dirent *entry; tasks != NULL && !done && (entry = readdir(tasks)) != NULL;)
		done = isdigit((unsigned char)entry->d_name[0]) &&
		       open_memory(remote, atoi(entry->d_name));
	if (tasks != NULL)
		closedir(tasks);
	return done;
}

static bool open_process(struct remote_process *remote, struct error *err)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d", (int)remote->pid);
	remote->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (remote->folder < 0)
		return error_set(err, ERROR_NOT_FOUND, "there is no process %d", (int)remote->pid);
	if (open_memory(remote, remote->pid))
		return true;
	const int number = errno;
	if (remote->memory < 0 && number != ENOENT && number != ESRCH)
		return error_set(err, ERROR_DENIED, "the memory of process %d cannot be opened: %s",
			(int)remote->pid, errno_text(number));
	return open_memory_of_others(remote) ||
	       error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)remote->pid);
}

/* What the kernel has told the program, of that type; 0: not known. */
static uint64_t read_vector(pid_t pid, pid_t thread, uint64_t type)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	uint64_t pair[2];

	if (!file_try_read(&text, "/proc/%d/task/%d/auxv", (int)pid, (int)thread))
		return 0;
	for (size_t at = 0; text.size - at >= sizeof pair; at += sizeof pair) {
		memcpy(pair, text.data + at, sizeof pair);
		if (pair[0] == type)
			return pair[1];
	}
	return 0;
}

bool remote_read(struct remote_process *remote, pid_t pid, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;
	char path[64];
	uint64_t last_end = UINT64_C(1) << 32;

	*remote = (struct remote_process){ .pid = pid, .folder = -1, .memory = -1 };
	if (!open_process(remote, err))
		return false;
	snprintf(path, sizeof path, "/proc/%d/task/%d/maps", (int)pid, (int)remote->thread);
	if (!file_read(path, &maps, err))
		return false;
	remote->program_headers = read_vector(pid, remote->thread, AT_PHDR);
	const char *at = maps.data;
	struct proc_map map;
	while (proc_map_next(&at, maps.data + maps.size, &map)) {
		note_gap(remote, last_end, map.start);
		last_end = map.limit;
		if (map.file_offset == 0 && map.readable && !map.writable &&
			(map.path_size == 0 || map.path[0] == '/' || map.executable))
			add_module(remote, map.start);
	}
	if (remote->count == 0)
		return error_set(
			err, ERROR_DENIED, "the memory of process %d cannot be read", (int)pid);
	qsort(remote->modules, remote->count, sizeof *remote->modules, compare_modules);
	mark_apart(remote, read_vector(pid, remote->thread, AT_SYSINFO_EHDR));
	note_kinds(remote);
	return true;
}

void remote_deinit(struct remote_process *remote)
{
	for (size_t i = 0; i < remote->count; i++)
		unwind_table_deinit(&remote->modules[i].table);
	free(remote->modules);
	if (remote->memory >= 0)
		close(remote->memory);
	if (remote->folder >= 0)
		close(remote->folder);
	*remote = (struct remote_process){ .folder = -1, .memory = -1 };
}

const struct remote_module *remote_find_begun(const struct remote_process *remote, uint64_t address)
{
	size_t low = 0, high = remote->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (remote->modules[middle].begin <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? &remote->modules[low - 1] : NULL;
}

const struct remote_module *remote_find(const struct remote_process *remote, uint64_t address)
{
	const struct remote_module *const module = remote_find_begun(remote, address);

	return module != NULL && address < module->end ? module : NULL;
}
