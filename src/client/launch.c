/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/malloc_conf.h"
#include "base/xalloc.h"
#include "client/program.h"

/* Adds a note; one that finds no room is dropped. */
static PRINTF_FORMAT(2, 3) void add_note(struct launch_plan *plan, const char *format, ...)
{
	char text[800];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (plan->note_count < sizeof plan->notes / sizeof plan->notes[0])
		plan->notes[plan->note_count++] = string_pool_add(&plan->strings, text);
}

static void append_pairs(struct buffer *conf, const char *pairs)
{
	if (pairs == NULL || *pairs == '\0')
		return;
	if (conf->size > 0 && conf->data[conf->size - 1] != ',')
		buffer_append_char(conf, ',');
	buffer_append_string(conf, pairs);
}

/* jemalloc only writes these to stderr of the program. */
static void note_problems(struct launch_plan *plan, const char *name, const char *text)
{
	struct error problem;

	for (size_t i = 0; text != NULL && malloc_conf_problem(text, i, &problem); i++)
		add_note(plan, "%s: %s (%s)", name, problem.message, problem.hint);
}

/*
 * The part of an inherited text that jemalloc reads: what comes after would otherwise swallow
 * the pairs that are appended.
 */
static char *readable_part(const char *text)
{
	const char *at = text;
	struct malloc_conf_pair pair;

	while (malloc_conf_next(&at, &pair))
		;
	return xstrndup(text, (size_t)(at - text));
}

static void append_inherited(
	struct launch_plan *plan, struct buffer *conf, const char *name, const char *text)
{
	if (text == NULL)
		return;
	CLEANUP(free_cleanup) char *readable = readable_part(text);
	note_problems(plan, name, text);
	append_pairs(conf, readable);
}

static bool has_option(const char *conf, const char *key)
{
	struct malloc_conf_pair pair;

	return conf != NULL && malloc_conf_find(conf, key, &pair);
}

/* Options that write profiles automatically, and empty ones while sampling is off. */
static const char *find_automatic_option(const char *conf)
{
	static const char *const keys[] = { "prof_final", "prof_leak", "prof_gdump" };
	struct malloc_conf_pair pair;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if (malloc_conf_is_on(conf, keys[i], false))
			return keys[i];
	}
	if (malloc_conf_find(conf, "lg_prof_interval", &pair) && pair.value[0] != '-')
		return "lg_prof_interval";
	return NULL;
}

bool launch_conf(struct launch_plan *plan, const struct launch_request *request,
	const char *inherited, const char *misnamed, const char **value, struct error *err)
{
	struct buffer conf = BUFFER_OR_EXIT;

	if (request->conf != NULL && !malloc_conf_check(request->conf, err))
		return error_prefix(err, "--conf");
	append_pairs(&conf, "prof:true,prof_active:false");
	append_inherited(plan, &conf, "JEMALLOC_CONF", misnamed);
	append_inherited(plan, &conf, "MALLOC_CONF", inherited);
	append_pairs(&conf, request->conf);

	const char *const acting = find_automatic_option(buffer_string(&conf));
	if (acting != NULL && request->final_prefix == NULL &&
		!has_option(inherited, "prof_active") && !has_option(misnamed, "prof_active") &&
		!has_option(request->conf, "prof_active")) {
		append_pairs(&conf, "prof_active:true");
		add_note(plan,
			"sampling is on from the start, because %s needs it (prof_active:false in "
			"--conf leaves it off)",
			acting);
	}
	if (!malloc_conf_is_on(buffer_string(&conf), "prof", false)) {
		if (has_option(request->conf, "prof")) {
			buffer_deinit(&conf);
			error_set(err, ERROR_USAGE, "--conf: prof:false forbids all profiling");
			return error_hint(err, "remove it; prof_active:false is the default");
		}
		append_pairs(&conf, "prof:true");
		add_note(
			plan, "prof:false of the environment is ignored: it forbids all profiling");
	}
	if (request->final_prefix != NULL) {
		CLEANUP(free_cleanup)
		char *final = xasprintf(
			"prof_active:true,prof_final:true,prof_prefix:%s", request->final_prefix);
		append_pairs(&conf, final);
	}
	*value = string_pool_add(&plan->strings, buffer_string(&conf));
	buffer_deinit(&conf);
	return true;
}

void launch_plan_deinit(struct launch_plan *plan)
{
	string_pool_deinit(&plan->strings);
}

static void set(struct launch_plan *plan, const char *name, const char *value)
{
	plan->variables[plan->variable_count++] = (struct launch_variable){
		.name = string_pool_add(&plan->strings, name),
		.value = string_pool_add(&plan->strings, value),
	};
}

