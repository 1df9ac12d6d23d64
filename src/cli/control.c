/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/sample_interval.h"
#include "render/quantity.h"

const struct verb_option control_json_options[] = {
	{ CONTROL_OPTION_JSON, "json", 0, NULL, "print JSON", NULL, NULL, false },
	{ 0 },
};

bool control_parse_target(const struct verb *verb, int argc, char **argv, struct target *target,
	bool *as_json, int *exit_code)
{
	struct option_parser parser;
	struct error err;

	option_begin(&parser, verb, argc, argv);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id != CONTROL_OPTION_JSON) {
			*exit_code = parser.exit_code;
			return false;
		}
		*as_json = true;
	}
	if (target_resolve(parser.operands[0], target, &err))
		return true;
	*exit_code = verb_fail(&err);
	return false;
}

void control_note_silence(const struct target *target)
{
	verb_warn("%s: no answer yet; it may be busy with a profile. Waiting (Ctrl-C ends it)",
		target->label);
}

void control_print_json(const json_t *value)
{
	const size_t format = isatty(STDOUT_FILENO) == 1 ? JSON_INDENT(2) : JSON_COMPACT;

	json_dumpf(value, stdout, format);
	putchar('\n');
}

/* An empty profile is a disappointment that is better explained at once. */
static void warn_if_empty(const struct output *output, const char *advice)
{
	struct sample_count samples;

	if (!output->is_stdout && sample_count_of_file(output_name(output), &samples) &&
		samples.count == 0)
		verb_warn("%s: there is no sample in it: nothing that is alive was allocated while "
			  "sampling was on (%s)",
			output_name(output), advice);
}

bool control_save_profile(const struct target *target, const char *path, const char *advice,
	struct output *output, struct error *err)
{
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };

	http_answer_init(&answer);
	if (!agent_fetch_profile(
		    target, path, output_fd(output), output_name(output), &answer, err) ||
		!output_commit(output, err))
		return false;
	const struct quantity_text size =
		quantity_format(QUANTITY_BYTES, (double)answer.body_bytes, false);
	const char *const took_ms = http_answer_field(&answer, "heapctl-dump-ms");
	fprintf(stderr, "%s: %s%s%s%s\n", output_name(output), size.text,
		took_ms == NULL ? "" : ", taken in ", took_ms == NULL ? "" : took_ms,
		took_ms == NULL ? "" : " ms");
	if (advice != NULL)
		warn_if_empty(output, advice);
	return true;
}

const char *control_moment(int64_t time_ms, char text[CONTROL_MOMENT_BYTES])
{
	const time_t moment = time_ms / 1000, now = time(NULL);
	struct tm parts, today;

	if (time_ms == 0) {
		strcpy(text, "-");
		return text;
	}
	localtime_r(&moment, &parts);
	localtime_r(&now, &today);
	const bool is_today = parts.tm_year == today.tm_year && parts.tm_yday == today.tm_yday;
	strftime(text, CONTROL_MOMENT_BYTES, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M", &parts);
	return text;
}
