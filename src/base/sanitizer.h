/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this file is compiled with a sanitizer that has an allocator and terabytes of address
 * space of its own. */
#pragma once

/* gcc defines the macros, clang has the features. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif
