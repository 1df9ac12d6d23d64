# SPDX-License-Identifier: Apache-2.0
# The front door; Meson does the work behind it. `make demo` and `make test` need nothing installed
# beforehand: they call scripts/setup first.

BUILD   ?= build
# An installation elsewhere: make install PREFIX=/opt. Kept by the build folder; /usr/local at first.
PREFIX  ?=
# In the folder of make, where it is relative.
DESTDIR ?=
# One test: make test TEST=heap_v2, and of its cases those that a glob matches: CASE='addresses*'
TEST    ?=
CASE    ?=
export CASE
# Seconds of processor time for all fuzz targets together.
FUZZ_SECONDS ?= 60
TARGET  ?=

ASAN_OPTIONS  ?= detect_leaks=1:detect_stack_use_after_return=1:abort_on_error=1:halt_on_error=1
UBSAN_OPTIONS ?= print_stacktrace=1:halt_on_error=1
TSAN_OPTIONS  ?= halt_on_error=1:suppressions=$(CURDIR)/tests/support/tsan.supp
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

.PHONY: all configured checkout demo test check check-asan check-tsan check-arm64 check-i386 check-musl coverage fuzz bench pictures soak lint format golden install dist deb check-deb rpm tarball sbom release site clean

all: configured
	@ninja -C $(BUILD) --quiet
	@scripts/link-products $(BUILD)

configured:
	@scripts/configure $(BUILD) $(if $(PREFIX),--prefix='$(subst ','\'',$(PREFIX))')

# What is made of a commit, or reads the list of files that git has.
checkout:
	@[ -e .git ] || { echo 'make: this needs a git checkout, and these sources are none' >&2; exit 1; }

demo:
	@scripts/setup demo
	@$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)

# Everything: the suites in a plain build, then with sanitizers, then a minute of fuzzing.
test:
	@scripts/setup test
	@scripts/test $(BUILD) "$(TEST)"

# The suites in a plain build only. Skips do not fail it; `make test` fails on those that scripts/setup prevents.
check: all
	@scripts/run-suites $(BUILD) $(TEST)

check-asan:
	@scripts/build-tree asan
	@scripts/run-suites build-asan --no-suite not-for-sanitizers --no-suite golden --no-suite structure $(TEST)

check-tsan:
	@scripts/build-tree tsan
	@scripts/run-suites build-tsan --suite threaded $(TEST)

# On another machine (64-bit Arm in an emulator), as 32-bit programs, and the agent with another C library. Not part of `make test`.
check-arm64 check-i386 check-musl: all
	@scripts/setup platforms
	@scripts/check-platform $(@:check-%=%) $(BUILD) $(TEST)

# The share of lines and branches that the tests run, per folder of src/: build-coverage/report. Not part of `make test`.
# make coverage TEST=heap_v2: by one test alone. COVERAGE_SECONDS is its time limit.
coverage:
	@scripts/setup coverage
	@scripts/coverage $(TEST)

# make fuzz TARGET=heap_v2 FUZZ_SECONDS=3600
fuzz:
	@scripts/fuzz "$(TARGET)" "$(FUZZ_SECONDS)"

bench:
	@scripts/setup bench
	@$(MAKE) --no-print-directory all
	@bench/run $(BUILD) $(TARGET)

# The pictures of README.md in docs/images, of real servers in Chromium.
pictures:
	@scripts/setup test
	@$(MAKE) --no-print-directory all
	@scripts/pictures $(BUILD)

golden: all
	@ninja -C $(BUILD) --quiet golden

# Looks for tests that fail by chance. Takes hours, unless SOAK_REPEAT and the like say less: see scripts/soak.
soak: all
	@scripts/soak $(BUILD)

# After building: it reads the products.
lint: checkout
	@scripts/setup lint
	@$(MAKE) --no-print-directory all
	@scripts/lint $(BUILD)

format: checkout
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@DESTDIR='$(subst ','\'',$(if $(filter-out /%,$(firstword $(DESTDIR))),$(CURDIR)/)$(DESTDIR))' meson install -C $(BUILD) --no-rebuild --quiet

# The sources of the last commit, build/heapctl-VERSION.tar.xz.
dist: checkout
	@scripts/dist $(BUILD)

# Debian packages of the last commit, in build/deb. check-deb tries them in a bare root, which takes minutes.
deb: checkout
	@scripts/setup package
	@scripts/build-deb $(BUILD)/deb

check-deb: deb
	@scripts/check-deb $(BUILD)/deb

# The command as one static file, and the agent: build/tarball.
tarball: checkout
	@scripts/setup package
	@scripts/build-tarball $(BUILD)/tarball

# What the products of this build are linked with, as SPDX: build/heapctl.spdx.json.
sbom: all
	@scripts/sbom $(BUILD) >$(BUILD)/heapctl.spdx.json

# The documentation as pages, in build/site.
site: all
	@scripts/setup site
	@scripts/site $(BUILD)

# All that a release publishes, in build/release.
release: checkout
	@scripts/setup package
	@scripts/release $(BUILD)

# RPM packages of the last commit, in build/rpm, which rpmlint checks.
rpm: checkout
	@scripts/setup package
	@scripts/build-rpm $(BUILD)/rpm

clean:
	rm -rf build build-asan build-tsan build-fuzz build-coverage build-clang build-arm64* build-i386* build-musl demo
