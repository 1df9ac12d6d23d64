/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/symbol_warnings.h"

#include <string.h>

#include "analysis/allocator_frames.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "cli/verb.h"

static const char *source_name(enum symbol_source source)
{
	switch (source) {
	case SYMBOL_SOURCE_NONE:
		return "nothing";
	case SYMBOL_SOURCE_DYNAMIC:
		return "exported names";
	case SYMBOL_SOURCE_TABLE:
		return "symbol table";
	case SYMBOL_SOURCE_DWARF:
		return "DWARF";
	}
	return "";
}

static void warn_of_module(const struct symbol_module_report *report, bool debug)
{
	const char *const path = report->path[0] == '\0' ? "anonymous memory" : report->path;

	if (debug)
		verb_warn("%s: %s from %s%s%s; %zu of %zu addresses named%s", path,
			source_name(report->source), report->file[0] == '\0' ? "-" : report->file,
			report->debug_file[0] == '\0' ? "" : " and ", report->debug_file,
			report->named_count, report->address_count,
			report->from_cache ? ", from the cache" : "");
	const bool are_all_named = report->named_count == report->address_count;
	/* A part is in another file, which is missing: .dwo, dwz. */
	const bool is_incomplete = report->source == SYMBOL_SOURCE_DWARF && !report->is_damaged;
	if (report->problem[0] == '\0' ||
		(!debug && are_all_named && !report->is_damaged && !is_incomplete))
		return;
	if (are_all_named && is_incomplete) {
		verb_warn("%s: %s (%s)", path, report->problem, report->hint);
		return;
	}
	if (are_all_named && report->is_damaged) {
		const size_t size = strlen(path);
		const bool names_path = strncmp(report->problem, path, size) == 0 &&
					strncmp(report->problem + size, ": ", 2) == 0;
		verb_warn("%s: files, lines and inlined functions are missing: %s (%s)", path,
			report->problem + (names_path ? size + 2 : 0), report->hint);
		return;
	}
	verb_warn("%s: %zu of %zu addresses have no name: %s%s%s%s", path,
		report->address_count - report->named_count, report->address_count, report->problem,
		report->hint[0] == '\0' ? "" : " (", report->hint,
		report->hint[0] == '\0' ? "" : ")");
}

static bool has_same_report(const void *reports, uint32_t position, const void *key)
{
	const struct symbol_module_report *const left =
		(const struct symbol_module_report *)reports + position;
	const struct symbol_module_report *const right = key;

	return strcmp(left->path, right->path) == 0 && strcmp(left->problem, right->problem) == 0 &&
	       strcmp(left->hint, right->hint) == 0;
}

/* Addresses that need a mapping to get a name. */
static size_t count_unnamed(const struct profile *profile)
{
	size_t count = 0;

	for (size_t i = 0; i < profile->location_count; i++)
		count += profile->locations[i].mapping == PROFILE_NONE &&
			 profile_location_is_unnamed(profile, &profile->locations[i]);
	return count;
}

/* With names, as --raw writes it, a profile of jemalloc that was cut between stacks lacks no name.
 */
static void warn_of_missing_end(const struct profile *profile)
{
	if (profile->weighting == PROFILE_EXPONENTIAL)
		verb_warn("%s: it has no list of mappings (MAPPED_LIBRARIES), so it was cut off, "
			  "and stacks may be missing (get the whole file)",
			profile->name);
}

/*
 * Distinguishes memory without a file from a profile that was cut off before its mappings. Returns
 * the number of addresses of such profiles.
 */
static size_t warn_of_missing_mappings(const struct symbol_warnings *of)
{
	size_t sum = 0;

	for (size_t i = 0; i < of->profile_count; i++) {
		const struct profile *const profile = of->profiles[i];
		const size_t count = count_unnamed(profile);
		if (profile->has_go_names && count != 0) {
			verb_warn("%s: %zu of %zu addresses have no name: Go's texts leave out "
				  "functions of its runtime (get it without debug=1)",
				profile->name, count, profile->location_count);
			sum += count;
		}
		if (profile->has_mappings || profile->mapping_count != 0)
			continue;
		if (count == 0) {
			warn_of_missing_end(profile);
			continue;
		}
		verb_warn("%s: no address has a name: it has no list of mappings "
			  "(MAPPED_LIBRARIES), so it was cut off (get the whole file, or give the "
			  "program in front of it)",
			profile->name);
		sum += count;
	}
	return sum;
}

