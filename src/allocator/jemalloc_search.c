/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/jemalloc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/loaded_symbol.h"
#include "allocator/malloc_owner.h"
#include "base/elf_file.h"
#include "base/error.h"
#include "base/loaded_module.h"
#include "base/loader_use.h"

/* Builds name their functions with one of these in front of "mallctl". */
static const char *const known_prefixes[] = { "", "je_", "_rjem_", "rjem_", "je", "jemalloc_" };
enum { PREFIX_COUNT = sizeof known_prefixes / sizeof known_prefixes[0] };

static const char mallctl_suffix[] = "mallctl";

/*
 * In a static program without a symbol table only the linker can find it. Weak: never adds a
 * jemalloc in, NULL where there is none.
 */
extern jemalloc_mallctl_function mallctl __attribute__((weak));
extern jemalloc_mallctl_function je_mallctl __attribute__((weak));
extern jemalloc_mallctl_function _rjem_mallctl __attribute__((weak));
extern jemalloc_nametomib_function mallctlnametomib __attribute__((weak));
extern jemalloc_nametomib_function je_mallctlnametomib __attribute__((weak));
extern jemalloc_nametomib_function _rjem_mallctlnametomib __attribute__((weak));
extern jemalloc_stats_function malloc_stats_print __attribute__((weak));
extern jemalloc_stats_function je_malloc_stats_print __attribute__((weak));
extern jemalloc_stats_function _rjem_malloc_stats_print __attribute__((weak));

/* Asks for one byte; whether the counter moved by it. A real malloc that nothing optimises away. */
static bool malloc_moves(const volatile uint64_t *counter)
{
	void *(*volatile const allocate)(size_t) = malloc;
	void (*volatile const release)(void *) = free;
	const uint64_t before = *counter;
	void *const block = allocate(1);
	const bool moved = block != NULL && *counter != before;

	release(block);
	return moved;
}

static bool is_in_owner_of_malloc(const struct jemalloc_functions *functions)
{
	struct malloc_owner owner;
	Dl_info info;
	const void *address = NULL;

	memcpy(&address, &functions->mallctl, sizeof address);
	malloc_owner_find(&owner);
	return owner.base != NULL && dladdr(address, &info) != 0 && info.dli_fbase == owner.base;
}

static bool owns_malloc(const struct jemalloc_functions *functions)
{
	const uint64_t *counter = NULL;
	size_t size = sizeof counter;

	if (functions->mallctl("thread.allocatedp", (void *)&counter, &size, NULL, 0) == 0 &&
		counter != NULL)
		return malloc_moves(counter);
	/* Built without statistics: there is no counter to watch. */
	return is_in_owner_of_malloc(functions);
}

/* Anything may be called mallctl; jemalloc's says a version. */
static bool is_jemalloc(const struct jemalloc_functions *functions)
{
	char version[16];

	return jemalloc_read_text(functions, "version", version, sizeof version) == 0;
}

static bool is_known(
	const struct jemalloc_search *search, const struct jemalloc_functions *functions)
{
	for (size_t i = 0; i < search->count; i++) {
		if (search->found[i].functions.mallctl == functions->mallctl)
			return true;
	}
	return false;
}

/* Not called yet: see keep_jemallocs. */
static void add(struct jemalloc_search *search, const struct jemalloc_functions *functions,
	const char *prefix, const char *where, const char *found_by)
{
	if (functions->mallctl == NULL || search->count == JEMALLOC_SEARCH_MAX ||
		is_known(search, functions))
		return;
	struct jemalloc_candidate *const candidate = &search->found[search->count++];
	*candidate = (struct jemalloc_candidate){ .functions = *functions, .found_by = found_by };
	snprintf(candidate->prefix, sizeof candidate->prefix, "%s", prefix);
	snprintf(candidate->symbol, sizeof candidate->symbol, "%s%s", prefix, mallctl_suffix);
	snprintf(candidate->where, sizeof candidate->where, "%s", where);
}

/* Drops those of found[first...] that are not jemalloc, and reads the malloc of the others. */
static void keep_jemallocs(struct jemalloc_search *search, size_t first)
{
	size_t kept = first;

	for (size_t i = first; i < search->count; i++) {
		if (!is_jemalloc(&search->found[i].functions))
			continue;
		if (i != kept)
			search->found[kept] = search->found[i];
		search->found[kept].owns_malloc = owns_malloc(&search->found[kept].functions);
		kept++;
	}
	search->count = kept;
}

/* Copies an address into a pointer to a function, which ISO C has no cast for. */
static void set_function(void *function, uintptr_t address)
{
	memcpy(function, &address, sizeof address);
}

static void look_up(void *function, const char *prefix, const char *name)
{
	char symbol[80];

	snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
	set_function(function, (uintptr_t)loaded_symbol_of_program(symbol));
}

/* The file that contains a function. */
static void file_of(const struct jemalloc_functions *functions, char *where, size_t room)
{
	const void *address = NULL;
	Dl_info info;

	memcpy(&address, &functions->mallctl, sizeof address);
	if (dladdr(address, &info) == 0 || info.dli_fbase == program_base())
		malloc_owner_program_path(where, room);
	else
		snprintf(where, room, "%s", info.dli_fname);
}

