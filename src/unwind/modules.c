/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/loaded_module.h"
#include "base/loader_use.h"
#include "unwind/modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "unwind/table.h"

enum {
	MODULES_AT_FIRST = 64,
	MODULES_MAX = 16384,
	FINGERPRINT_BYTES = 256,
	WAIT_NS = 100 * 1000,
	WAITS_MAX = 20000, /* two seconds */
};

/* What the loader says of a module. */
struct loaded {
	uint64_t begin, end;
	uint64_t header;
	uint64_t header_bytes;
	bool has_frames; /* `header` is .eh_frame itself */
	char name[UNWIND_NAME_MAX];
};

struct loaded_list {
	struct loaded *items;
	size_t count, capacity;
	unsigned long long adds, subs;
};

static void copy_name(const char *path, char name[UNWIND_NAME_MAX])
{
	const char *const last = path == NULL ? "" : path_base_name(path);
	const size_t size = strnlen(last, UNWIND_NAME_MAX - 1);

	memcpy(name, last, size);
	name[size] = '\0';
}

/* Under the loader's lock: copies, and reads nothing that is not in memory. */
static int add_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
	struct loaded_list *const list = context;
	struct loaded loaded = { .begin = UINT64_MAX };

	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
		list->adds = info->dlpi_adds;
		list->subs = info->dlpi_subs;
	}
	if (!loaded_module_has_headers(info))
		return 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];
		const uint64_t begin = info->dlpi_addr + segment->p_vaddr;
		const uint64_t end = begin + segment->p_memsz;
		if (segment->p_type == PT_GNU_EH_FRAME || segment->p_type == UNWIND_PT_FRAMES) {
			loaded.has_frames = segment->p_type == UNWIND_PT_FRAMES;
			loaded.header = begin;
			loaded.header_bytes = segment->p_memsz;
		}
		if (segment->p_type != PT_LOAD || (segment->p_flags & PF_X) == 0)
			continue;
		if (begin < loaded.begin)
			loaded.begin = begin;
		if (end > loaded.end)
			loaded.end = end;
	}
	if (loaded.begin >= loaded.end)
		return 0;
	copy_name(info->dlpi_name, loaded.name);
	if (list->count < list->capacity)
		list->items[list->count] = loaded;
	list->count++;
	return 0;
}

static void release_loaded(struct loaded_list *list)
{
	memory_resize(&memory_pages, list->items, list->capacity * sizeof *list->items, 0);
}

static bool collect_loaded(struct loaded_list *list)
{
	for (size_t capacity = MODULES_AT_FIRST; capacity <= MODULES_MAX;
		capacity = list->count + MODULES_AT_FIRST) {
		*list = (struct loaded_list){ .capacity = capacity,
			.items = memory_resize(
				&memory_pages, NULL, 0, capacity * sizeof *list->items) };
		if (list->items == NULL)
			return false;
		loader_iterate(add_loaded, list);
		if (list->count <= capacity)
			return true;
		release_loaded(list);
	}
	return false;
}

/*
 * A module may be unloaded, or its file cut, while it is read: through the kernel that is a short
 * read and no fault. Where a sandbox forbids the call, memory is copied as it is.
 */
static bool copy_memory(void *context, uint64_t address, void *bytes, size_t size)
{
	const struct iovec to = { bytes, size };
	const struct iovec from = { (void *)(uintptr_t)address, size };
	/* By the number of this thread: the main thread may have ended, and has no memory then. */
	const ssize_t got = process_vm_readv((pid_t)syscall(SYS_gettid), &to, 1, &from, 1, 0);

	(void)context;
	if (got < 0 && (errno == EPERM || errno == ENOSYS)) {
		memcpy(bytes, from.iov_base, size);
		return true;
	}
	return got >= 0 && (size_t)got == size;
}

/*
 * A module without a table stays in the list: it is known that its code has no rules. False only
 * without memory.
 */
static bool build_table(
	struct unwind_module *module, const struct loaded *loaded, struct error *err)
{
	const struct unwind_loaded header = { .address = loaded->header,
		.size = loaded->header_bytes,
		.is_frames = loaded->has_frames,
		.copy = copy_memory };
	struct unwind_table table = { 0 };

