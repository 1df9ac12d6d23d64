/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl watch: a profile at the interesting moment. */
#include "base/byte_size.h"
#include "base/duration.h"
#include "cli/option.h"
#include "cli/verbs.h"
#include "cli/watch_session.h"

enum {
	OPTION_WHEN = 1,
	OPTION_KEEP,
	OPTION_KEEP_COUNT,
	OPTION_KEEP_BYTES,
	OPTION_KEEP_FREE,
	OPTION_THEN,
	OPTION_ADOPT,
	OPTION_COOL_DOWN,
	OPTION_INTERVAL,
	OPTION_COUNT,
	OPTION_ACTIVATE,
};

static const struct verb_option options[] = {
	{ OPTION_WHEN, "when", 'w', "COND",
		"capture when this holds; may be repeated, any will do; see above", NULL,
		"rss>2GiB rss>40% cgroup>85% growth>10%/h peak psi>10% every=15mins signal",
		false },
	{ OPTION_ACTIVATE, "activate", 0, NULL,
		"switch sampling on, also after a restart of the target; it stays on", NULL, NULL,
		false },
	{ OPTION_COOL_DOWN, "cool-down", 0, "TIME",
		"captures are apart by this, except those of every= and signal [5mins]", NULL, NULL,
		false },
	{ OPTION_INTERVAL, "interval", 0, "TIME", "how often to look [1s]", NULL, NULL, false },
	{ OPTION_COUNT, "count", 'n', "N", "end after so many captures", NULL, NULL, false },
	{ OPTION_THEN, "then", 0, "CMD",
		"run this for each capture, with the file as its last argument, one at a time; no "
		"shell, and a fixed environment with HEAPCTL_FILE, HEAPCTL_TARGET, HEAPCTL_REASON",
		NULL, "@command", false },
	{ OPTION_ADOPT, "adopt", 0, "PREFIX",
		"also take the files that jemalloc writes by itself under this prof_prefix", NULL,
		"@file", false },
	{ OPTION_KEEP, "keep", 'k', "FOLDER", "where captures go [NAME.captures]",
		"what is kept (the oldest go first, the newest never)", "@folder", false },
	{ OPTION_KEEP_COUNT, "keep-count", 0, "N", "so many captures [48]", NULL, NULL, false },
	{ OPTION_KEEP_BYTES, "keep-bytes", 0, "SIZE", "so many bytes [1GiB]", NULL, NULL, false },
	{ OPTION_KEEP_FREE, "keep-free", 0, "SIZE",
		"leave so much of the disk free, or do not capture [512MiB]", NULL, NULL, false },
	{ 0 },
};

struct guarded {
	struct watch_options watch;
	struct command *command;
	struct adoption *adoption;
};

static void guarded_cleanup(struct guarded *guarded)
{
	command_free(guarded->command);
	adoption_free(guarded->adoption);
}

static bool take_when(struct watch_options *watch, const char *text, struct error *err)
{
	if (watch->rule_count == TRIGGER_RULES_MAX)
		return error_set(err, ERROR_USAGE, "more than %d conditions", TRIGGER_RULES_MAX);
	return condition_parse(text, &watch->rules[watch->rule_count++], err);
}

static bool take_once(bool is_first, const char *name, struct error *err)
{
	return is_first || error_set(err, ERROR_USAGE, "--%s is given twice", name);
}

/* Options whose values are read by another layer. */
static bool take(struct guarded *guarded, int id, const char *value, struct error *err)
{
	struct watch_options *const watch = &guarded->watch;

	switch (id) {
	case OPTION_WHEN:
		return take_when(watch, value, err);
	case OPTION_KEEP:
		watch->folder = value;
		return true;
	case OPTION_KEEP_BYTES:
		return byte_size_parse(value, &watch->limits.bytes, err);
	case OPTION_KEEP_FREE:
		return byte_size_parse(value, &watch->limits.free_bytes, err);
	case OPTION_THEN:
		return take_once(guarded->command == NULL, "then", err) &&
		       command_parse(value, &guarded->command, err);
	case OPTION_ADOPT:
		return take_once(guarded->adoption == NULL, "adopt", err) &&
		       adoption_new(value, &guarded->adoption, err);
	case OPTION_COOL_DOWN:
		return duration_parse(value, &watch->trigger.cool_down_ms, err);
	default:
		if (!duration_parse(value, &watch->interval_ms, err))
			return false;
		return watch->interval_ms >= 50 ||
		       error_set(err, ERROR_USAGE, "the interval is at least 50ms");
	}
}