static void add_dynamic(struct jemalloc_search *search, const struct jemalloc_functions *functions,
	const char *prefix)
{
	char where[ALLOCATOR_PATH_MAX];

	if (functions->mallctl == NULL || is_known(search, functions))
		return;
	file_of(functions, where, sizeof where);
	add(search, functions, prefix, where, "dynamic");
}

static void search_dynamic(struct jemalloc_search *search)
{
	const struct jemalloc_functions linked[] = {
		{ mallctl, mallctlnametomib, malloc_stats_print },
		{ je_mallctl, je_mallctlnametomib, je_malloc_stats_print },
		{ _rjem_mallctl, _rjem_mallctlnametomib, _rjem_malloc_stats_print },
	};

	for (size_t i = 0; i < sizeof linked / sizeof linked[0]; i++)
		add_dynamic(search, &linked[i], known_prefixes[i]);
	for (size_t i = 0; i < PREFIX_COUNT; i++) {
		struct jemalloc_functions functions = { 0 };
		look_up(&functions.mallctl, known_prefixes[i], mallctl_suffix);
		if (functions.mallctl == NULL)
			continue;
		look_up(&functions.nametomib, known_prefixes[i], "mallctlnametomib");
		look_up(&functions.stats_print, known_prefixes[i], "malloc_stats_print");
		add_dynamic(search, &functions, known_prefixes[i]);
	}
}

/*
 * A loaded object, copied: the loader holds a lock while it shows its own list, and nothing may
 * read a file meanwhile.
 */
struct object {
	size_t wanted; /* the number of the object in the list */
	size_t seen;
	bool found;
	ElfW(Addr) bias;
	char path[ALLOCATOR_PATH_MAX];
	char build_id[ELF_BUILD_ID_MAX]; /* "" when it has none */
	ElfW(Phdr) segments[32];
	size_t segment_count;
};

/* A file's names, with what is needed to turn them into addresses of the running object. */
struct names {
	struct jemalloc_search *search;
	struct elf_file *elf;
	const struct object *object;
	const char *where;
	const char *found_by;
};

/* Where the function runs; 0 when that is not code of the object. */
static uintptr_t running_address(const struct names *names, uint64_t value)
{
	const struct object *const object = names->object;

	for (size_t i = 0; value != 0 && i < object->segment_count; i++) {
		const ElfW(Phdr) *const segment = &object->segments[i];
		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0 &&
			value >= segment->p_vaddr && value - segment->p_vaddr < segment->p_memsz)
			return (uintptr_t)(object->bias + value);
	}
	return 0;
}

static void look_up_in_file(
	const struct names *names, void *function, const char *prefix, const char *name)
{
	char symbol[80];

	snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
	set_function(function, running_address(names, elf_file_function(names->elf, symbol)));
}

static bool is_known_prefix(const char *prefix)
{
	for (size_t i = 0; i < PREFIX_COUNT; i++) {
		if (strcmp(prefix, known_prefixes[i]) == 0)
			return true;
	}
	return false;
}

static bool add_from_file(void *context, const char *name, uint64_t value)
{
	const struct names *const names = context;
	struct jemalloc_functions functions = { 0 };
	char prefix[32];
	const size_t prefix_size = strlen(name) - (sizeof mallctl_suffix - 1);

	if (prefix_size >= sizeof prefix)
		return true;
	memcpy(prefix, name, prefix_size);
	prefix[prefix_size] = '\0';
	set_function(&functions.mallctl, running_address(names, value));
	look_up_in_file(names, &functions.nametomib, prefix, "mallctlnametomib");
	look_up_in_file(names, &functions.stats_print, prefix, "malloc_stats_print");
	/* Under an unknown prefix a lone function may be another library's. */
	if (functions.nametomib != NULL || is_known_prefix(prefix))
		add(names->search, &functions, prefix, names->where, names->found_by);
	return true;
}

static void copy_build_id(const struct dl_phdr_info *loaded, char id[ELF_BUILD_ID_MAX])
{
	id[0] = '\0';
	for (unsigned i = 0; i < loaded->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &loaded->dlpi_phdr[i];
		const uintptr_t at = (uintptr_t)(loaded->dlpi_addr + segment->p_vaddr);
		if (segment->p_type == PT_NOTE &&
			elf_notes_build_id((const void *)at, segment->p_memsz, id))
			return;
	}
}

/* Under the loader's lock: copies, and calls nothing that was found. */
static int copy_object(struct dl_phdr_info *loaded, size_t size, void *context)
{
	struct object *const object = context;
	const size_t room = sizeof object->segments / sizeof object->segments[0];

	(void)size;
	if (!loaded_module_is_whole(loaded) || object->seen++ < object->wanted)
		return 0;
	object->found = true;
	object->bias = loaded->dlpi_addr;
	snprintf(object->path, sizeof object->path, "%s",
		loaded->dlpi_name == NULL ? "" : loaded->dlpi_name);
	copy_build_id(loaded, object->build_id);
	object->segment_count = loaded->dlpi_phnum < room ? loaded->dlpi_phnum : room;
	memcpy(object->segments, loaded->dlpi_phdr,
		object->segment_count * sizeof *object->segments);
	return 1;
}