/* Shells start other programs; what is to be profiled is one of those. */
static const char *const shells[] = { "sh", "dash", "bash", "ksh", "zsh", "mksh", "ash", "fish",
	"env", NULL };

/* Programs that change something about their process and become another program. */
static const char *const wrappers[] = { "chroot", "chrt", "ionice", "nice", "nohup", "numactl",
	"prlimit", "runuser", "setarch", "setpriv", "setsid", "stdbuf", "systemd-run", "taskset",
	"timeout", "unshare", NULL };

static bool is_one_of(const char *const names[], const char *path)
{
	for (size_t i = 0; names[i] != NULL; i++) {
		if (strcmp(path_base_name(path), names[i]) == 0)
			return true;
	}
	return false;
}

/* A script's interpreter is the program, unless it is a shell; it may be a script itself. */
static bool follow_script(struct launch_plan *plan, const char *command, struct error *err)
{
	/* execve(2) fails beyond this. */
	enum { INTERPRETERS_MAX = 5 };
	struct program *const program = &plan->program;

	for (int i = 0; i < INTERPRETERS_MAX && program->kind == PROGRAM_SCRIPT; i++) {
		char interpreter[sizeof program->interpreter];
		strcpy(interpreter, program->interpreter);
		if (is_one_of(shells, interpreter)) {
			error_set(err, ERROR_USAGE,
				"%s is a script for %s, which starts other programs", command,
				interpreter);
			return error_hint(err,
				"name the program to profile: heapctl run --exe NAME -- %s ...",
				command);
		}
		if (!program_inspect(interpreter, program, err))
			return error_prefix(err, "the interpreter of %s", program->path);
	}
	if (program->kind != PROGRAM_SCRIPT)
		return true;
	error_set(err, ERROR_USAGE, "%s: its interpreter is a script, and so are %d more", command,
		INTERPRETERS_MAX - 1);
	return error_hint(err, "start the program that reads the script");
}

static bool inspect_program(const char *path, struct program *named)
{
	struct error ignored;

	return program_inspect(path, named, &ignored) && named->kind != PROGRAM_SCRIPT;
}

/* Seen from here, and from the folder of the script. */
static bool try_both(const char *folder, const char *path, struct program *named)
{
	CLEANUP(free_cleanup) char *here = xasprintf("./%s", path);
	CLEANUP(free_cleanup) char *there = xasprintf("%s/%s", folder, path);

	return inspect_program(path[0] == '/' ? path : here, named) ||
	       (path[0] != '/' && inspect_program(there, named));
}

/* A word of the script that is a path to a program of that name; variables are not known here. */
static bool find_in_script(
	const char *text, const char *folder, const char *name, struct program *named)
{
	static const char ends[] = " \t\r\n\"';&|()<>=`$";
	const size_t size = strlen(name);

	for (const char *at = text; (at = strstr(at, name)) != NULL; at += size) {
		const char *begin = at;
		if (strchr(ends, at[size]) == NULL || at == text || at[-1] != '/')
			continue;
		while (begin > text && strchr(ends, begin[-1]) == NULL)
			begin--;
		CLEANUP(free_cleanup) char *path = xstrndup(begin, (size_t)(at - begin) + size);
		if (try_both(folder, path, named))
			return true;
	}
	return false;
}

/* A program that a start script starts and that PATH does not find. */
static bool find_beside(const struct launch_plan *plan, const char *name, struct program *named)
{
	enum { SCRIPT_BYTES = 1 << 20 };
	const char *const script = plan->program.path;
	const char *const slash = strrchr(script, '/');
	CLEANUP(free_cleanup)
	char *folder = slash == NULL ? xstrdup(".") : xstrndup(script, (size_t)(slash - script));
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct error ignored;

	if (strchr(name, '/') != NULL)
		return false;
	if (try_both(folder, name, named))
		return true;
	text.limit = SCRIPT_BYTES;
	const bool found = file_read(script, &text, &ignored) &&
			   find_in_script(buffer_string(&text), folder, name, named);
	return found;
}

