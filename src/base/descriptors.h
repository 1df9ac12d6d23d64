/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of a process that is about to run another program. */
#pragma once

/* Closes `first` and all above. By system calls alone: for a child of a process with threads. */
void descriptors_close_from(int first);
