/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sandbox_check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/thread.h"
#include "base/cleanup.h"

/* Which of several fields that make sense together were there. */
enum {
	FOUND_USERS = 1 << SANDBOX_CHECK_SETS,
	FOUND_GROUPS = FOUND_USERS << 1,
	FOUND_ALL_SETS = FOUND_USERS - 1,
};

static const char *value_of(const char *line, const char *name)
{
	const size_t size = strlen(name);

	return strncmp(line, name, size) == 0 && line[size] == ':' ? line + size + 1 : NULL;
}

static bool read_digit(const char *line, const char *name, int *value)
{
	const char *const at = value_of(line, name);

	if (at == NULL)
		return false;
	*value = (int)strtol(at, NULL, 10);
	return true;
}

static bool read_hex(const char *line, const char *name, uint64_t *value)
{
	const char *const at = value_of(line, name);

	if (at == NULL)
		return false;
	*value = strtoull(at, NULL, 16);
	return true;
}

/* Real, effective and saved; the fourth, of files, follows the effective one wherever it matters.
 */
static bool read_ids(const char *line, const char *name, uint32_t ids[3])
{
	const char *at = value_of(line, name);

	for (size_t i = 0; at != NULL && i < 3; i++) {
		char *end;
		ids[i] = (uint32_t)strtoul(at, &end, 10);
		at = end;
	}
	return at != NULL;
}

static void read_line(struct sandbox_check_reader *reader)
{
	static const char *const sets[SANDBOX_CHECK_SETS] = { "CapInh", "CapPrm", "CapEff",
		"CapBnd", "CapAmb" };
	struct sandbox_check_state *const state = &reader->state;
	const char *value;

	for (size_t i = 0; i < SANDBOX_CHECK_SETS; i++) {
		if (read_hex(reader->line, sets[i], &state->capabilities[i]))
			reader->found |= 1U << i;
	}
	if (read_ids(reader->line, "Uid", state->users))
		reader->found |= FOUND_USERS;
	if (read_ids(reader->line, "Gid", state->groups))
		reader->found |= FOUND_GROUPS;
	if (value_of(reader->line, "Groups") != NULL)
		state->other_groups = reader->hash;
	if ((value = value_of(reader->line, "State")) != NULL)
		state->has_ended = value[strspn(value, "\t ")] == 'Z';
	if ((value = value_of(reader->line, "Threads")) != NULL)
		state->threads = (unsigned)strtoul(value, NULL, 10);
	read_hex(reader->line, "SigBlk", &state->blocked);
	read_digit(reader->line, "Seccomp", &state->seccomp);
	read_digit(reader->line, "Seccomp_filters", &state->filters);
	read_digit(reader->line, "NoNewPrivs", &state->no_new_privs);
	state->has_capabilities = (reader->found & FOUND_ALL_SETS) == FOUND_ALL_SETS;
	state->has_ids = (reader->found & FOUND_USERS) != 0 && (reader->found & FOUND_GROUPS) != 0;
}

void sandbox_check_read(struct sandbox_check_reader *reader, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\n') {
			reader->line[reader->size] = '\0';
			read_line(reader);
			reader->size = 0;
			reader->hash = 0;
			continue;
		}
		reader->hash = (reader->hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
		if (reader->size + 1 < sizeof reader->line)
			reader->line[reader->size++] = text[i];
	}
}

static bool has_capability(const struct sandbox_check_state *state, unsigned number)
{
	return (state->capabilities[SANDBOX_CHECK_PERMITTED] >> number & 1) != 0;
}

static bool is_one_of(uint32_t id, const uint32_t ids[3])
{
	return id == ids[0] || id == ids[1] || id == ids[2];
}

/* Whether `own` has an identity that the main thread has dropped. */
static bool has_other_ids(const uint32_t main_thread[3], const uint32_t own[3])
{
	for (size_t i = 0; i < 3; i++) {
		if (!is_one_of(own[i], main_thread))
			return true;
	}
	return false;
}

static bool has_lost_user(
	const struct sandbox_check_state *main_thread, const struct sandbox_check_state *own)
{
	return main_thread->has_ids && own->has_ids && main_thread->has_capabilities &&
	       ((!has_capability(main_thread, CAP_SETUID) &&
			has_other_ids(main_thread->users, own->users)) ||
		       (!has_capability(main_thread, CAP_SETGID) &&
			       (has_other_ids(main_thread->groups, own->groups) ||
				       main_thread->other_groups != own->other_groups)));
}

