/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/got.h"

#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/loaded_symbol.h"
#include "base/loaded_module.h"
#include "base/loader_use.h"

#if defined(__x86_64__)
enum { RELOC_SLOT = R_X86_64_JUMP_SLOT, RELOC_DATA = R_X86_64_GLOB_DAT, RELOC_WORD = R_X86_64_64 };
#elif defined(__aarch64__)
enum {
	RELOC_SLOT = R_AARCH64_JUMP_SLOT,
	RELOC_DATA = R_AARCH64_GLOB_DAT,
	RELOC_WORD = R_AARCH64_ABS64
};
#else
enum { RELOC_SLOT = -1, RELOC_DATA = -2, RELOC_WORD = -3 };
#endif

enum { ENTRIES_MAX = 160, REPLACED_MAX = 1024 };

struct got_pass {
	const struct entry *entries;
	size_t count;
	bool restores, only_counts;
	bool releases; /* this pass is for the entries that release, or the others */
	bool is_ambiguous[ENTRIES_MAX]; /* another module defines the function as well */
	size_t index;			/* of the module */
	bool is_complete;
	struct got_figures figures;
};

/* What is needed of a module's dynamic section. */
struct got_module {
	ElfW(Addr) base;
	struct loaded_symbols symbols;
	const ElfW(Rela) * plt, *other;
	size_t plt_count, other_count;
	/* [begin, end): whole pages that the loader makes read-only; code and data as mapped. */
	uintptr_t relro_begin, relro_end;
	uintptr_t begin, end;
	bool is_symbolic; /* prefers its own definitions */
};

/* Modules at the start come first in the list, and are never unloaded; the program always does. */
static size_t start_count = 1;
static pthread_t start_thread;
static bool has_start_thread;
static _Atomic bool are_opened_trusted;

/* Each slot that was replaced, as far as there is room: to see whether another tool takes it. */
static struct {
	const void *slots[REPLACED_MAX];
	size_t count;
} replaced;

static void read_segments(const struct dl_phdr_info *info, struct got_module *module)
{
	const uintptr_t page_mask = ~((uintptr_t)getpagesize() - 1);

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const header = &info->dlpi_phdr[i];
		const uintptr_t begin = info->dlpi_addr + header->p_vaddr;
		const uintptr_t end = begin + header->p_memsz;
		if (header->p_type == PT_GNU_RELRO) {
			module->relro_begin = begin & page_mask;
			module->relro_end = end & page_mask;
		}
		if (header->p_type == PT_LOAD) {
			module->begin = begin < module->begin ? begin : module->begin;
			module->end = end > module->end ? end : module->end;
		}
	}
}

static bool read_module(const struct dl_phdr_info *info, struct got_module *module)
{
	*module = (struct got_module){ .base = info->dlpi_addr, .begin = UINTPTR_MAX };
	if (!loaded_symbols_read(info, &module->symbols))
		return false;
	read_segments(info, module);
	const ElfW(Dyn) *dynamic = loaded_symbols_dynamic(info);
	for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
		const uintptr_t address = loaded_symbols_address(info, dynamic->d_un.d_ptr);
		switch (dynamic->d_tag) {
		case DT_JMPREL:
			module->plt = (const void *)address;
			break;
		case DT_PLTRELSZ:
			module->plt_count = dynamic->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELA:
			module->other = (const void *)address;
			break;
		case DT_RELASZ:
			module->other_count = dynamic->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_SYMBOLIC:
			module->is_symbolic = true;
			break;
		case DT_FLAGS:
			module->is_symbolic =
				module->is_symbolic || (dynamic->d_un.d_val & DF_SYMBOLIC) != 0;
			break;
		default:
			break;
		}
	}
	return true;
}

/* Whether other modules can get `name` from this one. No hash table: assume the worst. */
static bool defines(const struct got_module *module, const char *name)
{
	return !loaded_symbols_has_hash(&module->symbols) ||
	       loaded_symbols_get(&module->symbols, name) != NULL;
}

static bool is_in_module(const struct got_module *module, const void *address)
{
	return (uintptr_t)address >= module->begin && (uintptr_t)address < module->end;
}

static bool is_in_relro(const struct got_module *module, const void *address)
{
	return (uintptr_t)address >= module->relro_begin && (uintptr_t)address < module->relro_end;
}

static const struct entry *find_entry(const struct got_pass *pass, const char *name)
{
	for (size_t i = 0; i < pass->count; i++) {
		const struct entry *const entry = &pass->entries[i];
		if (entry->releases == pass->releases && *entry->original != NULL &&
			strcmp(entry->name, name) == 0)
			return entry;
	}
	return NULL;
}

enum access { ACCESS_WRITABLE, ACCESS_READ_ONLY, ACCESS_UNKNOWN };

