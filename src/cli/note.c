/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl note: deploys and the like in the history of a target. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/note_store.h"
#include "cli/option.h"
#include "cli/terminal.h"
#include "cli/time_option.h"
#include "client/agent_client.h"
#include "client/target_resolve.h"
#include "store/note_text.h"
#include "wire/http_target.h"

#define DEFAULT_GATEWAY "http://127.0.0.1:7070"

enum { OPTION_AT = 1 };

static const struct verb_option options[] = {
	{ OPTION_AT, "at", 0, "TIME",
		.help = "when it was: 2hrs for two hours ago, or 2026-11-23T10:00, local time "
			"[now]" },
	{ .name = "list",
		.help = "list the notes of TARGET, oldest first [without TEXT]",
		OPTION_SWITCH(struct note_request, lists) },
	{ 0, "remove", 0, "ID", .help = "remove this note of TARGET",
		OPTION_NUMBER(struct note_request, remove, 1, INT64_MAX) },
	{ .name = "json", .help = "print JSON", OPTION_SWITCH(struct note_request, as_json) },
	{ 0, "gateway", 0, "URL",
		.help = "the gateway that keeps the history, or unix:PATH [" DEFAULT_GATEWAY "]",
		.group = "where", OPTION_TEXT(struct note_request, gateway) },
	{ 0, "history", 0, "FOLDER",
		.help = "write into this folder of heapctl serve --history, whether it runs or not",
		.complete = "@folder", OPTION_TEXT(struct note_request, folder) },
	{ 0 },
};

/* TARGET itself may be the URL of one at a gateway. */
static bool find_gateway(
	const struct note_request *request, struct target *target, struct error *err)
{
	const char *const gateway = request->gateway != NULL ? request->gateway : DEFAULT_GATEWAY;
	CLEANUP(buffer_deinit) struct buffer prefix = BUFFER_OR_EXIT;

	if (gateway_url_detect(request->target))
		return target_parse_url(request->target, target, err);
	if (!gateway_url_detect(gateway) && !socket_address_detect(gateway)) {
		error_set(err, ERROR_USAGE, "invalid value for --gateway: \"%.80s\"", gateway);
		return error_hint(err, "write http://HOST:PORT or unix:PATH");
	}
	if (!target_resolve(gateway, target, err))
		return false;
	if (target->kind != TARGET_GATEWAY || target->url.prefix[0] != '\0') {
		error_set(err, ERROR_USAGE, "--gateway %.80s is not a gateway's address", gateway);
		return error_hint(err, "write it without /targets/NAME");
	}
	buffer_append_string(&prefix, "/targets/");
	http_append_encoded(&prefix, request->target);
	if (prefix.size >= sizeof target->url.prefix)
		return error_set(err, ERROR_USAGE, "the name of the target is too long");
	strcpy(target->url.prefix, buffer_string(&prefix));
	return true;
}

static bool ask(const struct target *target, const struct note_request *request, json_t **answer,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;

	buffer_append_string(&path, "/api/v1/notes");
	if (request->text != NULL) {
		buffer_printf(&path, "?time_ms=%" PRId64 "&text=", request->time_ms);
		http_append_encoded(&path, request->text);
	} else if (request->remove != 0) {
		buffer_printf(&path, "/%" PRId64 "/remove", request->remove);
	}
	const bool changes = request->text != NULL || request->remove != 0;
	return agent_call_json(target, changes ? "POST" : "GET", buffer_string(&path), answer, err);
}

static bool run_at_gateway(const struct note_request *request, json_t **answer, struct error *err)
{
	struct target target;

	if (!find_gateway(request, &target, err))
		return false;
	if (ask(&target, request, answer, err))
		return true;
	/* Where nothing was named, the reader may not know of a gateway at all. */
	if (err->kind == ERROR_NOT_FOUND || err->kind == ERROR_SYSTEM) {
		if (request->gateway == NULL && !gateway_url_detect(request->target) &&
			err->hint[0] == '\0')
			return error_hint(err,
				"name the gateway that keeps the history with --gateway "
				"URL, or its folder with --history FOLDER");
	}
	return false;
}

