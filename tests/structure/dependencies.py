#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which file of src/ needs which other: by its includes, and by the symbols that its objects leave undefined.

A unit is a .c file together with the header of the same name, such as agent/run. usage: dependencies.py ROOT BUILD
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

from layers import ALLOWED, INCLUDE, OFFLINE_BASE, RESIDENT

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# What writes to stdout or stderr; _FORTIFY_SOURCE renames some of them.
PRINTING = re.compile(r"stdout|stderr|(?:__)?v?d?printf(?:_chk)?|puts|putchar|perror|psignal|warnx?|errx?")
# What reads or changes something beside its arguments: files, processes, clocks, the environment.
IMPURE = re.compile(r"_*(?:f|open|p|l)?(?:open|openat|read|write|readv|writev|stat|statx|fstatat|lseek|seek|readlink)(?:64)?(?:_2|_chk)?|opendir|"
                    r"readdir(64)?|mmap(64)?|(secure_)?getenv|time|clock_gettime|gettimeofday|localtime(_r)?|getpid|getuid|socket|connect|"
                    r"fork|exec[a-z]+|rand(om)?|getrandom|syscall|stdin")
IMPURE_UNITS = {"base/file", "base/rooted_file", "profile/profile_read"}
# Stands in for names of libc, in libheapctl.so only.
LIBC_SUBSTITUTES = {"agent/old_glibc"}
# The allocator that a server profiles, streams, and the end of the process. `malloc` and `free` are looked for by address.
RESIDENT_BANNED = re.compile(r"abort|_?exit|quick_exit|fopen(64)?|fdopen|popen|opendir|calloc|realloc|strdup|v?asprintf|"
                             r"getline|getdelim|(__)?v?f?printf(_chk)?|puts|fputs|stdout|stderr")


def unit_of(path):
    return str(pathlib.PurePath(path).with_suffix(""))


def layer_of(unit):
    return unit.split("/")[0]


class Graph:
    """Edges between units, each with one reason: a header's path or a symbol."""

    def __init__(self):
        self.edges = collections.defaultdict(dict)

    def add(self, user, used, reason):
        if user != used:
            self.edges[user].setdefault(used, reason)

    def cycles(self):
        """The sets of units that reach each other (Tarjan), each sorted."""
        index, low, stack, on_stack, found = {}, {}, [], set(), []

        def visit(unit):
            index[unit] = low[unit] = len(index)
            stack.append(unit)
            on_stack.add(unit)
            for used in self.edges.get(unit, ()):
                if used not in index:
                    visit(used)
                    low[unit] = min(low[unit], low[used])
                elif used in on_stack:
                    low[unit] = min(low[unit], index[used])
            if low[unit] == index[unit]:
                members = []
                while unit not in members:
                    members.append(stack.pop())
                    on_stack.remove(members[-1])
                if len(members) > 1:
                    found.append(sorted(members))

        sys.setrecursionlimit(max(sys.getrecursionlimit(), 10 * len(self.edges) + 1000))
        for unit in list(self.edges):
            if unit not in index:
                visit(unit)
        return sorted(found)

    def shortest_cycle(self, members):
        """One shortest way round within `members`, as text with the reason of each step."""
        best = None
        for start in members:
            came_from, queue = {}, collections.deque([start])
            while queue and start not in came_from:
                unit = queue.popleft()
                for used in self.edges.get(unit, ()):
                    if used in members and used not in came_from:
                        came_from[used] = unit
                        queue.append(used)
            way = [start]
            while len(way) == 1 or way[-1] != start:
                way.append(came_from[way[-1]])
            if best is None or len(way) < len(best):
                best = way[::-1]
        return ", ".join(f"{a} needs {b} ({self.edges[a][b]})" for a, b in zip(best, best[1:]))


class Objects:
    """The symbols of each unit: global ones that it defines, and those that it leaves to others."""

    def __init__(self):
        self.defined = collections.defaultdict(set)
        self.undefined = collections.defaultdict(set)

    def add(self, unit, listing):
        """`listing` is what `nm --portability` prints of an object."""
        for line in listing.splitlines():
            name, kind = line.split()[:2]
            if kind == "U":
                self.undefined[unit].add(name.split("@")[0])
            elif kind in "TDBRCVWiu" and unit not in LIBC_SUBSTITUTES:
                self.defined[name].add(unit)

    def definer_of(self, symbol, user):
        """Several units may define a symbol, for different binaries: the user's own layer comes first, then those it may use."""
        units = self.defined.get(symbol, set())
        layer = layer_of(user)
        own = {unit for unit in units if layer_of(unit) == layer}
        return own or {unit for unit in units if layer_of(unit) in ALLOWED.get(layer, set())} or units


