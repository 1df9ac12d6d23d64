/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/interposer.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/loaded_module.h"
#include "base/loader_use.h"
#include "sampler/entries.h"

#ifndef RTLD_DEEPBIND
/* musl knows no names that a module prefers. */
#define RTLD_DEEPBIND 0
#endif

static struct {
	_Atomic pid_t worker; /* the process whose thread is busy; 0 for none */
	_Atomic pid_t owner;  /* the one whose agent has put the entries in, or looked after them */
	_Atomic bool is_installed;
	_Atomic bool has_opened; /* dlopen() was called since */
	bool was_installed;	 /* ever */
	bool is_complete;	 /* the fields below: by the thread that is busy */
	unsigned long long changes;
	struct got_figures figures;
} interposer;

/* Another thread that does the same serves as well. */
static bool begin_work(void)
{
	pid_t worker = 0;

	return atomic_compare_exchange_strong(&interposer.worker, &worker, getpid());
}

/*
 * In a child that was forked in the middle of it that thread does not exist: what it has left out
 * is made up for by doing all of it.
 */
static bool take_over(void)
{
	pid_t worker = atomic_load(&interposer.worker);

	return worker != 0 && worker != getpid() &&
	       atomic_compare_exchange_strong(&interposer.worker, &worker, getpid());
}

/*
 * For the agent's thread alone: what takes over must not share the memory of the process that is
 * busy. Not without a limit: a child in a namespace of its own may have its parent's number.
 */
static bool wait_for_work(void)
{
	enum { TRIES = 500 };
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (int i = 0; i < TRIES; i++) {
		if (begin_work() || take_over()) {
			atomic_store(&interposer.owner, getpid());
			return true;
		}
		nanosleep(&pause, NULL);
	}
	return false;
}

static void end_work(void)
{
	atomic_store(&interposer.worker, 0);
}

/* --- The loader's functions --- */

enum loader_function { LOADER_DLOPEN, LOADER_DLMOPEN, LOADER_DLSYM, LOADER_DLVSYM };

static void *loader_originals[4];

/* While a thread of the program is busy. */
static void refresh(void);

/* Called by the jumps below; returns where to go on. */
__attribute__((used)) void *interposer_before_loader(enum loader_function function, int mode);

/* `mode` is dlopen's second argument, which is where it was. */
void *interposer_before_loader(enum loader_function function, int mode)
{
	const int error_number = errno;

	if (function == LOADER_DLMOPEN ||
		(function == LOADER_DLOPEN && (mode & RTLD_DEEPBIND) != 0))
		got_trust_opened_modules(false);

	if (function == LOADER_DLOPEN || function == LOADER_DLMOPEN)
		atomic_store(&interposer.has_opened, true);
	/* Not in a child that shares this memory until it executes another program. */
	else if (atomic_load(&interposer.has_opened) &&
		 atomic_load(&interposer.owner) == getpid() && loader_use_try_begin()) {
		if (atomic_exchange(&interposer.has_opened, false) && begin_work()) {
			refresh();
			end_work();
		}
		loader_use_end();
	}
	errno = error_number;
	return loader_originals[function];
}

#if defined(__x86_64__)
/*
 * The loader looks at the return address for the library that calls it: for its RUNPATH, its name
 * space, and what comes next. So there must be none of ours in between.
 */
#define JUMP(name, number)                                         \
	__asm__(".pushsection .text\n"                             \
		".local replace_" #name "\n"                       \
		".type replace_" #name ", @function\n"             \
		".p2align 4\n"                                     \
		"replace_" #name ":\n"                             \
		".cfi_startproc\n"                                 \
		"endbr64\n"                                        \
		"push %rdi\n.cfi_adjust_cfa_offset 8\n"            \
		"push %rsi\n.cfi_adjust_cfa_offset 8\n"            \
		"push %rdx\n.cfi_adjust_cfa_offset 8\n"            \
		"push %rcx\n.cfi_adjust_cfa_offset 8\n"            \
		"push %r8\n.cfi_adjust_cfa_offset 8\n"             \
		"mov $" #number ", %edi\n"                         \
		"call interposer_before_loader\n"                  \
		"pop %r8\n.cfi_adjust_cfa_offset -8\n"             \
		"pop %rcx\n.cfi_adjust_cfa_offset -8\n"            \
		"pop %rdx\n.cfi_adjust_cfa_offset -8\n"            \
		"pop %rsi\n.cfi_adjust_cfa_offset -8\n"            \
		"pop %rdi\n.cfi_adjust_cfa_offset -8\n"            \
		"jmp *%rax\n"                                      \
		".cfi_endproc\n"                                   \
		".size replace_" #name ", . - replace_" #name "\n" \
		".popsection\n");                                  \
	extern void replace_##name(void)

