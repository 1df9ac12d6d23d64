#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a JSON file into a C array of its text without blanks.

usage: embed_json.py OUTPUT.h NAME FILE
"""
import json
import pathlib
import sys


def main():
    output, name, file = sys.argv[1:]
    text = json.dumps(json.loads(pathlib.Path(file).read_text()), separators=(",", ":"))
    rows = [",".join(str(ord(character)) for character in text[at:at + 32]) for at in range(0, len(text), 32)]
    pathlib.Path(output).write_text(f"#pragma once\n\nstatic const char {name}[] = {{\n" + ",\n".join(rows) + "\n};\n")


if __name__ == "__main__":
    main()
