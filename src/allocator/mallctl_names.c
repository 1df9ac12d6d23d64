/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/mallctl_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* In patterns, '#' matches one number and '*' one word between dots. */

static const char *const bool_names[] = { "background_thread", "config.*", "thread.tcache.enabled",
	"thread.prof.active", "arena.#.initialized", "prof.active", "prof.thread_active_init",
	"prof.gdump", "opt.abort", "opt.confirm_conf", "opt.abort_conf", "opt.cache_oblivious",
	"opt.trust_madvise", "opt.retain", "opt.background_thread", "opt.stats_print", "opt.zero",
	"opt.utrace", "opt.xmalloc", "opt.tcache", "opt.prof", "opt.prof_active",
	"opt.prof_thread_active_init", "opt.prof_accum", "opt.prof_gdump", "opt.prof_final",
	"opt.prof_leak", "opt.prof_leak_error", "opt.prof_unbias", "opt.prof_log", "opt.prof_stats",
	"opt.prof_sys_thread_name", "opt.prof_pid_namespace", "opt.hpa",
	"opt.experimental_infallible_new", "opt.disable_large_size_classes",
	"opt.experimental_hpa_start_huge_if_thp_always", "opt.huge_arena_pac_thp",
	"experimental.thread.activity_callback_enabled" };

static const char *const u32_names[] = { "opt.narenas", "opt.hpa_dirty_mult",
	"opt.lg_tcache_flush_small_div", "opt.lg_tcache_flush_large_div",
	"opt.tcache_nslots_small_min", "opt.tcache_nslots_small_max", "opt.tcache_nslots_large",
	"opt.debug_double_free_max_scan", "opt.prof_bt_max", "thread.arena", "tcache.create",
	"tcache.flush", "tcache.destroy", "arenas.narenas", "arenas.nbins", "arenas.nhbins",
	"arenas.nlextents", "arenas.bin.#.nregs", "arenas.bin.#.nshards", "arenas.create",
	"stats.arenas.#.nthreads", "stats.mutexes.*.max_num_thds",
	"stats.arenas.#.mutexes.*.max_num_thds", "stats.arenas.#.bins.#.mutex.max_num_thds" };

static const char *const u64_names[] = { "epoch", "thread.allocated", "thread.deallocated",
	"thread.peak.read", "prof.interval", "opt.hpa_min_purge_interval_ms",
	"stats.background_thread.num_runs", "stats.background_thread.run_interval",
	"stats.arenas.#.uptime", "stats.arenas.#.dirty_npurge", "stats.arenas.#.dirty_nmadvise",
	"stats.arenas.#.dirty_purged", "stats.arenas.#.muzzy_npurge",
	"stats.arenas.#.muzzy_nmadvise", "stats.arenas.#.muzzy_purged", "stats.arenas.#.*.nmalloc",
	"stats.arenas.#.*.ndalloc", "stats.arenas.#.*.nrequests", "stats.arenas.#.*.nfills",
	"stats.arenas.#.*.nflushes", "stats.arenas.#.bins.#.nmalloc",
	"stats.arenas.#.bins.#.ndalloc", "stats.arenas.#.bins.#.nrequests",
	"stats.arenas.#.bins.#.nfills", "stats.arenas.#.bins.#.nflushes",
	"stats.arenas.#.bins.#.nslabs", "stats.arenas.#.bins.#.nreslabs",
	"stats.arenas.#.lextents.#.nmalloc", "stats.arenas.#.lextents.#.ndalloc",
	"stats.arenas.#.lextents.#.nrequests", "stats.mutexes.*.num_ops",
	"stats.mutexes.*.num_wait", "stats.mutexes.*.num_spin_acq",
	"stats.mutexes.*.num_owner_switch", "stats.mutexes.*.total_wait_time",
	"stats.mutexes.*.max_wait_time", "stats.arenas.#.mutexes.*.num_ops",
	"stats.arenas.#.mutexes.*.num_wait", "stats.arenas.#.mutexes.*.num_spin_acq",
	"stats.arenas.#.mutexes.*.num_owner_switch", "stats.arenas.#.mutexes.*.total_wait_time",
	"stats.arenas.#.mutexes.*.max_wait_time", "stats.arenas.#.bins.#.mutex.num_ops",
	"stats.arenas.#.bins.#.mutex.num_wait", "stats.arenas.#.bins.#.mutex.num_spin_acq",
	"stats.arenas.#.bins.#.mutex.num_owner_switch",
	"stats.arenas.#.bins.#.mutex.total_wait_time", "stats.arenas.#.bins.#.mutex.max_wait_time",
	"stats.arenas.#.hpa_shard.npurge_passes", "stats.arenas.#.hpa_shard.npurges",
	"stats.arenas.#.hpa_shard.nhugifies", "stats.arenas.#.hpa_shard.ndehugifies" };

