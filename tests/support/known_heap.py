# SPDX-License-Identifier: Apache-2.0
"""What the programs sampled_*.c keep, by the functions that allocate it, and what a profile says of them."""
import collections
import os
import re

# Blocks that each site keeps, and their size in bytes.
KEPT, SIZE = 10, 1000
SITES_OF_MALLOC = ("plain", "zeroed", "resized", "unresized", "resized_array", "aligned", "aligned_old", "aligned_posix", "page", "pages")
# Bytes by site of sampled_malloc.c.
KNOWN = {**dict.fromkeys(SITES_OF_MALLOC, KEPT * SIZE), "large": KEPT * SIZE * 1000, "aligned": KEPT * 1024}


def bytes_by_site(case, pid, outermost=None):
    """Bytes in use by the function that called the allocator. Every stack has to hold `outermost`, a pattern, where it is given."""
    path = os.path.join(case.folder, "known.heap")
    case.heapctl("dump", pid, "-o", path)
    found = collections.Counter()
    for line in case.heapctl("report", "--collapsed", path)[0].splitlines():
        stack, _, size = line.rpartition(" ")
        for name in re.findall(r"\bsite_(\w+)", stack)[-1:]:
            if outermost is not None:
                case.assertRegex(stack, outermost)
            found[name] += int(size)
    return found
