# SPDX-License-Identifier: Apache-2.0
"""The commands that the documents, the examples and `heapctl VERB --help` show, line by line as they are written."""
import re
import subprocess
import typing

from project_files import project_files

# Blocks of these are no commands but configuration or source, shown in the same way.
NO_COMMANDS = re.compile(r"^(\[|#(?! )|[\w-]+ = |/\*|struct |CONFIG |\{|\}|[A-Z][a-z]+: )")


class Command(typing.NamedTuple):
    block: str  # where its block begins, "FILE:LINE"; its commands build on each other
    text: str
    is_example: bool  # of examples/: what it starts goes on while the rest of the block runs


def blocks_of_markdown(text):
    """(line number, lines) of each indented or fenced block. Output that is shown below a "$ command" is left out."""
    block, begin, is_fenced, is_sh = [], 0, False, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fence = re.match(r"```(\w*)", line)
        if fence:
            if is_fenced and is_sh:
                yield begin, block
            is_fenced, is_sh, block, begin = not is_fenced, fence[1] in ("sh", "bash", "console"), [], number + 1
        elif is_fenced:
            block.append(line)
        elif line.startswith("    ") and line.strip():
            begin = begin if block else number
            block.append(line[4:])
        elif block:
            yield begin, block
            block = []
    if is_fenced:
        raise AssertionError("a fenced block has no end")


def blocks_of_comment(text):
    """The same of the comment that a source begins with: lines after a tab, or two slashes and a tab."""
    block = []
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r"(?: \*|//)\t(.*)", line)
        if match:
            block.append(match[1])
        elif block:
            yield number - len(block), block
            return


def commands_in(lines):
    shown = [line[2:] for line in lines if line.startswith("$ ")] or lines
    joined = re.sub(r"\\\n\s*", "", "\n".join(shown)).split("\n")
    if any(NO_COMMANDS.match(line) for line in joined):
        return []
    return [line for line in joined if line.strip() and not line.startswith("#")]


def of_documents(root):
    for path in project_files(root, "*.md", "examples"):
        text = (root / path).read_text()
        blocks = blocks_of_markdown(text) if path.endswith(".md") else blocks_of_comment(text)
        for begin, lines in blocks:
            for line in commands_in(lines):
                yield Command(f"{path}:{begin}", line, not path.endswith(".md"))


def of_help(heapctl):
    overview = subprocess.run([heapctl, "--help"], check=True, capture_output=True, text=True).stdout
    for verb in re.findall(r"^  ([a-z]+) +\S", overview, re.M):
        text = subprocess.run([heapctl, verb, "--help"], check=True, capture_output=True, text=True).stdout
        lines = re.findall(r"^  (\S.*)$", text.partition("\nexamples:\n")[2], re.M)
        for line in commands_in(lines):
            yield Command(f"heapctl {verb} --help", line, False)
