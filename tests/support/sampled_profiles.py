# SPDX-License-Identifier: Apache-2.0
"""Small profiles: of jemalloc with their symbols, as text, and of pprof."""

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


def pprof_with_file(path, build_id=""):
    """A profile of one function, work(), whose line 3 allocates; the file is called like that, and the program of that build-id /opt/work."""
    def part(field, data):
        return bytes([field << 3 | 2, len(data) & 127 | 128, len(data) >> 7]) + data

    strings = [b"", b"inuse_space", b"bytes", b"work", path.encode(), b"/opt/work", build_id.encode()]
    return (part(1, b"\x08\x01\x10\x02") + part(2, part(1, b"\x01") + part(2, b"\x80\x20")) + part(3, b"\x08\x01\x10\x80\x20\x18\x80\x40\x28\x05\x30\x06")
            + part(4, b"\x08\x01\x10\x01\x18\x90\x20" + part(4, b"\x08\x01\x10\x03"))
            + part(5, b"\x08\x01\x10\x03\x18\x03\x20\x04\x28\x01") + b"".join(part(6, text) for text in strings))