/* The program to be profiled: the command, or the one that --exe names. */
static bool find_program(
	const struct launch_request *request, struct launch_plan *plan, struct error *err)
{
	if (!program_inspect(request->command, &plan->program, err))
		return false;
	/* What is started is what the loader must accept; then --exe says where to look. */
	if (plan->program.is_privileged)
		return true;
	if (request->exes == NULL && plan->program.kind == PROGRAM_SCRIPT)
		return follow_script(plan, request->command, err);
	if (request->exes == NULL) {
		if (is_one_of(shells, request->command) || is_one_of(wrappers, request->command))
			add_note(plan,
				"what %s starts gets no agent (name it: heapctl run --exe NAME -- "
				"%s ...)",
				request->command, request->command);
		return true;
	}

	struct program named;
	struct error ignored;
	CLEANUP(free_cleanup)
	char *first = xstrndup(request->exes, strcspn(request->exes, ":"));
	if ((program_inspect(first, &named, &ignored) && named.kind != PROGRAM_SCRIPT) ||
		(plan->program.kind == PROGRAM_SCRIPT && find_beside(plan, first, &named))) {
		plan->program = named;
	} else if (plan->program.kind == PROGRAM_SCRIPT) {
		add_note(plan,
			"cannot find %s in PATH, beside %s, or as a path in that script, so "
			"heapctl does not know whether it has jemalloc (give its path with --exe "
			"PATH)",
			first, plan->program.path);
	}
	return true;
}

static bool refuse_impossible(const struct launch_plan *plan, struct error *err)
{
	const struct program *const program = &plan->program;

	if (program->is_privileged) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s is setuid, setgid or has file capabilities: the loader ignores "
			"LD_PRELOAD and jemalloc ignores MALLOC_CONF there",
			program->path);
		return error_hint(err, "start it as the user that it changes to, or link it with "
				       "libheapctl.so");
	}
	if (program->is_foreign) {
		error_set(
			err, ERROR_UNSUPPORTED, "%s is for another kind of machine", program->path);
		return error_hint(err, "use the heapctl that was built for it");
	}
	if (program->is_musl) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s is linked with musl, and what it starts may have glibc: no agent can "
			"be preloaded into both",
			program->path);
		return error_hint(err, "start it without heapctl, then heapctl attach PID");
	}
	if (program->kind == PROGRAM_STATIC) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s is linked statically%s: nothing can be preloaded into it",
			program->path, program->mallctl[0] == '\0' ? "" : ", with jemalloc inside");
		if (program->is_go)
			return error_hint(err, PROGRAM_GO_HINT);
		return error_hint(err, "link the agent into it (heapctl_start of heapctl.h), or "
				       "link it dynamically");
	}
	if (program->sanitizer[0] != '\0') {
		error_set(err, ERROR_UNSUPPORTED,
			"%s is built with a sanitizer (%s), which has "
			"its own malloc",
			program->path, path_base_name(program->sanitizer));
		return error_hint(err, "use a build without it");
	}
	return true;
}

static bool mentions_jemalloc(const char *preload)
{
	return preload != NULL && strstr(preload, "libjemalloc") != NULL;
}

/* The loader searches its own folders for a name without '/', and the program may change its own.
 */
static bool take_jemalloc_file(const char *file, struct launch_plan *plan, struct error *err)
{
	CLEANUP(fd_cleanup) const int fd = open(file, O_RDONLY | O_CLOEXEC);
	CLEANUP(free_cleanup) char *path = realpath(file, NULL);
	char mallctl[MALLCTL_NAME_BYTES];

	if (fd < 0 || path == NULL)
		return error_system(err, errno, "--jemalloc: %s", file);
	if (!program_find_mallctl(fd, mallctl)) {
		error_set(err, ERROR_UNSUPPORTED, "--jemalloc: %s has no jemalloc", file);
		return error_hint(err, "name the shared library, such as libjemalloc.so.2");
	}
	plan->jemalloc = string_pool_add(&plan->strings, path);
	return true;
}

/*
 * A program keeps its allocator. jemalloc's own automatic profiles need jemalloc: where the program
 * has none it gets one.
 */
static bool choose_jemalloc(
	const struct launch_request *request, struct launch_plan *plan, struct error *err)
{
	const struct program *const program = &plan->program;
	const char *const acting =
		request->conf == NULL ? NULL : find_automatic_option(request->conf);
	char path[LIBRARY_PATH_BYTES];

	if (request->jemalloc != NULL) {
		return take_jemalloc_file(request->jemalloc, plan, err);
	}
	if (!request->wants_jemalloc &&
		(acting == NULL || program->jemalloc[0] != '\0' || program->mallctl[0] != '\0' ||
			program->kind == PROGRAM_SCRIPT || mentions_jemalloc(getenv("LD_PRELOAD"))))
		return true;
	if (!library_search("libjemalloc.so.2", program->path, NULL, path)) {
		error_set(err, ERROR_NOT_FOUND, "this machine has no libjemalloc.so.2 for %s",
			request->wants_jemalloc ? "--jemalloc" : acting);
		return error_hint(err,
			"install it (" MALLOC_CONF_JEMALLOC_SOURCE "), or use --jemalloc=FILE");
	}
	plan->jemalloc = string_pool_add(&plan->strings, path);
	if (!request->wants_jemalloc)
		add_note(plan, "%s has no jemalloc: it gets %s, because %s needs it",
			path_base_name(program->path), path, acting);
	return true;
}

