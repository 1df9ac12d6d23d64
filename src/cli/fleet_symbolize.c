/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fleet_symbolize.h"

#include <string.h>

#include "base/file.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "cli/input_guard.h"
#include "cli/report_session.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "fleet/unnamed_stacks.h"
#include "source/build_id_files.h"
#include "source/symbolize.h"

enum { DEBUGINFOD_MS = 10 * 60 * 1000 };

struct symbolize_session {
	struct build_id_files *files;
	struct symbolizer *symbolizer;
	struct unnamed_counts counts;
};

static void session_deinit(struct symbolize_session *session)
{
	symbolizer_free(session->symbolizer);
	build_id_files_free(session->files);
}

/*
 * The names of one batch. A file that was given is read instead of the one that ran; what stays
 * without a name is still called after the latter.
 */
static bool name_batch(
	struct symbolize_session *session, struct unnamed_stacks *stacks, struct error *err)
{
	struct profile *const profile = stacks->profile;
	CLEANUP(free_cleanup) const char **paths = xcalloc(profile->mapping_count, sizeof *paths);

	for (size_t i = 0; i < profile->mapping_count; i++) {
		struct profile_mapping *const mapping = &profile->mappings[i];
		const char *const file = build_id_files_find(session->files, mapping->build_id);
		paths[i] = mapping->path;
		if (file != NULL)
			mapping->path = profile_intern(profile, file);
	}
	/* It may take minutes, and nothing runs in the database that would have to be stopped. */
	terminal_release_interrupts();
	input_guard_begin("finding the names of functions");
	const bool is_done =
		symbolize(session->symbolizer, &profile, 1, &(struct symbolize_options){ 0 }, err);
	input_guard_end();
	terminal_catch_interrupts();
	for (size_t i = 0; i < profile->mapping_count; i++)
		profile->mappings[i].path = paths[i];
	return is_done;
}

static bool complete(
	struct symbolize_session *session, struct clickhouse *clickhouse, struct error *err)
{
	uint64_t last = 0;

	for (bool is_at_end = false; !is_at_end;) {
		CLEANUP(unnamed_stacks_deinit) struct unnamed_stacks stacks = { 0 };
		if (!unnamed_stacks_read(clickhouse, last, &stacks, err) ||
			!name_batch(session, &stacks, err) ||
			!unnamed_stacks_write(clickhouse, &stacks, &session->counts, err))
			return false;
		last = stacks.last;
		is_at_end = stacks.is_at_end;
	}
	return true;
}

/* What to look for: files are searched for by their build-id, so that is what one needs. */
static void warn_of_modules(const struct symbolize_session *session)
{
	size_t count = 0;
	const struct symbol_module_report *const reports =
		symbolizer_reports(session->symbolizer, &count);

	for (size_t i = 0; i < count; i++)
		if (reports[i].named_count < reports[i].address_count)
			verb_warn("%s, build-id %s: %zu of %zu addresses have no name: %s",
				path_base_name(reports[i].path), reports[i].build_id,
				reports[i].address_count - reports[i].named_count,
				reports[i].address_count,
				reports[i].problem[0] != '\0' ? reports[i].problem
							      : "it has no symbols there");
}

static void print(
	const struct symbolize_session *session, bool as_json, const char *name, struct buffer *out)
{
	const struct unnamed_counts *const counts = &session->counts;
	struct json_writer json;

	if (!as_json) {
		buffer_printf(out, "%s: %zu stacks completed, %zu improved, %zu as before\n", name,
			counts->completed, counts->improved, counts->unchanged);
		return;
	}
	json_init(&json, out);
	json_object_begin(&json);
	json_member_unsigned(&json, "completed", counts->completed);
	json_member_unsigned(&json, "improved", counts->improved);
	json_member_unsigned(&json, "unchanged", counts->unchanged);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

bool fleet_symbolize(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct buffer *out, struct error *err)
{
	CLEANUP(session_deinit)
	struct symbolize_session session = { .files = build_id_files_new() };
	CLEANUP(free_cleanup) char *cache_dir = report_session_cache_dir();

	for (size_t i = 0; i < options->file_count; i++)
		if (!build_id_files_add(session.files, options->files[i], err))
			return false;
	session.symbolizer = symbolizer_new(&(struct symbolizer_options){
		.build_id_dirs = (const char *const *)options->files,
		.build_id_dir_count = options->file_count,
		.debuginfod_urls = options->debuginfod,
		.debuginfod_timeout_ms = DEBUGINFOD_MS,
		.cache_dir = cache_dir,
	});
	if (!complete(&session, clickhouse, err))
		return false;
	warn_of_modules(&session);
	print(&session, options->as_json, clickhouse_name(clickhouse), out);
	return true;
}