static const char *const size_names[] = { "max_background_threads", "opt.oversize_threshold",
	"opt.max_background_threads", "opt.lg_extent_max_active_fit", "opt.tcache_max",
	"opt.lg_prof_sample", "opt.process_madvise_max_batch", "opt.prof_recent_alloc_max_size",
	"opt.hpa_slab_max_alloc", "opt.hpa_hugification_threshold", "opt.hpa_hugify_delay_ms",
	"opt.hpa_sec_nshards", "opt.hpa_sec_max_alloc", "opt.hpa_sec_max_bytes",
	"opt.hpa_sec_bytes_after_flush", "opt.hpa_sec_batch_fill_extra", "opt.tcache_gc_incr_bytes",
	"opt.tcache_gc_delay_bytes", "opt.calloc_madvise_threshold", "arena.#.retain_grow_limit",
	"arenas.quantum", "arenas.page", "arenas.hugepage", "arenas.tcache_max",
	"arenas.bin.#.size", "arenas.bin.#.slab_size", "arenas.lextent.#.size", "prof.lg_sample",
	"prof.reset", "stats.allocated", "stats.active", "stats.metadata", "stats.metadata_edata",
	"stats.metadata_rtree", "stats.metadata_thp", "stats.resident", "stats.mapped",
	"stats.retained", "stats.zero_reallocs", "stats.background_thread.num_threads",
	"stats.arenas.#.pactive", "stats.arenas.#.pdirty", "stats.arenas.#.pmuzzy",
	"stats.arenas.#.mapped", "stats.arenas.#.retained", "stats.arenas.#.extent_avail",
	"stats.arenas.#.base", "stats.arenas.#.internal", "stats.arenas.#.metadata_edata",
	"stats.arenas.#.metadata_rtree", "stats.arenas.#.metadata_thp", "stats.arenas.#.resident",
	"stats.arenas.#.tcache_bytes", "stats.arenas.#.tcache_stashed_bytes",
	"stats.arenas.#.abandoned_vm", "stats.arenas.#.hpa_sec_bytes",
	"stats.arenas.#.small.allocated", "stats.arenas.#.large.allocated",
	"stats.arenas.#.bins.#.curregs", "stats.arenas.#.bins.#.curslabs",
	"stats.arenas.#.bins.#.nonfull_slabs", "stats.arenas.#.lextents.#.curlextents",
	"stats.arenas.#.extents.#.*", "stats.arenas.#.hpa_shard.empty_slabs.*",
	"stats.arenas.#.hpa_shard.full_slabs.*", "stats.arenas.#.hpa_shard.nonfull_slabs.#.*",
	"approximate_stats.active" };

static const char *const ssize_names[] = { "opt.dirty_decay_ms", "opt.muzzy_decay_ms",
	"opt.lg_prof_interval", "opt.mutex_max_spin", "opt.stats_interval",
	"opt.prof_recent_alloc_max", "opt.experimental_tcache_gc", "opt.lg_tcache_nslots_mul",
	"arena.#.dirty_decay_ms", "arena.#.muzzy_decay_ms", "arenas.dirty_decay_ms",
	"arenas.muzzy_decay_ms", "stats.arenas.#.dirty_decay_ms", "stats.arenas.#.muzzy_decay_ms",
	"experimental.prof_recent.alloc_max" };

static const char *const string_names[] = { "version", "config.malloc_conf", "opt.metadata_thp",
	"opt.dss", "opt.percpu_arena", "opt.stats_print_opts", "opt.stats_interval_opts",
	"opt.junk", "opt.thp", "opt.prof_prefix", "opt.prof_time_resolution", "opt.zero_realloc",
	"opt.malloc_conf.symlink", "opt.malloc_conf.env_var", "opt.malloc_conf.global_var",
	"opt.malloc_conf.global_var_2_conf_harder", "thread.prof.name", "arena.#.dss", "prof.dump",
	"prof.prefix", "prof.log_start", "stats.arenas.#.dss" };

static const char *const unit_names[] = { "thread.peak.reset", "thread.tcache.flush", "thread.idle",
	"arena.#.decay", "arena.#.purge", "arena.#.reset", "arena.#.destroy", "prof.log_stop",
	"stats.mutexes.reset" };

#define NAMES(type, table)                                    \
	{                                                     \
		type, table, sizeof(table) / sizeof(table)[0] \
	}

/* The first match decides: config.malloc_conf is text, all other config.* are bool. */
static const struct {
	enum mallctl_type type;
	const char *const *patterns;
	size_t count;
} tables[] = {
	NAMES(MALLCTL_STRING, string_names),
	NAMES(MALLCTL_BOOL, bool_names),
	NAMES(MALLCTL_U32, u32_names),
	NAMES(MALLCTL_U64, u64_names),
	NAMES(MALLCTL_SIZE, size_names),
	NAMES(MALLCTL_SSIZE, ssize_names),
	NAMES(MALLCTL_UNIT, unit_names),
};