/*
 * By a system call that makes an atomic change of nothing to the word (or-ing it with 0), and fails
 * where it cannot be written. /proc may be missing, and is never up to date.
 */
static enum access find_access(const void *slot)
{
	static uint32_t without_waiters;
	const int or_with_0 = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);

	if (syscall(SYS_futex, &without_waiters, FUTEX_WAKE_OP_PRIVATE, 0, NULL, slot, or_with_0) >=
		0)
		return ACCESS_WRITABLE;
	return errno == EFAULT ? ACCESS_READ_ONLY : ACCESS_UNKNOWN;
}

bool got_is_writable(const void *word)
{
	const int error_number = errno;
	const bool is_writable = find_access(word) == ACCESS_WRITABLE;

	errno = error_number;
	return is_writable;
}

/* Into a page that the loader has made read-only. */
static bool store_protected(_Atomic(void *) *slot, void *value)
{
	const uintptr_t page_size = (uintptr_t)getpagesize();
	void *const page = (void *)((uintptr_t)slot & ~(page_size - 1));

	if (mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0)
		return false;
	atomic_store(slot, value);
	(void)mprotect(page, page_size, PROT_READ);
	return true;
}

/*
 * While the loader works on a module, the pages that it will make read-only are writable. If they
 * were made read-only now, it would fault: such a module has to wait.
 */
static bool store(
	struct got_pass *pass, const struct got_module *module, _Atomic(void *) *slot, void *value)
{
	const enum access access = find_access(slot);

	if (access == ACCESS_WRITABLE && !is_in_relro(module, slot)) {
		atomic_store(slot, value);
		return true;
	}
	if (access == ACCESS_READ_ONLY && store_protected(slot, value))
		return true;
	pass->figures.protected ++;
	pass->is_complete = pass->is_complete && access != ACCESS_WRITABLE;
	return false;
}

/* Whether a slot that the loader has not resolved can only lead to the original. */
static bool leads_to_original(const struct got_pass *pass, const struct entry *entry)
{
	return pass->index < start_count || atomic_load(&are_opened_trusted) ||
	       !pass->is_ambiguous[entry - pass->entries];
}

static bool was_replaced(const void *slot)
{
	for (size_t i = 0; i < replaced.count; i++) {
		if (replaced.slots[i] == slot)
			return true;
	}
	return false;
}

static bool replace_slot(struct got_pass *pass, const struct got_module *module,
	const struct entry *entry, _Atomic(void *) *slot)
{
	if (!store(pass, module, slot, entry->replacement))
		return false;
	if (replaced.count < REPLACED_MAX && !was_replaced(slot))
		replaced.slots[replaced.count++] = slot;
	return true;
}

/* Returns whether the slot holds the replacement now; or, when restoring, whether it did. */
static bool change_slot(struct got_pass *pass, const struct got_module *module,
	const struct entry *entry, bool is_unresolved, _Atomic(void *) *slot)
{
	void *const now = atomic_load(slot);

	if (pass->only_counts) {
		pass->figures.taken += now != entry->replacement && now != *entry->original &&
				       !is_unresolved && was_replaced(slot);
		return false;
	}
	if (pass->restores)
		return now == entry->replacement && store(pass, module, slot, *entry->original);
	if (now == entry->replacement)
		return true;
	if (now == *entry->original || (is_unresolved && leads_to_original(pass, entry)))
		return replace_slot(pass, module, entry, slot);
	if (is_unresolved) {
		pass->figures.unresolved++;
		pass->is_complete = false;
	} else {
		pass->figures.foreign++;
	}
	return false;
}

/*
 * A slot that was not called yet leads to the module's own stub, which resolves it: also where the
 * module defines the function itself, as the C library does its realloc.
 */
static bool is_unresolved(
	const struct got_module *module, const ElfW(Sym) * symbol, _Atomic(void *) *slot)
{
	const void *const now = atomic_load(slot);

	return is_in_module(module, now) && !module->is_symbolic &&
	       (symbol->st_shndx == SHN_UNDEF || (uintptr_t)now != module->base + symbol->st_value);
}

static bool is_own(const struct got_module *module)
{
	return is_in_module(module, __extension__(const void *) got_replace);
}

