/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timed_recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "cli/attachment.h"
#include "cli/sample_interval.h"

/* A profile that cannot be saved here is not lost: the agent has it. */
static bool save(struct timed_recording *recording, const char *which, struct output *output,
	struct error *err)
{
	const struct target *const target = &recording->target;
	const int64_t id = recording->run.id;
	const int pid = (int)target->process.pid;

	if (control_save_run(target, id, which, output, err))
		return true;
	if ((err->hint[0] != '\0' && err->errnum != ENOSPC && err->errnum != EDQUOT) || pid == 0)
		return false;
	recording->is_kept = true;
	char detach[48] = "";
	if (recording->is_attached)
		snprintf(detach, sizeof detach, ", then heapctl detach %d", pid);
	return error_hint(err, "the agent has it: heapctl runs %d --save %" PRId64 " -o %s%s", pid,
		id, output == &recording->start ? "END --start-profile START" : "FILE", detach);
}

/* The interval that the target has already needs no change, and no sample is lost. */
static bool choose_interval(
	const struct target *target, int requested, int *lg_sample, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	*lg_sample = requested;
	if (requested == SAMPLE_LG_KEEP)
		return true;
	if (!agent_check_profiling(target, &status, err))
		return false;
	if (json_number(status, "profiling.lg_sample") == requested)
		*lg_sample = SAMPLE_LG_KEEP;
	return true;
}

bool timed_recording_count_discarded(
	const struct target *target, int lg_sample, uint64_t *count, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct sample_count samples;
	int wanted;

	*count = 0;
	if (!choose_interval(target, lg_sample, &wanted, err))
		return false;
	if (wanted == SAMPLE_LG_KEEP)
		return true;
	if (!agent_get(target, "/v1/profile", &answer, err))
		return false;
	if (sample_count_read(buffer_string(&answer.body), &samples) &&
		samples.interval_bytes != UINT64_C(1) << lg_sample)
		*count = samples.count;
	return true;
}

static bool is_yes(void)
{
	char answer[16] = "";

	return fgets(answer, sizeof answer, stdin) != NULL && (*answer == 'y' || *answer == 'Y');
}

bool timed_recording_agree_to_discard(
	const struct record_request *request, const char *label, uint64_t count, struct error *err)
{
	const char *const plural = count == 1 ? "" : "s";

	if (count == 0 || request->may_discard)
		return true;
	if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1) {
		fprintf(stderr,
			"%s has %" PRIu64 " sample%s, which --sample discards. Continue? [y/N] ",
			label, count, plural);
		if (is_yes())
			return true;
	}
	error_set(err, ERROR_STATE, "%s has %" PRIu64 " sample%s, which --sample would discard",
		label, count, plural);
	return error_hint(err, "save them with heapctl dump, then add --discard");
}

bool timed_recording_has_older(const struct timed_recording *recording)
{
	const struct profile_run *const run = &recording->run;

	return !run->was_reset && (run->was_active || run->older_count > 0);
}

/* Where the profile has older samples, too, the start profile is saved beside it. */
static bool open_start(
	const struct record_request *request, struct timed_recording *recording, struct error *err)
{
	if (request->start_path == NULL &&
		(!timed_recording_has_older(recording) || !output_is_file(&recording->end)))
		return true;
	recording->has_start = true;
	if (request->start_path != NULL)
		return true;
	CLEANUP(free_cleanup) char *path = xasprintf("%s.before", output_name(&recording->end));
	return output_open(path, "", "", &recording->start, err);
}

/* Opened first: a name that cannot be written must not cost the time of the run. */
bool timed_recording_open(const struct target *target, const struct record_request *request,
	struct timed_recording *recording, struct error *err)
{
	recording->target = *target;
	return output_open(request->path, target->file_stem, "heap", &recording->end, err) &&
	       (request->start_path == NULL || output_open_other(request->start_path,
						       &recording->end, &recording->start, err));
}

bool timed_recording_begin(
	const struct record_request *request, struct timed_recording *recording, struct error *err)
{
	struct profile_run_request wanted = { .duration_ms = request->duration_ms };
	struct error ignored;

	if (!choose_interval(&recording->target, request->lg_sample, &wanted.lg_sample, err) ||
		!profile_run_start_own(&recording->target, &wanted, &recording->run, err))
		return false;
	if (open_start(request, recording, err))
		return true;
	(void)!profile_run_end_early(&recording->target, recording->run.id, &ignored);
	return false;
}

bool timed_recording_save(struct timed_recording *recording, struct error *err)
{
	const bool lacks_start =
		recording->has_start && !save(recording, "start", &recording->start, err);
	struct error later;

	/* The one is of use without the other. */
	if (save(recording, "profile", &recording->end, lacks_start ? &later : err))
		return !lacks_start;
	return false;
}

void timed_recording_deinit(struct timed_recording *recording)
{
	output_discard(&recording->start);
	output_discard(&recording->end);
}

bool timed_recording_attach(
	const struct record_request *request, struct target *target, struct error *err)
{
	const struct attach_request wanted = { .lg_sample = request->lg_sample };
	struct attachment attachment;

	if (!attachment_make(&target->process, &wanted, &attachment, err))
		return false;
	fprintf(stderr, "%s: attached; one thread stood still for %.1f ms\n",
		attachment.target.label, (double)attachment.stop_us / 1000);
	*target = attachment.target;
	return true;
}

bool timed_recording_detach(const struct target *target, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	struct entry_result restored;

	if (!attachment_end(target, &answer, &restored, err))
		return false;
	fprintf(stderr, "%s: detached\n", target->label);
	return true;
}
