/* SPDX-License-Identifier: Apache-2.0 */
#include "base/malloc_conf.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum value_kind {
	VALUE_ANY,
	VALUE_BOOL,
	VALUE_NUMBER,
};

struct known_option {
	const char *name;
	enum value_kind kind;
	int min, max; /* of a number; both 0: any */
};

/* Of every release from 4.0 to 5.3.1. */
static const struct known_option known_options[] = {
	{ "prof", VALUE_BOOL, 0, 0 },
	{ "prof_accum", VALUE_BOOL, 0, 0 },
	{ "prof_active", VALUE_BOOL, 0, 0 },
	{ "prof_bt_max", VALUE_NUMBER, 1, 1024 },
	{ "prof_final", VALUE_BOOL, 0, 0 },
	{ "prof_gdump", VALUE_BOOL, 0, 0 },
	{ "prof_leak", VALUE_BOOL, 0, 0 },
	{ "prof_leak_error", VALUE_BOOL, 0, 0 },
	{ "prof_log", VALUE_BOOL, 0, 0 },
	{ "prof_pid_namespace", VALUE_BOOL, 0, 0 },
	{ "prof_prefix", VALUE_ANY, 0, 0 },
	{ "prof_recent_alloc_max", VALUE_NUMBER, 0, 0 },
	{ "prof_stats", VALUE_BOOL, 0, 0 },
	{ "prof_sys_thread_name", VALUE_BOOL, 0, 0 },
	{ "prof_thread_active_init", VALUE_BOOL, 0, 0 },
	{ "prof_time_resolution", VALUE_ANY, 0, 0 },
	{ "prof_unbias", VALUE_BOOL, 0, 0 },
	{ "lg_prof_interval", VALUE_NUMBER, -1, 63 },
	{ "lg_prof_sample", VALUE_NUMBER, 0, 63 },
	{ "abort", VALUE_BOOL, 0, 0 },
	{ "abort_conf", VALUE_BOOL, 0, 0 },
	{ "background_thread", VALUE_BOOL, 0, 0 },
	{ "cache_oblivious", VALUE_BOOL, 0, 0 },
	{ "calloc_madvise_threshold", VALUE_NUMBER, 0, 0 },
	{ "confirm_conf", VALUE_BOOL, 0, 0 },
	{ "debug_double_free_max_scan", VALUE_NUMBER, 0, 0 },
	{ "decay_time", VALUE_NUMBER, 0, 0 },
	{ "dirty_decay_ms", VALUE_NUMBER, 0, 0 },
	{ "disable_large_size_classes", VALUE_BOOL, 0, 0 },
	{ "dss", VALUE_ANY, 0, 0 },
	{ "experimental_infallible_new", VALUE_BOOL, 0, 0 },
	{ "hpa", VALUE_BOOL, 0, 0 },
	{ "hpa_dehugify_delay_ms", VALUE_NUMBER, 0, 0 },
	{ "hpa_dehugify_threshold_ratio", VALUE_ANY, 0, 0 },
	{ "hpa_dirty_mult", VALUE_ANY, 0, 0 },
	{ "hpa_hugification_threshold", VALUE_NUMBER, 0, 0 },
	{ "hpa_hugification_threshold_ratio", VALUE_ANY, 0, 0 },
	{ "hpa_hugify_delay_ms", VALUE_NUMBER, 0, 0 },
	{ "hpa_min_purge_interval_ms", VALUE_NUMBER, 0, 0 },
	{ "hpa_sec_batch_fill_extra", VALUE_NUMBER, 0, 0 },
	{ "hpa_sec_bytes_after_flush", VALUE_NUMBER, 0, 0 },
	{ "hpa_sec_max_alloc", VALUE_NUMBER, 0, 0 },
	{ "hpa_sec_max_bytes", VALUE_NUMBER, 0, 0 },
	{ "hpa_sec_nshards", VALUE_NUMBER, 0, 0 },
	{ "hpa_slab_max_alloc", VALUE_NUMBER, 0, 0 },
	{ "huge_arena_pac_thp", VALUE_BOOL, 0, 0 },
	{ "junk", VALUE_ANY, 0, 0 },
	{ "lg_chunk", VALUE_NUMBER, 0, 0 },
	{ "lg_dirty_mult", VALUE_NUMBER, 0, 0 },
	{ "lg_extent_max_active_fit", VALUE_NUMBER, 0, 0 },
	{ "lg_san_uaf_align", VALUE_NUMBER, 0, 0 },
	{ "lg_tcache_flush_large_div", VALUE_NUMBER, 0, 0 },
	{ "lg_tcache_flush_small_div", VALUE_NUMBER, 0, 0 },
	{ "lg_tcache_max", VALUE_NUMBER, 0, 0 },
	{ "lg_tcache_nslots_mul", VALUE_NUMBER, 0, 0 },
	{ "malloc_conf_2_conf_harder", VALUE_ANY, 0, 0 },
	{ "max_background_threads", VALUE_NUMBER, 0, 0 },
	{ "max_batched_size", VALUE_NUMBER, 0, 0 },
	{ "metadata_thp", VALUE_ANY, 0, 0 },
	{ "mutex_max_spin", VALUE_NUMBER, 0, 0 },
	{ "muzzy_decay_ms", VALUE_NUMBER, 0, 0 },
	{ "narenas", VALUE_ANY, 0, 0 },
	{ "oversize_threshold", VALUE_NUMBER, 0, 0 },
	{ "percpu_arena", VALUE_ANY, 0, 0 },
	{ "purge", VALUE_ANY, 0, 0 },
	{ "quarantine", VALUE_NUMBER, 0, 0 },
	{ "redzone", VALUE_BOOL, 0, 0 },
	{ "remote_free_max", VALUE_NUMBER, 0, 0 },
	{ "remote_free_max_batch", VALUE_NUMBER, 0, 0 },
	{ "retain", VALUE_BOOL, 0, 0 },
	{ "san_guard_large", VALUE_NUMBER, 0, 0 },
	{ "san_guard_small", VALUE_NUMBER, 0, 0 },
	{ "slab_sizes", VALUE_ANY, 0, 0 },
	{ "stats_interval", VALUE_NUMBER, 0, 0 },
	{ "stats_interval_opts", VALUE_ANY, 0, 0 },
	{ "stats_print", VALUE_BOOL, 0, 0 },
	{ "stats_print_opts", VALUE_ANY, 0, 0 },
	{ "tcache", VALUE_BOOL, 0, 0 },
	{ "tcache_gc_delay_bytes", VALUE_NUMBER, 0, 0 },
	{ "tcache_gc_incr_bytes", VALUE_NUMBER, 0, 0 },
	{ "tcache_max", VALUE_NUMBER, 0, 0 },
	{ "tcache_ncached_max", VALUE_ANY, 0, 0 },
	{ "tcache_nslots_large", VALUE_NUMBER, 0, 0 },
	{ "tcache_nslots_small_max", VALUE_NUMBER, 0, 0 },
	{ "tcache_nslots_small_min", VALUE_NUMBER, 0, 0 },
	{ "thp", VALUE_ANY, 0, 0 },
	{ "trust_madvise", VALUE_BOOL, 0, 0 },
	{ "utrace", VALUE_BOOL, 0, 0 },
	{ "xmalloc", VALUE_BOOL, 0, 0 },
	{ "zero", VALUE_BOOL, 0, 0 },
	{ "zero_realloc", VALUE_ANY, 0, 0 },
};

