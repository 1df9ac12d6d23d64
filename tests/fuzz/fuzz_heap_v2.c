/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/heap_v2.h"

#include "profile_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profile_reader format = { heap_v2_detect, heap_v2_read };

	return fuzz_format(&format, data, size);
}
