/* SPDX-License-Identifier: Apache-2.0 */
/* The tag that messages to this plugin bear, and the first part of its metrics' names. */
#pragma once

#define PLUGIN_TAG "memory_profile"
