# SPDX-License-Identifier: Apache-2.0
"""The files that the project consists of, beside what was built there; also where it is an unpacked release, without git."""
import fnmatch
import os
import subprocess

# As .gitignore has them.
BUILT = ("build", "build-*", "demo", "__pycache__", "node_modules", ".ccache")


def project_files(root, *patterns):
    """Paths relative to the root, of the patterns' names, or in the patterns' folders."""
    if (root / ".git").exists():
        return subprocess.run(["git", "-C", str(root), "ls-files", *patterns], check=True, capture_output=True, text=True).stdout.split()
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not any(fnmatch.fnmatch(name, built) for built in BUILT)]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(path for path in found if any(fnmatch.fnmatch(path, pattern) or path.startswith(pattern + "/") for pattern in patterns))