def objects_of(root, build):
    """Reads all objects of src/ in a build folder with nm."""
    objects = Objects()
    sources = (root / "src").resolve()
    units = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        folder = pathlib.Path(command["directory"])
        source = (folder / command["file"]).resolve()
        if source.is_relative_to(sources) and command["output"].startswith("src/"):
            units[str(folder / command["output"])] = unit_of(source.relative_to(sources))
    missing = [path for path in units if not pathlib.Path(path).exists()]
    if missing:
        raise FileNotFoundError(f"{missing[0]} is not built: run make first")
    listing = subprocess.run(["nm", "--portability", *units], capture_output=True, text=True, check=True).stdout
    # A line with the path and a colon, and then the symbols of each object.
    unit, lines = None, []
    for line in [*listing.splitlines(), ":"]:
        if line.endswith(":"):
            if unit:
                objects.add(unit, "\n".join(lines))
            unit, lines = units.get(line[:-1]), []
        else:
            lines.append(line)
    return objects


def graph_of(root, objects):
    graph = Graph()
    for path in sorted((root / "src").rglob("*.[ch]")):
        for include in INCLUDE.findall(path.read_text()):
            if (root / "src" / include).exists():
                graph.add(unit_of(path.relative_to(root / "src")), unit_of(include), f"includes {include}")
    for user, symbols in objects.undefined.items():
        for symbol in sorted(symbols):
            for used in objects.definer_of(symbol, user):
                graph.add(user, used, f"calls {symbol}")
    return graph


def upward_links(objects):
    """Symbols that a layer takes from a layer that it may not use, however it came to their declaration."""
    found = []
    offline_base = {unit_of("base/" + name) for name in OFFLINE_BASE}
    for user, symbols in sorted(objects.undefined.items()):
        layer = layer_of(user)
        for symbol in sorted(symbols):
            for used in sorted(objects.definer_of(symbol, user)):
                if layer_of(used) != layer and layer_of(used) not in ALLOWED.get(layer, set()):
                    found.append(f"{user} links {symbol} of {used}: {layer} may not use {layer_of(used)}")
                elif layer in RESIDENT and used in offline_base:
                    found.append(f"{user} links {symbol} of {used}: {layer} lives inside a server")
            if layer in RESIDENT and RESIDENT_BANNED.fullmatch(symbol):
                found.append(f"{user} links {symbol}: {layer} lives inside a server")
    return found


# Other definitions of what heapctl-net and heapctl-fleet have; in binaries without the others.
ALTERNATIVES = {"cli/without_net", "cli/without_fleet"}
# What is in the two binaries together with base, wire and unwind: names of one do not clash with those of the other.
AGENT = {"agent", "allocator"}


def duplicate_names(objects):
    """Global names with two definitions that may meet in one binary, where the linker takes either without a message, as {name: [units]}."""
    found = {}
    for name, units in sorted(objects.defined.items()):
        for meets in (lambda layer: layer not in AGENT, lambda layer: layer in AGENT or layer in ALLOWED["agent"]):
            together = sorted(unit for unit in units - ALTERNATIVES if meets(layer_of(unit)))
            if len(together) > 1:
                found[name] = together
    return found


def printing_units(objects):
    """The units outside of src/cli that can write to stdout or stderr through stdio."""
    return sorted(user for user, symbols in objects.undefined.items()
                  if layer_of(user) != "cli" and any(PRINTING.fullmatch(symbol) for symbol in symbols))


def impure_links(objects, layer):
    """What the units of a layer use that is no function of its arguments alone, as {unit: [symbols]}."""
    found = {}
    for user, symbols in sorted(objects.undefined.items()):
        names = [symbol for symbol in sorted(symbols)
                 if IMPURE.fullmatch(symbol) or IMPURE_UNITS & set(objects.definer_of(symbol, user))]
        if layer_of(user) == layer and names:
            found[user] = names
    return found


def writing_units(root):
    """The units outside of src/cli that write to descriptor 1 or 2 by themselves."""
    call = re.compile(r"\b(?:write|dprintf|writev)\s*\(\s*(?:STDOUT_FILENO|STDERR_FILENO|[12])\s*,")
    return sorted({unit_of(path.relative_to(root / "src")) for path in (root / "src").rglob("*.[ch]")
                   if layer_of(str(path.relative_to(root / "src"))) != "cli" and call.search(COMMENT.sub("", path.read_text()))})


def duplicate_tags(root):
    """Struct, union and enum tags with more than one definition, as {tag: [paths]}."""
    places = collections.defaultdict(list)
    for folder in ("src", "include", "plugins"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            for tag in re.findall(r"\b(?:struct|union|enum)\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?(\w+)\s*\{",
                                  COMMENT.sub("", path.read_text())):
                places[tag].append(str(path.relative_to(root)))
    return {tag: paths for tag, paths in sorted(places.items()) if len(paths) > 1}


def cycle_faults(graph):
    found = {}
    for members in graph.cycles():
        found.update(dict.fromkeys(members, graph.shortest_cycle(members)))
    return found


def all_faults(root, build):
    objects = objects_of(root, build)
    return {"cycle": cycle_faults(graph_of(root, objects)),
            "tag": {tag: "defined in " + ", ".join(paths) for tag, paths in duplicate_tags(root).items()},
            "name": {name: "defined in " + ", ".join(units) for name, units in duplicate_names(objects).items()}}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: dependencies.py ROOT BUILD")
    for kind, names in all_faults(*(pathlib.Path(argument).resolve() for argument in sys.argv[1:])).items():
        for name, reason in names.items():
            print(f"{kind} {name}: {reason}")