/*
 * What is effective does not count: it can be taken from, and given back to, the permitted set. Nor
 * does the bounding set of a thread that can gain no privileges.
 */
static bool has_more_capabilities(
	const struct sandbox_check_state *main_thread, const struct sandbox_check_state *own)
{
	bool more = false;

	for (size_t i = 0; i < SANDBOX_CHECK_SETS; i++) {
		if (i != SANDBOX_CHECK_EFFECTIVE &&
			(i != SANDBOX_CHECK_BOUNDING || own->no_new_privs <= 0))
			more |= (own->capabilities[i] & ~main_thread->capabilities[i]) != 0;
	}
	return more && main_thread->has_capabilities && own->has_capabilities;
}

enum sandbox_check_action sandbox_check_compare(
	const struct sandbox_check_state *main_thread, const struct sandbox_check_state *own)
{
	if ((main_thread->seccomp > 0 && own->seccomp >= 0 &&
		    own->seccomp != main_thread->seccomp) ||
		(own->filters >= 0 && main_thread->filters > own->filters) ||
		has_lost_user(main_thread, own))
		return SANDBOX_CHECK_END;
	if ((main_thread->no_new_privs > 0 && own->no_new_privs == 0) ||
		has_more_capabilities(main_thread, own))
		return SANDBOX_CHECK_LOWER;
	return SANDBOX_CHECK_KEEP;
}

static bool lower_capabilities(
	const struct sandbox_check_state *main_thread, const struct sandbox_check_state *own)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	uint64_t kept[SANDBOX_CHECK_SETS];
	bool is_bound = true, done = true;

	for (size_t i = 0; i < SANDBOX_CHECK_SETS; i++)
		kept[i] = own->capabilities[i] & main_thread->capabilities[i];
	/* The bounding set first, which takes a capability to change. */
	for (unsigned i = 0; i < 64; i++) {
		if (((own->capabilities[SANDBOX_CHECK_BOUNDING] & ~kept[SANDBOX_CHECK_BOUNDING]) >>
				    i &
			    1) != 0)
			is_bound &= prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0;
		if (((own->capabilities[SANDBOX_CHECK_AMBIENT] & ~kept[SANDBOX_CHECK_AMBIENT]) >>
				    i &
			    1) != 0)
			done &= prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, i, 0, 0) == 0;
	}
	const uint64_t effective =
		own->capabilities[SANDBOX_CHECK_EFFECTIVE] & kept[SANDBOX_CHECK_PERMITTED];
	for (unsigned i = 0; i < 2; i++)
		data[i] = (struct __user_cap_data_struct){
			.effective = (uint32_t)(effective >> 32 * i),
			.permitted = (uint32_t)(kept[SANDBOX_CHECK_PERMITTED] >> 32 * i),
			.inheritable = (uint32_t)(kept[SANDBOX_CHECK_INHERITABLE] >> 32 * i),
		};
	/* What the bounding set allows cannot be gained then. */
	if (!is_bound)
		done &= prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
	/* Of the calling thread alone. */
	return syscall(SYS_capset, &header, data) == 0 && done;
}

/* Drops what the main thread does not have; whether all of it could be dropped. */
static bool lower(
	const struct sandbox_check_state *main_thread, const struct sandbox_check_state *own)
{
	bool done = true;

	if (has_more_capabilities(main_thread, own))
		done = lower_capabilities(main_thread, own);
	if (main_thread->no_new_privs > 0 && own->no_new_privs == 0)
		done &= prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
	return done;
}

/* Of the main thread: also where /proc numbers processes otherwise than getpid() does. */
static const char main_thread_path[] = "/proc/self/status";
static const char main_thread_stat_path[] = "/proc/self/stat";
static const char main_thread_call_path[] = "/proc/self/syscall";
static const char own_path[] = "/proc/thread-self/status";

bool sandbox_check_can_open(void)
{
	return access(main_thread_path, R_OK) == 0;
}

bool sandbox_check_open(struct sandbox_check *check)
{
	sandbox_check_close(check);
	check->main_thread = open(main_thread_path, O_RDONLY | O_CLOEXEC);
	check->main_thread_stat = open(main_thread_stat_path, O_RDONLY | O_CLOEXEC);
	check->main_thread_call = open(main_thread_call_path, O_RDONLY | O_CLOEXEC);
	check->own = open(own_path, O_RDONLY | O_CLOEXEC);
	return check->main_thread >= 0 && check->own >= 0;
}

