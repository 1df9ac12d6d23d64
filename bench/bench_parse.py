# SPDX-License-Identifier: Apache-2.0
"""How fast heap_v2 is read and added up, in how much memory, and against jeprof. See bench_parse.c."""
import subprocess
import sys

sys.exit(subprocess.run([f"{sys.argv[1]}/bench/bench_parse"]).returncode)
