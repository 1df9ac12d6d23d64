/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_session.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/filter.h"
#include "base/file.h"
#include "base/units.h"
#include "source/symbolize.h"
#include "base/xalloc.h"
#include "cli/verb.h"
#include "cli/input_guard.h"
#include "cli/sampling_mixture.h"
#include "cli/symbol_warnings.h"
#include "cli/control.h"
#include "client/target_tree.h"
#include "source/source.h"
#include "client/target_resolve.h"

void report_session_add(struct report_session *session, struct profile *profile)
{
	session->profiles = xgrow(session->profiles, &session->profile_capacity,
		session->profile_count + 1, sizeof(void *));
	session->profiles[session->profile_count++] = profile;
}

/* Whether the request can be about single threads. */
static bool needs_threads(const struct report_options *options)
{
	return options->output == REPORT_RAW || options->output == REPORT_PPROF ||
	       options->output == REPORT_INTERACTIVE || filter_text_names_threads(&options->filter);
}

struct source_options report_session_source_options(const struct report_session *session)
{
	const struct report_options *const options = session->options;

	return (struct source_options){
		.leaves_out_threads = !needs_threads(options),
		.server = {
			.page = options->is_jeprof ? "/pprof/profile" : "/pprof/heap",
			.seconds = options->seconds,
			.wants_names = session->program == NULL,
			.retain = options->filter.retain,
			.exclude = options->filter.exclude,
		},
		.warn = verb_warn,
	};
}

/* The size classes of the process that the profile is of. */
static bool load_fragmentation(
	struct report_session *session, struct source *source, struct error *err)
{
	const json_t *stats;

	return source_stats(source, &stats, err) &&
	       fragmentation_classes_read(source->name, stats, &session->fragmentation_classes,
		       &session->fragmentation_class_count, err);
}

/* What a source is loaded for. */
struct load_request {
	const char *operand;
	const struct target *target; /* one process of a tree; NULL: open the operand */
	bool is_base;
};

static bool load_source(struct report_session *session, struct source *source,
	const struct load_request *request, struct profile **profile, struct error *err)
{
	const struct source_options wanted = report_session_source_options(session);

	if (request->target != NULL)
		source_of_target(request->target, &wanted, source);
	else if (!source_open(request->operand, &wanted, source, err))
		return false;
	if (!source_profile(source, profile, err))
		return false;
	session->pid = source->pid;
	if (!request->is_base)
		session->file_time_ms = source->file_time_ms;
	if (session->profile_count == 0)
		snprintf(session->process_name, sizeof session->process_name, "%s",
			source->program_name[0] != '\0' ? source->program_name
							: (*profile)->process_name);
	if (session->options->churn && !profile_select_temporary(*profile, err))
		return false;
	return !session->options->fragmentation || load_fragmentation(session, source, err);
}

static void warn_of_no_samples(const char *name, enum profile_kind kind)
{
	verb_warn("%s has no samples: %s", name,
		kind == PROFILE_HEAP
			? "nothing that was in use was allocated while sampling was on (record for "
			  "longer, or with --sample 16KiB)"
			: "nothing happened while they were taken (take them for longer)");
}

static bool load(
	struct report_session *session, const struct load_request *request, struct error *err)
{
	CLEANUP(source_close) struct source source = { 0 };
	CLEANUP(profile_cleanup) struct profile *profile = NULL;

	input_guard_begin("reading a profile");
	const bool is_read = load_source(session, &source, request, &profile, err);
	input_guard_end();
	if (!is_read)
		return false;
	for (size_t i = 0; i < profile->comment_count; i++) {
		if (strncmp(profile->comments[i], "%warn", 5) == 0)
			verb_warn("%s: %s", source.name, profile->comments[i] + 5);
	}
	if (profile->sample_count == 0 && !request->is_base && request->target == NULL)
		warn_of_no_samples(profile->name, profile->kind);
	session->pids = xgrow(session->pids, &session->pid_capacity, session->profile_count + 1,
		sizeof *session->pids);
	session->pids[session->profile_count] = request->target != NULL ? source.pid : 0;
	report_session_add(session, TAKE(profile));
	return true;
}

/* Each process that can be profiled; the others are named, also those that end meanwhile. */
static bool load_tree(
	struct report_session *session, const char *operand, bool is_base, struct error *err)
{
	CLEANUP(target_tree_deinit) struct target_tree tree = { 0 };
	const size_t before = session->profile_count;
	size_t sample_count = 0;
	struct error why;