static int run(const struct verb *verb, int argc, char **argv)
{
	CLEANUP(guarded_cleanup)
	struct guarded guarded = { .watch = {
					   .trigger = { .cool_down_ms = 5 * 60 * 1000,
						   .retry_ms = 10 * 1000 },
					   .interval_ms = 1000,
					   .limits = { .count = 48,
						   .bytes = UINT64_C(1) << 30,
						   .free_bytes = UINT64_C(512) << 20 },
				   } };
	struct watch_options *const watch = &guarded.watch;
	struct option_parser parser;
	int64_t number = 0;
	struct error err = { 0 };

	option_begin(&parser, verb, argc, argv);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		switch (id) {
		case OPTION_STOP:
			return parser.exit_code;
		case OPTION_ACTIVATE:
			watch->activate = true;
			break;
		case OPTION_COUNT:
			if (!option_number(&parser, 1, INT32_MAX, &watch->captures))
				return parser.exit_code;
			break;
		case OPTION_KEEP_COUNT:
			if (!option_number(&parser, 1, 1000000, &number))
				return parser.exit_code;
			watch->limits.count = (size_t)number;
			break;
		default:
			if (!take(&guarded, id, parser.value, &err))
				return option_refuse(&parser, "%s", err.message);
			break;
		}
	}
	if (watch->rule_count == 0 && guarded.adoption == NULL)
		return verb_usage(verb, "say when to capture: --when COND, or --adopt PREFIX");
	watch->operand = parser.operands[0];
	watch->command = guarded.command;
	watch->adoption = guarded.adoption;
	return watch_session_run(watch, &err) ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_watch = {
	.name = "watch",
	.arguments = "TARGET --when COND... [--keep FOLDER] [--then CMD]",
	.summary = "take a profile at the interesting moment, by itself",
	.description =
		"Looks at the target once a second, from outside, and takes a profile when a "
		"condition holds:\n\n"
		"  rss>2GiB, rss>40%    resident memory, in bytes or of the machine's\n"
		"  cgroup>85%           memory against the limit of its control group\n"
		"  psi>10%              time lost waiting for memory in the last 10 s\n"
		"  growth>10%/h         resident memory above its lowest of the last hour;\n"
		"                       any amount and time: growth>64MiB/10mins\n"
		"  growth>500MiB        the same, since the last capture\n"
		"  peak, peak>5%        resident memory above its highest (by 5%); the\n"
		"                       highest is forgotten hourly\n"
		"  every=15mins         so often\n"
		"  signal               when heapctl watch gets SIGUSR1\n\n"
		"`A and B` in one condition: both at once. A level that was passed counts again "
		"after it has fallen 5% below its mark. A capture that failed is tried again after "
		"10 s.\n\n"
		"A target that was named is followed through restarts. Captures have names that "
		"sort by time, and captures.jsonl in their folder tells the reason of each. The "
		"path of each is printed on standard output.",
	.examples = "heapctl watch redis-server --when 'rss>2GiB' --when 'growth>10%/h'\n"
		    "# before the OOM killer comes\n"
		    "heapctl watch api --activate --when 'cgroup>85%' --keep /var/lib/heaps\n"
		    "# and send it somewhere\n"
		    "heapctl watch api --when peak --then '/usr/local/bin/upload --bucket heaps'",
	.options = options,
	.complete = "@target",
	.least_operands = 1,
	.most_operands = 1,
	.run = run,
};