static bool set_preload(
	const struct launch_request *request, struct launch_plan *plan, struct error *err)
{
	const char *const inherited = getenv("LD_PRELOAD");
	const char *const ours[] = { request->agent_library, plan->jemalloc };
	CLEANUP(buffer_deinit) struct buffer list = BUFFER_OR_EXIT;

	for (size_t i = 0; i < 2; i++) {
		if (ours[i] != NULL && strpbrk(ours[i], ": ") != NULL) {
			error_set(err, ERROR_UNSUPPORTED,
				"%s: the loader takes no path with a blank or ':'", ours[i]);
			return error_hint(err, "move it, or link to it from another path");
		}
	}
	buffer_append_string(&list, request->agent_library);
	if (plan->jemalloc != NULL)
		buffer_printf(&list, ":%s", plan->jemalloc);
	if (inherited != NULL && *inherited != '\0')
		buffer_printf(&list, ":%s", inherited);
	set(plan, "LD_PRELOAD", buffer_string(&list));
	return true;
}

/* The same for heapctl's own sampler, which works where the program has no jemalloc. */
static void set_sampler(
	const struct launch_request *request, struct launch_plan *plan, const char *conf)
{
	struct malloc_conf_pair pair;

	if (malloc_conf_is_on(conf, "prof_active", false))
		set(plan, "HEAPCTL_ACTIVATE", "1");
	if (malloc_conf_find(conf, "lg_prof_sample", &pair)) {
		const unsigned long lg_sample = strtoul(pair.value, NULL, 10);
		CLEANUP(free_cleanup)
		char *bytes = xasprintf("%llu", 1ULL << (lg_sample < 40 ? lg_sample : 40));
		set(plan, "HEAPCTL_SAMPLE", bytes);
	}
	if (request->wants_mapped)
		set(plan, "HEAPCTL_MAPPED", "1");
	if (request->final_prefix != NULL)
		set(plan, "HEAPCTL_FINAL", request->final_prefix);
}

static bool set_conf(
	const struct launch_request *request, struct launch_plan *plan, struct error *err)
{
	char variable[MALLOC_CONF_VARIABLE_BYTES], named[MALLOC_CONF_VARIABLE_BYTES];
	const char *value;
	const bool has_own = plan->program.mallctl[0] != '\0' && plan->jemalloc == NULL;
	if (request->wants_mapped && (has_own || plan->jemalloc != NULL))
		add_note(plan, "--mapped has no effect where jemalloc takes the samples: "
			       "heapctl account shows how much is mapped");
	const char *wrong_name = "JEMALLOC_CONF";

	CLEANUP(fd_cleanup) const int fd = open(plan->program.path, O_RDONLY | O_CLOEXEC);
	program_conf_variable(fd, has_own ? plan->program.mallctl : "", variable);
	/* What the names of the functions promise, and what the documentation of some servers says.
	 */
	malloc_conf_variable(has_own ? plan->program.mallctl : "mallctl", named);
	if (strcmp(named, variable) != 0 && getenv(named) != NULL)
		wrong_name = named;
	const char *const misnamed = strcmp(variable, wrong_name) == 0 ? NULL : getenv(wrong_name);
	if (misnamed != NULL)
		add_note(plan, "this jemalloc does not read %s: its options are passed in %s",
			wrong_name, variable);
	if (!launch_conf(plan, request, getenv(variable), misnamed, &value, err))
		return false;
	set(plan, variable, value);
	set_sampler(request, plan, value);
	return true;
}

/* Which programs get an agent: those that it starts itself, such as shells, do not. */
static void set_exes(const struct launch_request *request, struct launch_plan *plan)
{
	char real[PATH_MAX];

	if (request->exes != NULL) {
		set(plan, "HEAPCTL_EXE", request->exes);
		return;
	}
	if (getenv("HEAPCTL_EXE") != NULL)
		return;
	if (realpath(plan->program.path, real) == NULL || strchr(real, ':') != NULL)
		set(plan, "HEAPCTL_EXE", path_base_name(plan->program.path));
	else
		set(plan, "HEAPCTL_EXE", real);
}

bool launch_plan_make(
	const struct launch_request *request, struct launch_plan *plan, struct error *err)
{
	*plan = (struct launch_plan){ 0 };
	string_pool_init(&plan->strings);
	if (find_program(request, plan, err) && refuse_impossible(plan, err) &&
		choose_jemalloc(request, plan, err) && set_preload(request, plan, err) &&
		set_conf(request, plan, err)) {
		set_exes(request, plan);
		return true;
	}
	launch_plan_deinit(plan);
	return false;
}
