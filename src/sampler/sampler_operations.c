/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/sampler_operations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/loaded_module.h"
#include "sampler/entries.h"
#include "sampler/entry_area.h"
#include "sampler/interposer.h"
#include "sampler/sampler.h"

enum {
	MAINTAIN_ACTIVE_MS = 2000,
	MAINTAIN_INACTIVE_MS = 10000,
};

/* Of the allocator itself, for what the sampler does not do. */
static const struct allocator_operations *other_operations;

/* The functions are patched by heapctl: this process itself puts nothing in, and takes nothing out.
 */
static bool uses_entries;

bool sampler_operations_use_entries(void)
{
	return uses_entries;
}

static bool is_installed(void)
{
	return uses_entries ? entry_area_count_patched() > 0 : interposer_is_installed();
}

static bool get_active(struct allocator *allocator, bool *active, struct error *err)
{
	(void)allocator;
	(void)err;
	*active = sampler_is_active();
	return true;
}

/* Slots are restored only after the last sampled block is freed, or its end would be missed. */
static void remove_when_unused(void)
{
	struct sampler_figures figures;

	if (uses_entries || sampler_is_active() || !interposer_is_installed())
		return;
	sampler_get_figures(&figures);
	if (figures.live_blocks == 0)
		interposer_remove();
}

static bool set_active(
	struct allocator *allocator, bool active, bool *was_active, struct error *err)
{
	(void)allocator;
	if (active && sampler_get_backtrace() == NULL)
		return error_set(err, ERROR_UNSUPPORTED,
			"heapctl has no unwinder for this machine, and samples need stacks");
	if (active && !sampler_init(err))
		return false;
	if (active && uses_entries && !is_installed()) {
		error_set(err, ERROR_STATE, "no function of its allocator is patched any more");
		return error_hint(err, "heapctl detach, then heapctl attach again");
	}
	if (active && !uses_entries && !interposer_is_installed())
		interposer_install();
	*was_active = sampler_set_active(active);
	remove_when_unused();
	return true;
}

static bool leave_thread_out(struct allocator *allocator, struct error *err)
{
	sampler_leave_thread_out();
	/* jemalloc's profiler is off here: it has nothing to leave out. */
	(void)allocator;
	(void)err;
	return true;
}

static bool append_mappings(struct buffer *text)
{
	struct error ignored;

	buffer_append_string(text, "\nMAPPED_LIBRARIES:\n");
	const size_t size = text->size;
	if (file_read_own_maps(text, &ignored))
		return true;
	text->size = size;
	return !text->failed;
}

static bool dump_to_path(struct allocator *allocator, const char *path, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };

	(void)allocator;
	if (!sampler_init(err))
		return false;
	buffer_init(&text, &memory_pages);
	if (!sampler_write(&text) || !append_mappings(&text))
		return error_set(err, ERROR_MEMORY, "no memory for the profile");
	CLEANUP(fd_cleanup)
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return error_system(err, errno, "%s", path);
	return file_write_fd(fd, path, text.data, text.size, err);
}

static bool print_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	return other_operations->stats(allocator, options, out, err);
}

static bool read_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	if (allocator->jemalloc.mallctl != NULL)
		return other_operations->memory(allocator, ret, err);
	return error_set(err, ERROR_UNSUPPORTED, "the malloc of %s reports no memory figures",
		allocator->identity.malloc_name);
}

static bool reset_samples(struct allocator *allocator, int lg_sample, struct error *err)
{
	(void)allocator;
	if (!sampler_init(err))
		return false;
	sampler_reset(lg_sample == ALLOCATOR_LG_SAMPLE_KEEP ? 0 : UINT64_C(1) << lg_sample);
	remove_when_unused();
	return true;
}

static bool read_lg_sample(struct allocator *allocator, unsigned *lg_sample, struct error *err)
{
	struct sampler_figures figures;

	(void)allocator;
	(void)err;
	sampler_get_figures(&figures);
	*lg_sample = 63 - (unsigned)__builtin_clzll(figures.interval);
	return true;
}

static bool refuse_name(const struct allocator *allocator, const char *name, struct error *err)
{
	error_set(err, ERROR_UNSUPPORTED,
		"%s is a mallctl of jemalloc, and this process uses the malloc of %s", name,
		allocator->identity.malloc_name);
	return error_hint(err, "start it with heapctl run --jemalloc");
}

static bool read_name(struct allocator *allocator, const char *name, struct mallctl_value *value,
	struct error *err)
{
	return allocator->jemalloc.mallctl != NULL
		       ? other_operations->read(allocator, name, value, err)
		       : refuse_name(allocator, name, err);
}

static bool write_name(struct allocator *allocator, const char *name,
	const struct mallctl_value *value, struct error *err)
{
	return allocator->jemalloc.mallctl != NULL
		       ? other_operations->write(allocator, name, value, err)
		       : refuse_name(allocator, name, err);
}

static bool has_name(const struct allocator *allocator, const char *name)
{
	return other_operations->has(allocator, name);
}

static bool get_backtrace(
	struct allocator *allocator, allocator_backtrace **function, struct error *err)
{
	(void)allocator;
	(void)err;
	*function = sampler_get_backtrace();
	return true;
}

static bool set_backtrace(
	struct allocator *allocator, allocator_backtrace *function, struct error *err)
{
	(void)allocator;
	(void)err;
	sampler_set_backtrace(function);
	return true;
}

