/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/handlers.h"

#include "analysis/view.h"
#include "client/kernel_view.h"
#include "render/renderers.h"
#include "store/store.h"
#include "gateway/profile_render.h"

#define TEXT "text/plain"
#define JSON "application/json"
#define BINARY "application/octet-stream"
#define HEAP "application/x-jemalloc-heap-profile"
#define RUN_ID_MAX INT64_C(999999999999999999)

enum {
	SYMBOL_BODY_BYTES = 8 * 1024 * 1024,
	UPLOAD_BYTES = 512 * 1024 * 1024,
	DELTA_SECONDS_MAX = 600,
};

static const char *const truths[] = { "true", "false", NULL };
static const char *const only_none[] = { "none", NULL };
static const char *const yes_or_no[] = { "0", "1", NULL };
static const char *const stats_formats[] = { "json", "text", NULL };
static const char *const mallctl_types[] = { "bool", "u32", "u64", "size", "ssize", "string",
	"unit", NULL };
static const char *const collections[] = { "arenas", "classes", "all", NULL };

static const struct parameter run_duration[] = {
	{ "duration", PARAMETER_DURATION,
		.help = "length of the run: 1 s to 24 h, in ns us ms secs mins hrs days weeks; a "
			"bare number is seconds; 5mins when left out" },
	{ 0 },
};

static const struct parameter run_id[] = {
	{ "id", PARAMETER_NUMBER, .min = 0, .max = RUN_ID_MAX,
		.help = "the run's id; by default the newest finished run" },
	{ 0 },
};

static const struct parameter two_runs[] = {
	{ "base", PARAMETER_NUMBER, .min = 1, .max = RUN_ID_MAX, .is_required = true,
		.help = "the run that is subtracted" },
	{ "id", PARAMETER_NUMBER, .min = 1, .max = RUN_ID_MAX, .is_required = true,
		.help = "the run that is shown" },
	{ "format", PARAMETER_CHOICE, .choices = profile_format_names,
		.help = "text when left out" },
	{ 0 },
};

static const struct route_status mesos_start_statuses[] = {
	{ 200, "the run that is on now: its id, and the seconds that remain" },
	{ 400, "no duration from 1 s to 24 h, or the process cannot be profiled" },
	{ 409, "sampling was switched on otherwise" },
	{ 0 },
};

static const struct route_status mesos_stop_statuses[] = {
	{ 200, "the run that ended, or the last one; where its profiles are" },
	{ 400, "there is no run, sampling was switched on otherwise, or a run has begun since" },
	{ 0 },
};

static const struct route_status mesos_download_statuses[] = {
	{ 400, "no run yet, one is on and no id was given, or it cannot be drawn" },
	{ 404, "there is no such target, or no run with that id" },
	{ 0 },
};

static const struct parameter mtev_parameters[] = {
	{ "active", PARAMETER_CHOICE, .choices = truths, .help = "switches sampling on or off" },
	{ "trigger_dump", PARAMETER_CHOICE, .choices = truths,
		.help = "true: answer with a profile" },
	{ 0 },
};

static const struct route_status mtev_statuses[] = {
	{ 400, "an unknown parameter, or a value that is neither true nor false" },
	{ 404, "there is no such target" },
	{ 500, "every other failure; the reason is the body" },
	{ 0 },
};

static const struct route_status growth_statuses[] = {
	{ 404, "always: jemalloc has no such profile" },
	{ 0 },
};

static const struct route_status symbol_statuses[] = {
	{ 413, "too many addresses at once" },
	{ 0 },
};

#define MERGE                                                                               \
	{                                                                                   \
		"merge", PARAMETER_CHOICE,                                                  \
			.choices = yes_or_no,                                               \
			.help = "1: the sum of all processes of that name, as they are now" \
	}

static const struct parameter go_parameters[] = {
	{ "seconds", PARAMETER_NUMBER, .min = 0, .max = DELTA_SECONDS_MAX,
		.help = "the difference of two profiles this far apart; sampling stays as it is" },
	{ "gc", PARAMETER_TEXT, .help = "accepted: there is no garbage to collect" },
	{ "debug", PARAMETER_NUMBER, .min = 0, .max = 2,
		.help = "above 0: jemalloc's own text instead of pprof" },
	MERGE,
	{ "normalize", PARAMETER_CHOICE, .choices = yes_or_no,
		.help = "1: addresses as the files have them, for servers that find names" },
	{ "symbols", PARAMETER_CHOICE, .choices = only_none,
		.help = "none: addresses without names; where they are not normalized, comments "
			"executableInfo say how to do that" },
	{ "labels", PARAMETER_CHOICE, .choices = only_none,
		.help = "none: one sample for each stack, without the size of its objects" },
	{ "drop_negative", PARAMETER_CHOICE, .choices = yes_or_no,
		.help = "1: in a difference, leave out what shrank" },
	{ 0 },
};

