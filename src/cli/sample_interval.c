/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sample_interval.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/units.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "render/quantity.h"

enum { ENOUGH_SAMPLES = 100 };

/* Few programs allocate as much in the time of a recording. */
#define MAX_USEFUL_BYTES (UINT64_C(1) << 36)

/* "16 KiB", for sentences. */
static struct quantity_text interval_words(uint64_t bytes)
{
	struct quantity_text text;

	_Static_assert(sizeof text.text >= BYTE_SIZE_TEXT_BYTES, "an amount fits");
	byte_size_format(bytes, text.text);
	return text;
}

static int floor_lg(uint64_t bytes)
{
	return bytes == 0 ? 0 : 63 - __builtin_clzll(bytes);
}

/* "16KiB", as --sample takes it. */
static struct quantity_text interval_text(uint64_t bytes)
{
	struct quantity_text text = { "" };

	if (bytes >= UINT64_C(1) << 60)
		snprintf(text.text, sizeof text.text, "%" PRIu64 "EiB", bytes >> 60);
	else if (bytes >= UINT64_C(1) << 40)
		snprintf(text.text, sizeof text.text, "%" PRIu64 "TiB", bytes >> 40);
	else if (bytes >= UINT64_C(1) << 30)
		snprintf(text.text, sizeof text.text, "%" PRIu64 "GiB", bytes >> 30);
	else if (bytes >= 1048576)
		snprintf(text.text, sizeof text.text, "%" PRIu64 "MiB", bytes / 1048576);
	else
		snprintf(text.text, sizeof text.text, "%" PRIu64 "KiB", bytes / 1024);
	return text;
}

bool sample_interval_option(struct option_parser *parser, int *lg_sample)
{
	uint64_t bytes;
	struct error err;

	if (!byte_size_parse(parser->value, &bytes, &err)) {
		option_refuse_error(parser, &err);
		return false;
	}
	const int lg = floor_lg(bytes);
	if (lg < SAMPLE_LG_MIN || lg > SAMPLE_LG_MAX) {
		option_refuse(parser, "'%s' is not from 4KiB to 1TiB", parser->value);
		return false;
	}
	if (bytes != UINT64_C(1) << lg)
		verb_warn("--sample: jemalloc takes powers of two: one sample per %s",
			interval_words(UINT64_C(1) << lg).text);
	*lg_sample = lg;
	return true;
}

bool sample_count_read(const char *text, struct sample_count *samples)
{
	static const char all_threads[] = "\n  t*: ";
	struct sample_count found = { 0 };
	uint64_t count, bytes, taken;

	if (sscanf(text, "heap_v2/%" SCNu64, &found.interval_bytes) != 1)
		return false;
	const char *at = strstr(text, all_threads);
	if (at == NULL)
		return false;
	/* The first one has the sums, which jemalloc distorts where sizes differ. */
	while ((at = strstr(at + 1, all_threads)) != NULL) {
		if (sscanf(at, " t*: %" SCNu64 ": %" SCNu64 " [%" SCNu64, &count, &bytes, &taken) !=
			3)
			return false;
		found.count += count;
		found.bytes += bytes;
		found.taken += taken;
	}
	*samples = found;
	return true;
}

bool sample_count_of_file(const char *path, struct sample_count *samples)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct error ignored;

	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	const bool ok = file_read_fd(fd, path, &text, &ignored) &&
			sample_count_read(buffer_string(&text), samples);
	return ok;
}

/*
 * The interval that would have given enough: samples are as many as the bytes that are alive of the
 * time, divided by it. Without a sample only their growth is known.
 */
static uint64_t wanted_interval(const struct sample_yield *yield)
{
	const uint64_t interval = yield->samples.interval_bytes;
	const uint64_t grown = yield->grown_bytes < 0 ? 0 : (uint64_t)yield->grown_bytes;
	const uint64_t bytes = yield->samples.count > 0 ? interval * yield->samples.count : grown;
	const uint64_t wanted = bytes / ENOUGH_SAMPLES;
	const int lg = floor_lg(wanted);

	return UINT64_C(1) << (lg < SAMPLE_LG_MIN ? SAMPLE_LG_MIN : lg);
}

/* Four standard errors fewer than sampling from the start would have given. */
static bool is_older_than_sampling(const struct sample_yield *yield)
{
	const double interval = (double)yield->samples.interval_bytes;
	const double expected = (double)yield->in_use_bytes / interval;
	const double found =
		fmax((double)yield->samples.count, (double)yield->samples.bytes / interval);

	return !yield->has_all && expected - found > 4 * sqrt(expected);
}

