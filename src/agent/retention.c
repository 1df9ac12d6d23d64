/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/retention.h"

size_t retention_excess(const struct run_retention *retention, const uint64_t *bytes, size_t count)
{
	uint64_t total = 0;
	size_t kept = 0;

	while (kept < count) {
		const uint64_t next = bytes[count - 1 - kept];
		if (kept > 0 &&
			(kept >= retention->count || __builtin_add_overflow(total, next, &total) ||
				total > retention->bytes))
			break;
		if (kept == 0)
			total = next;
		kept++;
	}
	return count - kept;
}
