/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/demangle.h"

#include <setjmp.h>
#include <string.h>

#include <libiberty/demangle.h>

struct sink {
	struct buffer *out;
	size_t start;
	jmp_buf too_long;
};

/*
 * The demangler has no way to be told to stop, and a name of a few hundred bytes can expand for
 * hours. The functions used here keep their state on the stack, so leaving them loses nothing.
 */
static void collect(const char *text, size_t size, void *opaque)
{
	struct sink *const sink = opaque;

	if (sink->out->size - sink->start + size > DEMANGLE_LONGEST_RESULT)
		longjmp(sink->too_long, 1);
	buffer_append(sink->out, text, size);
}

bool demangle_wanted(const char *linkage_name)
{
	return linkage_name[0] == '_' &&
	       (linkage_name[1] == 'Z' || linkage_name[1] == 'R' ||
		       (linkage_name[1] == '_' && linkage_name[2] == 'Z'));
}

/* Legacy names are C++ ones that end in a hash: "17h" and 16 digits. */
static bool is_rust(const char *linkage_name)
{
	return strncmp(linkage_name, "_R", 2) == 0 || strncmp(linkage_name, "__R", 3) == 0 ||
	       strstr(linkage_name, "17h") != NULL;
}

bool demangle_append(const char *linkage_name, struct buffer *out)
{
	size_t work = 0;

	return demangle_append_counted(linkage_name, out, &work);
}

bool demangle_append_counted(const char *linkage_name, struct buffer *out, size_t *work)
{
	struct sink sink = { .out = out, .start = out->size };

	*work = 0;

	if (!demangle_wanted(linkage_name) ||
		strnlen(linkage_name, DEMANGLE_LONGEST_NAME + 1) > DEMANGLE_LONGEST_NAME)
		return false;
	if (setjmp(sink.too_long) != 0) {
		*work = DEMANGLE_LONGEST_RESULT;
		out->size = sink.start;
		return false;
	}
	*work = strlen(linkage_name);
	/* Rust's back references can recurse without end, so there the library's limit stays. */
	if (is_rust(linkage_name) && rust_demangle_callback(linkage_name, 0, collect, &sink) != 0) {
		*work += out->size - sink.start;
		return true;
	}
	out->size = sink.start;
	if (cplus_demangle_v3_callback(linkage_name,
		    DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT, collect, &sink) != 0) {
		*work += out->size - sink.start;
		return true;
	}
	out->size = sink.start;
	return false;
}
