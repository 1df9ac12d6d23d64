# SPDX-License-Identifier: Apache-2.0
"""What jeprof says of a profile, and which of the two is right where its names and ours differ.

Nothing of heapctl is used here: profiles are parsed and unsampled in Python, names come from addr2line and nm.
"""
import functools
import math
import os
import re
import subprocess

ROW = re.compile(r"\s*(-?[\d.]+)\s+\S+\s+\S+\s+(-?[\d.]+)\s+\S+ (.*)$")
# What jeprof strips off the leaf: the end of its own list, as far as these programs can have it.
ALLOCATOR = {"calloc", "malloc", "free", "memalign", "posix_memalign", "aligned_alloc", "valloc", "realloc", "mallocx", "rallocx",
             "operator new", "operator new[]"}
CLONE = re.compile(r"(\.(part|isra|constprop|cold|lto_priv|localalias)\b.*|\.\d+)+$")


def bare(name):
    """The name without arguments, template arguments, result, version, gcc's clones and what distinguishes functions of one name."""
    name = re.sub(r" \(inline\)$| \[[^\]]*\]$", "", name)
    name = re.sub(r" \([^()]*:\d+\)( \(inline\))?$| \[[^\]]*\]( \([^()]*:\d+\))?( \(inline\))?$", "", name)
    name = re.sub(r"@[0-9a-f]+$", "", name)
    name = re.sub(r"@@?[A-Z][\w.]*$", "", name)
    for pattern in (r"\([^()]*\)(\s*const)?", r"<[^<>]*>"):
        while re.search(pattern, name):
            name = re.sub(pattern, "", name)
    name = re.sub(r"^.*\s+(\w+::)", r"\1", name)
    name = CLONE.sub("", name.replace(" [clone .cold]", ""))
    # glibc's own name for a function that it exports.
    return name.removeprefix("__GI_")


def rows(text):
    """A textual report as (total, [(flat, cumulative, name)])."""
    lines = text.splitlines()
    total = float(lines[0].split()[1])
    return total, [(float(m[1]), float(m[2]), m[3]) for m in map(ROW.match, lines[1:]) if m]


class Profile:
    """A heap_v2 profile: stacks of addresses as they are looked up, leaf first, with one unsampled figure each."""

    def __init__(self, path, counter):
        with open(path) as f:
            head, _, maps = f.read().partition("\nMAPPED_LIBRARIES:\n")
        lines = head.splitlines()
        interval = int(lines[0].split("/")[1])
        self.stacks, self.maps = [], []
        stack = None
        for line in lines[1:]:
            if line.startswith("@"):
                stack = tuple(int(pc, 16) - 1 for pc in line.split()[1:])
            elif stack is not None and line.lstrip().startswith("t*:"):
                numbers = [int(n) for n in re.findall(r"\d+", line)]
                n, s = numbers[0:2] if counter == "inuse_space" else numbers[2:4]
                if n:
                    self.stacks.append((stack, s / -math.expm1(-s / n / interval)))
        for line in maps.splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith("/"):
                start, limit = (int(x, 16) for x in fields[0].split("-"))
                self.maps.append((start, limit, int(fields[2], 16), fields[5]))

    def total(self):
        return sum(value for _, value in self.stacks)

    def place(self, address):
        """(file, offset in it) of an address; None outside files."""
        for start, limit, offset, path in self.maps:
            if start <= address < limit:
                return path, address - start + offset
        return None


@functools.cache
def segments(path):
    out = subprocess.run(["readelf", "-lW", path], text=True, capture_output=True, check=True).stdout
    return [tuple(int(x, 16) for x in m) for m in
            re.findall(r"LOAD +(0x[0-9a-f]+) (0x[0-9a-f]+) 0x[0-9a-f]+ (0x[0-9a-f]+)", out)]


def vaddr(path, offset):
    for start, address, size in segments(path):
        if start <= offset < start + size:
            return offset - start + address
    return None


@functools.cache
def debug_file(path):
    out = subprocess.run(["readelf", "-nW", path], text=True, capture_output=True).stdout
    found = re.search(r"Build ID: ([0-9a-f]+)", out)
    debug = found and f"/usr/lib/debug/.build-id/{found[1][:2]}/{found[1][2:]}.debug"
    return debug if debug and os.path.exists(debug) else path


@functools.cache
def symbols(path):
    """Functions as (start, limit, name)."""
    found = []
    for file, options in ((path, ["-D"]), (path, []), (debug_file(path), [])):
        out = subprocess.run(["nm", "-CS", "--defined-only", *options, file], text=True, capture_output=True).stdout
        for line in out.splitlines():
            m = re.match(r"([0-9a-f]+) ([0-9a-f]+) [tTwWiuV] (.*)$", line)
            if m:
                found.append((int(m[1], 16), int(m[1], 16) + int(m[2], 16), bare(m[3])))
    return found


@functools.cache
def oracle(path, address):
    """Names that are right for an address: [chains of names, innermost first]; [()] when there is none."""
    chains = []
    out = subprocess.run(["addr2line", "-Cfie", debug_file(path), hex(address)], text=True, capture_output=True).stdout.splitlines()
    if out and not out[1].startswith("??"):
        chains.append(tuple(bare(name) for name in out[::2]))
    covering = {name for start, limit, name in symbols(path) if start <= address < limit}
    # Without a symbol around it an address has no name, even if DWARF knows its line (assembly).
    return chains + [(name,) for name in covering] + ([] if covering else [()])


def stripped(path):
    """Whether it is the allocator's own library, whose frames have no names."""
    return os.path.basename(path).startswith("libjemalloc.so")