static size_t change_table(struct got_pass *pass, const struct got_module *module,
	const ElfW(Rela) * table, size_t count)
{
	const bool leaves_calls_here = is_own(module);
	size_t changed = 0;

	for (size_t i = 0; table != NULL && i < count; i++) {
		const ElfW(Rela) *const reloc = &table[i];
		const int type = (int)ELF64_R_TYPE(reloc->r_info);
		_Atomic(void *) *const slot =
			__extension__(_Atomic(void *) *)(void *)(module->base + reloc->r_offset);
		/* Outside of what is read-only it is a variable of the program. */
		if (type != RELOC_SLOT && type != RELOC_DATA &&
			!(type == RELOC_WORD && reloc->r_addend == 0 && is_in_relro(module, slot)))
			continue;
		const ElfW(Sym) *const symbol = &module->symbols.table[ELF64_R_SYM(reloc->r_info)];
		if (symbol->st_name >= module->symbols.strings_size || ((uintptr_t)slot & 7) != 0)
			continue;
		const struct entry *const entry =
			find_entry(pass, module->symbols.strings + symbol->st_name);
		if (entry != NULL && !(leaves_calls_here && entry->is_called_here))
			changed += change_slot(pass, module, entry,
				type == RELOC_SLOT && is_unresolved(module, symbol, slot), slot);
	}
	return changed;
}

static bool is_loader(const struct got_module *module)
{
	return (module->base == loaded_module_loader() &&
		       !loaded_symbols_are_of_libc(&module->symbols)) ||
	       module->begin == getauxval(AT_SYSINFO_EHDR);
}

/*
 * An allocator that calls its own functions through its table would count twice; the C library does
 * not.
 */
static bool has_original(const struct got_pass *pass, const struct got_module *module)
{
	for (size_t i = 0; i < pass->count; i++) {
		if (*pass->entries[i].original != NULL &&
			is_in_module(module, *pass->entries[i].original))
			return !defines(module, "__libc_start_main");
	}
	return false;
}

static int note_definitions(struct dl_phdr_info *info, size_t size, void *context)
{
	struct got_pass *const pass = context;
	struct got_module module;

	(void)size;
	if (!read_module(info, &module) || is_loader(&module))
		return 0;
	for (size_t i = 0; i < pass->count; i++) {
		const struct entry *const entry = &pass->entries[i];
		if (*entry->original != NULL && !pass->is_ambiguous[i] &&
			!is_in_module(&module, *entry->original) && defines(&module, entry->name))
			pass->is_ambiguous[i] = true;
	}
	return 0;
}

static int change_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct got_pass *const pass = context;
	struct got_module module;

	(void)size;
	if (read_module(info, &module) && !is_loader(&module) && !has_original(pass, &module)) {
		const size_t changed =
			change_table(pass, &module, module.plt, module.plt_count) +
			change_table(pass, &module, module.other, module.other_count);
		pass->figures.slots += changed;
		pass->figures.modules += changed != 0;
	}
	pass->index++;
	return 0;
}

/* While both passes are under way a sampled block never gets lost: what releases is there. */
static bool change_all(
	const struct entry *entries, size_t count, bool restores, struct got_figures *figures)
{
	struct got_pass pass = {
		.entries = entries, .count = count, .restores = restores, .is_complete = true
	};

	if (!restores)
		loader_iterate(note_definitions, &pass);
	pass.releases = !restores;
	loader_iterate(change_module, &pass);
	pass.releases = restores;
	pass.index = 0;
	loader_iterate(change_module, &pass);
	*figures = pass.figures;
	return pass.is_complete;
}

bool got_replace(const struct entry *entries, size_t count, struct got_figures *figures)
{
	return change_all(entries, count < ENTRIES_MAX ? count : ENTRIES_MAX, false, figures);
}

void got_restore(const struct entry *entries, size_t count, struct got_figures *figures)
{
	(void)change_all(entries, count < ENTRIES_MAX ? count : ENTRIES_MAX, true, figures);
}

void got_forget_replaced(void)
{
	replaced.count = 0;
}

size_t got_count_taken(const struct entry *entries, size_t count)
{
	struct got_pass pass = {
		.entries = entries,
		.count = count < ENTRIES_MAX ? count : ENTRIES_MAX,
		.only_counts = true,
	};

	loader_iterate(change_module, &pass);
	pass.releases = true;
	loader_iterate(change_module, &pass);
	return pass.figures.taken;
}

static int count_module(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(*(size_t *)context)++;
	return 0;
}

void got_note_start(void)
{
	size_t count = 0;

	loader_iterate(count_module, &count);
	start_count = count;
	start_thread = pthread_self();
	has_start_thread = true;
}

bool got_is_at_start(void)
{
	size_t count = 0;

	loader_iterate(count_module, &count);
	return has_start_thread && pthread_equal(start_thread, pthread_self()) != 0 &&
	       count == start_count;
}

void got_trust_opened_modules(bool is_trusted)
{
	atomic_store(&are_opened_trusted, is_trusted);
}

static int read_changes(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	*(unsigned long long *)context = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

unsigned long long got_count_changes(void)
{
	unsigned long long changes = 0;

	loader_iterate(read_changes, &changes);
	return changes;
}