static const struct parameter go_index_parameters[] = {
	{ "debug", PARAMETER_NUMBER, .min = 0, .max = 2, .help = "accepted: there is one form" },
	{ 0 },
};

static const struct parameter discovery_parameters[] = {
	{ "address", PARAMETER_TEXT,
		.help = "HOST:PORT by which the gateway is reached; that of the request when left "
			"out" },
	{ "merge", PARAMETER_CHOICE, .choices = yes_or_no,
		.help = "1: one for each name, for profiles that are the sum of its processes" },
	{ 0 },
};

static const struct parameter metrics_parameters[] = {
	{ "collect", PARAMETER_CHOICE, .choices = collections,
		.help = "series for each arena, each size class, or both" },
	{ 0 },
};

/* How any profile is drawn. */
#define DRAWING                                                                                    \
	{ "format", PARAMETER_CHOICE, .choices = profile_format_names,                             \
		.help = "json when left out" },                                                    \
		{ "counter", PARAMETER_CHOICE, .choices = profile_counter_names,                   \
			.help = "inuse_space when left out" },                                     \
		{ "granularity", PARAMETER_CHOICE, .choices = view_granularity_names,              \
			.help = "functions when left out" },                                       \
		{ "churn", PARAMETER_CHOICE, .choices = yes_or_no,                                 \
			.help = "1: only temporary allocations, where they are counted" },         \
		{ "focus", PARAMETER_TEXT,                                                         \
			.help = "only stacks that match this regular expression" },                \
		{ "ignore", PARAMETER_TEXT,                                                        \
			.help = "no stacks that match this regular expression" },                  \
		{ "show", PARAMETER_TEXT, .help = "only frames that match" },                      \
		{ "hide", PARAMETER_TEXT, .help = "no frames that match" },                        \
		{ "show_from", PARAMETER_TEXT,                                                     \
			.help = "only stacks with a match, without its callers" },                 \
		{ "prune_from", PARAMETER_TEXT,                                                    \
			.help = "nothing below the innermost function that matches" },             \
		{ "tagignore", PARAMETER_TEXT,                                                     \
			.help = "no samples with thread=REGEX or bytes=LOW:HIGH" },                \
		{ "function", PARAMETER_TEXT,                                                      \
			.help = "source and disasm: of the functions that match" },                \
		{ "thread", PARAMETER_TEXT,                                                        \
			.help = "only what this thread allocated, by number or name, where the "   \
				"profile has threads" },                                           \
		{ "bytes", PARAMETER_TEXT,                                                         \
			.help = "only objects of this size, LOW:HIGH, either may be left out" },   \
		{ "sort", PARAMETER_CHOICE, .choices = render_sort_names,                          \
			.help = "rows and text: flat when left out" },                             \
		{ "first", PARAMETER_NUMBER, .min = 0, .max = INT32_MAX,                           \
			.help = "rows: how many to leave out in front" },                          \
		{ "limit", PARAMETER_NUMBER, .min = 0, .max = INT32_MAX,                           \
			.help = "rows and text: how many; all when left out" },                    \
		{ "rows", PARAMETER_TEXT, .help = "rows: only those whose name or file matches" }, \
		{ "frames", PARAMETER_NUMBER, .min = 0, .max = INT32_MAX,                          \
			.help = "flame-data: maximum number of frames; what is smaller is "        \
				"together" },                                                      \
	{                                                                                          \
		"root", PARAMETER_TEXT,                                                            \
			.help = "flame-data: as many frames more below this one: callees or "      \
				"callers, and the names from the root, one a line"                 \
	}