	if (session->options->fragmentation)
		return error_set(err, ERROR_USAGE, "--fragmentation takes one bundle or TARGET");
	if (!target_tree_resolve(operand, &tree, err))
		return false;
	for (size_t i = 0; i < tree.count; i++) {
		const struct target_tree_entry *const entry = &tree.entries[i];
		const struct load_request request = { operand, &entry->target, is_base };
		if (!entry->is_reached || !load(session, &request, &why)) {
			const struct error *const problem =
				entry->is_reached ? &why : &entry->problem;
			control_warn_of_left_out(&entry->target, problem);
			*err = *problem;
		}
	}
	const size_t count = session->profile_count - before;
	if (count == 0)
		return error_prefix(err, "%s: no process has a profile", operand);
	for (size_t i = before; i < session->profile_count; i++)
		sample_count += session->profiles[i]->sample_count;
	if (sample_count == 0 && !is_base)
		warn_of_no_samples(operand, PROFILE_HEAP);
	if (!is_base)
		session->tree_count += count;
	return true;
}

static void append_tree_count(const struct report_session *session, struct buffer *text)
{
	if (session->tree_count != 0)
		buffer_printf(text, "%zu process%s added up: ", session->tree_count,
			session->tree_count == 1 ? "" : "es");
}

char *report_session_tree_text(const struct report_session *session)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	const char *before = "";

	if (session->tree_count == 0)
		return NULL;
	append_tree_count(session, &text);
	for (size_t i = 0; i < session->profile_count - session->base_count; i++) {
		if (session->pids[i] == 0)
			continue;
		buffer_printf(&text, "%s%s", before, session->profiles[i]->name);
		before = ", ";
	}
	return buffer_take(&text);
}

/* Every source that the operand means. */
static bool load_operand(
	struct report_session *session, const char *operand, bool is_base, struct error *err)
{
	const size_t count = is_base ? 1 : source_operand_count(operand);

	if (target_tree_detect(operand) && access(operand, F_OK) != 0)
		return load_tree(session, operand, is_base, err);
	for (size_t i = 0; i < count; i++) {
		CLEANUP(free_cleanup)
		char *source = is_base ? xstrdup(operand) : source_operand_at(operand, i);
		if (!load(session, &(struct load_request){ source, NULL, is_base }, err))
			return false;
	}
	return true;
}

static bool check_fragmentation(
	const struct report_options *options, size_t count, struct error *err)
{
	if (!options->fragmentation)
		return true;
	if (count != 1 || options->base != NULL)
		return error_set(err, ERROR_USAGE, "--fragmentation takes one bundle or TARGET");
	if (options->output != REPORT_RENDER && options->output != REPORT_VIEWER)
		return error_set(err, ERROR_USAGE, "--fragmentation does not go with this output");
	if (options->has_counter && options->counter != PROFILE_INUSE_SPACE)
		return error_set(err, ERROR_USAGE,
			"--fragmentation counts bytes of slabs: --%s does not go with it",
			profile_counter_names[options->counter]);
	return true;
}

static bool check_churn(const struct report_options *options, struct error *err)
{
	if (!options->churn)
		return true;
	if (options->fragmentation)
		return error_set(
			err, ERROR_USAGE, "--churn and --fragmentation ask for different figures");
	if (options->has_counter && options->counter < PROFILE_ALLOC_OBJECTS)
		return error_set(err, ERROR_USAGE,
			"temporary allocations are not in use: --%s does not go with --churn",
			profile_counter_names[options->counter]);
	return true;
}

static bool load_all(struct report_session *session, struct error *err)
{
	const struct report_options *const options = session->options;
	char *const *operands = options->operands;
	size_t count = options->operand_count;

	if (count != 0 && source_is_program(operands[0])) {
		session->program = operands[0];
		operands++;
		count--;
	}
	if (count == 0 && session->program != NULL) {
		error_set(err, ERROR_USAGE, "%s is a program's file, and no profile follows it",
			session->program);
		return error_hint(err,
			"give one as well; a process of that name is meant by its pid, which "
			"heapctl ps has");
	}
	if (count == 0) {
		error_set(err, ERROR_USAGE, "no profile given");
		return error_hint(err, "give a file, - for standard input, a URL or a TARGET");
	}
	if (!check_fragmentation(options, count, err) || !check_churn(options, err))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!load_operand(session, operands[i], false, err))
			return false;
	}
	if (options->base != NULL) {
		const size_t before = session->profile_count;
		if (!load_operand(session, options->base, true, err))
			return false;
		session->base_count = session->profile_count - before;
	}
	return true;
}

