# SPDX-License-Identifier: Apache-2.0
"""Profiles of jemalloc with their symbols, as text."""

INTERVAL = 4096
MEAN = 1024


def profile_text(sites, base=0x400000, build=0, program="/srv/api"):
    """A profile with its symbols. `sites` has for each stack of names, root first, its sampled objects of 1024 bytes."""
    names = sorted({name for stack in sites for name in stack})
    places = {name: base + 0x1000 + build * 0x40 + 0x100 * at for at, name in enumerate(names)}
    count = sum(sites.values())
    lines = ["--- symbol", f"binary={program}", *(f"0x{place - 1:x} {name}" for name, place in places.items()), "---", "--- heap",
             f"heap_v2/{INTERVAL}", f"  t*: {count}: {count * MEAN} [0: 0]"]
    for stack, objects in sites.items():
        lines += ["@ " + " ".join(f"0x{places[name]:x}" for name in reversed(stack)), f"  t*: {objects}: {objects * MEAN} [0: 0]"]
    return "\n".join([*lines, "", "MAPPED_LIBRARIES:", f"{base:x}-{base + 0x100000:x} r-xp 00000000 08:01 {build + 1} {program}", ""])
