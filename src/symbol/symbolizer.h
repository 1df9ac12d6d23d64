/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, files and lines for addresses.
 *
 * Words. A *module* is a mapped file of the profiled process: a program or a library. An address
 * becomes one or more *frames*, innermost first: functions inlined there, then the function that
 * contains them. A module's symbols may come from several places: DWARF in the file itself, in a
 * separate debug file, a symbol table. Nothing is ever guessed: an address outside every known
 * symbol has no frame.
 *
 * All addresses of a run are asked at once: they are sorted, grouped by module, each touched
 * compilation unit is scanned once, and modules are worked on in parallel.
 *
 * The symbolizer reads files only; it needs no live process, though it can use one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "symbol/symbol.h"

struct symbolizer;

struct symbolizer *symbolizer_new(const struct symbolizer_options *options);
void symbolizer_free(struct symbolizer *symbolizer);

DEFINE_CLEANUP(symbolizer_cleanup, struct symbolizer *, symbolizer_free)

/*
 * Looks up `count` addresses of one process and writes results[i] for addresses[i]. The addresses
 * are looked up as they are: step back from return addresses first. They need not be sorted or
 * distinct. Where mappings overlap, mappings[owners[i]] is the one of addresses[i] if it covers it;
 * `owners` may be NULL, and a position that there is not means the one that covers it. May be
 * called several times; everything returned lives until symbolizer_free. Missing or damaged files
 * do not fail the call: the module reports have them.
 */
void symbolizer_resolve(struct symbolizer *symbolizer, const struct symbol_mapping *mappings,
	size_t mapping_count, const uint64_t *addresses, const uint32_t *owners, size_t count,
	struct symbol_result *results);

/* One report per module used so far, in the order of first use. */
const struct symbol_module_report *symbolizer_reports(
	const struct symbolizer *symbolizer, size_t *count);

/*
 * Downloads a source file of a build, or finds it in the cache of downloads, and sets `path`.
 * ERROR_NOT_FOUND when the servers do not have it, and without servers (debuginfod_urls).
 */
MUST_CHECK bool symbolizer_fetch_source(struct symbolizer *symbolizer, const char *build_id,
	const char *source, struct buffer *path, struct error *err);
