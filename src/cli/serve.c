/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl serve: the gateway. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "base/xalloc.h"
#include "cli/debuginfod_urls.h"
#include "cli/option.h"
#include "cli/serve_log.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "fleet/destination_url.h"
#include "store/identity.h"
#include "gateway/listener.h"
#include "gateway/serve.h"

enum {
	OPTION_LISTEN = 1,
	OPTION_EVERY,
	OPTION_KEEP,
	OPTION_BYTES,
	OPTION_FREE,
	OPTION_SEND_TEXT,
	OPTION_IDENTITY,
	OPTION_DEBUGINFOD,
};

/* What heapctl send gets as well. */
enum { SEND_WORDS_MAX = 2 * (IDENTITY_LABELS + 8) };

static const struct verb_option options[] = {
	{ OPTION_LISTEN, "listen", 0, "ADDR",
		.help = "HOST:PORT, [IPV6]:PORT, :PORT for every address, or unix:PATH; may be "
			"repeated [127.0.0.1:7070]" },
	{ 0, "token-file", 0, "FILE",
		.help = "require the token in the first line of this file; needed for an address "
			"that other machines reach",
		.complete = "@file", OPTION_TEXT(struct serve_options, token_file) },
	{ 0, "tls-cert", 0, "FILE",
		.help = "use TLS, with this certificate (PEM); read again on SIGHUP, with its "
			"key",
		.complete = "@file", OPTION_TEXT(struct serve_options, certificate_file) },
	{ 0, "tls-key", 0, "FILE", .help = "the key of the certificate (PEM)", .complete = "@file",
		OPTION_TEXT(struct serve_options, key_file) },
	{ 0, "source-root", 0, "DIR[:DIR]",
		.help = "show source beside the figures, read below these folders alone; without "
			"it none is read",
		.complete = "@folder", OPTION_TEXT(struct serve_options, source_root) },
	{ 0, "disasm", 0, NULL,
		.help = "show assembly beside the figures, of the programs that targets have "
			"mapped, by objdump; without it none",
		OPTION_SWITCH(struct serve_options, shows_disasm) },
	{ 0, "symbols", 0, "DIR",
		.help = "serve debug files and indexes of symbols (heapctl symbols index --folder) "
			"below this folder, as debuginfod does; without it none",
		.complete = "@folder", OPTION_TEXT(struct serve_options, symbols_folder) },
	{ 0, "until-exit", 0, "PID", .help = "end when this process ends",
		OPTION_NUMBER(struct serve_options, until_exit, 1, INT32_MAX) },
	{ 0, "history", 0, "FOLDER",
		.help = "keep a profile and the memory figures of every target in this folder",
		.complete = "@folder", OPTION_TEXT(struct serve_options, history_folder) },
	{ OPTION_EVERY, "history-every", 0, "TIME", .help = "time between profiles [15mins]",
		.complete = "1mins 15mins 1hrs" },
	{ OPTION_KEEP, "history-keep", 0, "TIME", .help = "how long profiles are kept [30days]",
		.complete = "7days 30days" },
	{ OPTION_BYTES, "history-bytes", 0, "SIZE", .help = "maximum total size [10GiB]" },
	{ OPTION_FREE, "history-free", 0, "SIZE",
		.help = "minimum free disk space: the oldest profiles are deleted first, the last "
			"of each target never [512MiB]" },
	{ 0, "send", 0, "URL",
		.help = "send the history to the database of a fleet, to Pyroscope or a "
			"collector; URLs as of heapctl send --to (docs/fleet.md)",
		OPTION_TEXT(struct serve_options, send_url) },
	{ 0, "store", 0, "URL",
		.help = "show the fleet in the page, from the database that heapctl send fills; "
			"nothing is written: clickhouse://USER@HOST:8123/DATABASE",
		OPTION_TEXT(struct serve_options, store_url) },
	{ 0, "store-password-file", 0, "FILE",
		.help = "with --store: the first line of this file is the user's password",
		.complete = "@file", OPTION_TEXT(struct serve_options, store_password_file) },
	{ OPTION_SEND_TEXT, "password-file", 0, "FILE",
		.help = "with --send: the first line of this file is the user's password",
		.complete = "@file" },
	{ OPTION_DEBUGINFOD, "debuginfod", 0, "URL",
		.help = "ask this server for debug files that are not here, and for the source "
			"beside the figures" },
	{ OPTION_IDENTITY, "service", 0, "NAME",
		.help = "with --send: the service of all targets [what each one says]" },
	{ OPTION_IDENTITY, "version", 0, "TEXT", .help = "with --send: its version" },
	{ OPTION_IDENTITY, "host", 0, "NAME", .help = "with --send: the host [this one]" },
	{ OPTION_IDENTITY, "label", 0, "NAME=VALUE",
		.help = "with --send: a label to select by; may be repeated" },
	{ 0, "watch-file", 0, "FILE",
		.help = "capture profiles by the rules in this file (docs/watch-file.md), as "
			"heapctl watch does; read again on SIGHUP",
		.complete = "@file", OPTION_TEXT(struct serve_options, watch_file) },
	{ 0 },
};