static const struct known_option *find_option(const char *name, size_t size)
{
	for (size_t i = 0; i < sizeof known_options / sizeof known_options[0]; i++) {
		if (strlen(known_options[i].name) == size &&
			memcmp(known_options[i].name, name, size) == 0)
			return &known_options[i];
	}
	return NULL;
}

static bool is_key_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

bool malloc_conf_next(const char **text, struct malloc_conf_pair *pair)
{
	const char *at = *text;

	while (is_key_character(*at))
		at++;
	if (*at != ':')
		return false;
	*pair = (struct malloc_conf_pair){ .key = *text, .key_size = (size_t)(at - *text) };
	at++;
	pair->value = at;
	pair->value_size = strcspn(at, ",");
	at += pair->value_size;
	*text = *at == ',' ? at + 1 : at;
	return true;
}

bool malloc_conf_find(const char *text, const char *key, struct malloc_conf_pair *pair)
{
	struct malloc_conf_pair next;
	const size_t key_size = strlen(key);
	bool found = false;

	while (malloc_conf_next(&text, &next)) {
		if (next.key_size != key_size || memcmp(next.key, key, key_size) != 0)
			continue;
		*pair = next;
		found = true;
	}
	return found;
}

static bool value_is(const struct malloc_conf_pair *pair, const char *value)
{
	return pair->value_size == strlen(value) &&
	       memcmp(pair->value, value, pair->value_size) == 0;
}

bool malloc_conf_is_on(const char *text, const char *key, bool otherwise)
{
	struct malloc_conf_pair pair;
	const size_t key_size = strlen(key);
	bool is_on = otherwise;

	/* jemalloc ignores a value that is neither, and then the one before it is effective. */
	while (malloc_conf_next(&text, &pair)) {
		if (pair.key_size != key_size || memcmp(pair.key, key, key_size) != 0)
			continue;
		if (value_is(&pair, "true"))
			is_on = true;
		else if (value_is(&pair, "false"))
			is_on = false;
	}
	return is_on;
}

/*
 * Whether the value swallowed another option behind a wrong separator ("/x:prof_active:false",
 * "true;narenas:4", "true prof_active:false"): its offset in the value.
 */
