/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl completion: the completion script of a shell. */
#include <string.h>

#include "cli/completion_scripts.h"
#include "cli/option.h"
#include "cli/verb.h"

static const struct {
	const char *name;
	void (*print)(void);
} shells[] = {
	{ "bash", completion_print_bash },
	{ "zsh", completion_print_zsh },
	{ "fish", completion_print_fish },
};

static int run(const struct verb *verb, int argc, char **argv)
{
	struct option_parser parser;

	if (!option_parse(&parser, verb, argc, argv, NULL))
		return parser.exit_code;
	const char *const wanted = parser.operand_count == 1 ? parser.operands[0] : "bash";
	for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
		if (strcmp(wanted, shells[i].name) == 0) {
			shells[i].print();
			return EXIT_DONE;
		}
	}
	return verb_usage(
		verb, "there is no completion for '%.60s': bash, zsh and fish have one", wanted);
}

const struct verb verb_completion = {
	.name = "completion",
	.arguments = "[bash|zsh|fish]",
	.summary = "print the completion script of a shell",
	.description =
		"Prints the script with which bash (the default), zsh or fish completes verbs, "
		"options, files and targets. An installed heapctl has them already.",
	.examples = "source <(heapctl completion)\n"
		    "source <(heapctl completion zsh)\n"
		    "heapctl completion fish | source",
	.complete = "bash zsh fish",
	.max_operands = 1,
	.run = run,
};