static const struct parameter profile_parameters[] = {
	{ "id", PARAMETER_TEXT, .help = "a run's id, or now (the default)" },
	{ "base", PARAMETER_TEXT, .help = "what is subtracted: a run's id, or now" },
	{ "whole", PARAMETER_CHOICE, .choices = yes_or_no,
		.help = "1: of a run that began with samples, all that is in use at its end, "
			"not what changed since its start" },
	DRAWING,
	{ "inverted", PARAMETER_CHOICE, .choices = yes_or_no, .help = "1: trees from the leaves" },
	{ "cumulative", PARAMETER_CHOICE, .choices = yes_or_no,
		.help = "1: text sorted by cumulative figures" },
	{ "download", PARAMETER_CHOICE, .choices = yes_or_no, .help = "1: to be saved as a file" },
	MERGE,
	{ 0 },
};

/* Of one process, when others had the same name. */
#define PROCESS                                                                                \
	{ "pid", PARAMETER_NUMBER, .min = 1, .max = INT32_MAX,                                 \
		.help = "only snapshots of the process that had this pid" },                   \
	{                                                                                      \
		"started_ms", PARAMETER_NUMBER, .min = 1, .max = INT64_MAX,                    \
						.help = "and began then, as the timeline says" \
	}
#define RANGE                                                                                   \
	{ "from_ms", PARAMETER_NUMBER, .min = 0, .max = INT64_MAX,                              \
		.help = "only snapshots from then, in milliseconds since 1970" },               \
	{                                                                                       \
		"to_ms", PARAMETER_NUMBER, .min = 0, .max = INT64_MAX, .help = "and up to then" \
	}

static const struct parameter timeline_parameters[] = {
	RANGE,
	PROCESS,
	{ "max", PARAMETER_NUMBER, .min = 2, .max = TIMELINE_SNAPSHOTS_MAX,
		.help = "maximum number of snapshots, evenly spaced; 5000 when left out" },
	{ "most", PARAMETER_NUMBER, .min = 2, .max = TIMELINE_SNAPSHOTS_MAX,
		.help = "the former name of max, until 0.3" },
	{ "captured", PARAMETER_CHOICE, .choices = yes_or_no,
		.help = "1: only what a watch captured" },
	{ 0 },
};

static const struct parameter trend_parameters[] = {
	RANGE,
	PROCESS,
	{ "max", PARAMETER_NUMBER, .min = 2, .max = TREND_PROFILES_MAX,
		.help = "maximum number of profiles, evenly spaced; 1000 when left out" },
	{ "most", PARAMETER_NUMBER, .min = 2, .max = TREND_PROFILES_MAX,
		.help = "the former name of max, until 0.3" },
	{ "format", PARAMETER_CHOICE, .choices = trend_format_names,
		.help = "json (docs/trend-json.md) when left out; raw is a tar of the profiles" },
	{ "by", PARAMETER_CHOICE, .choices = trend_unit_names,
		.help = "what a site is; functions by what they allocate themselves when left "
			"out" },
	{ "counter", PARAMETER_CHOICE, .choices = profile_counter_names,
		.help = "inuse_space when left out" },
	{ "top", PARAMETER_NUMBER, .min = 1, .max = 1000,
		.help = "maximum number of sites; 30 when left out" },
	{ "focus", PARAMETER_TEXT, .help = "only stacks that match this regular expression" },
	{ "ignore", PARAMETER_TEXT, .help = "no stacks that match this regular expression" },
	{ "exclude", PARAMETER_TEXT, .help = "stacks without the functions that match this" },
	{ 0 },
};

static const struct parameter notes_parameters[] = {
	{ "from_ms", PARAMETER_NUMBER, .min = 0, .max = INT64_MAX,
		.help = "only notes from then, in milliseconds since 1970" },
	{ "to_ms", PARAMETER_NUMBER, .min = 0, .max = INT64_MAX, .help = "and up to then" },
	{ 0 },
};

static const struct parameter add_note_parameters[] = {
	{ "text", PARAMETER_TEXT, .is_required = true, .help = "one line of at most 200 bytes" },
	{ "time_ms", PARAMETER_NUMBER, .min = 1, .max = INT64_MAX,
		.help = "when that was, in milliseconds since 1970; now when left out" },
	{ 0 },
};

static const struct parameter path_note_id[] = {
	{ "id", PARAMETER_NUMBER, .is_in_path = true, .min = 1, .max = INT64_MAX,
		.help = "id of the note" },
	{ 0 },
};

static const struct route_status add_note_statuses[] = {
	{ 201, "the note" },
	{ 0 },
};

