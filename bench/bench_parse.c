/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast heap_v2 is read and added up function by function (processor time of one core, the file
 * in memory), and in how much memory; then the same small profile for jeprof and for us, in one
 * run. usage: bench_parse [STACKS [STACKS_FOR_JEPROF]]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/view_builder.h"
#include "base/file.h"
#include "profile/profile_read.h"
#include "render/renderers.h"
#include "synthetic_profile.h"

enum { ROUNDS = 5 };

/* "/proc/self/fd/N" of a file in memory that holds a synthetic profile. */
static void make_file(size_t stack_count, const char *prologue, char path[32], size_t *size)
{
	const int fd = memfd_create("profile", 0);
	struct error err = { 0 };
	struct buffer text;

	buffer_init(&text, &memory_pages);
	buffer_append_string(&text, prologue);
	synthetic_profile_write(&text, stack_count);
	if (fd < 0 || text.failed || !file_write_fd(fd, "memfd", text.data, text.size, &err)) {
		fprintf(stderr, "bench_parse: no memory for a profile of %zu stacks\n",
			stack_count);
		exit(1);
	}
	*size = text.size;
	buffer_deinit(&text);
	snprintf(path, 32, "/proc/%d/fd/%d", getpid(), fd);
}

/* Processor time of this process: others on the machine do not count. */
static double processor_seconds(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static void must(bool done, const struct error *err)
{
	if (!done) {
		fprintf(stderr, "bench_parse: %s\n", err->message);
		exit(1);
	}
}

/* Read as for a report without single threads. */
static const struct profile_read_options no_threads = { .leaves_out_threads = true };

struct seconds {
	double reading;
	double adding;
};

/*
 * The list of functions, as text. Symbols would take as long as there are addresses, not stacks;
 * here every address is a function of its own.
 */
static void add_up(const struct profile *profile)
{
	const struct render_options options = RENDER_OPTIONS_DEFAULT;
	const struct view_input input = { profile, false };
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	CLEANUP(view_cleanup) struct view *view = NULL;
	CLEANUP(buffer_deinit) struct buffer out = { 0 };
	struct error err = { 0 };

	buffer_init(&out, &memory_heap);
	must(filter_new(&(struct filter_text){ 0 }, &filter, &err), &err);
	const struct view_request request = {
		.filter = filter,
		.counter = PROFILE_INUSE_SPACE,
		.totals_only = true,
	};
	must(view_build(&input, 1, &request, &view, &err), &err);
	must(renderer_find("text")->render(view, &options, &out, &err), &err);
}

static struct seconds measure_once(const char *path)
{
	struct profile *profile = NULL;
	struct error err = { 0 };
	const double begin = processor_seconds();

	must(profile_open(path, &no_threads, &profile, &err), &err);
	const double read = processor_seconds();
	add_up(profile);
	const double added = processor_seconds();
	profile_free(profile);
	return (struct seconds){ read - begin, added - read };
}

/* The round that was fastest as a whole: the rest is other load on the machine. */
static struct seconds best_of(int times, const char *path)
{
	struct seconds best = measure_once(path);

	while (--times > 0) {
		const struct seconds again = measure_once(path);
		if (again.reading + again.adding < best.reading + best.adding)
			best = again;
	}
	return best;
}

/* A line of /proc/self/status, in MB. */
static double status_megabytes(const char *key)
{
	struct buffer status;
	struct error err = { 0 };
	double megabytes = 0;

	buffer_init(&status, &memory_heap);
	if (file_read("/proc/self/status", &status, &err)) {
		const char *const at = strstr(buffer_string(&status), key);
		if (at != NULL)
			megabytes = strtod(at + strlen(key), NULL) / 1024;
	}
	buffer_deinit(&status);
	return megabytes;
}

/* In a child, which reports its memory: what is ours is anonymous, the rest is the file. */
static void measure_memory(
	const char *path, const char *what, const struct profile_read_options *options)
{
	const pid_t child = fork();

	if (child == 0) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		const double before = status_megabytes("RssAnon:");
		must(profile_open(path, options, &profile, &err), &err);
		const double ours = status_megabytes("RssAnon:") - before;
		printf("memory of a profile %s: %.0f MB for %zu distinct stacks (%.0f bytes each); "
		       "peak %.0f "
		       "MB "
		       "with the mapped file\n",
			what, ours, profile->stack_count,
			ours * 1048576 / (double)profile->stack_count, status_megabytes("VmHWM:"));
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static double run_jeprof(const char *path)
{
	const pid_t child = fork();
	struct rusage usage;
	int status = 0;

	if (child == 0) {
		const int null = open("/dev/null", O_WRONLY);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execlp("jeprof", "jeprof", "--text", path, (char *)NULL);
		_exit(127);
	}
	wait4(child, &status, 0, &usage);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -1;
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* In the symbolized form, so that jeprof starts no other program: parsing against parsing. */
static void compare_with_jeprof(size_t stack_count)
{
	char path[32];
	size_t size = 0;

	make_file(stack_count, "--- symbol\nbinary=/opt/server\n---\n--- heap\n", path, &size);
	const double theirs = run_jeprof(path);
	if (theirs < 0) {
		printf("  jeprof: cannot be run here\n");
		return;
	}
	const struct seconds ours = best_of(3, path);
	const double sum = ours.reading + ours.adding;
	printf("  %zu stacks, %.1f MB: jeprof --text %.2f s, the same here %.4f s: %.0fx\n",
		stack_count, (double)size / 1e6, theirs, sum, theirs / sum);
}

int main(int argc, char **argv)
{
	const size_t stack_count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
	const size_t jeprof_count = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
	char path[32];
	size_t size = 0;

	make_file(stack_count, "", path, &size);
	/* First, in children of a process without freed memory that they could reuse. */
	measure_memory(path, "for a report", &no_threads);
	measure_memory(path, "with all threads", NULL);
	const struct seconds best = best_of(ROUNDS, path);
	const double megabytes = (double)size / 1e6;
	printf("heap_v2, %zu stacks, %.0f MB, one core: reading %.2f s (%.0f MB/s), adding up per "
	       "function %.2f s, together %.2f s: %.0f MB/s\n",
		stack_count, megabytes, best.reading, megabytes / best.reading, best.adding,
		best.reading + best.adding, megabytes / (best.reading + best.adding));
	fflush(stdout);
	if (jeprof_count != 0)
		compare_with_jeprof(jeprof_count);
	return 0;
}
