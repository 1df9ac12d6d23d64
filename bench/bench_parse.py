# SPDX-License-Identifier: Apache-2.0
"""How fast heap_v2 is read, in how much memory, and against jeprof on the same profile. See bench_parse.c."""
import subprocess
import sys

sys.exit(subprocess.run([f"{sys.argv[1]}/bench/bench_parse"]).returncode)