static const struct parameter file_parameters[] = {
	{ "base_size", PARAMETER_NUMBER, .min = 0, .max = UPLOAD_BYTES,
		.help = "so many bytes of the body are a profile that is subtracted from the one "
			"behind them" },
	{ "name", PARAMETER_TEXT, .help = "what the profile is called in headings and errors" },
	{ "base_name", PARAMETER_TEXT, .help = "the same of the one that is subtracted" },
	DRAWING,
	{ 0 },
};

static const struct route_status file_statuses[] = {
	{ 413, "the body is larger than 512 MiB" },
	{ 0 },
};

static const struct parameter snapshot_parameters[] = {
	{ "id", PARAMETER_NUMBER, .min = 1, .max = INT64_MAX, .help = "id of the snapshot" },
	{ "base", PARAMETER_NUMBER, .min = 1, .max = INT64_MAX,
		.help = "id of the snapshot that is subtracted" },
	{ "at_ms", PARAMETER_NUMBER, .min = 0, .max = INT64_MAX,
		.help = "the last one not after that, in milliseconds since 1970; the newest when "
			"left out" },
	{ "base_ms", PARAMETER_NUMBER, .min = 0, .max = INT64_MAX,
		.help = "the same for the snapshot that is subtracted" },
	PROCESS,
	DRAWING,
	{ 0 },
};

static const struct parameter capture_parameters[] = {
	{ "line", PARAMETER_NUMBER, .min = 1, .max = INT32_MAX, .is_required = true,
		.help = "line of the watch file at which the section begins" },
	{ "number", PARAMETER_NUMBER, .min = 1, .max = INT64_MAX, .is_required = true,
		.help = "number of the capture" },
	{ "base", PARAMETER_NUMBER, .min = 1, .max = INT64_MAX,
		.help = "number of the capture that is subtracted" },
	DRAWING,
	{ 0 },
};

static const struct parameter kernel_parameters[] = {
	{ "part", PARAMETER_CHOICE, .choices = kernel_part_names, .is_required = true,
		.help = "which file of /proc, by its name in a bundle" },
	{ 0 },
};

static const struct parameter history_parameters[] = {
	{ "since_ms", PARAMETER_NUMBER, .min = 0, .max = INT64_MAX,
		.help = "only samples after this time, in milliseconds since 1970" },
	{ 0 },
};

static const struct parameter stats_parameters[] = {
	{ "format", PARAMETER_CHOICE, .choices = stats_formats, .help = "json when left out" },
	{ "options", PARAMETER_TEXT,
		.help = "letters of malloc_stats_print; w also where glibc's malloc has to wait" },
	{ 0 },
};

static const struct parameter agent_run_parameters[] = {
	{ "duration_ms", PARAMETER_NUMBER, .min = 1000, .max = 86400000,
		.help = "length of the run in milliseconds; 5 minutes when left out" },
	{ "keep_active", PARAMETER_CHOICE, .choices = truths,
		.help = "true: where sampling is on already, record and leave it on" },
	{ "lg_sample", PARAMETER_NUMBER, .min = 12, .max = 40,
		.help = "another mean distance of samples for the run, as a power of two; discards "
			"all samples before it and after it" },
	{ 0 },
};

static const struct parameter agent_pause_parameters[] = {
	{ "duration_ms", PARAMETER_NUMBER, .min = 1000, .max = 86400000,
		.help = "switch sampling on again after this many milliseconds, if it was on" },
	{ 0 },
};

static const struct parameter path_run_id[] = {
	{ "id", PARAMETER_NUMBER, .is_in_path = true, .min = 0, .max = RUN_ID_MAX,
		.help = "id of the run" },
	{ 0 },
};

static const struct parameter reset_parameters[] = {
	{ "lg_sample", PARAMETER_NUMBER, .min = 0, .max = 40,
		.help = "a new mean distance of samples, as a power of two" },
	{ 0 },
};

static const struct parameter mallctl_read_parameters[] = {
	{ "name", PARAMETER_TEXT, .is_in_path = true, .help = "name of the mallctl: opt.prof" },
	{ "type", PARAMETER_CHOICE, .choices = mallctl_types, .help = "needed for unknown names" },
	{ 0 },
};

static const struct parameter mallctl_write_parameters[] = {
	{ "name", PARAMETER_TEXT, .is_in_path = true, .help = "name of the mallctl: prof.active" },
	{ "value", PARAMETER_TEXT, .help = "to be written" },
	{ "type", PARAMETER_CHOICE, .choices = mallctl_types, .help = "needed for unknown names" },
	{ 0 },
};

