/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_format(&heap_v2_reader, data, size);
}