struct send_words {
	const char *texts[SEND_WORDS_MAX + 1];
	size_t count;
	struct snapshot_identity identity;
};

static bool take_history(struct serve_options *serve, int id, const char *text, struct error *err)
{
	if (id == OPTION_BYTES)
		return byte_size_parse(text, &serve->history_bytes, err);
	if (id == OPTION_FREE)
		return byte_size_parse(text, &serve->history_free_bytes, err);
	int64_t *const time_ms =
		id == OPTION_EVERY ? &serve->history_every_ms : &serve->history_keep_ms;
	return duration_parse(text, time_ms, err) &&
	       (*time_ms >= 1000 || error_set(err, ERROR_USAGE, "it is at least 1s"));
}

/* For heapctl send; checked here, where the user sees it. */
static bool take_sending(
	struct send_words *words, const struct option_parser *parser, struct error *err)
{
	const char *const name = parser->option->name;

	if (words->count + 2 >= SEND_WORDS_MAX)
		return error_set(err, ERROR_USAGE, "too often");
	if (parser->option->id == OPTION_IDENTITY &&
		!(strcmp(name, "label") == 0
				? identity_set_label(&words->identity, parser->value, err)
				: identity_set(&words->identity, name, parser->value, err)))
		return false;
	/* With its dashes, as one word: no value is taken for an option. */
	words->texts[words->count++] = xasprintf("--%s=%s", name, parser->value);
	return true;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	const char *addresses[LISTENERS_MAX];
	struct send_words words = { 0 };
	struct serve_options serve = { .addresses = addresses,
		.log = serve_log,
		.history_every_ms = 15 * 60 * 1000,
		.history_keep_ms = INT64_C(30) * 24 * 3600 * 1000,
		.history_bytes = UINT64_C(10) << 30,
		.history_free_bytes = UINT64_C(512) << 20 };
	bool has_history_limits = false;
	struct option_parser parser;
	struct error err = { 0 };

