/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/kernel: what heapctl account and dump --bundle need of a target behind a gateway. */
#include "base/xalloc.h"
#include "client/kernel_view.h"
#include "gateway/handlers.h"

enum { PART_BYTES = 256 * 1024 * 1024 };

void api_kernel(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(buffer_cleanup) struct buffer body = { 0 };
	const enum kernel_part part = (enum kernel_part)request_number(request, "part", 0);
	struct error err = { 0 };

	buffer_init(&body, &memory_or_exit);
	body.limit = PART_BYTES;
	if (gateway_find(gateway, request, &backend, &err) &&
		kernel_view_fetch(&backend->target, part, &body, &err))
		reply_buffer(reply, 200, "text/plain; charset=utf-8", &body);
	else
		reply_failure(request, &err, reply);
}