void sandbox_check_close(struct sandbox_check *check)
{
	fd_cleanup(&check->main_thread);
	fd_cleanup(&check->main_thread_stat);
	fd_cleanup(&check->main_thread_call);
	fd_cleanup(&check->own);
	*check = SANDBOX_CHECK_NONE;
}

static struct sandbox_check_state read_state(int opened, const char *path)
{
	struct sandbox_check_reader reader = SANDBOX_CHECK_READER;
	CLEANUP(fd_cleanup) const int fd = opened >= 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	char text[2048];
	off_t offset = 0;

	/* The kernel writes the text again for each reading from the beginning. */
	for (;;) {
		const ssize_t got = pread(opened >= 0 ? opened : fd, text, sizeof text, offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return reader.state;
		sandbox_check_read(&reader, text, (size_t)got);
		offset += got;
	}
}

/*
 * The signals for which the main thread waits just now, as by sigwait(): while it does, the kernel
 * does not count them as blocked, and they are for no other thread. The text is the number of the
 * system call and its arguments, of which the first is the set's address.
 */
static uint64_t read_awaited(int opened)
{
	char text[256];
	CLEANUP(fd_cleanup)
	const int fd = opened >= 0 ? -1 : open(main_thread_call_path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = pread(opened >= 0 ? opened : fd, text, sizeof text - 1, 0);
	uint64_t awaited = 0;
	char *end = text;

	text[size < 0 ? 0 : size] = '\0';
	if (strtol(text, &end, 10) != SYS_rt_sigtimedwait || end == text)
		return 0;
	const struct iovec from = { .iov_base = (void *)(uintptr_t)strtoull(end, NULL, 16),
		.iov_len = sizeof awaited };
	const struct iovec to = { .iov_base = &awaited, .iov_len = sizeof awaited };
	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof awaited ? awaited : 0;
}

/* It may begin or end to wait while its state is read. */
static struct sandbox_check_state read_main_thread(const struct sandbox_check *check)
{
	const uint64_t before = read_awaited(check->main_thread_call);
	struct sandbox_check_state state = read_state(check->main_thread, main_thread_path);

	state.blocked |= before | read_awaited(check->main_thread_call);
	return state;
}

/* The signals first, because the rest may end the thread. */
static enum sandbox_check_action check_once(const struct sandbox_check *check)
{
	const struct sandbox_check_state main_thread = read_main_thread(check);
	const struct sandbox_check_state own = read_state(check->own, own_path);
	const enum sandbox_check_action action = sandbox_check_compare(&main_thread, &own);

	if (main_thread.has_ids)
		thread_follow_signals(main_thread.blocked);
	if (action == SANDBOX_CHECK_LOWER && !lower(&main_thread, &own))
		return SANDBOX_CHECK_END;
	return action;
}

bool sandbox_check_must_end(const struct sandbox_check *check)
{
	enum { CHECKS = 4, CHECK_AGAIN_MS = 10 };

	/* setuid() changes one thread after the other: for a short time they differ. */
	for (int i = 0; i < CHECKS; i++) {
		if (i > 0)
			poll(NULL, 0, CHECK_AGAIN_MS);
		if (check_once(check) == SANDBOX_CHECK_KEEP)
			return false;
	}
	return true;
}

/* The last field of proc(5)'s stat, of which names and blanks are no part. */
static int read_end_status(int opened)
{
	char text[2048];
	CLEANUP(fd_cleanup)
	const int fd = opened >= 0 ? -1 : open(main_thread_stat_path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = pread(opened >= 0 ? opened : fd, text, sizeof text - 1, 0);

	text[size < 0 ? 0 : size] = '\0';
	const char *const last = strrchr(text, ' ');
	return last == NULL ? 0 : (int)strtol(last, NULL, 10);
}

struct sandbox_check_main_thread sandbox_check_read_main_thread(const struct sandbox_check *check)
{
	const struct sandbox_check_state state = read_state(check->main_thread, main_thread_path);

	return (struct sandbox_check_main_thread){ .has_ended = state.has_ended,
		.is_filtered = state.seccomp == SECCOMP_MODE_FILTER,
		.others = state.threads > 0 ? state.threads - 1 : 0,
		.status = state.has_ended ? read_end_status(check->main_thread_stat) : 0 };
}