static const struct parameter asset_parameters[] = {
	{ "file", PARAMETER_TEXT, .is_in_path = true, .help = "file of the page" },
	{ 0 },
};

static const struct parameter build_id_parameters[] = {
	{ "build_id", PARAMETER_TEXT, .is_in_path = true, .help = "in lower-case hex digits" },
	{ 0 },
};

static const struct route_status build_id_statuses[] = {
	{ 404, "nothing is known of this build-id, or serve has no --symbols" },
	{ 0 },
};

static const struct route_status created_statuses[] = {
	{ 200, "a run was on already; this is it" },
	{ 201, "the run that has begun" },
	{ 0 },
};

static const struct route_status asset_statuses[] = {
	{ 304, "the browser has it" },
	{ 0 },
};

static const struct route_status root_statuses[] = {
	{ 302, "to the page of the target" },
	{ 304, "the browser has it" },
	{ 0 },
};

/* What users of each kind have in common. */
#define MESOS                                                                       \
	.methods = METHOD_GET | METHOD_POST, .scope = ROUTE_TARGET, .tag = "Mesos", \
	.errors_are_text = true, .error_status = 400
#define MESOS_DOWNLOAD(name, text)                                                               \
	{ MESOS, .pattern = "/memory-profiler/download/" name, .summary = (text),                \
		.media_type = BINARY, .parameters = run_id, .statuses = mesos_download_statuses, \
		.handle = mesos_download },                                                      \
	{                                                                                        \
		MESOS, .pattern = "/download/" name, .summary = (text), .media_type = BINARY,    \
		       .parameters = run_id, .statuses = mesos_download_statuses,                \
		       .handle = mesos_download                                                  \
	}
#define MTEV                                                                                     \
	.methods = METHOD_GET, .scope = ROUTE_TARGET, .tag = "libmtev", .errors_are_text = true, \
	.error_status = 500, .statuses = mtev_statuses
#define PPROF(method)                                                           \
	.methods = METHOD_##method, .scope = ROUTE_TARGET, .tag = "gperftools", \
	.media_type = TEXT, .errors_are_text = true
#define GO .methods = METHOD_GET, .scope = ROUTE_TARGET, .tag = "Go", .errors_are_text = true
#define AGENT_READ                                                                        \
	.methods = METHOD_GET, .scope = ROUTE_TARGET, .tag = "agent", .media_type = JSON, \
	.handle = agent_read
#define AGENT_PROFILE                                                                     \
	.methods = METHOD_GET, .scope = ROUTE_TARGET, .tag = "agent", .media_type = HEAP, \
	.schema = "HeapProfile", .handle = agent_read
#define AGENT_CHANGE                                                                       \
	.methods = METHOD_POST, .scope = ROUTE_TARGET, .tag = "agent", .media_type = JSON, \
	.changes = true, .handle = agent_change
#define API .methods = METHOD_GET, .tag = "page", .media_type = JSON
#define API_CHANGE                                                                        \
	.methods = METHOD_POST, .scope = ROUTE_TARGET, .tag = "page", .media_type = JSON, \
	.changes = true