/* The object of that number in the loader's list, 0 is the program; false behind the last one. */
static bool object_at(size_t number, struct object *object)
{
	object->wanted = number;
	object->seen = 0;
	object->found = false;
	loader_iterate(copy_object, object);
	return object->found;
}

/*
 * Whether the file is what was loaded. It may have been replaced since; names of another build
 * would lead into the middle of some function.
 */
static bool is_same_build(struct elf_file *elf, const struct object *object, bool must_have_id)
{
	char on_disk[ELF_BUILD_ID_MAX];

	if (object->build_id[0] != '\0')
		return elf_file_build_id(elf, on_disk) && strcmp(object->build_id, on_disk) == 0;
	return !must_have_id && elf_file_has_headers(elf, object->segments, object->segment_count);
}

/* Adds what the file names; whether it could be read and has a full symbol table. */
static bool search_file(struct jemalloc_search *search, const char *path, const char *where,
	const char *found_by, const struct object *object)
{
	struct elf_file elf;
	struct error ignored;
	bool has_symbol_table = false;
	const bool is_debug_file = strcmp(found_by, "debug-file") == 0;

	if (!elf_file_open(&elf, path, &ignored))
		return false;
	if (is_same_build(&elf, object, is_debug_file)) {
		struct names names = { .search = search,
			.elf = &elf,
			.object = object,
			.where = where,
			.found_by = found_by };
		elf_file_functions(&elf, mallctl_suffix, add_from_file, &names);
		has_symbol_table = elf_file_has_symbol_table(&elf);
	}
	elf_file_close(&elf);
	return has_symbol_table;
}

static void search_program(struct jemalloc_search *search, const struct object *object)
{
	char where[ALLOCATOR_PATH_MAX];
	char path[ELF_BUILD_ID_MAX + 48];
	const char *const id = object->build_id;

	malloc_owner_program_path(where, sizeof where);
	const char *const program = access("/proc/self/exe", R_OK) == 0 ? "/proc/self/exe" : where;
	if (search_file(search, program, where, "symbol-table", object))
		return;
	search->program_stripped = true;
	if (id[0] == '\0')
		return;
	snprintf(search->program_build_id, sizeof search->program_build_id, "%s", id);
	snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	if (search_file(search, path, where, "debug-file", object))
		search->program_stripped = false;
}

/* This message is in every version of jemalloc, also in a stripped one. */
static bool program_contains_jemalloc(void)
{
	struct elf_file elf;
	struct error ignored;

	if (!elf_file_open(&elf, "/proc/self/exe", &ignored))
		return false;
	const bool contains = elf_file_has_text(&elf, 'I', "nvalid conf pair");
	elf_file_close(&elf);
	return contains;
}

static bool has_owner(const struct jemalloc_search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		if (search->found[i].owns_malloc)
			return true;
	}
	return false;
}

static void search_libraries(struct jemalloc_search *search)
{
	struct object object;

	for (size_t number = 1; object_at(number, &object); number++) {
		if (object.path[0] == '/')
			search_file(search, object.path, object.path, "library", &object);
	}
}

void jemalloc_search(struct jemalloc_search *search)
{
	struct object program;

	*search = (struct jemalloc_search){ 0 };
	search_dynamic(search);
	keep_jemallocs(search, 0);

	/* The program's own jemalloc is worth naming even when malloc is another's. */
	size_t known = search->count;
	if (object_at(0, &program))
		search_program(search, &program);
	keep_jemallocs(search, known);
	if (has_owner(search))
		return;
	known = search->count;
	search_libraries(search);
	keep_jemallocs(search, known);
	if (search->count == 0)
		search->program_has_jemalloc = program_contains_jemalloc();
}

/*
 * A library linked without a prefix serves malloc. If another library is first in the loader's
 * order, as one that is preloaded, the program's calls do not reach this one. The program's own
 * jemalloc is different: calls inside the program do not pass the loader.
 */
static bool is_replaced(const struct jemalloc_candidate *candidate)
{
	const void *address = NULL;
	Dl_info info;

	memcpy(&address, &candidate->functions.mallctl, sizeof address);
	return !candidate->owns_malloc && candidate->prefix[0] == '\0' &&
	       strcmp(candidate->found_by, "dynamic") == 0 && dladdr(address, &info) != 0 &&
	       info.dli_fbase != program_base();
}

const struct jemalloc_candidate *jemalloc_search_choice(const struct jemalloc_search *search)
{
	const struct jemalloc_candidate *used = NULL;

	for (size_t i = 0; i < search->count; i++) {
		const struct jemalloc_candidate *const candidate = &search->found[i];
		if (candidate->owns_malloc)
			return candidate;
		if (used == NULL && !is_replaced(candidate))
			used = candidate;
	}
	return used;
}
