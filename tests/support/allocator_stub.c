/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator_stub.h"

static struct allocator_fake fake;

struct allocator_fake *allocator_stub(void)
{
	if (fake.allocator.operations == NULL)
		allocator_fake_init(&fake);
	return &fake;
}

void allocator_find(struct allocator *allocator)
{
	*allocator = allocator_stub()->allocator;
}
