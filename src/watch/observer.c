/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/observer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/control_group.h"
#include "client/kernel_view.h"
#include "client/process.h"

void cgroup_pressure_path(const struct cgroup *group, char path[CGROUP_PATH_BYTES])
{
	static const char of_machine[] = "/proc/pressure/memory";

	snprintf(path, CGROUP_PATH_BYTES, "%s/memory.pressure", group->folder);
	if (group->folder[0] == '\0' || access(path, R_OK) != 0)
		strcpy(path, access(of_machine, R_OK) == 0 ? of_machine : "");
}

double cgroup_pressure(const char *path)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	double percent = 0;

	if (path[0] == '\0' || !file_try_read(&text, "%s", path) ||
		sscanf(buffer_string(&text), "some avg10=%lf", &percent) != 1)
		return NAN;
	return percent / 100;
}

static bool open_trigger(const char *path, double share, int *fd_ret, struct error *err)
{
	CLEANUP(fd_cleanup) int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	char order[64];

	if (fd < 0)
		return error_system(err, errno, "%s", path);
	snprintf(order, sizeof order, "some %.0f %d", ceil(share * PRESSURE_WINDOW_MS * 1000),
		PRESSURE_WINDOW_MS * 1000);
	/* The kernel requires the NUL. */
	if (write(fd, order, strlen(order) + 1) < 0)
		return error_system(err, errno, "%s", path);
	*fd_ret = TAKE_FD(fd);
	return true;
}

bool pressure_add(struct pressure *pressure, const char *path, double share, struct error *err)
{
	int fd = -1;

	for (size_t i = 0; i < pressure->count; i++) {
		if (pressure->triggers[i].share == share)
			return true;
	}
	if (pressure->count == PRESSURE_TRIGGERS_MAX)
		return error_set(err, ERROR_USAGE, "more than %d thresholds of memory pressure",
			PRESSURE_TRIGGERS_MAX);
	if (!open_trigger(path, share, &fd, err))
		return false;
	pressure->triggers[pressure->count++] =
		(struct pressure_trigger){ .fd = fd, .share = share, .reported_ms = INT64_MIN };
	return true;
}

void pressure_deinit(struct pressure *pressure)
{
	for (size_t i = 0; i < pressure->count; i++) {
		if (pressure->triggers[i].fd >= 0)
			close(pressure->triggers[i].fd);
	}
	*pressure = (struct pressure){ 0 };
}

static void note(struct pressure_trigger *trigger, short events, int64_t now_ms)
{
	if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
		/* The control group was removed. */
		close(trigger->fd);
		trigger->fd = -1;
	} else if ((events & POLLPRI) != 0) {
		trigger->reported_ms = now_ms;
	}
}

void pressure_wait(struct pressure *pressure, int other, int64_t timeout_ms)
{
	struct pollfd pollers[PRESSURE_TRIGGERS_MAX + 1];

	for (size_t i = 0; i < pressure->count; i++)
		pollers[i] = (struct pollfd){ .fd = pressure->triggers[i].fd, .events = POLLPRI };
	pollers[pressure->count] = (struct pollfd){ .fd = other, .events = POLLIN };
	if (poll(pollers, pressure->count + 1,
		    timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms) <= 0)
		return;
	const int64_t now_ms = clock_boottime_ms();
	for (size_t i = 0; i < pressure->count; i++) {
		/* A descriptor of -1 has no events. */
		note(&pressure->triggers[i], pollers[i].revents, now_ms);
	}
}

double pressure_reported(const struct pressure *pressure, int64_t now_ms)
{
	double share = 0;

	for (size_t i = 0; i < pressure->count; i++) {
		const struct pressure_trigger *const trigger = &pressure->triggers[i];
		if (trigger->reported_ms != INT64_MIN &&
			now_ms - trigger->reported_ms < PRESSURE_LASTING_MS)
			share = fmax(share, trigger->share);
	}
	return share;
}

/* Start time and resident memory from /proc/PID/stat, whose second field may contain anything. */
static bool parse_stat(pid_t pid, char *state, uint64_t *started, uint64_t *resident_bytes)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	uint64_t pages = 0;

	const char *const at = file_try_read(&text, "/proc/%d/stat", (int)pid)
				       ? strrchr(buffer_string(&text), ')')
				       : NULL;
	/* Fields 3 (state), 22 (start time) and 24 (resident pages). */
	if (at == NULL ||
		sscanf(at + 1,
			" %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			"%*s %" SCNu64 " %*s %" SCNu64,
			state, started, &pages) != 3)
		return false;
	*resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

static bool read_stat(pid_t pid, uint64_t *started, uint64_t *resident_bytes, struct error *err)
{
	uint64_t thread_started;
	char state = 'Z';
	bool ok = parse_stat(pid, &state, started, resident_bytes);

	/* The main thread may have ended alone. */
	if (ok && state == 'Z')
		ok = parse_stat(
			process_living_thread(pid), &state, &thread_started, resident_bytes);
	if (!ok || state == 'Z' || state == 'X')
		return error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
	return true;
}