	/* The answer to the request says it. */
	agent_on_silence(NULL);
	option_begin(&parser, verb, argc, argv, &serve);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		switch (id) {
		case OPTION_LISTEN:
			if (serve.address_count == LISTENERS_MAX)
				return option_refuse(
					&parser, "more than %d addresses", LISTENERS_MAX);
			addresses[serve.address_count++] = parser.value;
			break;
		case OPTION_EVERY:
		case OPTION_KEEP:
		case OPTION_BYTES:
		case OPTION_FREE:
			has_history_limits = true;
			if (!take_history(&serve, id, parser.value, &err))
				return option_refuse_error(&parser, &err);
			break;
		case OPTION_SEND_TEXT:
		case OPTION_IDENTITY:
			if (!take_sending(&words, &parser, &err))
				return option_refuse_error(&parser, &err);
			break;
		case OPTION_DEBUGINFOD:
			if (!debuginfod_urls_check(parser.value, &err))
				return option_refuse_error(&parser, &err);
			serve.debuginfod = parser.value;
			break;
		default:
			return parser.exit_code;
		}
	}
	if (serve.send_url != NULL && serve.history_folder == NULL)
		return verb_usage(verb, "--send sends the history: --history FOLDER");
	if (serve.send_url == NULL && words.count != 0)
		return verb_usage(verb, "%s goes with --send", words.texts[0]);
	if (serve.send_url != NULL && !destination_url_check(serve.send_url, &err))
		return verb_fail(&err);
	if (serve.send_url != NULL && serve.debuginfod != NULL)
		words.texts[words.count++] = xasprintf("--debuginfod=%s", serve.debuginfod);
	serve.send_arguments = words.texts;
	if (serve.store_url != NULL && !store_url_check(serve.store_url, &err))
		return verb_fail(&err);
	if (serve.store_url == NULL && serve.store_password_file != NULL)
		return verb_usage(verb, "--store-password-file goes with --store");
	if (has_history_limits && serve.history_folder == NULL)
		return verb_usage(verb, "say where the history goes: --history FOLDER");
	for (size_t i = 0; i < parser.operand_count; i++) {
		/* An unset variable of a script: without a target it would wait forever. */
		if (parser.operands[i][0] == '\0')
			return verb_usage(verb, "a TARGET is empty");
		if (!target_check_path(parser.operands[i], &err))
			return verb_fail(&err);
	}
	serve.targets = (const char *const *)parser.operands;
	serve.target_count = parser.operand_count;
	return serve_run(&serve, &err) ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_serve = {
	.name = "serve",
	.arguments =
		"[--listen ADDR] [--token-file FILE] [--tls-cert FILE --tls-key FILE] [TARGET...]",
	.summary = "make targets reachable over HTTP, with a web page",
	.description = "Serves the named targets, or every visible target: a web page, /metrics "
		       "for Prometheus, and the URLs of Mesos, "
		       "libmtev, gperftools and Go. /openapi.json describes all of them.\n\n"
		       "The root path serves the first named target, or the only one there is; "
		       "/targets/NAME/ serves each target, by name or pid. A restarted target "
		       "is found again.\n\n"
		       "With --history, the profile and figures of every target are kept for "
		       "days; /api/v1/timeline lists the snapshots, /api/v1/snapshot renders one "
		       "or compares two, /api/v1/trend shows what grew, also for targets that "
		       "have ended.\n\n"
		       "With --send, a separate process sends the history to the database of a "
		       "fleet, and catches up after the database was down; /api/v1/sending shows "
		       "its state.\n\n"
		       "With --store, the page has a view of the fleet, from the database that "
		       "the gateways of all hosts fill; it is read by separate processes, two "
		       "at a time.\n\n"
		       "With --watch-file, it captures profiles of targets by rules; each "
		       "section of the file is a heapctl watch: [NAME], or a pattern such as "
		       "[api-*], then lines such as `when = rss>2GiB`, `keep = "
		       "/var/lib/heaps`, `then = CMD`. Without keep the captures go into the "
		       "history. /targets/NAME/watch and /metrics show the state.\n\n"
		       "Without a token, every user of this machine can control the targets: "
		       "on a shared machine, use a token or listen on a unix socket, which "
		       "only its owner can reach. Requests from pages of other sites are "
		       "always refused.",
	.examples = "# all targets, for this machine\n"
		    "heapctl serve\n"
		    "# one server, for other machines too\n"
		    "heapctl serve --listen :7070 --token-file token --tls-cert cert.pem --tls-key "
		    "key.pem redis-server\n",
	.options = options,
	.complete = "@target",
	.max_operands = 256,
	.run = run,
};
