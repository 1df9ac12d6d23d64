# SPDX-License-Identifier: Apache-2.0
"""Frames of addresses by other symbolizers, and which differences are only conventions."""
import json
import re
import subprocess

# Constructors and destructors come in variants with the same body: "C1", "C2", "C4", "D0" to "D4".
VARIANT = re.compile(r"([CD])[0-9](?=[A-Z])")
# gcc's copies of a function; symbol tables name them, DWARF does not.
CLONE = re.compile(r"\.((cold|part|isra|constprop|lto_priv|llvm|localalias)\b.*|\d+)$")
UNKNOWN = ("??", "")


def text(addresses):
    return "".join(f"0x{address:x}\n" for address in addresses)


def plain_name(name):
    return VARIANT.sub(r"\1#", CLONE.sub("", name))


def same_name(name, other):
    """The other tools omit the scope of a function without a linkage name."""
    name, other = plain_name(name), plain_name(other)
    return name == other or bool(other) and not other.startswith("_Z") and name.endswith("::" + other)


def plain_path(path):
    """Some tools omit the compiler's directory; all have the same end of the path."""
    return "" if path in UNKNOWN else "/".join(part for part in path.split("/") if part not in ("", "."))


def frame(name, path, line):
    return ("" if name in UNKNOWN else name, "" if path in UNKNOWN else path, line)


def place(where):
    """'file.c:12:3', 'file.c:12', '??:?' to (file, line)."""
    fields = where.split(" (")[0].rsplit(":", 2)
    if len(fields) == 3 and fields[1].isdigit():
        return fields[0], int(fields[1])
    path, _, line = where.split(" (")[0].rpartition(":")
    return path, int(line) if line.isdigit() else 0


def ours(tool, path, addresses, *options):
    run = subprocess.run([tool, "--no-demangle", *options, path, "-"], input=text(addresses), text=True,
                         stdout=subprocess.PIPE, check=True)
    answer = json.loads(run.stdout)
    return [[frame(f["linkage_name"] or f["function"], f["file"], f["line"]) for f in result["frames"]]
            for result in answer["results"]], answer["modules"][0]


def llvm(path, addresses):
    run = subprocess.run(["llvm-symbolizer", f"--obj={path}", "--inlines", "--no-demangle"], input=text(addresses),
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    answers = []
    for block in run.stdout.split("\n\n")[:len(addresses)]:
        lines = block.strip("\n").split("\n")
        answers.append([frame(name, *place(where)) for name, where in zip(lines[::2], lines[1::2])])
    return answers


def addr2line(path, addresses, tool="addr2line"):
    run = subprocess.run([tool, "-f", "-i", "-a", "-e", path], input=text(addresses), text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    answers = []
    for block in re.split(r"^0x[0-9a-f]+\n", run.stdout, flags=re.M)[1:]:
        lines = block.strip("\n").split("\n")
        answers.append([frame(name, *place(where)) for name, where in zip(lines[::2], lines[1::2])])
    return answers


def known(frames):
    """Frames without those that say nothing."""
    return [f for f in frames if f != ("", "", 0)]


def difference(mine, other):
    """Why two answers for one address differ; None when they are the same."""
    mine, other = known(mine), known(other)
    if len(mine) != len(other):
        return "number of frames"
    for (name, path, line), (other_name, other_path, other_line) in zip(mine, other):
        if not same_name(name, other_name):
            return "name"
        if line != other_line:
            return "line"
        a, b = plain_path(path), plain_path(other_path)
        if line and not (a.endswith(b) or b.endswith(a)):
            return "file"
    return None


def differences(addresses, mine, other):
    return [(address, why, a, b) for address, a, b in zip(addresses, mine, other)
            if (why := difference(a, b)) is not None]