static bool find_swallowed(const struct malloc_conf_pair *pair, size_t *offset)
{
	for (size_t i = 1; i < pair->value_size; i++) {
		if (strchr(":; ", pair->value[i - 1]) == NULL)
			continue;
		size_t end = i;
		while (end < pair->value_size && is_key_character(pair->value[end]))
			end++;
		if (end < pair->value_size && pair->value[end] == ':' &&
			find_option(pair->value + i, end - i) != NULL) {
			*offset = i - 1;
			return true;
		}
	}
	return false;
}

static bool check_number(
	const struct known_option *option, const struct malloc_conf_pair *pair, struct error *err)
{
	char digits[32] = "";
	char *rest;

	if (pair->value_size < sizeof digits)
		memcpy(digits, pair->value, pair->value_size);
	const long long value = strtoll(digits, &rest, 0);
	if (digits[0] == '\0' || *rest != '\0') {
		error_set(err, ERROR_USAGE, "'%.*s' is not a number, which %s needs",
			(int)pair->value_size, pair->value, option->name);
		return error_hint(err, "write %s:NUMBER", option->name);
	}
	if (option->min == option->max || (value >= option->min && value <= option->max))
		return true;
	error_set(err, ERROR_USAGE, "%s:%s is outside %d to %d", option->name, digits, option->min,
		option->max);
	return error_hint(err, "use a value from %d to %d", option->min, option->max);
}

static bool check_value(
	const struct known_option *option, const struct malloc_conf_pair *pair, struct error *err)
{
	if (option->kind == VALUE_NUMBER)
		return check_number(option, pair, err);
	if (option->kind == VALUE_BOOL && !value_is(pair, "true") && !value_is(pair, "false")) {
		error_set(err, ERROR_USAGE, "%s must be 'true' or 'false', not '%.*s'",
			option->name, (int)pair->value_size, pair->value);
		return error_hint(err, "write %s:true or %s:false", option->name, option->name);
	}
	return true;
}

/* Whether jemalloc will read the pair as it was meant. */
static bool check_pair(const struct malloc_conf_pair *pair, struct error *err)
{
	const struct known_option *const option = find_option(pair->key, pair->key_size);
	size_t swallowed;

	if (option == NULL) {
		error_set(err, ERROR_USAGE, "jemalloc has no option '%.*s'", (int)pair->key_size,
			pair->key);
		return error_hint(err, "see 'opt.' in jemalloc(3) for the names");
	}
	if (find_swallowed(pair, &swallowed)) {
		error_set(err, ERROR_USAGE, "'%.*s' is one value to jemalloc: %s swallows '%.*s'",
			(int)pair->value_size, pair->value, option->name,
			(int)(pair->value_size - swallowed), pair->value + swallowed);
		return error_hint(err, "options are separated by ',': %s:%.*s,%.*s", option->name,
			(int)swallowed, pair->value, (int)(pair->value_size - swallowed - 1),
			pair->value + swallowed + 1);
	}
	return check_value(option, pair, err);
}

/* Where jemalloc stopped before the end of the text. */
static bool describe_rest(const char *rest, struct error *err)
{
	const size_t key =
		strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	if (rest[key] == '\0') {
		error_set(err, ERROR_USAGE, "'%s' has no value", rest);
		return error_hint(err, "write %s:VALUE", rest);
	}
	error_set(err, ERROR_USAGE, "jemalloc stops reading at '%s'", rest);
	return error_hint(err, "write KEY:VALUE,KEY:VALUE without blanks, '=' or ';', for example "
			       "prof:true,prof_active:false");
}

bool malloc_conf_problem(const char *text, size_t index, struct error *err)
{
	struct malloc_conf_pair pair;
	struct error problem;

	while (malloc_conf_next(&text, &pair)) {
		if (!check_pair(&pair, &problem) && index-- == 0) {
			*err = problem;
			return true;
		}
	}
	if (*text == '\0' || index > 0)
		return false;
	describe_rest(text, err);
	return true;
}

bool malloc_conf_check(const char *text, struct error *err)
{
	return !malloc_conf_problem(text, 0, err);
}

const char *malloc_conf_variable(
	const char *mallctl_symbol, char variable[MALLOC_CONF_VARIABLE_BYTES])
{
	static const char suffix[] = "mallctl";
	const size_t size = strlen(mallctl_symbol);
	size_t prefix = size >= sizeof suffix - 1 ? size - (sizeof suffix - 1) : 0;

	if (prefix > MALLOC_CONF_VARIABLE_BYTES - sizeof "MALLOC_CONF")
		prefix = 0;
	for (size_t i = 0; i < prefix; i++)
		variable[i] = (char)toupper((unsigned char)mallctl_symbol[i]);
	memcpy(variable + prefix, "MALLOC_CONF", sizeof "MALLOC_CONF");
	return variable;
}