struct refusal {
	const char *pattern; /* '**' at the end: this and everything below */
	const char *why;
};

static const struct refusal never_touched[] = {
	{ "arenas.lookup", "it crashes the process without an address" },
	{ "experimental.hooks.**", "it takes functions of the process" },
	{ "experimental.utilization.**", "it takes addresses of the process" },
	{ "experimental.batch_alloc", "it takes a structure of the process" },
	{ "experimental.arenas.**", "its value is an address of the process" },
	{ "experimental.arenas_create_ext", "it takes a structure of the process" },
	{ "experimental.thread.**", "it takes functions of the process" },
	{ "experimental.prof_recent.alloc_dump", "it takes a function of the process" },
	{ "arena.#.extent_hooks", "its value is a structure of functions" },
	{ "arena.#.name", "it writes to an address in its value" },
	{ "thread.allocatedp", "its value is an address of the process" },
	{ "thread.deallocatedp", "its value is an address of the process" },
	{ "prof.stats.**", "its value is a structure" },
	{ "thread.tcache.max", "it resizes a cache of the agent's own thread" },
	{ "thread.tcache.ncached_max.**", "it takes a structure" },
};

static const struct refusal reading_acts[] = {
	{ "arenas.create", "reading it creates a permanent arena" },
	{ "tcache.create", "reading it creates a permanent cache" },
	{ "tcache.flush", "it has no value" },
	{ "tcache.destroy", "it has no value" },
	{ "prof.dump", "it has no value" },
	{ "prof.prefix", "it cannot be read" },
	{ "prof.reset", "it has no value" },
	{ "prof.log_start", "it has no value" },
};

static const struct refusal never_written[] = {
	{ "arena.#.reset", "it frees memory that the program still uses" },
	{ "arena.#.destroy", "it frees memory that the program still uses" },
	{ "tcache.flush", "a wrong number crashes the process" },
	{ "tcache.destroy", "a wrong number crashes the process" },
	{ "thread.arena", "it would move only the agent's own thread" },
	{ "thread.prof.active", "the agent's own thread is never sampled" },
};

static const struct refusal written_on_demand[] = {
	{ "prof.dump", "it overwrites a file; a dump through heapctl does not" },
	{ "prof.prefix", "it changes where later dumps are written" },
	{ "prof.log_start", "it writes a file when it stops" },
	{ "prof.reset", "it discards all samples" },
	{ "prof.gdump", "it writes a file at each new maximum of memory" },
	{ "arenas.create", "it creates a permanent arena" },
	{ "tcache.create", "it creates a permanent cache" },
	{ "background_thread", "it starts or stops threads in the process" },
	{ "max_background_threads", "it changes how many threads run in the process" },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_number(const char *at)
{
	while (is_digit(*at))
		at++;
	return at;
}

static const char *skip_word(const char *at)
{
	while (*at != '\0' && *at != '.')
		at++;
	return at;
}

static bool matches(const char *pattern, const char *name)
{
	while (*pattern != '\0') {
		if (strcmp(pattern, "**") == 0)
			return *name != '\0';
		if (*pattern == '#' || *pattern == '*') {
			const char *const end =
				*pattern == '#' ? skip_number(name) : skip_word(name);
			if (end == name)
				return false;
			name = end;
			pattern++;
		} else if (*pattern++ != *name++) {
			return false;
		}
	}
	return *name == '\0';
}

static const char *const type_names[] = { [MALLCTL_UNKNOWN] = "unknown",
	[MALLCTL_BOOL] = "bool",
	[MALLCTL_U32] = "u32",
	[MALLCTL_U64] = "u64",
	[MALLCTL_SIZE] = "size",
	[MALLCTL_SSIZE] = "ssize",
	[MALLCTL_STRING] = "string",
	[MALLCTL_UNIT] = "unit" };

const char *mallctl_type_name(enum mallctl_type type)
{
	return type_names[type];
}

enum mallctl_type mallctl_type_parse(const char *word)
{
	for (unsigned i = MALLCTL_BOOL; i <= MALLCTL_UNIT; i++) {
		if (strcmp(word, type_names[i]) == 0)
			return (enum mallctl_type)i;
	}
	return MALLCTL_UNKNOWN;
}

enum mallctl_type mallctl_name_type(const char *name)
{
	for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++) {
		for (size_t i = 0; i < tables[table].count; i++) {
			if (matches(tables[table].patterns[i], name))
				return tables[table].type;
		}
	}
	return MALLCTL_UNKNOWN;
}