/* The kernel's figure, through the gateway; NAN where it has none. */
static double read_resident(const struct target *target)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	uint64_t kib = 0;
	struct error ignored;

	const char *const at = kernel_view_fetch(target, KERNEL_STATUS, &text, &ignored)
				       ? strstr(buffer_string(&text), "\nVmRSS:")
				       : NULL;
	return at != NULL && sscanf(at, " VmRSS: %" SCNu64, &kib) == 1 ? (double)kib * 1024 : NAN;
}

static bool look_through_gateway(
	const struct target *target, struct trigger_observation *observation, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!agent_call_json(target, "GET", "/v1/status", &status, err))
		return false;
	observation->generation = (uint64_t)json_number(status, "started_ms") ^
				  ((uint64_t)json_number(status, "pid") << 44);
	observation->resident_bytes = read_resident(target);
	if (isnan(observation->resident_bytes) && json_at(status, "memory.resident") != NULL)
		observation->resident_bytes = (double)json_number(status, "memory.resident");
	return true;
}

bool observer_open(const struct target *target, struct observer *observer, struct error *err)
{
	struct observer opened = { .target = *target,
		.machine_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) };
	uint64_t resident_bytes = 0;

	opened.left_bytes = INFINITY;
	if (target->process.pid != 0) {
		if (!read_stat(target->process.pid, &opened.started, &resident_bytes, err))
			return false;
		cgroup_find(target->process.pid, "memory", &opened.group);
		cgroup_pressure_path(&opened.group, opened.pressure_path);
	}
	*observer = opened;
	return true;
}

void observer_close(struct observer *observer)
{
	pressure_deinit(&observer->pressure);
}

bool observer_request_pressure(
	struct observer *observer, const struct condition_rule *rule, struct error *err)
{
	for (size_t i = 0; i < rule->term_count; i++) {
		const struct condition *const term = &rule->terms[i];
		if (term->kind == CONDITION_PRESSURE &&
			!pressure_add(
				&observer->pressure, observer->pressure_path, term->threshold, err))
			return false;
	}
	return true;
}

/*
 * The average, or the mark that the kernel reported as passed, by how much it does not say: the
 * least number above it.
 */
static double read_pressure(const struct observer *observer, int64_t now_ms)
{
	const double reported = pressure_reported(&observer->pressure, now_ms);

	return fmax(cgroup_pressure(observer->pressure_path),
		reported > 0 ? nextafter(reported, INFINITY) : NAN);
}

/*
 * Limits and pressure of its current group; without a trigger there the average is read.
 */
static void follow_group(struct observer *observer)
{
	struct pressure before = observer->pressure;
	struct error ignored;

	cgroup_find(observer->target.process.pid, "memory", &observer->group);
	cgroup_pressure_path(&observer->group, observer->pressure_path);
	observer->pressure = (struct pressure){ 0 };
	for (size_t i = 0; i < before.count; i++)
		(void)!pressure_add(&observer->pressure, observer->pressure_path,
			before.triggers[i].share, &ignored);
	pressure_deinit(&before);
}

bool observer_read(
	struct observer *observer, struct trigger_observation *observation, struct error *err)
{
	const pid_t pid = observer->target.process.pid;
	uint64_t started = 0, resident_bytes = 0;

	observation->resident_bytes = observation->cgroup_share = observation->pressure_share = NAN;
	observation->machine_bytes = observer->machine_bytes;
	if (pid == 0)
		return look_through_gateway(&observer->target, observation, err);
	if (!read_stat(pid, &started, &resident_bytes, err))
		return false;
	if (started != observer->started)
		return error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
	observation->generation = started ^ ((uint64_t)pid << 44);
	observation->resident_bytes = (double)resident_bytes;
	observer->has_new_group = !cgroup_is_current(pid, &observer->group);
	if (observer->has_new_group)
		follow_group(observer);
	observation->cgroup_share = cgroup_share(&observer->group, &observer->left_bytes);
	observation->pressure_share = read_pressure(observer, observation->now_ms);
	return true;
}

bool observer_check_rule(
	const struct observer *observer, const struct condition_rule *rule, struct error *err)
{
	const bool is_here = observer->target.process.pid != 0;
	double left_bytes;

	for (size_t i = 0; i < rule->term_count; i++) {
		const struct condition *const term = &rule->terms[i];
		const bool is_of_machine = term->kind == CONDITION_CGROUP ||
					   term->kind == CONDITION_PRESSURE ||
					   (term->kind == CONDITION_RESIDENT && term->is_share);
		if (is_of_machine && !is_here) {
			error_set(err, ERROR_UNSUPPORTED, "'%s' cannot be read from this machine",
				rule->text);
			return error_hint(err, "run heapctl watch on the machine of the target");
		}
		if (term->kind == CONDITION_CGROUP &&
			isnan(cgroup_share(&observer->group, &left_bytes))) {
			error_set(err, ERROR_UNSUPPORTED,
				"'%s': no control group of %s has a memory limit", rule->text,
				observer->target.label);
			return error_hint(err, "use rss>SIZE or rss>PERCENT%%");
		}
		if (term->kind == CONDITION_PRESSURE &&
			isnan(cgroup_pressure(observer->pressure_path))) {
			error_set(err, ERROR_UNSUPPORTED,
				"'%s': this kernel keeps no figures of memory pressure",
				rule->text);
			return error_hint(err, "boot it with psi=1");
		}
	}
	return true;
}
