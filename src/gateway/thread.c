/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/thread.h"

bool thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *context),
	void *context, const char *purpose, struct error *err)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, stack_bytes);
	const int failed = pthread_create(thread, &attributes, work, context);
	pthread_attr_destroy(&attributes);
	return failed == 0 || error_system(err, failed, "starting %s", purpose);
}