static void print_list(const json_t *notes, const char *target)
{
	CLEANUP(table_cleanup) struct table *table = table_new("rll");
	size_t index;
	json_t *note;

	if (json_array_size(notes) == 0) {
		printf("%s: no notes yet\n", target);
		return;
	}
	table_add(table, TERMINAL_BOLD, (const char *[]){ "ID", "TIME", "NOTE" });
	json_array_foreach(notes, index, note)
	{
		char id[24], when[CONTROL_TIME_BYTES];
		snprintf(id, sizeof id, "%" PRId64, json_number(note, "id"));
		control_format_time(json_number(note, "time_ms"), when);
		table_add(table, TERMINAL_PLAIN,
			(const char *[]){ id, when, json_text(note, "text") });
	}
	table_print(table, true, stdout);
}

static void print(const struct note_request *request, const json_t *answer)
{
	char when[CONTROL_TIME_BYTES];

	if (request->as_json) {
		control_print_json(answer);
	} else if (request->text != NULL) {
		/* The id alone on standard output, so that a script can take it. */
		printf("%" PRId64 "\n", json_number(answer, "id"));
		fprintf(stderr, "%s: noted at %s\n", json_text(answer, "target"),
			control_format_time(json_number(answer, "time_ms"), when));
	} else if (request->remove == 0) {
		print_list(json_at(answer, "notes"), request->target);
	}
}

/* What the command line says that cannot be together; NULL for nothing. */
static const char *find_conflict(const struct note_request *request)
{
	if (request->text != NULL && (request->lists || request->remove != 0))
		return "--list and --remove take no TEXT";
	if (request->lists && request->remove != 0)
		return "choose one of --list and --remove";
	if (request->has_time && request->text == NULL)
		return "--at goes with a TEXT";
	if (request->folder != NULL && request->gateway != NULL)
		return "choose one of --gateway and --history";
	if (gateway_url_detect(request->target) &&
		(request->folder != NULL || request->gateway != NULL))
		return "a URL as TARGET names the gateway already";
	return NULL;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	const int64_t now_ms = clock_realtime_ms();
	struct note_request request = { .time_ms = now_ms };
	CLEANUP(json_cleanup) json_t *answer = NULL;
	struct option_parser parser;
	struct error err = { 0 };

	option_begin(&parser, verb, argc, argv, &request);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP)
			return parser.exit_code;
		if (!time_option_parse(now_ms, parser.value, &request.time_ms, &err))
			return option_refuse_error(&parser, &err);
		request.has_time = true;
	}
	request.target = parser.operands[0];
	if (*request.target == '\0')
		return verb_usage(verb, "the target is empty");
	request.text = parser.operand_count > 1 ? parser.operands[1] : NULL;
	const char *const conflict = find_conflict(&request);
	if (conflict != NULL)
		return verb_usage(verb, "%s", conflict);
	if (request.text != NULL && !note_text_check(request.text, &err))
		return verb_fail(&err);
	if (!(request.folder != NULL ? note_store_run(&request, &answer, &err)
				     : run_at_gateway(&request, &answer, &err)))
		return verb_fail(&err);
	print(&request, answer);
	return EXIT_DONE;
}

const struct verb verb_note = {
	.name = "note",
	.arguments = "TARGET [\"TEXT\"] [--at TIME] [--list] [--remove ID] [--gateway URL | "
		     "--history FOLDER]",
	.summary = "note a deploy in a target's history, list notes",
	.description =
		"Writes TEXT, one line of at most 200 bytes, into the history that `heapctl serve "
		"--history` keeps of TARGET, and prints the id of the note. The gateway's page "
		"marks it in "
		"the timeline; trends have it in their text, charts and JSON. A note belongs to "
		"the "
		"name of TARGET, across restarts. It is removed with the oldest snapshot that is "
		"later than it; a target has at most 500 notes, of which the oldest is removed for "
		"one more. A time in the future is refused.\n\n"
		"TARGET is a name or a pid that the gateway knows, or "
		"http://HOST:PORT/targets/NAME. "
		"With --history no gateway is needed, and one that runs sees the note at once.",
	.examples = "heapctl note redis-server \"v7.3 rollout\"\n"
		    "heapctl note redis-server \"cache doubled\" --at 2hrs\n"
		    "heapctl note redis-server --list\n"
		    "# where no gateway runs\n"
		    "heapctl note --history /var/lib/heapctl/history redis-server \"v7.3 rollout\"",
	.options = options,
	.complete = "@target",
	.min_operands = 1,
	.max_operands = 2,
	.run = run,
};
