/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl mallctl: any of jemalloc's mallctls. */
#include <stdio.h>
#include <string.h>

#include "cli/control.h"
#include "cli/verb.h"
#include "base/xalloc.h"
#include "wire/http_target.h"
#include "client/target_resolve.h"

struct mallctl_request {
	const char *type;
	bool force, as_json;
};

static const struct verb_option options[] = {
	{ 0, "type", 't', "TYPE",
		.help = "bool, u32, u64, size, ssize, string or unit (an action without a value); "
			"only for names that heapctl does not know",
		.complete = "bool u32 u64 size ssize string unit",
		OPTION_TEXT(struct mallctl_request, type) },
	{ .name = "force",
		.help = "write a name that is refused as dangerous",
		OPTION_SWITCH(struct mallctl_request, force) },
	{ .name = "json", .help = "print JSON", OPTION_SWITCH(struct mallctl_request, as_json) },
	{ 0 },
};

static const char name_characters[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";

static void add_parameter(struct buffer *path, const char *name, const char *value)
{
	buffer_append_char(path, strchr(buffer_string(path), '?') == NULL ? '?' : '&');
	buffer_append_string(path, name);
	buffer_append_char(path, '=');
	http_append_encoded(path, value);
}

static void make_path(const char *assignment, const struct mallctl_request *request,
	struct buffer *path, bool *is_write)
{
	const char *const type = request->type;
	const char *const equals = strchr(assignment, '=');
	char *const name = xstrndup(
		assignment, equals == NULL ? strlen(assignment) : (size_t)(equals - assignment));

	*is_write = equals != NULL || (type != NULL && strcmp(type, "unit") == 0);
	buffer_append_string(path, "/v1/mallctl/");
	http_append_encoded(path, name);
	free(name);
	if (equals != NULL)
		add_parameter(path, "value", equals + 1);
	if (type != NULL)
		add_parameter(path, "type", type);
	if (request->force && *is_write)
		add_parameter(path, "force", "true");
}

/* Anything else could not be part of a path. */
static bool is_name(const char *assignment, struct error *err)
{
	const size_t length = strcspn(assignment, "=");

	if (length > 0 && strspn(assignment, name_characters) >= length)
		return true;
	error_set(err, ERROR_USAGE, "'%.*s' is not the name of a mallctl", (int)length, assignment);
	return error_hint(err, "they are like opt.prof or arena.0.purge");
}

static void print_value(const json_t *value)
{
	if (json_is_string(value))
		puts(json_string_value(value));
	else if (json_is_null(value))
		puts("-");
	else {
		json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_COMPACT);
		putchar('\n');
	}
}

/* The agent names its protocol's parameters; here they are options. */
static int fail(char *const *operands, struct error *err)
{
	static const char *const words[][2] = { { "force=true", "--force" },
		{ "type=", "--type " } };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		const struct error received = *err;
		const char *const at = strstr(received.hint, words[i][0]);
		if (at != NULL)
			error_hint(err, "%.*s%s%s", (int)(at - received.hint), received.hint,
				words[i][1], at + strlen(words[i][0]));
	}
	if (strstr(err->hint, "POST with value=") != NULL)
		error_hint(err, "run it with heapctl mallctl %s %s=", operands[0], operands[1]);
	return verb_fail(err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct mallctl_request request = { 0 };
	struct option_parser parser;
	struct target target;
	struct buffer path = BUFFER_OR_EXIT;
	struct error err;
	bool is_write;

	if (!option_parse(&parser, verb, argc, argv, &request))
		return parser.exit_code;
	if (!is_name(parser.operands[1], &err) ||
		!target_resolve(parser.operands[0], &target, &err))
		return verb_fail(&err);
	CLEANUP(json_cleanup) json_t *answer = NULL;
	make_path(parser.operands[1], &request, &path, &is_write);
	const bool ok = agent_call_json(
		&target, is_write ? "POST" : "GET", buffer_string(&path), &answer, &err);
	buffer_deinit(&path);
	if (!ok)
		return fail(parser.operands, &err);
	if (request.as_json)
		control_print_json(answer);
	else if (json_at(answer, "value") != NULL)
		print_value(json_at(answer, "value"));
	return EXIT_DONE;
}

const struct verb verb_mallctl = {
	.name = "mallctl",
	.arguments = "TARGET NAME[=VALUE] [--type TYPE] [--force] [--json]",
	.summary = "read or write any mallctl",
	.description = "Prints the value of one of jemalloc's mallctls (jemalloc(3)), or writes "
		       "it. The types of jemalloc's own names are known. NAME= without a value "
		       "runs an action that takes none.",
	.examples = "heapctl mallctl redis-server opt.lg_prof_sample\n"
		    "heapctl mallctl redis-server prof.thread_active_init=false\n"
		    "heapctl mallctl redis-server arena.0.purge=",
	.options = options,
	.complete = "@target",
	.min_operands = 2,
	.max_operands = 2,
	.run = run,
};
