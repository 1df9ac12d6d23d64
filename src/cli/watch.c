/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl watch: a profile at the interesting moment. */
#include <stdlib.h>

#include "base/xalloc.h"
#include "cli/option.h"
#include "cli/verb.h"
#include "cli/watch_session.h"
#include "client/agent_client.h"

/* Options that say what a word of the settings says. */
enum { OPTION_SETTING = 1, OPTION_ONCE };

static const struct verb_option options[] = {
	{ OPTION_SETTING, "when", 'w', "COND",
		.help = "capture when this condition is met; may be repeated: any of them is "
			"enough; see above",
		.complete = "rss>2GiB rss>40% cgroup>85% growth>10%/h peak psi>10% every=15mins "
			    "signal" },
	{ .name = "activate",
		.help = "switch sampling on, also after a restart of the target; it stays on",
		OPTION_SWITCH(struct watch_options, settings.activate) },
	{ OPTION_SETTING, "cool-down", 0, "TIME",
		.help = "minimum time between captures, except those of every= and signal "
			"[5mins]" },
	{ OPTION_SETTING, "interval", 0, "TIME",
		.help = "time between readings; shorter near the limit of cgroup> [1s]" },
	{ 0, "count", 'n', "N", .help = "end after this number of captures",
		OPTION_NUMBER(struct watch_options, captures, 1, INT32_MAX) },
	{ OPTION_ONCE, "then", 0, "CMD",
		.help = "run this for each capture, with the file as its last argument, one at a "
			"time; no shell, and a fixed environment with HEAPCTL_FILE, "
			"HEAPCTL_TARGET, HEAPCTL_REASON; what it prints goes to standard error",
		.complete = "@command" },
	{ OPTION_ONCE, "adopt", 0, "PREFIX",
		.help = "also collect the dumps that jemalloc writes under this "
			"prof_prefix, and remove the oldest beyond --keep-count",
		.complete = "@file" },
	{ OPTION_SETTING, "keep", 'k', "FOLDER", .help = "where captures go [NAME.captures]",
		.group = "what is kept (the oldest is deleted first, the newest never)",
		.complete = "@folder" },
	{ OPTION_SETTING, "keep-count", 0, "N", .help = "maximum number of captures [48]" },
	{ OPTION_SETTING, "keep-bytes", 0, "SIZE", .help = "maximum total size [1GiB]" },
	{ OPTION_SETTING, "keep-free", 0, "SIZE",
		.help = "minimum free disk space; below it nothing is captured [512MiB]" },
	{ 0 },
};

static bool take(
	struct watch_options *watch, int id, const struct option_parser *parser, struct error *err)
{
	const char *const word = parser->option->name;

	if (id == OPTION_ONCE && watch_settings_has(&watch->settings, word))
		return error_set(err, ERROR_USAGE, "--%s is given twice", word);
	return watch_settings_take(&watch->settings, word, parser->value, err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct watch_options *const watch = xcalloc(1, sizeof *watch);
	struct option_parser parser;
	int code = EXIT_DONE;
	struct error err = { 0 };

	watch_settings_init(&watch->settings);
	/* A watch continues and reports failures. */
	agent_on_silence(NULL);
	option_begin(&parser, verb, argc, argv, watch);
	for (int id; code == EXIT_DONE && (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP) {
			free(watch);
			return parser.exit_code;
		}
		if (!take(watch, id, &parser, &err))
			code = option_refuse_error(&parser, &err);
	}
	if (code == EXIT_DONE && !watch_settings_check(&watch->settings, &err))
		code = verb_usage(verb, "no condition given: use --when COND, or --adopt PREFIX");
	if (code == EXIT_DONE) {
		watch->operand = parser.operands[0];
		code = watch_session_run(watch, &err) ? EXIT_DONE : verb_fail(&err);
	}
	free(watch);
	return code;
}

const struct verb verb_watch = {
	.name = "watch",
	.arguments = "TARGET --when COND... [--keep FOLDER] [--then CMD]",
	.summary = "capture profiles automatically when a condition is met",
	.description =
		"Reads the target's memory figures once a second, from outside, and "
		"captures a profile when a condition is met:\n\n"
		"  rss>2GiB, rss>40%    resident memory, in bytes or as a share of the machine's\n"
		"  cgroup>85%           memory against the limit of its control group\n"
		"  psi>10%              time lost waiting for memory: in the last 10 s, or in\n"
		"                       any 2 s where the kernel reports it\n"
		"  growth>10%/h         resident memory above its minimum of the last hour;\n"
		"                       any amount and time: growth>64MiB/10mins\n"
		"  growth>500MiB        above its minimum since the last capture\n"
		"  peak, peak>5%        resident memory above its maximum (by 5%); the\n"
		"                       maximum is reset every hour\n"
		"  every=15mins         at this interval\n"
		"  signal               when heapctl watch gets SIGUSR1\n\n"
		"`A and B` in one condition means both at once. A threshold applies again "
		"after the value has fallen 5% below it. A capture that failed is "
		"repeated after 10 s.\n\n"
		"A target given by name is followed through restarts, as long as it "
		"belongs to the same user; NAME@USER selects the user from the "
		"beginning. The names of captures sort by time, captures.jsonl in their "
		"folder gives the reason of each, and their paths are printed on "
		"standard output.",
	.examples = "heapctl watch redis-server --when 'rss>2GiB' --when 'growth>10%/h'\n"
		    "# before the OOM killer acts\n"
		    "heapctl watch api --activate --when 'cgroup>85%' --keep /var/lib/heaps\n"
		    "# and send it somewhere\n"
		    "heapctl watch api --when peak --then '/usr/local/bin/upload --bucket heaps'",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
