#!/bin/bash -eu
# SPDX-License-Identifier: Apache-2.0
# OSS-Fuzz runs it with SRC, OUT, CC, CFLAGS and LIB_FUZZING_ENGINE; docs/packaging.md says how to try it elsewhere.
cd "$SRC/heapctl"
# Libraries that have no archive are beside the targets, for they run in an image without them.
# In the old form of the path (DT_RPATH) it is that of the libraries as well, for those that they need.
export LDFLAGS="${LDFLAGS:-} -Wl,-rpath,\$ORIGIN/lib -Wl,--disable-new-dtags"
meson setup "$SRC/build-fuzz" . --buildtype=plain -Dfuzz=true -Dfuzz_engine="$LIB_FUZZING_ENGINE" -Db_lundef=false -Dmusl_agent=false
ninja -C "$SRC/build-fuzz" fuzzers
mkdir -p "$OUT/lib"
for target in "$SRC"/build-fuzz/tests/fuzz/fuzz_*; do
    [ -f "$target" ] || continue
    name=$(basename "$target")
    cp "$target" "$OUT"
    ldd "$target" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | grep -Ev '/lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+)\.so' | xargs -r cp -Lnt "$OUT/lib"
    if [ -d "tests/fuzz/corpus/${name#fuzz_}" ]; then
        (cd "tests/fuzz/corpus/${name#fuzz_}" && zip -q "$OUT/${name}_seed_corpus.zip" ./*)
    fi
done
