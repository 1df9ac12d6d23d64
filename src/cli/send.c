/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl send: profiles into the database of a fleet. */
#include <stdio.h>

#include "base/units.h"
#include "cli/option.h"
#include "cli/debuginfod_urls.h"
#include "cli/send_session.h"
#include "cli/verb.h"

enum {
	OPTION_LABEL = 1,
	OPTION_SERVICE,
	OPTION_VERSION,
	OPTION_HOST,
	OPTION_RETRY,
	OPTION_GATHER,
	OPTION_REPORT,
	OPTION_LEAVE_OUT,
	OPTION_DEBUGINFOD,
};

static const struct verb_option options[] = {
	{ 0, "to", 0, "URL",
		.help = "the database: clickhouse://[USER@]HOST[:8123]/DATABASE; or "
			"pyroscope://[USER@]HOST[:4040][/PATH], or otel-pprof://HOST:PORT of an "
			"OpenTelemetry collector; clickhouses://, pyroscopes:// and "
			"otel-pprofs:// with TLS",
		OPTION_TEXT(struct send_options, store.url) },
	{ 0, "password-file", 0, "FILE",
		.help = "the first line of this file is the user's password; for "
			"Pyroscope or a collector without a user, it is a bearer token",
		.complete = "@file", OPTION_TEXT(struct send_options, store.password_file) },
	{ OPTION_RETRY, "retry", 0, "TIME",
		.help = "how long to retry while the server cannot be reached [15s]",
		.complete = "0 15s 5mins" },
	{ .name = "follow",
		.help = "keep sending what is added to folders of snapshots; retries for ever",
		OPTION_SWITCH(struct send_options, follows) },
	{ OPTION_GATHER, "gather", 0, "TIME",
		.help = "with --follow: send what is added within this time together [0]",
		.complete = "0 30s" },
	{ OPTION_REPORT, "report-fd", 0, "N", .help = "of heapctl serve", .is_hidden = true },
	{ OPTION_LEAVE_OUT, "leave-out", 0, "ID", .help = "of heapctl serve", .is_hidden = true },
	{ OPTION_SERVICE, "service", 0, "NAME", .help = "the service that the profiles belong to",
		.group = "identity" },
	{ OPTION_VERSION, "version", 0, "TEXT", .help = "its version" },
	{ OPTION_HOST, "host", 0, "NAME",
		.help = "the host that it ran on [this one, for files that name none]" },
	{ OPTION_LABEL, "label", 0, "NAME=VALUE", .help = "a label to select by; may be repeated" },
	{ 0, "lib_prefix", 0, "DIR,DIR",
		.help = "look for programs and libraries below these folders", .group = "symbols",
		OPTION_TEXT(struct send_options, lib_prefixes) },
	{ OPTION_DEBUGINFOD, "debuginfod", 0, "URL",
		.help = "ask this server for debug files that are not here" },
	{ .name = "no_cache",
		.help = "do not use or fill the symbol cache",
		OPTION_SWITCH(struct send_options, no_cache) },
	{ 0 },
};

static bool take_number(
	struct send_options *send, int id, const struct option_parser *parser, struct error *err)
{
	int64_t number = 0;

	if (!option_integer(parser, 0, id == OPTION_REPORT ? 1023 : INT64_MAX, &number, err))
		return false;
	if (id == OPTION_REPORT)
		send->report_fd = (int)number;
	else if (send->left_out_count < SEND_LEFT_OUT)
		send->left_out[send->left_out_count++] = number;
	return true;
}

static bool take(
	struct send_options *send, int id, const struct option_parser *parser, struct error *err)
{
	const char *const value = parser->value;

	switch (id) {
	case OPTION_REPORT:
	case OPTION_LEAVE_OUT:
		return take_number(send, id, parser, err);
	case OPTION_DEBUGINFOD:
		send->debuginfod = value;
		return debuginfod_urls_check(value, err);
	case OPTION_GATHER:
		return duration_parse(value, &send->gather_ms, err);
	case OPTION_LABEL:
		return identity_set_label(&send->identity, value, err);
	case OPTION_SERVICE:
		return identity_set(&send->identity, "service", value, err);
	case OPTION_VERSION:
		return identity_set(&send->identity, "version", value, err);
	case OPTION_HOST:
		return identity_set(&send->identity, "host", value, err);
	default:
		return duration_parse(value, &send->retry_ms, err);
	}
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct send_options send = { .retry_ms = 15000, .report_fd = -1 };
	struct option_parser parser;
	struct error err = { 0 };

	option_begin(&parser, verb, argc, argv, &send);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP)
			return parser.exit_code;
		if (!take(&send, id, &parser, &err))
			return option_refuse_error(&parser, &err);
	}
	if (send.store.url == NULL)
		return verb_usage(verb, "no database given: use --to URL");
	if (send.gather_ms != 0 && !send.follows)
		return verb_usage(verb, "--gather goes with --follow");
	send.operands = parser.operands;
	send.operand_count = parser.operand_count;
	verb_warn_of_folders("lib_prefix", send.lib_prefixes, ",");
	return send_session_run(&send, &err) ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_send = {
	.name = "send",
	.arguments = "FILE|TARGET|FOLDER... --to URL",
	.summary = "send profiles to the database of a fleet, or to Pyroscope",
	.description =
		"Sends heap profiles to ClickHouse, where `heapctl fleet` queries all hosts "
		"together, to Pyroscope or to an OpenTelemetry collector (docs/fleet.md): files, "
		"what a TARGET has in use now, and all profiles of a folder. From a "
		"folder of heapctl serve --history or heapctl watch, only snapshots that were not "
		"sent yet are sent, and marked as sent; --follow also sends those that are added "
		"later. heapctl serve --send does the same for its own history.\n\n"
		"In ClickHouse a snapshot counts once, however often it is sent: its host, process "
		"and time identify it, and heapctl checks for them before it writes. What could "
		"not be sent is sent when the command is repeated.\n\n"
		"Function names are resolved before sending, from the files of this machine. The "
		"service, version and labels come from the options, else from the "
		"process's HEAPCTL_LABELS (service=api,version=1.4,zone=b); without either, the "
		"service is the name of the process.",
	.examples = "heapctl send redis-server --to clickhouse://heap@db/heap "
		    "--password-file db.password --version 7.2\n"
		    "# what heapctl serve has kept on this host; from a timer, say\n"
		    "heapctl send /var/lib/heapctl/history --to clickhouses://heap@db/heap "
		    "--password-file db.password",
	.options = options,
	.complete = "@file",
	.min_operands = 1,
	.max_operands = SIZE_MAX,
	.run = run,
};
