#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the page's files into a C table.

usage: embed.py OUTPUT.c OUTPUT.h FILE...
"""
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

HEADER = """#pragma once

#include <stddef.h>

/* A file of the page. The table ends with a NULL name. */
struct web_asset {
	const char *name;
	const char *media_type;
	const char *data;
	size_t size;
};

extern const struct web_asset web_assets[];
"""


def array(number, data):
    signed = [str(byte - 256 if byte > 127 else byte) for byte in data]
    lines = [",".join(signed[at:at + 32]) for at in range(0, len(signed), 32)]
    return f"static const char data_{number}[] = {{\n" + ",\n".join(lines) + "\n};\n"


def main():
    source, header, *files = (pathlib.Path(argument) for argument in sys.argv[1:])
    rows = [f'\t{{ "{file.name}", "{TYPES[file.suffix]}", data_{number}, sizeof data_{number} }},'
            for number, file in enumerate(files)]
    source.write_text('#include "gateway/web_assets.h"\n\n'
                      + "".join(array(number, file.read_bytes()) for number, file in enumerate(files))
                      + "const struct web_asset web_assets[] = {\n" + "\n".join(rows) + "\n\t{ 0 },\n};\n")
    header.write_text(HEADER)


if __name__ == "__main__":
    main()