	if (!unwind_loaded_table(
		    &table, UNWIND_OWN_MACHINE, &header, module->base, &memory_pages, err))
		return err->kind != ERROR_MEMORY;
	module->rows = table.rows;
	module->count = table.count;
	module->code_bytes = table.code_bytes;
	module->covered_bytes = table.covered_bytes;
	return true;
}

static uint64_t fingerprint(const struct loaded *loaded)
{
	unsigned char bytes[FINGERPRINT_BYTES] = { 0 };
	const size_t size =
		loaded->header_bytes < sizeof bytes ? (size_t)loaded->header_bytes : sizeof bytes;
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	if (loaded->header == 0 || !copy_memory(NULL, loaded->header, bytes, size))
		return 0;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash ^ loaded->header_bytes;
}

static const struct unwind_module *find_same(
	const struct unwind_list *list, const struct unwind_module *module)
{
	for (size_t i = 0; list != NULL && i < list->count; i++) {
		const struct unwind_module *const other = &list->modules[i];
		if (other->begin == module->begin && other->end == module->end &&
			other->header == module->header &&
			other->fingerprint == module->fingerprint)
			return other;
	}
	return NULL;
}

static void release_rows(const struct unwind_module *module)
{
	if (module->rows != NULL)
		memory_resize(&memory_pages, (void *)(uintptr_t)module->rows,
			module->count * sizeof *module->rows, 0);
}

static size_t list_bytes(size_t capacity)
{
	return sizeof(struct unwind_list) + capacity * sizeof(struct unwind_module);
}

static void release_list(struct unwind_list *list)
{
	memory_resize(&memory_pages, list, list_bytes(list->capacity), 0);
}

static void insert_sorted(struct unwind_list *list, const struct unwind_module *module)
{
	size_t at = list->count++;

	for (; at > 0 && list->modules[at - 1].begin > module->begin; at--)
		list->modules[at] = list->modules[at - 1];
	list->modules[at] = *module;
}

/* But the rows that `kept` has as well. */
static void release_all_but(const struct unwind_list *kept, struct unwind_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct unwind_module *const same = find_same(kept, &list->modules[i]);
		if (same == NULL || same->rows != list->modules[i].rows)
			release_rows(&list->modules[i]);
	}
	release_list(list);
}

static struct unwind_list *make_list(const struct loaded_list *loaded,
	const struct unwind_list *old, uint16_t generation, struct error *err)
{
	struct unwind_list *const list =
		memory_resize(&memory_pages, NULL, 0, list_bytes(loaded->count));

	if (list == NULL) {
		error_set(err, ERROR_MEMORY, "no memory for the list of modules");
		return NULL;
	}
	list->capacity = loaded->count;
	list->generation = generation;
	for (size_t i = 0; i < loaded->count; i++) {
		const struct loaded *const item = &loaded->items[i];
		struct unwind_module module = { .begin = item->begin,
			.end = item->end,
			.base = item->begin,
			.header = item->header,
			.fingerprint = fingerprint(item) };
		memcpy(module.name, item->name, sizeof module.name);
		const struct unwind_module *const same = find_same(old, &module);
		if (same != NULL) {
			module = *same;
		} else if (item->header != 0 && !build_table(&module, item, err)) {
			release_all_but(old, list);
			return NULL;
		}
		insert_sorted(list, &module);
	}
	return list;
}

static bool wait_for_readers(struct unwind_modules *modules, unsigned epoch)
{
	const struct timespec wait = { .tv_nsec = WAIT_NS };

	for (int i = 0; i < WAITS_MAX; i++) {
		if (atomic_load(&modules->readers[epoch]) == 0)
			return true;
		nanosleep(&wait, NULL);
	}
	return false;
}

/*
 * Until all walks that entered before have ended. Twice, because a walk may have read the epoch
 * and be counted in it only after it was over.
 */
static bool wait_for_walks(struct unwind_modules *modules)
{
	for (int i = 0; i < 2; i++) {
		const unsigned epoch = atomic_fetch_add(&modules->epoch, 1) & 1;
		if (!wait_for_readers(modules, epoch))
			return false;
	}
	return true;
}

