/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl activate, heapctl deactivate: sampling on and off. */
#include <stdio.h>

#include "cli/control.h"
#include "cli/verb.h"

static int run(const struct verb *verb, int argc, char **argv)
{
	struct target target;
	struct error err;
	bool as_json = false;
	int exit_code;
	char path[64];

	if (!control_parse_target(verb, argc, argv, &target, &as_json, &exit_code))
		return exit_code;
	snprintf(path, sizeof path, "/v1/%s", verb->name);
	CLEANUP(json_cleanup) json_t *answer = NULL;
	if (!agent_call_json(&target, "POST", path, &answer, &err))
		return verb_fail(&err);
	if (as_json) {
		control_print_json(answer);
		return EXIT_DONE;
	}
	const bool is_active = json_flag(answer, "active");
	const bool was_active = json_flag(answer, "was_active");
	printf("%s: sampling is %s%s\n", target.label, is_active ? "on" : "off",
		is_active == was_active ? " already" : "");
	return EXIT_DONE;
}

const struct verb verb_activate = {
	.name = "activate",
	.arguments = "TARGET [--json]",
	.summary = "switch sampling on",
	.description = "Switches sampling on until it is switched off again. A profile shows "
		       "only what is allocated from then on. For a limited time use `heapctl "
		       "start` or `heapctl record`.",
	.examples = "heapctl activate redis-server",
	.options = control_json_options,
	VERB_OF_ONE_TARGET,
	.run = run,
};

const struct verb verb_deactivate = {
	.name = "deactivate",
	.arguments = "TARGET [--json]",
	.summary = "switch sampling off",
	.description = "Switches sampling off. Earlier samples stay in profiles until their memory "
		       "is freed. Functions that heapctl attach has patched stay patched until "
		       "heapctl detach.",
	.examples = "heapctl deactivate redis-server",
	.options = control_json_options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