JUMP(dlopen, 0);
JUMP(dlmopen, 1);
JUMP(dlsym, 2);
JUMP(dlvsym, 3);

#define LOADER(name, function)                                   \
	{                                                        \
#name, __extension__(void *) replace_##name,     \
			&loader_originals[function], false, true \
	}

static const struct entry loader_entries[] = {
	LOADER(dlopen, LOADER_DLOPEN),
	LOADER(dlmopen, LOADER_DLMOPEN),
	LOADER(dlsym, LOADER_DLSYM),
	LOADER(dlvsym, LOADER_DLVSYM),
};
static const size_t loader_count = sizeof loader_entries / sizeof *loader_entries;
#else
/* What is loaded waits for the agent. */
static const struct entry loader_entries[1];
static const size_t loader_count = 0;
#endif

/* --- All of them --- */

bool interposer_find(struct error *err)
{
	for (size_t i = 0; i < loader_count; i++)
		*loader_entries[i].original = entries_definition(loader_entries[i].name);
	return entries_find(err);
}

static void replace_all(void)
{
	struct got_figures ignored;
	size_t count = 0;
	const struct entry *const entries = entries_list(&count);

	/* For a child that is forked in the middle of it. */
	interposer.is_complete = false;
	/* First: what is loaded meanwhile is noticed the next time. */
	interposer.changes = got_count_changes();
	interposer.is_complete = got_replace(entries, count, &interposer.figures);
	(void)got_replace(loader_entries, loader_count, &ignored);
}

/* The program may have kept the address of an entry, too. */
void interposer_pin(void)
{
	if (interposer.was_installed)
		loaded_module_keep_own();
}

void interposer_install(void)
{
	if (!wait_for_work())
		return;
	interposer.was_installed = true;
	/* From now on each dlopen() of the program says how it opens. */
	if (loader_count > 0 && got_is_at_start())
		got_trust_opened_modules(true);
	replace_all();
	atomic_store(&interposer.is_installed, true);
	end_work();
}

bool interposer_is_installed(void)
{
	return atomic_load(&interposer.is_installed);
}

static void refresh(void)
{
	if (interposer_is_installed() &&
		(!interposer.is_complete || got_count_changes() != interposer.changes))
		replace_all();
}

void interposer_refresh(void)
{
	if (!interposer_is_installed() || !wait_for_work())
		return;
	refresh();
	end_work();
}

size_t interposer_count_taken(void)
{
	size_t count = 0;
	const struct entry *const entries = entries_list(&count);

	if (!interposer_is_installed() || !wait_for_work())
		return 0;
	const size_t taken = got_count_taken(entries, count);
	end_work();
	return taken;
}

void interposer_remove(void)
{
	struct got_figures ignored;
	size_t count = 0;
	const struct entry *const entries = entries_list(&count);

	if (!interposer_is_installed() || !wait_for_work())
		return;
	atomic_store(&interposer.is_installed, false);
	got_trust_opened_modules(false);
	got_restore(loader_entries, loader_count, &ignored);
	got_restore(entries, count, &ignored);
	got_forget_replaced();
	interposer.figures = (struct got_figures){ 0 };
	end_work();
}

void interposer_replace_others(const struct entry *others, size_t count)
{
	struct got_figures ignored;

	if (!wait_for_work())
		return;
	(void)got_replace(others, count, &ignored);
	end_work();
}

void interposer_restore_others(const struct entry *others, size_t count)
{
	struct got_figures ignored;

	if (!wait_for_work())
		return;
	got_restore(others, count, &ignored);
	end_work();
}

void interposer_figures(struct got_figures *figures)
{
	*figures = (struct got_figures){ 0 };
	if (!wait_for_work())
		return;
	*figures = interposer.figures;
	end_work();
}