char *report_session_cache_dir(void)
{
	const char *const caches = getenv("XDG_CACHE_HOME");
	const char *const home = getenv("HOME");

	if (caches != NULL && caches[0] == '/')
		return xasprintf("%s/heapctl", caches);
	if (home != NULL && home[0] == '/')
		return xasprintf("%s/.cache/heapctl", home);
	return NULL;
}

/* At least a second, and at most what an int holds. */
static int whole_ms(long seconds)
{
	if (seconds < 1)
		return 1000;
	return seconds > INT_MAX / 1000 ? INT_MAX : (int)seconds * 1000;
}

static void open_symbolizer(struct report_session *session)
{
	const struct report_options *const options = session->options;
	CLEANUP(free_cleanup) char *cache_dir = report_session_cache_dir();

	verb_warn_of_folders("sysroot", options->sysroot, "");
	verb_warn_of_folders("lib_prefix", options->lib_prefixes, ",");
	for (size_t i = 0; i < options->build_id_dir_count; i++)
		verb_warn_of_folders("build-id-dir", options->build_id_dirs[i], "");
	const struct symbolizer_options symbols = {
		.sysroot = options->sysroot,
		.build_id_dirs = options->build_id_dirs,
		.build_id_dir_count = options->build_id_dir_count,
		.cache_dir = options->no_cache ? NULL : cache_dir,
		.debuginfod_urls = options->debuginfod,
		.debuginfod_timeout_ms = whole_ms(options->debuginfod_seconds),
		.no_inlines = options->no_inlines,
	};
	session->symbolizer = symbolizer_new(&symbols);
}

/* A profile that does not say where its files were mapped: the program's own addresses serve. */
static bool place_program(struct report_session *session, struct error *err)
{
	for (size_t i = 0; i < session->profile_count; i++) {
		struct profile *const profile = session->profiles[i];
		if (profile->mapping_count != 0 || !symbolize_is_needed(profile))
			continue;
		if (!program_mappings_add(profile, session->program, err))
			return false;
		verb_warn("%s does not say where files were mapped: %s is taken at the addresses "
			  "that it was linked for",
			profile->name, session->program);
		profile_assign_mappings(profile);
	}
	return true;
}

static bool add_library(struct report_session *session, struct error *err)
{
	for (size_t i = 0; i < session->profile_count; i++) {
		if (!program_mappings_add(session->profiles[i], session->options->add_lib, err))
			return false;
		profile_assign_mappings(session->profiles[i]);
	}
	return true;
}

/* The running process of each profile; 0 where there is none. Free with free(). */
static pid_t *processes_of(const struct report_session *session)
{
	pid_t *const pids = xcalloc(session->profile_count, sizeof *pids);
	const char *listed = session->options->pids;

	for (size_t i = 0; i < session->profile_count; i++) {
		if (session->options->pid != 0)
			pids[i] = (pid_t)session->options->pid;
		else if (session->profile_count == 1)
			pids[i] = session->pid;
		else if (session->pids != NULL)
			pids[i] = session->pids[i];
		if (listed == NULL)
			continue;
		char *end = NULL;
		pids[i] = (pid_t)strtol(listed, &end, 10);
		listed = *end == ',' ? end + 1 : NULL;
	}
	return pids;
}

bool report_session_add_symbols(struct report_session *session, struct error *err)
{
	CLEANUP(free_cleanup) pid_t *pids = processes_of(session);
	const struct symbolize_options options = {
		.program = session->program,
		.lib_prefixes = session->options->lib_prefixes,
		.pids = pids,
	};

	if (session->program != NULL && !place_program(session, err))
		return false;
	if (session->options->add_lib != NULL && !add_library(session, err))
		return false;
	open_symbolizer(session);
	input_guard_begin("finding the names of functions");
	const bool is_done = symbolize(
		session->symbolizer, session->profiles, session->profile_count, &options, err);
	input_guard_end();
	if (!is_done)
		return false;
	symbol_warnings_print(&(struct symbol_warnings){
		.symbolizer = session->symbolizer,
		.profiles = session->profiles,
		.profile_count = session->profile_count,
		.keeps_allocator_frames = session->options->keep_allocator_frames,
		.names_sources = session->options->debug,
	});
	return true;
}

/* A thread that is not there is an error, not an empty report. */
static bool check_thread(const struct report_session *session, struct error *err)
{
	const char *const wanted = session->options->filter.thread;
	size_t thread_count = 0;

	if (wanted == NULL || strcmp(wanted, "*") == 0)
		return true;
	for (size_t i = 0; i < session->profile_count; i++) {
		const struct profile *const profile = session->profiles[i];
		for (size_t t = 0; t < profile->thread_count; t++) {
			if (filter_is_thread(&profile->threads[t], wanted))
				return true;
		}
		thread_count += profile->thread_count;
	}
	if (thread_count == 0)
		return true; /* which the view says more about */
	error_set(err, ERROR_USAGE, "no thread of %s has the name or number '%.60s'",
		session->profiles[0]->name, wanted);
	return error_hint(err, "--thread='*' shows all %zu", thread_count);
}

