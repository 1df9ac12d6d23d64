/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl man: the manual pages, made from the table of verbs. */
#include <stdio.h>
#include <string.h>

#include "cli/option.h"
#include "cli/report_options.h"
#include "cli/verb.h"

/* Text as roff: a hyphen that is to be copied, a backslash, no request by accident. */
static void print_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		const bool begins_line = i == 0 || text[i - 1] == '\n';

		if (begins_line && (text[i] == '.' || text[i] == '\''))
			fputs("\\&", stdout);
		if (text[i] == '-')
			fputs("\\-", stdout);
		else if (text[i] == '\\')
			fputs("\\e", stdout);
		else if (text[i] == '~')
			fputs("\\(ti", stdout);
		else if (text[i] == '^')
			fputs("\\(ha", stdout);
		else
			putchar(text[i]);
	}
}

static void print_string(const char *text)
{
	print_text(text, strlen(text));
}

/* Paragraphs; lines that begin with a blank stay lines. */
static void print_paragraphs(const char *text)
{
	bool is_verbatim = false;

	while (*text != '\0') {
		const size_t size = strcspn(text, "\n");
		const bool keep = *text == ' ';

		if (keep != is_verbatim)
			puts(keep ? ".nf" : ".fi");
		is_verbatim = keep;
		if (size == 0)
			puts(".PP");
		else {
			print_text(text, size);
			putchar('\n');
		}
		text += size + (text[size] == '\n');
	}
	if (is_verbatim)
		puts(".fi");
}

static void print_option(const struct verb_option *option)
{
	puts(".TP");
	if (option->letter != 0)
		printf("\\fB\\-%c\\fR, ", option->letter);
	fputs("\\fB\\-\\-", stdout);
	print_string(option->name);
	fputs("\\fR", stdout);
	if (option->argument != NULL) {
		fputs(option->argument[0] == '[' ? "\\fI" : " \\fI", stdout);
		print_string(option->argument);
		fputs("\\fR", stdout);
	}
	putchar('\n');
	print_string(option->help);
	puts(".");
}

static void print_examples(const char *examples)
{
	puts(".nf\n.RS");
	for (const char *line = examples; *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		print_text(line, size);
		putchar('\n');
		line += size + (line[size] == '\n');
	}
	puts(".RE\n.fi");
}

/* As the descriptions of diff and view say. */
static bool has_options_of_report(const struct verb *verb)
{
	return verb->options == report_option_table && verb != &verb_report;
}

/* `group_heading` is the roff request for the heading of a group of options. */
static void print_options(const struct verb *verb, const char *group_heading)
{
	for (const struct verb_option *o = has_options_of_report(verb) ? NULL : verb->options;
		o != NULL && o->name != NULL; o++) {
		if (o->group != NULL) {
			fputs(group_heading, stdout);
			print_string(o->group);
			puts("\\fR");
		}
		if (!o->is_hidden)
			print_option(o);
	}
}

static void print_usage(const struct verb *verb)
{
	printf(".B heapctl %s\n", verb->name);
	print_string(verb->arguments);
	putchar('\n');
}

static void print_description(const struct verb *verb)
{
	print_paragraphs(verb->description[0] == '\0' ? verb->summary : verb->description);
}

/* What the page of all verbs has of one. */
static void print_verb(const struct verb *verb)
{
	printf(".SS heapctl %s\n", verb->name);
	print_usage(verb);
	puts(".PP");
	print_description(verb);
	print_options(verb, ".PP\n\\fI");
	if (verb->examples != NULL) {
		puts(".PP");
		print_examples(verb->examples);
	}
}

static void print_title(const char *name, const char *verb_name)
{
	printf(".TH %s", name);
	for (const char *c = verb_name; *c != '\0'; c++)
		putchar(*c == '-' ? '-' : *c - 'a' + 'A');
	printf(" 1 \"%s\" \"heapctl " HEAPCTL_VERSION "\" \"User Commands\"\n", verb_source_date);
}

