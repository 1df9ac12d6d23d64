/* SPDX-License-Identifier: Apache-2.0 */
/* Detection and expansion, in front of all codecs. */
#include "profile_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct profile_read_options options = { .max_bytes = 4 * 1024 * 1024 };
	struct profile *profile = NULL;
	struct error err = { 0 };

	if (profile_read("fuzz", data, size, &options, &profile, &err))
		fuzz_check_profile(profile);
	else
		FUZZ_CHECK(err.kind != ERROR_NONE && err.message[0] != '\0' && profile == NULL);
	profile_free(profile);
	return 0;
}