/* Addresses above the last mapping; 0 where there is no list of mappings. */
static size_t count_above_mappings(const struct profile *profile)
{
	uint64_t limit = 0;
	size_t count = 0;

	for (size_t i = 0; i < profile->mapping_count; i++)
		if (profile->mappings[i].limit > limit)
			limit = profile->mappings[i].limit;
	for (size_t i = 0; limit != 0 && i < profile->location_count; i++)
		if (profile->locations[i].mapping == PROFILE_NONE &&
			profile->locations[i].frame_count == 0 &&
			profile->locations[i].address >= limit)
			count++;
	return count;
}

/* The stack lies above all code: an address behind the list's end shows that the end is missing. */
static size_t warn_of_cut_mappings(const struct symbol_warnings *of)
{
	size_t sum = 0;

	for (size_t i = 0; i < of->profile_count; i++) {
		const struct profile *const profile = of->profiles[i];
		const size_t count = count_above_mappings(profile);
		if (count == 0)
			continue;
		verb_warn("%s: %zu of %zu addresses have no name: they are above the last of its "
			  "mappings, so it was cut off (get the whole file)",
			profile->name, count, profile->location_count);
		sum += count;
	}
	return sum;
}

/* Reports that say the same become one. Returns how many there are then. */
static size_t sum_reports(
	const struct symbol_module_report *reports, size_t count, struct symbol_module_report *sums)
{
	CLEANUP(hash_index_deinit) struct hash_index index = { 0 };
	uint32_t sum_count = 0;

	hash_index_init(&index);
	for (size_t i = 0; i < count; i++) {
		const struct symbol_module_report *const report = &reports[i];
		const uint64_t hash = hash_combine(hash_bytes(report->path, strlen(report->path)),
			hash_bytes(report->problem, strlen(report->problem)));
		const uint32_t same =
			hash_index_add(&index, hash, has_same_report, sums, report, sum_count);
		if (same == HASH_INDEX_NONE) {
			sums[sum_count++] = *report;
			continue;
		}
		sums[same].address_count += report->address_count;
		sums[same].named_count += report->named_count;
	}
	return sum_count;
}

/* Behind a whole line, a cut shows in the sums alone. */
static void warn_of_missing_stacks(const struct symbol_warnings *of)
{
	for (size_t i = 0; i < of->profile_count; i++)
		if (of->profiles[i]->lacks_stacks)
			verb_warn("%s: its stacks have less than its first line says, so it was "
				  "cut off, and stacks are missing (get the whole file)",
				of->profiles[i]->name);
}

/*
 * If only one of two profiles has build-ids, a module has two reports; what both say is printed
 * once.
 */
static void warn_of_modules(
	const struct symbol_warnings *of, const struct symbol_module_report *reports, size_t count)
{
	const size_t cut_count = warn_of_missing_mappings(of) + warn_of_cut_mappings(of);
	CLEANUP(free_cleanup) struct symbol_module_report *sums = xcalloc(count, sizeof *sums);
	const size_t sum_count = sum_reports(reports, count, sums);
	for (size_t i = 0; i < sum_count; i++) {
		const char *const path = sums[i].path;
		/* Those that were just said need no advice about code made at run time. */
		if (path[0] == '\0' && sums[i].address_count <= cut_count)
			continue;
		/* The allocator's own frames are not shown, so their names are not needed. */
		if (of->keeps_allocator_frames || !allocator_frame_has_module(PROFILE_HEAP, path))
			warn_of_module(&sums[i], false);
	}
}

void symbol_warnings_print(const struct symbol_warnings *of)
{
	size_t count = 0;
	const struct symbol_module_report *const reports =
		symbolizer_reports(of->symbolizer, &count);

	warn_of_missing_stacks(of);
	if (!of->names_sources) {
		warn_of_modules(of, reports, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		warn_of_module(&reports[i], true);
}