static int64_t maintain(struct allocator *allocator)
{
	(void)allocator;
	if (!uses_entries)
		interposer_refresh();
	remove_when_unused();
	sampler_trim();
	if (uses_entries ? !sampler_is_active() : !interposer_is_installed())
		return -1;
	return sampler_is_active() ? MAINTAIN_ACTIVE_MS : MAINTAIN_INACTIVE_MS;
}

static void read_figures(struct allocator *allocator, struct allocator_sampler *ret)
{
	struct sampler_figures figures;
	struct got_figures got;
	const struct entry_area *const area = uses_entries ? entry_area_get() : NULL;
	size_t count = 0;
	const struct entry *const entries = entries_list(&count);

	(void)allocator;
	sampler_get_figures(&figures);
	interposer_figures(&got);
	*ret = (struct allocator_sampler){ .samples = figures.samples,
		.dropped = figures.dropped,
		.live_blocks = figures.live_blocks,
		.sites = figures.sites,
		.memory_bytes = figures.mapped_bytes,
		.since_ms = figures.since_ms,
		.is_installed = is_installed(),
		.method = uses_entries ? "entry" : "got",
		.entries = uses_entries ? entry_area_count_patched() : 0,
		.entry_area = entry_area_address(),
		.entry_table = (uintptr_t)entries,
		.entry_table_size = count,
		.where = area == NULL ? "" : area->where,
		.missed = area == NULL ? "" : area->missed,
		.modules = got.modules,
		.slots = got.slots,
		.foreign_slots = got.foreign,
		.waiting_slots = got.unresolved,
		.protected_slots = got.protected,
		.has_mapped = !uses_entries && entries_has_mapped() };
}

static void release(struct allocator *allocator)
{
	(void)allocator;
	sampler_set_active(false);
	if (uses_entries || interposer_is_installed()) {
		sampler_reset(0);
		interposer_remove();
		sampler_shrink();
	}
	interposer_pin();
}

static const struct allocator_operations sampler_operations = {
	.active_get = get_active,
	.active_set = set_active,
	.thread_sampling_off = leave_thread_out,
	.dump_path = dump_to_path,
	.stats = print_stats,
	.memory = read_memory,
	.reset = reset_samples,
	.lg_sample = read_lg_sample,
	.read = read_name,
	.write = write_name,
	.has = has_name,
	.backtrace_get = get_backtrace,
	.backtrace_set = set_backtrace,
	.maintain = maintain,
	.sampler = read_figures,
	.release = release,
};

/* Tools replace malloc for their own purpose, and have to see each call. */
static bool is_tool(const char *malloc_name)
{
	static const char *const tools[] = { "asan", "tsan", "msan", "valgrind", "heaptrack" };

	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
		if (strcmp(malloc_name, tools[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Where a program calls its own jemalloc beside malloc, samples of malloc would show the smaller
 * part of the heap. A static program has no loader.
 */
static bool has_own_heap(const struct allocator *allocator)
{
	const struct allocator_identity *const identity = &allocator->identity;

	return loaded_module_loader() == 0 || identity->hides_jemalloc ||
	       (identity->jemalloc_count > 0 && !identity->owns_malloc);
}

#if defined(__x86_64__) || defined(__aarch64__)
static const bool is_supported = true;
#else
static const bool is_supported = false;
#endif

/* The allocator as it was found. */
static struct {
	bool is_known;
	const struct allocator_operations *operations;
	struct error unavailable;
	struct allocator_profiling profiling;
	bool owns_malloc;
} found;

static void note_found(const struct allocator *allocator)
{
	found.operations = allocator->operations;
	found.unavailable = allocator->unavailable;
	found.profiling = allocator->profiling;
	found.owns_malloc = allocator->identity.owns_malloc;
	found.is_known = true;
}

static void put_found_back(struct allocator *allocator)
{
	allocator->operations = found.operations;
	allocator->unavailable = found.unavailable;
	allocator->profiling = found.profiling;
	allocator->identity.owns_malloc = found.owns_malloc;
	uses_entries = false;
}

static bool can_see_calls(const struct allocator *allocator, bool with_entries)
{
	struct error ignored;

	return with_entries || (!has_own_heap(allocator) && interposer_find(&ignored));
}

void sampler_operations_request_mapped(bool is_requested)
{
	entries_request_mapped(is_requested);
}

void sampler_operations_offer(struct allocator *allocator, unsigned lg_sample, bool with_entries)
{
	if (found.is_known && uses_entries == with_entries)
		return;
	if (found.is_known)
		put_found_back(allocator);
	else
		note_found(allocator);
	struct allocator_profiling *const profiling = &allocator->profiling;
	if (allocator->unavailable.kind == ERROR_NONE || !is_supported ||
		is_tool(allocator->identity.malloc_name) || !can_see_calls(allocator, with_entries))
		return;
	uses_entries = with_entries;
	if (with_entries)
		entries_note_code();
	other_operations = allocator->operations;
	allocator->operations = &sampler_operations;
	allocator->unavailable = (struct error){ 0 };
	allocator->identity.owns_malloc =
		allocator->identity.owns_malloc || allocator->jemalloc.mallctl == NULL;
	struct allocator_profiling ours = { .compiled_in = true,
		.enabled = true,
		.accumulates = true,
		.thread_active_init = true,
		.lg_interval = -1,
		.lg_sample = lg_sample,
		.has_unwinder_hook = true,
		.sampler = "heapctl",
		.unwinder = "heapctl" };
	/* For the profiles that are written without a request, as at exit. */
	snprintf(ours.prefix, sizeof ours.prefix, "%s",
		profiling->prefix[0] == '\0' ? "jeprof" : profiling->prefix);
	*profiling = ours;
	sampler_set_interval(UINT64_C(1) << lg_sample);
}