static bool has_in_use(const struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_count; i++) {
		if (profile->samples[i].counters[PROFILE_INUSE_OBJECTS] != 0 ||
			profile->samples[i].counters[PROFILE_INUSE_SPACE] != 0)
			return true;
	}
	return false;
}

/* The output of such a heap profile is empty. */
static void check_in_use(const struct report_session *session)
{
	bool has_allocated = false;
	bool is_heap = false;

	if (session->base_count != 0 || session->options->churn ||
		report_session_counter(session) >= PROFILE_ALLOC_OBJECTS)
		return;
	for (size_t i = 0; i < session->profile_count; i++) {
		const struct profile *const profile = session->profiles[i];
		if (has_in_use(profile))
			return;
		has_allocated |= profile->has_allocated;
		is_heap |= profile->kind == PROFILE_HEAP && profile->sample_count != 0;
	}
	if (!is_heap)
		return;
	verb_warn("%s: nothing that was sampled is still in use%s", session->profiles[0]->name,
		has_allocated ? " (--alloc_space shows what was allocated)" : "");
}

static bool has_counter(const struct profile *profile, enum profile_counter counter)
{
	for (size_t i = 0; i < profile->sample_count; i++) {
		if (profile->samples[i].counters[counter] != 0)
			return true;
	}
	return false;
}

/* Only bytes: collapsed stacks, which have one figure each, and some pprof profiles. */
static bool lacks_objects(const struct profile *profile)
{
	return (has_counter(profile, PROFILE_INUSE_SPACE) ||
		       has_counter(profile, PROFILE_ALLOC_SPACE)) &&
	       !has_counter(profile, PROFILE_INUSE_OBJECTS) &&
	       !has_counter(profile, PROFILE_ALLOC_OBJECTS);
}

static bool has_sizes(const struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_count; i++) {
		if (profile->samples[i].object_bytes != 0)
			return true;
	}
	return !lacks_objects(profile);
}

static bool has_tag_of_bytes(const struct filter_tags *tags)
{
	for (size_t i = 0; i < tags->count; i++) {
		if (strncmp(tags->texts[i], "bytes=", strlen("bytes=")) == 0)
			return true;
	}
	return false;
}

static void check_tags(const struct report_session *session)
{
	const struct filter_text *const filter = &session->options->filter;

	if (!has_tag_of_bytes(&filter->tags) && !has_tag_of_bytes(&filter->ignored_tags))
		return;
	for (size_t i = 0; i < session->profile_count; i++) {
		const struct profile *const profile = session->profiles[i];
		if (!has_sizes(profile))
			verb_warn("%s has no sizes of objects: they are 0 for bytes=LOW:HIGH",
				profile->name);
	}
}

/* What a profile lacks counts as 0, also in sums and differences. */
void report_session_check_counter(const struct report_session *session)
{
	const enum profile_counter counter = report_session_counter(session);
	const bool is_objects =
		counter == PROFILE_INUSE_OBJECTS || counter == PROFILE_ALLOC_OBJECTS;

	for (size_t i = 0; i < session->profile_count; i++) {
		const struct profile *const profile = session->profiles[i];
		if (profile->kind != PROFILE_HEAP || profile->sample_count == 0)
			continue;
		if (is_objects && lacks_objects(profile)) {
			verb_warn("%s has no numbers of objects: they count as 0", profile->name);
			return;
		}
		if (session->options->has_counter && counter >= PROFILE_ALLOC_OBJECTS &&
			!profile->has_allocated) {
			verb_warn("%s counts only what is in use%s", profile->name,
				lacks_objects(profile)
					? ""
					: ": everything ever allocated is counted with "
					  "prof_accum:true in MALLOC_CONF");
			return;
		}
	}
}

bool report_session_open(
	struct report_session *session, const struct report_options *options, struct error *err)
{
	*session = (struct report_session){ .options = options };
	if (load_all(session, err) && check_thread(session, err) &&
		report_session_add_symbols(session, err)) {
		report_session_check_counter(session);
		check_tags(session);
		check_in_use(session);
		if (!options->is_jeprof)
			sampling_mixture_warn(
				session->profiles, session->profile_count - session->base_count);
		return true;
	}
	report_session_close(session);
	return false;
}