const struct route routes[] = {
	{ .methods = METHOD_GET,
		.scope = ROUTE_TARGET,
		.tag = "page",
		.pattern = "/",
		.summary = "the web page",
		.media_type = "text/html",
		.is_open = true,
		.statuses = root_statuses,
		.handle = page_root },
	{ .methods = METHOD_GET,
		.scope = ROUTE_GLOBAL,
		.tag = "page",
		.pattern = "/assets/{file}",
		.summary = "scripts and styles of the page",
		.media_type = TEXT,
		.parameters = asset_parameters,
		.statuses = asset_statuses,
		.is_open = true,
		.handle = page_asset },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/openapi.json", .summary = "this document",
		.is_open = true, .schema = "Document", .handle = api_openapi },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/targets",
		.summary = "every target with its state", .schema = "Targets",
		.handle = api_targets },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/targets",
		.summary = "every target with its state", .schema = "Targets",
		.handle = api_targets },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/history",
		.summary = "memory figures over time, sampled at each request",
		.parameters = history_parameters, .schema = "LiveHistory", .handle = api_history },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/archive",
		.summary = "names with snapshots that serve --history has kept",
		.schema = "Archive", .handle = api_archive },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/overview",
		.summary = "how the memory of all processes moved in the last day, and how fast it "
			   "grows, by the figures that serve --history has kept",
		.schema = "Overview", .handle = api_overview },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/timeline",
		.summary = "the snapshots that serve --history has kept of a target, ended or not, "
			   "and the processes "
			   "that had its name",
		.parameters = timeline_parameters, .schema = "Timeline", .handle = api_timeline },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/snapshot",
		.summary = "the profile of a kept snapshot, or what changed since another",
		.parameters = snapshot_parameters, .schema = "Drawing",
		.format_media_type = profile_format_media_type, .handle = api_snapshot },
	{ .methods = METHOD_POST,
		.scope = ROUTE_GLOBAL,
		.tag = "page",
		.media_type = JSON,
		.pattern = "/api/v1/file",
		.summary = "draws the profile in the body, of any format that heapctl report "
			   "reads; nothing is kept",
		.changes = true,
		.parameters = file_parameters,
		.statuses = file_statuses,
		.schema = "Drawing",
		.format_media_type = profile_format_media_type,
		.upload_limit = UPLOAD_BYTES,
		.handle = api_file },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/moment",
		.summary = "the former name of /api/v1/snapshot, until 0.3",
		.parameters = snapshot_parameters, .schema = "Drawing",
		.format_media_type = profile_format_media_type, .handle = api_snapshot },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/trend",
		.summary = "what grew over the kept snapshots of a time, how fast and how surely",
		.parameters = trend_parameters, .schema = "Trend",
		.format_media_type = trend_media_type, .handle = api_trend },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/notes",
		.summary = "the notes in the history of a target, such as deploys",
		.parameters = notes_parameters, .schema = "Notes", .handle = api_notes },
	{ API_CHANGE, .pattern = "/api/v1/notes",
		.summary = "write a note into the history of a target", .schema = "Note",
		.parameters = add_note_parameters, .statuses = add_note_statuses,
		.handle = api_add_note },
	{ API_CHANGE, .pattern = "/api/v1/notes/{id}/remove", .summary = "remove a note",
		.parameters = path_note_id, .schema = "Removed", .handle = api_remove_note },
	{ .methods = METHOD_GET,
		.scope = ROUTE_TARGET,
		.tag = "heapctl",
		.pattern = "/api/v1/kernel",
		.summary = "what the kernel says of the process' memory, for heapctl account",
		.media_type = TEXT,
		.parameters = kernel_parameters,
		.schema = "KernelText",
		.handle = api_kernel },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/sending",
		.summary = "what serve --send has sent, and what it has not", .schema = "Sending",
		.handle = api_sending },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/fleet",
		.summary = "the database of serve --store", .schema = "Fleet",
		.handle = api_fleet },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/fleet/hosts",
		.summary = "services, versions and hosts, by the last snapshot of each process",
		.parameters = fleet_hosts_parameters, .statuses = fleet_statuses,
		.schema = "FleetHosts", .handle = api_fleet_hosts },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/fleet/sites",
		.summary = "sites of the fleet with their errors: the largest ones, those that "
			   "grow, those that differ between versions, and hosts that deviate",
		.parameters = fleet_sites_parameters, .statuses = fleet_statuses,
		.schema = "FleetSites", .handle = api_fleet_sites },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/fleet/picture",
		.summary = "what the fleet has in use, drawn, or what changed",
		.parameters = fleet_picture_parameters, .statuses = fleet_statuses,
		.schema = "Drawing", .format_media_type = fleet_format_media_type,
		.handle = api_fleet_picture },
	{ API, .scope = ROUTE_TARGET, .pattern = "/watch",
		.summary = "what serve --watch-file watches a target for, and what came of it",
		.schema = "Watches", .handle = api_watch },
	{ API, .scope = ROUTE_GLOBAL, .pattern = "/api/v1/watches",
		.summary = "what serve --watch-file watches all targets for", .schema = "Watches",
		.handle = api_watches },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/captures",
		.summary = "what the watches of a target have captured into their folders",
		.schema = "Captures", .handle = api_captures },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/capture",
		.summary = "the profile of such a capture, or what changed since another",
		.parameters = capture_parameters, .schema = "Drawing",
		.format_media_type = profile_format_media_type, .handle = api_capture },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/classes",
		.summary = "size classes and arenas: what is held, what is used",
		.schema = "Classes", .handle = api_classes },
	{ API, .scope = ROUTE_TARGET, .pattern = "/api/v1/profile",
		.summary = "a run or a profile taken now, drawn, or compared with another",
		.parameters = profile_parameters, .schema = "Drawing",
		.format_media_type = profile_format_media_type, .handle = api_profile },

	{ MESOS, .pattern = "/memory-profiler/start", .summary = "start a run", .media_type = JSON,
		.parameters = run_duration, .changes = true, .statuses = mesos_start_statuses,
		.schema = "MesosStarted", .handle = mesos_start },
	{ MESOS, .pattern = "/memory-profiler/stop", .summary = "end the run now",
		.media_type = JSON, .changes = true, .statuses = mesos_stop_statuses,
		.schema = "MesosStopped", .handle = mesos_stop },
	{ MESOS, .pattern = "/memory-profiler/state", .summary = "configuration and current run",
		.media_type = JSON, .schema = "MesosState", .handle = mesos_state },
	{ MESOS, .pattern = "/memory-profiler/statistics", .summary = "all of malloc_stats_print",
		.media_type = JSON, .schema = "AllocatorStatistics", .handle = mesos_statistics },
	MESOS_DOWNLOAD("raw", "the profile at the end of a run, as jemalloc wrote it"),
	MESOS_DOWNLOAD("text", "one line for each function"),
	MESOS_DOWNLOAD("graph", "the call graph as SVG"),
	MESOS_DOWNLOAD("flame", "the flame graph as HTML"),
	MESOS_DOWNLOAD("pprof", "gzipped protobuf for go tool pprof"),
	MESOS_DOWNLOAD("collapsed", "one line for each stack"),
	MESOS_DOWNLOAD("json", "all figures with their errors"),
	{ MESOS, .pattern = "/memory-profiler/diff", .summary = "what changed between two runs",
		.media_type = TEXT, .parameters = two_runs, .statuses = mesos_download_statuses,
		.schema = "Picture", .format_media_type = profile_format_media_type,
		.handle = mesos_diff },
	{ MESOS, .pattern = "/diff", .summary = "what changed between two runs", .media_type = TEXT,
		.parameters = two_runs, .statuses = mesos_download_statuses, .schema = "Picture",
		.format_media_type = profile_format_media_type, .handle = mesos_diff },

	{ MTEV, .pattern = "/mtev/memory.json", .summary = "all of malloc_stats_print",
		.media_type = JSON, .schema = "AllocatorStatistics", .handle = mtev_memory },
	{ MTEV, .pattern = "/mtev/heap_profile",
		.summary = "state in three lines; switches sampling; takes a profile",
		.media_type = TEXT, .parameters = mtev_parameters, .changes_with = "active",
		.schema = "HeapProfileState", .other_media_type = HEAP,
		.other_schema = "HeapProfile", .handle = mtev_heap_profile },

	{ PPROF(GET), .pattern = "/pprof/heap", .summary = "a profile now, as jemalloc writes it",
		.schema = "HeapProfile", .handle = pprof_heap },
	{ PPROF(GET), .pattern = "/pprof/growth", .summary = "says that there is no such profile",
		.statuses = growth_statuses, .error_status = 404, .handle = pprof_growth },
	{ PPROF(GET), .pattern = "/pprof/symbol", .summary = "whether addresses can be looked up",
		.handle = pprof_symbol },
	{ PPROF(POST), .pattern = "/pprof/symbol",
		.summary = "functions at the addresses 0xADDRESS+0xADDRESS",
		.body_limit = SYMBOL_BODY_BYTES, .statuses = symbol_statuses, .schema = "Symbols",
		.handle = pprof_symbol },
	{ PPROF(GET), .pattern = "/pprof/cmdline", .summary = "the command line, a word in a line",
		.schema = "CommandLine", .handle = pprof_cmdline },

	{ GO, .pattern = "/debug/pprof/", .summary = "what there is", .media_type = TEXT,
		.parameters = go_index_parameters, .schema = "Profiles", .handle = go_index },
	{ GO, .pattern = "/debug/pprof/heap", .summary = "objects in use", .media_type = BINARY,
		.parameters = go_parameters, .other_media_type = TEXT,
		.other_schema = "HeapProfile", .handle = go_heap },
	{ GO, .pattern = "/debug/pprof/allocs", .summary = "all allocations so far",
		.media_type = BINARY, .parameters = go_parameters, .other_media_type = TEXT,
		.other_schema = "HeapProfile", .handle = go_allocs },
	{ PPROF(GET), .pattern = "/debug/pprof/symbol",
		.summary = "whether addresses can be looked up", .schema = "SymbolCount",
		.handle = pprof_symbol },
	{ PPROF(POST), .pattern = "/debug/pprof/symbol",
		.summary = "functions at the addresses 0xADDRESS+0xADDRESS",
		.body_limit = SYMBOL_BODY_BYTES, .statuses = symbol_statuses, .schema = "Symbols",
		.handle = pprof_symbol },
	{ GO, .pattern = "/debug/pprof/cmdline", .summary = "the command line, with NULs",
		.media_type = TEXT, .schema = "CommandLine", .handle = go_cmdline },

	{ .methods = METHOD_GET,
		.scope = ROUTE_TARGET,
		.tag = "Prometheus",
		.pattern = "/metrics",
		.summary = "figures of every target (or of this one)",
		.media_type = TEXT,
		.parameters = metrics_parameters,
		.errors_are_text = true,
		.schema = "Metrics",
		.handle = metrics },

	{ .methods = METHOD_GET,
		.scope = ROUTE_GLOBAL,
		.tag = "Prometheus",
		.pattern = "/discovery",
		.summary = "every target for Prometheus' http_sd and what reads the same form",
		.media_type = JSON,
		.parameters = discovery_parameters,
		.schema = "Discovery",
		.handle = discovery },

	{ .methods = METHOD_GET,
		.scope = ROUTE_GLOBAL,
		.tag = "debuginfod",
		.pattern = "/buildid/{build_id}/debuginfo",
		.summary = "the debug file of a build, or its index of symbols",
		.media_type = BINARY,
		.parameters = build_id_parameters,
		.statuses = build_id_statuses,
		.handle = symbols_debuginfo },

	{ AGENT_READ, .pattern = "/v1/status", .schema = "Status",
		.summary = "configuration and state" },
	{ AGENT_READ, .pattern = "/v1/stats", .schema = "AllocatorStatistics",
		.format_media_type = stats_media_type, .summary = "the allocator's statistics",
		.parameters = stats_parameters },
	{ AGENT_CHANGE, .pattern = "/v1/activate", .schema = "Switched",
		.summary = "switch sampling on" },
	{ AGENT_CHANGE, .pattern = "/v1/deactivate", .schema = "Switched",
		.summary = "switch sampling off", .parameters = agent_pause_parameters },
	{ AGENT_CHANGE, .pattern = "/v1/detach", .schema = "Detached",
		.summary = "end an agent that was attached" },
	{ AGENT_CHANGE, .pattern = "/v1/reset", .schema = "Interval",
		.summary = "discard all samples", .parameters = reset_parameters },
	{ AGENT_PROFILE, .pattern = "/v1/profile", .summary = "a profile now" },
	{ AGENT_READ, .pattern = "/v1/runs", .schema = "Runs",
		.summary = "all runs, oldest first" },
	{ AGENT_CHANGE, .pattern = "/v1/runs", .schema = "Run", .summary = "start a run",
		.parameters = agent_run_parameters, .statuses = created_statuses },
	{ AGENT_CHANGE, .pattern = "/v1/runs/stop", .schema = "Run", .summary = "end the run now" },
	{ AGENT_READ, .pattern = "/v1/runs/{id}", .schema = "Run", .summary = "a run",
		.parameters = path_run_id },
	{ AGENT_PROFILE, .pattern = "/v1/runs/{id}/profile", .summary = "the profile at its end",
		.parameters = path_run_id },
	{ AGENT_PROFILE, .pattern = "/v1/runs/{id}/start", .summary = "the profile at its start",
		.parameters = path_run_id },
	{ AGENT_CHANGE, .pattern = "/v1/runs/{id}/remove", .schema = "Removed",
		.summary = "forget a finished run", .parameters = path_run_id },
	{ AGENT_READ, .pattern = "/v1/mallctl/{name}", .schema = "Mallctl",
		.summary = "read a mallctl", .parameters = mallctl_read_parameters },
	{ AGENT_CHANGE, .pattern = "/v1/mallctl/{name}", .schema = "MallctlWritten",
		.summary = "write a mallctl", .parameters = mallctl_write_parameters },
	{ 0 },
};
