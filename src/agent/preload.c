/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the preloaded library does: at loading it starts the agent; at the end of the process it
 * writes the profile of `heapctl run --record`.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "agent/agent.h"
#include "agent/preload_choice.h"
#include "agent/thread.h"
#include "sampler/got.h"

/* There in programs that were built with the thread sanitizer. */
extern void tsan_init(void) __asm__("__tsan_init") __attribute__((weak));

static void preload_start(void) __attribute__((constructor));
static void preload_end(void) __attribute__((destructor));
void heapctl_preload_end(void) __attribute__((visibility("default")));

/* Not in .bss, which the program may never touch. */
static bool is_left_out = true;

static const char *own_path(void)
{
	Dl_info info;

	return dladdr(__extension__(void *) own_path, &info) != 0 && info.dli_fname != NULL
		       ? info.dli_fname
		       : "";
}

static void name_for_descendants(const struct program_facts *program)
{
	setenv("HEAPCTL_EXE", program->path[0] == '\0' ? program->started_as : program->path, 1);
}

/* Removes this library's file from the LD_PRELOAD that the program's children inherit. */
static void leave_preload(void)
{
	char *const preload = getenv("LD_PRELOAD");
	char kept[4096];

	if (preload == NULL || strlen(preload) >= sizeof kept)
		return;
	preload_remove_library(preload, own_path(), kept);
	if (kept[0] == '\0')
		unsetenv("LD_PRELOAD");
	else
		setenv("LD_PRELOAD", kept, 1);
}

/* What all programs of this machine are preloaded with. */
static void read_preload_file(char *text, size_t size)
{
	CLEANUP(fd_cleanup) const int fd = open("/etc/ld.so.preload", O_RDONLY | O_CLOEXEC);
	const ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);

	text[got < 0 ? 0 : got] = '\0';
}

static enum preload_decision decide(const struct settings *settings, struct program_facts *program)
{
	char preload_file[1024] = "";
	const char *const preload = getenv("LD_PRELOAD");
	const struct preload_source source = { .own_path = own_path(),
		.preload = preload == NULL ? "" : preload,
		.preload_file = preload_file };

	/*
	 * A program that is linked with the library decides for itself.
	 */
	if (preload == NULL && settings->exes[0] == '\0')
		return PRELOAD_STAY_OUT;
	if (!preload_names_library(source.preload, source.own_path))
		read_preload_file(preload_file, sizeof preload_file);
	program_facts_read(program);
	return preload_decide(settings, program, &source);
}

/* A function of its own, because its variables need pages of the stack. */
static __attribute__((noinline)) void start_preloaded(void)
{
	struct agent_options options = {
		.with_socket = true, .in_children = true, .preloaded = true
	};
	struct program_facts program;
	struct error err;

	/* A program with more rights than its user decides for itself. */
	if (getauxval(AT_SECURE) != 0)
		return;
	settings_read(&options.settings, secure_getenv);
	const enum preload_decision decision = decide(&options.settings, &program);
	if (decision == PRELOAD_STAY_OUT)
		return;
	options.log.to_stderr = options.settings.log_to_stderr;
	got_note_start();
	/* With a second thread it ends each child that starts one. */
	if (tsan_init != NULL) {
		log_write(&options.log, LOG_WARNING,
			"no agent: the program was built with the thread sanitizer");
		return;
	}
	if (decision == PRELOAD_START_AND_NAME)
		name_for_descendants(&program);
	if (options.settings.children == SETTINGS_CHILDREN_NO)
		leave_preload();
	options.mode = options.settings.on_demand ? AGENT_ON_DEMAND : AGENT_THREAD;
	strncat(options.name, program_facts_name(&program), sizeof options.name - 1);
	if (!agent_start(&options, &err))
		log_error(&options.log, LOG_ERROR, "no agent", &err);
}

static void preload_start(void)
{
	is_left_out = getenv("LD_PRELOAD") != NULL && preload_leaves_out(getenv("HEAPCTL_EXE"));
	if (is_left_out)
		return;
	main_thread_note();
	start_preloaded();
}

/*
 * The process ends. No system call, unless a profile was requested: the thread that ends it may be
 * in a sandbox that kills for the calls that remove the socket's name. The name stays, as that of a
 * killed process does, until the next agent or command reads the folder.
 *
 * A preloaded library comes before the program's other libraries, one that libheapctl-preload.so
 * loads after them: that one calls this in its turn.
 */
static void preload_end(void)
{
	static bool has_ended;

	if ((is_left_out && !agent_state.prepared) || has_ended)
		return;
	has_ended = true;
	agent_write_final_profile();
	main_thread_forget();
}

/* Not the destructor itself: an object with the static library would call that of another copy. */
void heapctl_preload_end(void)
{
	preload_end();
}