/* struct dl_find_object of glibc's dlfcn.h, which is there since 2.35. */
struct object_found {
	unsigned long long flags;
	void *map_start;
	void *map_end;
	void *link_map;
	void *eh_frame; /* PT_GNU_EH_FRAME */
	unsigned long long reserved[9];
};

typedef int find_object_function(void *address, struct object_found *found);

static _Atomic(find_object_function *) find_object;

/*
 * Not linked: older libraries are without. dlsym is for here only, it may take locks and memory.
 * musl has no such function, and a search that fails leaves a text behind (sampler/interposer.c).
 */
static void load_find_object(void)
{
#if defined(__GLIBC__)
	loader_use_begin();
	void *const symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");
	loader_use_end();
	find_object_function *function = NULL;

	memcpy(&function, &symbol, sizeof function);
	atomic_store(&find_object, function);
#endif
}

struct unwind_rule unwind_find_unlisted(uint64_t pc)
{
	find_object_function *const find = atomic_load_explicit(&find_object, memory_order_relaxed);
	struct object_found found = { 0 };
	struct error ignored;
	uint64_t address = 0;

	if (find == NULL || find((void *)(uintptr_t)pc, &found) != 0 || found.eh_frame == NULL)
		return (struct unwind_rule){ .cfa = UNWIND_CFA_NONE };
	/* The sections end before the module does; where exactly need not be known to read one
	 * entry. */
	const uint64_t end = (uint64_t)(uintptr_t)found.map_end;
	const uint64_t header_address = (uint64_t)(uintptr_t)found.eh_frame;
	const struct unwind_section header = { .bytes = found.eh_frame,
		.size = (size_t)(end - header_address),
		.address = header_address };
	if (!unwind_frames_address(&header, &address, &ignored) || address >= end)
		return (struct unwind_rule){ .cfa = UNWIND_CFA_NONE };
	const struct unwind_section frames = { .bytes = (const void *)(uintptr_t)address,
		.size = (size_t)(end - address),
		.address = address };
	return unwind_section_find(UNWIND_OWN_MACHINE, &header, &frames, pc);
}

bool unwind_modules_update(struct unwind_modules *modules, bool *changed, struct error *err)
{
	struct unwind_list *const old = atomic_load(&modules->list);
	struct loaded_list loaded = { 0 };

	if (old == NULL)
		load_find_object();
	if (!collect_loaded(&loaded))
		return error_set(err, ERROR_MEMORY, "no memory for the list of modules");
	*changed = old == NULL || loaded.adds != modules->adds || loaded.subs != modules->subs;
	if (!*changed) {
		release_loaded(&loaded);
		return true;
	}
	struct unwind_list *const list = make_list(&loaded, old, ++modules->generation, err);
	const unsigned long long adds = loaded.adds, subs = loaded.subs;
	release_loaded(&loaded);
	if (list == NULL)
		return false;
	modules->adds = adds;
	modules->subs = subs;
	atomic_store(&modules->list, list);
	/* A walk that does not end (its thread is stopped) leaks the old list. */
	if (old != NULL && wait_for_walks(modules))
		release_all_but(list, old);
	return true;
}

void unwind_modules_deinit(struct unwind_modules *modules)
{
	struct unwind_list *const old = atomic_exchange(&modules->list, NULL);

	if (old == NULL || !wait_for_walks(modules))
		return;
	for (size_t i = 0; i < old->count; i++)
		release_rows(&old->modules[i]);
	release_list(old);
}

/* Writes only what has to change: a page that a child writes to is copied. */
__attribute__((hot)) void unwind_modules_after_fork(struct unwind_modules *modules)
{
	for (int i = 0; i < 2; i++) {
		if (atomic_load(&modules->readers[i]) != 0)
			atomic_store(&modules->readers[i], 0);
	}
}

const struct unwind_module *unwind_list_find(const struct unwind_list *list, uint64_t pc)
{
	const struct unwind_module *modules = list->modules;
	size_t count = list->count;

	while (count > 1) {
		const size_t half = count / 2;
		if (modules[half].begin <= pc)
			modules += half;
		count -= half;
	}
	return count > 0 && pc >= modules->begin && pc < modules->end ? modules : NULL;
}
