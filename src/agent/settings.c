/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/identity_variables.h"
#include "sampler/sampler.h"

static void log_invalid(struct settings *settings, const char *name, const char *value)
{
	snprintf(settings->problem, sizeof settings->problem, "%s: invalid value '%.40s'", name,
		value);
}

static void copy_text(struct settings *settings, char *(*get)(const char *name), const char *name,
	char *to, size_t size)
{
	const char *const value = get(name);

	if (value == NULL)
		return;
	const size_t length = strlen(value);
	if (length < size)
		memcpy(to, value, length + 1);
	else
		log_invalid(settings, name, value);
}

/* "1234", or with a binary suffix: "64K", "256M", "1G". */
static bool parse_number(const char *text, uint64_t *number)
{
	static const char suffixes[] = "KMG";
	uint64_t value = 0;
	const char *c = text;

	for (; *c >= '0' && *c <= '9'; c++) {
		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
			__builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
			return false;
	}
	if (c == text)
		return false;
	const char *const suffix = *c == '\0' ? NULL : strchr(suffixes, *c);
	if (suffix != NULL) {
		const unsigned shift = 10 * (unsigned)(suffix - suffixes + 1);
		if (value > UINT64_MAX >> shift)
			return false;
		value <<= shift;
		c++;
	}
	*number = value;
	return *c == '\0';
}

static void read_number(struct settings *settings, char *(*get)(const char *name), const char *name,
	uint64_t lowest, uint64_t highest, uint64_t *number)
{
	const char *const value = get(name);
	uint64_t parsed = 0;

	if (value == NULL || *value == '\0')
		return;
	if (!parse_number(value, &parsed) || parsed < lowest) {
		log_invalid(settings, name, value);
		return;
	}
	*number = parsed < highest ? parsed : highest;
}

/* The position of the value in `words`, which end with NULL; -1 when it is unset or unknown. */
static int read_word(struct settings *settings, char *(*get)(const char *name), const char *name,
	const char *const *words)
{
	const char *const value = get(name);

	if (value == NULL || *value == '\0')
		return -1;
	for (int i = 0; words[i] != NULL; i++) {
		if (strcmp(value, words[i]) == 0)
			return i;
	}
	log_invalid(settings, name, value);
	return -1;
}

static enum settings_children read_children(struct settings *settings, char *(*get)(const char *))
{
	static const char *const words[] = { "no", "on-demand", "thread", NULL };
	static const enum settings_children meanings[] = { SETTINGS_CHILDREN_NO,
		SETTINGS_CHILDREN_ON_DEMAND, SETTINGS_CHILDREN_THREAD };
	const int word = read_word(settings, get, "HEAPCTL_CHILDREN", words);

	return word < 0 ? SETTINGS_CHILDREN_DEFAULT : meanings[word];
}

static bool read_switch(const char *value)
{
	return value != NULL && strcmp(value, "") != 0 && strcmp(value, "0") != 0;
}

/* Returns the size with it; what does not fit is left out. */
static size_t add_identity(
	struct settings *settings, size_t size, char *(*get)(const char *), const char *name)
{
	const size_t room = sizeof settings->identity - size - 1;
	const char *const value = get(name);

	if (value == NULL)
		return size;
	const size_t needed = strlen(name) + 1 + strlen(value) + 1;
	if (needed > room)
		return size;
	snprintf(settings->identity + size, needed, "%s=%s", name, value);
	return size + needed;
}

static void read_identity(struct settings *settings, char *(*get)(const char *name))
{
	size_t size = add_identity(settings, 0, get, IDENTITY_LABELS_VARIABLE);

	if (get(IDENTITY_POD_VARIABLE) == NULL)
		return;
	size = add_identity(settings, size, get, IDENTITY_POD_VARIABLE);
	for (size_t i = 0; i < IDENTITY_VARIABLES; i++)
		size = add_identity(settings, size, get, identity_variables[i].variable);
}

void settings_read(struct settings *settings, char *(*get)(const char *name))
{
	static const char *const on_demand[] = { "on-demand", NULL };
	static const char *const to_stderr[] = { "stderr", NULL };
	static const char *const by_jemalloc[] = { "jemalloc", NULL };
	static const char *const no[] = { "no", NULL };
	uint64_t keep = 16, sample = SAMPLER_INTERVAL_DEFAULT;

	*settings = (struct settings){ .keep_bytes = UINT64_C(256) << 20 };
	copy_text(settings, get, "HEAPCTL_DIR", settings->folder, sizeof settings->folder);
	copy_text(settings, get, "XDG_RUNTIME_DIR", settings->runtime, sizeof settings->runtime);
	copy_text(settings, get, "HEAPCTL_FINAL", settings->final, sizeof settings->final);
	copy_text(settings, get, "HEAPCTL_EXE", settings->exes, sizeof settings->exes);
	read_number(settings, get, "HEAPCTL_KEEP", 1, SETTINGS_KEEP_MAX, &keep);
	read_number(settings, get, "HEAPCTL_KEEP_BYTES", 0, UINT64_MAX, &settings->keep_bytes);
	settings->keep = (unsigned)keep;
	read_number(settings, get, "HEAPCTL_SAMPLE", 1, UINT64_C(1) << 40, &sample);
	settings->lg_sample = 63 - (unsigned)__builtin_clzll(sample);
	settings->disabled = read_switch(get("HEAPCTL_DISABLE"));
	settings->activate = read_switch(get("HEAPCTL_ACTIVATE"));
	settings->mapped = read_switch(get("HEAPCTL_MAPPED"));
	settings->on_demand = read_word(settings, get, "HEAPCTL_THREAD", on_demand) == 0;
	settings->children = read_children(settings, get);
	settings->log_to_stderr = read_word(settings, get, "HEAPCTL_LOG", to_stderr) == 0;
	settings->jemalloc_stacks = read_word(settings, get, "HEAPCTL_UNWINDER", by_jemalloc) == 0;
	settings->no_sampler = read_word(settings, get, "HEAPCTL_SAMPLER", no) == 0;
	read_identity(settings, get);
}