static bool check_spelling(const char *name, struct error *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
	const size_t length = strlen(name);

	if (length == 0)
		return error_set(err, ERROR_USAGE, "a mallctl needs a name, such as prof.active");
	if (length >= MALLCTL_NAME_MAX)
		return error_set(
			err, ERROR_USAGE, "a mallctl's name of %zu bytes is too long", length);
	if (strspn(name, letters) != length || name[0] == '.' || name[length - 1] == '.')
		return error_set(err, ERROR_USAGE, "'%s' is not the name of a mallctl", name);
	return true;
}

static bool refuse_if_listed(const char *name, const struct refusal *list, size_t count,
	const char *verb, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		if (matches(list[i].pattern, name))
			return error_set(
				err, ERROR_DENIED, "%s %s is refused: %s", verb, name, list[i].why);
	}
	return true;
}

#define REFUSE_IF_LISTED(name, list, verb, err) \
	refuse_if_listed(name, list, sizeof(list) / sizeof(list)[0], verb, err)

bool mallctl_check_read(const char *name, struct error *err)
{
	return check_spelling(name, err) && REFUSE_IF_LISTED(name, never_touched, "reading", err) &&
	       REFUSE_IF_LISTED(name, reading_acts, "reading", err);
}

bool mallctl_check_write(const char *name, bool force, struct error *err)
{
	if (!check_spelling(name, err) || !REFUSE_IF_LISTED(name, never_touched, "writing", err) ||
		!REFUSE_IF_LISTED(name, never_written, "writing", err))
		return false;
	if (!force && !REFUSE_IF_LISTED(name, written_on_demand, "writing", err))
		return error_hint(err, "to do it anyway, add force=true");
	return true;
}

static bool parse_bool(const char *text, uint64_t *number)
{
	if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
		*number = 1;
	else if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
		*number = 0;
	else
		return false;
	return true;
}

static bool parse_unsigned(const char *text, uint64_t limit, uint64_t *number)
{
	char *end = NULL;

	if (!is_digit(text[0]))
		return false;
	errno = 0;
	*number = strtoull(text, &end, 0);
	return errno == 0 && *end == '\0' && *number <= limit;
}

static bool parse_signed(const char *text, uint64_t *number)
{
	char *end = NULL;

	if (!is_digit(text[0]) && !(text[0] == '-' && is_digit(text[1])))
		return false;
	errno = 0;
	*number = (uint64_t)strtoll(text, &end, 0);
	return errno == 0 && *end == '\0';
}

static bool parse_text(const char *text, struct mallctl_value *value)
{
	const size_t length = strlen(text);

	if (length >= sizeof value->text)
		return false;
	memcpy(value->text, text, length + 1);
	return true;
}

bool mallctl_value_parse(
	enum mallctl_type type, const char *text, struct mallctl_value *value, struct error *err)
{
	struct mallctl_value parsed = { .type = type };
	const char *hint = "write a whole number that fits";
	bool ok = false;

	switch (type) {
	case MALLCTL_BOOL:
		hint = "write true or false";
		ok = parse_bool(text, &parsed.number);
		break;
	case MALLCTL_U32:
		ok = parse_unsigned(text, UINT32_MAX, &parsed.number);
		break;
	case MALLCTL_U64:
		ok = parse_unsigned(text, UINT64_MAX, &parsed.number);
		break;
	case MALLCTL_SIZE:
		ok = parse_unsigned(text, SIZE_MAX, &parsed.number);
		break;
	case MALLCTL_SSIZE:
		ok = parse_signed(text, &parsed.number);
		break;
	case MALLCTL_STRING:
		hint = "it is too long";
		ok = parse_text(text, &parsed);
		break;
	case MALLCTL_UNIT:
		hint = "write nothing after the '='";
		ok = text[0] == '\0';
		break;
	case MALLCTL_UNKNOWN:
		return error_set(err, ERROR_USAGE, "a value needs a type");
	}
	if (!ok) {
		error_set(err, ERROR_USAGE, "'%.80s' is not a value of type %s", text,
			mallctl_type_name(type));
		return error_hint(err, "%s", hint);
	}
	*value = parsed;
	return true;
}

void mallctl_value_json(struct json_writer *json, const struct mallctl_value *value)
{
	switch (value->type) {
	case MALLCTL_BOOL:
		json_put_bool(json, value->number != 0);
		break;
	case MALLCTL_U32:
	case MALLCTL_U64:
	case MALLCTL_SIZE:
		json_put_unsigned(json, value->number);
		break;
	case MALLCTL_SSIZE:
		json_put_integer(json, (int64_t)value->number);
		break;
	case MALLCTL_STRING:
		json_put_string(json, value->text);
		break;
	case MALLCTL_UNIT:
	case MALLCTL_UNKNOWN:
		json_put_null(json);
		break;
	}
}