/* Of a process that samples always, the time of this recording says nothing. */
static void explain_all(
	const struct sample_yield *yield, uint64_t wanted, const struct target *target)
{
	const uint64_t interval = yield->samples.interval_bytes;
	char hint[160] = "it has little in use";

	if (is_older_than_sampling(yield))
		snprintf(hint, sizeof hint,
			"most of the %s in use were allocated before sampling was on: heapctl run "
			"--activate samples from the start",
			quantity_format(QUANTITY_BYTES, (double)yield->in_use_bytes, false).text);
	else if (wanted < interval && yield->samples.count > 0)
		snprintf(hint, sizeof hint, "heapctl run --activate --sample %s would take %s",
			interval_text(wanted).text,
			yield->samples.count * (interval / wanted) >= ENOUGH_SAMPLES ? "a hundred"
										     : "more");
	verb_warn("%s: all that is in use has %" PRIu64
		  " sample%s at one per %s: too few to rely on (%s)",
		target->label, yield->samples.count, yield->samples.count == 1 ? "" : "s",
		interval_words(interval).text, hint);
}

void sample_yield_measure(
	struct sample_yield *yield, const struct target *target, int64_t allocated_before_bytes)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct error ignored;

	if (!agent_call_json(target, "GET", "/v1/status", &status, &ignored))
		return;
	yield->keeps_distances = strcmp(json_text(status, "profiling.sampler"), "heapctl") != 0;
	yield->in_use_bytes = json_number(status, "memory.allocated");
	yield->grown_bytes = yield->in_use_bytes - allocated_before_bytes;
	yield->has_all = json_flag(status, "profiling.active") &&
			 json_flag(status, "profiling.active_at_start") &&
			 json_number(status, "profiling.active_since_ms") == 0;
}

/* A block of so many intervals is sampled but for one in e^8: that there are few is no error. */
static bool is_of_large_blocks(const struct sample_yield *yield)
{
	enum { INTERVALS = 8 };
	const struct sample_count *const samples = &yield->samples;

	return samples->count > 0 &&
	       samples->bytes / samples->count >= INTERVALS * samples->interval_bytes;
}

/* What this recording added; as many as were freed meanwhile are missing in it. */
static struct sample_yield without_older(const struct sample_yield *yield)
{
	struct sample_yield own = *yield;
	struct sample_count *const samples = &own.samples;

	samples->count -= yield->older_count < samples->count ? yield->older_count : samples->count;
	samples->taken -= yield->older_count < samples->taken ? yield->older_count : samples->taken;
	return own;
}

void sample_yield_explain(const struct sample_yield *all, const struct target *target)
{
	const struct sample_yield own = without_older(all), *const yield = &own;
	const uint64_t interval = yield->samples.interval_bytes;
	const uint64_t wanted = wanted_interval(yield);
	const uint64_t grown = yield->grown_bytes < 0 ? 0 : (uint64_t)yield->grown_bytes;
	const uint64_t bytes = yield->samples.count > 0 ? interval * yield->samples.count : grown;
	char length[DURATION_TEXT_BYTES];
	char advice[240], older[64] = "";

	if (yield->samples.count >= ENOUGH_SAMPLES || interval == 0 || is_of_large_blocks(yield))
		return;
	if (yield->samples.taken >= ENOUGH_SAMPLES) {
		verb_warn("%s: of %" PRIu64 " samples %" PRIu64 " %s in use; the others were freed "
			  "(heapctl report --alloc_space shows all)",
			target->label, yield->samples.taken, yield->samples.count,
			yield->samples.count == 1 ? "is" : "are");
		return;
	}
	if (yield->was_active && !yield->was_lowered) {
		explain_all(yield, wanted, target);
		return;
	}
	if (wanted < interval && bytes / wanted >= ENOUGH_SAMPLES)
		snprintf(advice, sizeof advice,
			"--sample %s would have given about a hundred in this time",
			interval_text(wanted).text);
	else if (wanted < interval && bytes / wanted > 1)
		snprintf(advice, sizeof advice,
			"--sample %s would have given about %" PRIu64
			"; record for longer, or while it has work to do",
			interval_text(wanted).text, bytes / wanted);
	else if (interval >= MAX_USEFUL_BYTES)
		snprintf(advice, sizeof advice, "--sample 512KiB is the default");
	else if (yield->samples.count == 0 && !yield->was_active)
		snprintf(advice, sizeof advice,
			"record for longer, or while it has work to do; what it had allocated "
			"before is in a profile only when it is started with heapctl run "
			"--activate");
	else
		snprintf(advice, sizeof advice, "record for longer, or while it has work to do");
	if (yield->older_count > 0)
		snprintf(older, sizeof older, " (and %" PRIu64 " from before)", yield->older_count);
	verb_warn("%s: %" PRIu64 " sample%s%s in %s at one per %s: too few to rely on%s (%s)",
		target->label, yield->samples.count, yield->samples.count == 1 ? "" : "s", older,
		duration_format(yield->duration_ms, length), interval_words(interval).text,
		yield->was_lowered && yield->keeps_distances
			? "; each thread first allocates as much as the interval was "
			  "before"
			: "",
		advice);
}
