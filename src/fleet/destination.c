/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/destination.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "fleet/clickhouse.h"
#include "fleet/pprof_push.h"
#include "fleet/sender.h"

struct destination {
	struct destination_options options; /* without the texts */
	struct clickhouse *clickhouse;
	struct sender *sender;
	struct pprof_push *push;
};

static bool open_push(struct destination *destination, const struct destination_options *options,
	struct error *err)
{
	const struct fleet_http_options wanted = {
		.url = options->url,
		.password = options->password,
		.authorities = options->authorities,
	};

	return pprof_push_open(&wanted, &destination->push, err);
}

static bool open_clickhouse(struct destination *destination,
	const struct destination_options *options, struct error *err)
{
	const struct clickhouse_options wanted = {
		.url = options->url,
		.password = options->password,
		.authorities = options->authorities,
	};
	const struct sender_options sender = {
		.retry = options->retry,
		.sent = options->sent,
		.context = options->context,
	};

	if (!clickhouse_open(&wanted, &destination->clickhouse, err))
		return false;
	destination->sender = sender_new(destination->clickhouse, &sender);
	return true;
}

bool destination_open(
	const struct destination_options *options, struct destination **ret, struct error *err)
{
	CLEANUP(destination_cleanup)
	struct destination *destination = xcalloc(1, sizeof *destination);

	destination->options = *options;
	destination->options.url = destination->options.password =
		destination->options.authorities = NULL;
	if (pprof_push_url_detect(options->url) ? !open_push(destination, options, err)
						: !open_clickhouse(destination, options, err))
		return false;
	*ret = TAKE(destination);
	return true;
}

void destination_close(struct destination *destination)
{
	if (destination == NULL)
		return;
	sender_free(destination->sender);
	clickhouse_close(destination->clickhouse);
	pprof_push_close(destination->push);
	free(destination);
}

const char *destination_name(const struct destination *destination)
{
	return destination->push != NULL ? pprof_push_name(destination->push)
					 : clickhouse_name(destination->clickhouse);
}

bool destination_is_exposed(const struct destination *destination)
{
	return destination->push != NULL ? pprof_push_is_exposed(destination->push)
					 : clickhouse_is_exposed(destination->clickhouse);
}

bool destination_add(struct destination *destination, int64_t id,
	const struct fleet_snapshot *snapshot, const struct profile *profile, bool *is_refused,
	struct error *err)
{
	const struct destination_options *const options = &destination->options;
	CLEANUP(fleet_rows_deinit) struct fleet_rows rows = { 0 };

	*is_refused = true;
	if (destination->push != NULL) {
		if (!pprof_push_send(
			    destination->push, &options->retry, snapshot, profile, is_refused, err))
			return false;
		options->sent(options->context, id, false);
		return true;
	}
	if (!fleet_rows_make(profile, &rows, err))
		return false;
	*is_refused = false;
	return sender_add(destination->sender, id, snapshot, &rows, err);
}

bool destination_flush(struct destination *destination, struct error *err)
{
	return destination->sender == NULL || sender_flush(destination->sender, err);
}

void destination_recheck(struct destination *destination)
{
	if (destination->sender != NULL)
		sender_recheck(destination->sender);
}
