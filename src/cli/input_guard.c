/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/input_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/proc_maps.h"
#include "base/sanitizer.h"
#include "cli/verb.h"

/* What prints of a bus error runs in a signal handler: no memory, no streams. */

static void put(const char *text, size_t size)
{
	while (size > 0) {
		const ssize_t written = write(STDERR_FILENO, text, size);
		if (written <= 0)
			return;
		text += written;
		size -= (size_t)written;
	}
}

static void put_text(const char *text)
{
	put(text, strlen(text));
}

static void put_number(uint64_t number)
{
	char digits[24];
	size_t at = sizeof digits;

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number != 0);
	put(digits + at, sizeof digits - at);
}

/* Says which file is mapped at the address, and the byte of it; false when the line is another. */
static bool name_file(const char *line, size_t size, uint64_t addr)
{
	struct proc_map map;

	if (!proc_map_parse(line, size, &map) || addr < map.start || addr >= map.limit)
		return false;
	put(map.path, map.path_size);
	put_text(": byte ");
	put_number(map.file_offset + (addr - map.start));
	put_text(": ");
	return true;
}

static void name_file_at(uint64_t addr)
{
	static char text[16384];
	const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t got = 0;

	while (fd >= 0 && (got = read(fd, text + used, sizeof text - used)) > 0) {
		char *line = text;
		char *const end = text + used + (size_t)got;
		char *newline = NULL;
		while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
			if (name_file(line, (size_t)(newline - line), addr))
				return;
			line = newline + 1;
		}
		used = (size_t)(end - line);
		memmove(text, line, used);
	}
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context)
{
	static volatile sig_atomic_t has_begun;

	(void)context;
	if (info->si_code != BUS_ADRERR || has_begun) {
		signal(signal_number, SIG_DFL);
		raise(signal_number);
		return;
	}
	has_begun = 1;
	put_text(program_invocation_short_name);
	put_text(": ");
	name_file_at((uint64_t)(uintptr_t)info->si_addr);
	put_text("the file was cut short while it was being read\n");
	_exit(EXIT_FAILED);
}

void input_guard_install(void)
{
	struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}

/* Made beforehand, for the handler of a signal. */
static char message[512];

/* As it was before: programs that are started later get the limit of theirs. */
static struct rlimit old_limits;
static bool has_limited;

static void end_process(int number)
{
	(void)number;
	if (write(STDERR_FILENO, message, strlen(message)) < 0)
		_exit(EXIT_FAILED);
	_exit(EXIT_FAILED);
}

/* What is mapped from files does not count: debug files may have gigabytes. */
static void limit_memory(void)
{
	const uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	const uint64_t bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 4 * 3;

	/* Sanitizers reserve terabytes of memory. */
#if !IS_SANITIZED
	if (has_limited || getrlimit(RLIMIT_DATA, &old_limits) != 0 || old_limits.rlim_cur <= bytes)
		return;
	const struct rlimit limits = { .rlim_cur = bytes, .rlim_max = old_limits.rlim_max };
	has_limited = setrlimit(RLIMIT_DATA, &limits) == 0;
#else
	(void)bytes;
#endif
}

void input_guard_begin(const char *what)
{
	const struct itimerval after = { .it_value.tv_sec = INPUT_GUARD_CPU_SECONDS };
	struct sigaction action = { .sa_handler = end_process };

	limit_memory();
	snprintf(message, sizeof message,
		"heapctl: %s took more than %d s of processor time: cancelled (its files may be "
		"damaged or malicious)\n",
		what, INPUT_GUARD_CPU_SECONDS);
	sigemptyset(&action.sa_mask);
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &after, NULL);
}

void input_guard_end(void)
{
	const struct itimerval none = { .it_value.tv_sec = 0 };

	setitimer(ITIMER_PROF, &none, NULL);
	if (has_limited)
		(void)setrlimit(RLIMIT_DATA, &old_limits);
	has_limited = false;
}