/* A page of its own: heapctl-VERB(1). */
static void print_verb_page(const struct verb *verb)
{
	print_title("HEAPCTL-", verb->name);
	printf(".SH NAME\nheapctl\\-%s \\- ", verb->name);
	print_string(verb->summary);
	puts("\n.SH SYNOPSIS");
	print_usage(verb);
	puts(".SH DESCRIPTION");
	print_description(verb);
	puts(".SH OPTIONS");
	print_options(verb, ".SS \\fI");
	puts(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint the help.");
	if (verb->examples != NULL) {
		puts(".SH EXAMPLES");
		print_examples(verb->examples);
	}
	puts(".SH SEE ALSO");
	if (has_options_of_report(verb))
		puts(".BR heapctl\\-report (1)\nfor the options,");
	puts(".BR heapctl (1)\nfor what a TARGET and a DURATION are, the exit "
	     "status, the environment and the other verbs");
}

static const char head[] =
	".SH NAME\n"
	"heapctl \\- control and read memory profiling inside a running server\n"
	".SH SYNOPSIS\n"
	".B heapctl\n"
	".I VERB\n"
	".RI [ ARGUMENTS ]\n"
	".br\n"
	".B heapctl help\n"
	".RI [ VERB ]\n"
	".br\n"
	".B heapctl \\-\\-version\n"
	".SH DESCRIPTION\n"
	"heapctl switches a sampling heap profiler on and off in a running server: jemalloc's, or\n"
	"its own for any other malloc. It takes profiles now or over some minutes, reads the\n"
	"allocator's statistics, and shows what uses the memory as text, a call graph, a flame\n"
	"graph, or the difference between two profiles.\n"
	".PP\n"
	"The server needs heapctl's agent for this.\n"
	".B heapctl run\n"
	"starts a program with it,\n"
	".B heapctl attach\n"
	"loads it into a process that runs already, and programs may link\n"
	".BR libheapctl.so .\n"
	".SH TARGETS\n"
	"Every verb that works on a server takes a\n"
	".IR TARGET ,\n"
	"which is one of these:\n"
	".TP\n.I PID\nThe number of the process.\n"
	".TP\n.I NAME\nThe name of the process, if only one reachable process has it.\n"
	".TP\n.I NAME@USER\nOf that user, by name or number: another user's process may have "
	"the same name.\n"
	".TP\n.I PATH\nThe agent's socket, for instance /run/heapctl/4711.sock, or a gateway's, "
	"whose "
	"first target is meant; unix:PATH is the same.\n"
	".TP\n.I URL\n"
	"A gateway, http://host:port, and one of its targets, http://host:port/targets/NAME. A\n"
	"token for it is taken from\n"
	".BR HEAPCTL_TOKEN .\n"
	".TP\n.I TARGET:*\nThe processes that a PID, NAME or NAME@USER means, and all their "
	"descendants: heapctl report adds them up, heapctl dump and heapctl record "
	"write a file for each, or their sum (\\-o FILE).\n"
	".SH DURATIONS\n"
	"30s, 5mins, 1.5hrs, 600 (seconds); units are ns, us, ms, secs, mins, hrs, days, weeks\n"
	"and their usual short forms. A run lasts from 1 s to 24 h.\n"
	".SH VERBS\n"
	"Each verb has a page of its own as well, for instance\n"
	".BR heapctl\\-record (1).\n";

static const char tail[] =
	".SH EXIT STATUS\n"
	"0 when it was done, 1 when it failed, 2 when the command line was wrong and has to be\n"
	"changed: an unknown verb or option, a value outside its range, a number of arguments,\n"
	"or a TARGET or file that the verb does not take or that several processes match. A\n"
	"target that does not exist, has ended, is stopped or refuses is 1 for every verb.\n"
	".B heapctl run\n"
	"becomes the program and so returns the program's own status.\n"
	".SH ENVIRONMENT\n"
	"Read by the agent, in the server:\n"
	".TP\n.B HEAPCTL_DIR\n"
	"Folder of the sockets and of kept runs, mode 0700. Default: /run/heapctl for root, else\n"
	"$XDG_RUNTIME_DIR/heapctl, else /tmp/heapctl\\-UID, else /dev/shm/heapctl\\-UID.\n"
	"heapctl looks there as well.\n"
	".TP\n.BR HEAPCTL_KEEP ,\\  HEAPCTL_KEEP_BYTES\n"
	"How many finished runs are kept, and how many bytes of them: 16, 268435456.\n"
	".TP\n.B HEAPCTL_EXE\n"
	"Only these programs get a preloaded agent: names or paths with colons between them.\n"
	"Default: the first program that is started.\n"
	".TP\n.B HEAPCTL_THREAD\n"
	"on\\-demand: no thread and no socket until a client connects.\n"
	".TP\n.B HEAPCTL_UNWINDER\n"
	"jemalloc: stacks of samples are taken by jemalloc's own unwinder. Default: by the "
	"agent's,\n"
	"where jemalloc 5.3 or later lets it be replaced.\n"
	".TP\n.B HEAPCTL_SAMPLER\n"
	"no: heapctl takes no samples where jemalloc does not take them, and replaces no call of\n"
	"the allocator.\n"
	".TP\n.BR HEAPCTL_ACTIVATE ,\\  HEAPCTL_SAMPLE ,\\  HEAPCTL_MAPPED ,\\  HEAPCTL_FINAL\n"
	"For heapctl's own sampler, set by run \\-\\-activate, \\-\\-sample, \\-\\-mapped and "
	"\\-\\-record:\n"
	"1, on from the start; bytes for each sample, 524288; 1, also memory from mmap; PREFIX of "
	"a\n"
	"profile at the exit, PREFIX.PID.0.f.heap.\n"
	".TP\n.B HEAPCTL_CHILDREN\n"
	"The agent of children made by fork. on\\-demand: it has no thread until a command names\n"
	"the child; thread: it has one at once; no: they have no agent, nor have the programs\n"
	"that the server starts. Default: on\\-demand on x86\\-64, else thread.\n"
	".TP\n.B HEAPCTL_LOG\n"
	"stderr: the agent logs to standard error. Default: no logging.\n"
	".TP\n.B HEAPCTL_DISABLE\n"
	"1: no agent at all.\n"
	".PP\n"
	"Read by heapctl:\n"
	".TP\n.B HEAPCTL_TOKEN\n"
	"Sent to gateways that ask for a token.\n"
	".TP\n.B HEAPCTL_CACERT\n"
	"PEM file of the authorities that may vouch for a gateway or the database of a fleet,\n"
	"instead of the system's.\n"
	".TP\n.B HEAPCTL_LABELS\n"
	"Of the process whose profile heapctl send sends: service=NAME,version=TEXT,LABEL=VALUE.\n"
	".TP\n.B XDG_CACHE_HOME\n"
	"Names of functions are kept in heapctl below it. Default: $HOME/.cache.\n"
	".TP\n.B XDG_STATE_HOME\n"
	"Lines that were typed into the shell of heapctl report are kept in heapctl below it.\n"
	"Default: $HOME/.local/state.\n"
	".TP\n.B TMPDIR\n"
	"Where temporary files are. Without it they are in /tmp, those of a gateway in memory.\n"
	".TP\n.B BROWSER\n"
	"What heapctl report \\-\\-web starts. Default: a browser that is found.\n"
	".TP\n.B JEPROF_TOOLS\n"
	"As the option \\-\\-tools of heapctl report.\n"
	".TP\n.B NO_COLOR\n"
	"Set to anything: no colours.\n"
	".SH FILES\n"
	".TP\n.I $HEAPCTL_DIR/PID.sock\n"
	"The agent's socket. It speaks HTTP: curl \\-\\-unix\\-socket works. It is\n"
	"PID.NAMESPACE.sock if a process of another pid namespace has that name.\n"
	".SH SEE ALSO\n"
	".BR heapctl (3),\n"
	".BR jemalloc (3),\n"
	".BR jeprof (1)\n";

static int run(const struct verb *verb, int argc, char **argv)
{
	struct option_parser parser;

	if (!option_parse(&parser, verb, argc, argv, NULL))
		return parser.exit_code;
	if (parser.operand_count == 1) {
		const struct verb *const subject = verb_find(parser.operands[0]);

		if (subject == NULL)
			return verb_usage(verb, "unknown verb '%.60s'", parser.operands[0]);
		print_verb_page(subject);
		return EXIT_DONE;
	}
	print_title("HEAPCTL", "");
	fputs(head, stdout);
	for (size_t i = 0; verb_table[i] != NULL; i++) {
		if (!verb_table[i]->is_hidden)
			print_verb(verb_table[i]);
	}
	fputs(tail, stdout);
	return EXIT_DONE;
}

const struct verb verb_man = {
	.name = "man",
	.arguments = "[VERB]",
	.summary = "print the manual page, or that of a verb",
	.description =
		"Prints the manual page, which is made from the same table as the help: that "
		"of all verbs, or of one.",
	.examples = "heapctl man | man -l -\n"
		    "heapctl man record | man -l -",
	.max_operands = 1,
	.is_hidden = true,
	.run = run,
};
