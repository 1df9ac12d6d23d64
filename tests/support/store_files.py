# SPDX-License-Identifier: Apache-2.0
"""What the folder of a store has: the rows of its index and its profiles."""
import os
import shutil
import sqlite3
import tempfile


def read_rows(folder):
    with sqlite3.connect(os.path.join(folder, "index.sqlite")) as index:
        found = index.execute("SELECT id, file, bytes, target, pid, time_ms FROM snapshot ORDER BY id").fetchall()
    index.close()
    return found


def rows(folder):
    """Of a full disk from a copy: reading in place needs room on the disk."""
    try:
        return read_rows(folder)
    except sqlite3.OperationalError:
        with tempfile.TemporaryDirectory() as copy:
            shutil.copy(os.path.join(folder, "index.sqlite"), copy)
            return read_rows(copy)


def profiles(folder):
    return sorted(name for name in os.listdir(folder) if ".heap" in name)