void report_session_close(struct report_session *session)
{
	for (size_t i = 0; i < session->profile_count && !session->borrows_profiles; i++)
		profile_free(session->profiles[i]);
	free(session->profiles);
	free(session->pids);
	free(session->fragmentation_classes);
	symbolizer_free(session->symbolizer);
	*session = (struct report_session){ 0 };
}

struct report_variation report_variation_none(const struct report_session *session)
{
	return (struct report_variation){
		.focus = session->options->filter.focus,
		.ignore = session->options->filter.ignore,
		.thread = session->options->filter.thread,
		.granularity = session->options->granularity,
		.no_inlines = session->options->no_inlines,
	};
}

/* "a.heap, b.heap; a sample every 512 KiB" */
static char *make_subtitle(const struct report_session *session)
{
	const size_t now_count = session->profile_count - session->base_count;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (session->options->fragmentation)
		buffer_append_string(&text, "free places in slabs, by whose objects keep them; ");
	if (session->options->churn)
		buffer_append_string(&text, "temporary allocations, freed within 1 MiB or 10 ms; ");
	append_tree_count(session, &text);
	for (size_t i = 0; i < session->profile_count; i++) {
		buffer_append_string(&text, i == 0 ? "" : i == now_count ? " - " : ", ");
		buffer_append_string(&text, session->profiles[i]->name);
	}
	sampling_intervals_append(session->profiles, now_count, &text);
	return buffer_take(&text);
}

struct view_input *report_session_inputs(const struct report_session *session)
{
	struct view_input *const inputs = xcalloc(session->profile_count, sizeof *inputs);

	for (size_t i = 0; i < session->profile_count; i++)
		inputs[i] = (struct view_input){ session->profiles[i],
			i >= session->profile_count - session->base_count };
	return inputs;
}

/*
 * A CPU profile has samples where others have objects; that is what people count there. A
 * contention profile has delays in that place, and their length in that of bytes.
 */
enum profile_counter report_session_counter(const struct report_session *session)
{
	const enum profile_kind kind = session->profiles[0]->kind;

	if (kind == PROFILE_CPU || (kind == PROFILE_CONTENTION && session->options->counts_delays))
		return PROFILE_INUSE_OBJECTS;
	return session->options->has_counter ? session->options->counter
					     : session->profiles[0]->default_counter;
}

const char *report_session_title(const struct report_session *session)
{
	if (session->program != NULL)
		return path_base_name(session->program);
	if (session->process_name[0] != '\0')
		return session->process_name;
	return path_base_name(profile_main_path(session->profiles[0]));
}

static bool build_view(const struct report_session *session, const struct view_input *inputs,
	const struct view_request *request, struct view **ret, struct error *err)
{
	const struct fragmentation fragmentation = { session->fragmentation_classes,
		session->fragmentation_class_count };

	if (session->options->fragmentation)
		return fragmentation_build(
			&fragmentation, inputs, session->profile_count, request, ret, err);
	input_guard_begin("adding up the stacks");
	const bool is_built = view_build(inputs, session->profile_count, request, ret, err);
	input_guard_end();
	if (is_built && session->options->churn)
		(*ret)->label = request->counter == PROFILE_ALLOC_SPACE
					? "bytes of temporary allocations"
					: "temporary allocations";
	return is_built;
}

bool report_session_view(const struct report_session *session,
	const struct report_variation *variation, struct view **ret, struct error *err)
{
	const struct report_options *const options = session->options;
	struct filter_text text = options->filter;
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	CLEANUP(free_cleanup) char *subtitle = make_subtitle(session);
	CLEANUP(free_cleanup) struct view_input *inputs = report_session_inputs(session);

	text.focus = variation->focus;
	text.ignore = variation->ignore;
	text.thread = variation->thread;
	if (!filter_new(&text, &filter, err))
		return false;
	const struct view_request request = {
		.granularity = variation->granularity,
		.counter = report_session_counter(session),
		.filter = filter,
		.pruning = report_options_pruning(options),
		.no_inlines = variation->no_inlines,
		.mean_delay =
			options->mean_delay && session->profiles[0]->kind == PROFILE_CONTENTION,
		.drop_negative = options->drop_negative,
		.totals_only = variation->totals_only && session->base_count == 0 &&
			       !options->fragmentation && !options->drop_negative,
		.title = options->title != NULL ? options->title : report_session_title(session),
		.subtitle = options->subtitle != NULL ? options->subtitle : subtitle,
	};
	if (!build_view(session, inputs, &request, ret, err))
		return false;
	(*ret)->shares_are_of_all = !options->relative_percentages;
	if (options->divide_by != 1)
		view_divide(*ret, options->divide_by);
	return true;
}
