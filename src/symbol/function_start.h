/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where functions without a name begin: strip leaves .eh_frame, which describes each function, and
 * its sorted index .eh_frame_hdr.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "symbol/elf_image.h"

/* For an address that no described function holds. */
#define FUNCTION_START_UNKNOWN UINT32_MAX

struct function_starts;

/* The image's, which outlives them. NULL when it has no index. */
struct function_starts *function_starts_new(const struct elf_image *image);
void function_starts_free(struct function_starts *starts);

/* How many bytes `vaddr` is behind the first byte of its function. */
uint32_t function_starts_find(const struct function_starts *starts, uint64_t vaddr);
