/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/smaps, as a bundle of unknown origin may have it: the parts add up to the total. */
#include <stdint.h>

#include "analysis/smaps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct smaps sums;
	const bool is_any = smaps_read((const char *)data, size, &sums);

	if (is_any != (sums.mapping_count != 0))
		__builtin_trap();
	/* Numbers that no machine has may wrap, but all of them alike. */
	if (sums.resident != sums.files + sums.file_data + sums.shmem + sums.stacks +
				     sums.program_break + sums.anonymous)
		__builtin_trap();
	return 0;
}
