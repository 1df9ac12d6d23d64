/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/function_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* Whether the word "operator" is here, at the start of a word. */
static bool is_operator(const char *name, const char *at)
{
	return starts_with(at, "operator") && !is_word(at[8]) && (at == name || !is_word(at[-1]));
}

/*
 * Steps over "operator" and its symbol, so that its brackets are not taken for others: "operator()"
 * and "operator<<", but also "operator new[]" and the type in "operator std::pair<int, int>".
 */
static const char *skip_operator(const char *at)
{
	at += strlen("operator");
	if (starts_with(at, "()") || starts_with(at, "[]"))
		return at + 2;
	/* A literal operator: operator"" _km. */
	if (starts_with(at, "\"\" "))
		return at + 3;
	if (*at == ' ') {
		int depth = 0;
		for (; *at != '\0' && (depth > 0 || *at != '('); at++)
			depth += (*at == '<') - (*at == '>');
		return at;
	}
	const char *const symbol = at;
	at += strspn(at, "<>=+-*/%^&|~!,");
	/* The last < of "operator<< <int>" or "operator==<int>" begins the template arguments. */
	if (at - symbol > 1 && at[-1] == '<' && at[-2] != '<' && *at != '(')
		at--;
	/* That blank keeps the symbol and the template arguments apart. */
	return at[0] == ' ' && at[1] == '<' ? at + 1 : at;
}

/* The end of the bracketed group that begins at `at`, one past its closing bracket. */
static const char *skip_group(const char *name, const char *at)
{
	static const char opening[] = "([{<";
	static const char closing[] = ")]}>";
	int depth = 0;

	while (*at != '\0') {
		if (is_operator(name, at)) {
			const char *const after = skip_operator(at);
			if (after > at) {
				at = after;
				continue;
			}
		}
		if (strchr(opening, *at) != NULL)
			depth++;
		else if (strchr(closing, *at) != NULL &&
			 !(*at == '>' && at > name && at[-1] == '-'))
			depth--;
		at++;
		if (depth == 0)
			break;
	}
	return at;
}

static bool ends_with_word(const char *name, const char *end, const char *word)
{
	const size_t size = strlen(word);
	const size_t available = (size_t)(end - name);

	return available >= size && memcmp(end - size, word, size) == 0 &&
	       (available == size || !is_word(name[available - size - 1]));
}

static bool ends_with_operator(const char *name, const char *end)
{
	while (end > name && strchr("<>=+-*/%^&|~!,", end[-1]) != NULL)
		end--;
	return ends_with_word(name, end, "operator");
}

/* Whether the round bracket at `at` opens a list of arguments. */
static bool opens_arguments(const char *name, const char *at)
{
	if (at == name || starts_with(at, "(anonymous") || ends_with_word(name, at, "decltype"))
		return false;
	const char before = at[-1];
	return is_word(before) || strchr(">)]}", before) != NULL || ends_with_operator(name, at);
}

static const char *skip_qualifiers(const char *at)
{
	static const char *const qualifiers[] = { " const", " volatile", " &&", " &", "&&", "&" };

	for (size_t i = 0; i < sizeof qualifiers / sizeof qualifiers[0]; i++) {
		const size_t size = strlen(qualifiers[i]);
		if (starts_with(at, qualifiers[i]) && !is_word(at[size])) {
			at += size;
			i = (size_t)-1;
		}
	}
	return at;
}

/* NULL where there is none. A class is "Lname;", or "Lname|" in collapsed stacks. */
static const char *skip_jvm_type(const char *at)
{
	at += strspn(at, "[");
	if (*at == 'L') {
		at += strcspn(at, ";|)");
		return *at == ';' || *at == '|' ? at + 1 : NULL;
	}
	return *at != '\0' && strchr("BCDFIJSVZ", *at) != NULL ? at + 1 : NULL;
}

/*
 * A method's descriptor, "(II)I" of "indexOf(II)I" (JVM specification, section 4.3.3). Profilers
 * may add a line (":12") or how the frame was compiled ("_[j]"). NULL where there is none.
 */
static const char *skip_jvm_descriptor(const char *at)
{
	const char *end = at + 1;

	while (end != NULL && *end != ')')
		end = skip_jvm_type(end);
	if (end != NULL)
		end = skip_jvm_type(end + 1);
	return end != NULL && (*end == '\0' || *end == ':' || starts_with(end, "_[")) ? end : NULL;
}

/* "vtable for X", "non-virtual thunk to X": what is there is not the result's type. */
static bool has_prefix_words(const char *name)
{
	return strstr(name, " for ") != NULL || strstr(name, " to ") != NULL;
}

/*
 * As where other languages name a function and its place: "block (2 levels) in load (app.rb)". A
 * place is behind a blank, and may have brackets itself.
 */
static bool lacks_arguments(const char *name)
{
	for (const char *at = strchr(name, '('); at != NULL; at = strchr(at + 1, '(')) {
		if (at > name && at[-1] == ' ' && *skip_group(name, at) == '\0')
			return true;
		if (opens_arguments(name, at))
			return false;
	}
	return true;
}

void function_name_append_short(struct buffer *out, const char *name)
{
	const size_t start = out->size;
	const bool has_result = !has_prefix_words(name) && !lacks_arguments(name);
	bool had_arguments = false;

	for (const char *at = name; *at != '\0';) {
		const char *after = at + 1;
		if (is_operator(name, at)) {
			after = skip_operator(at);
		} else if (*at == '(' && opens_arguments(name, at)) {
			const char *const end = skip_jvm_descriptor(at);
			at = end != NULL ? end : skip_qualifiers(skip_group(name, at));
			had_arguments = true;
			continue;
		} else if (strchr("([{<", *at) != NULL) {
			after = skip_group(name, at);
		} else if (*at == ' ' && !had_arguments && has_result && strchr(at, '(') != NULL) {
			/* What came before was the type of the result. */
			out->size = start;
			at++;
			continue;
		}
		buffer_append(out, at, (size_t)(after - at));
		at = after;
	}
	if (out->size == start)
		buffer_append_string(out, name);
}

/* Appends `name` without groups between `open` and `close`; a lone bracket stays. */
static void append_without(struct buffer *out, const char *name, size_t size, char open, char close)
{
	const size_t start = out->size;

	for (size_t i = 0; i < size; i++) {
		if (name[i] != close) {
			buffer_append_char(out, name[i]);
			continue;
		}
		size_t at = out->size;
		while (at > start && out->data[at - 1] != open)
			at--;
		if (at == start) {
			buffer_append_char(out, close);
			continue;
		}
		out->size = at - 1;
		if (open == '(' && strncmp(name + i + 1, " const", 6) == 0)
			i += 6;
	}
}

void function_name_append_bare(struct buffer *out, const char *name)
{
	struct buffer without_arguments;

	buffer_init(&without_arguments, out->memory);
	append_without(&without_arguments, name, strlen(name), '(', ')');
	const size_t start = out->size;
	append_without(out, without_arguments.data == NULL ? "" : without_arguments.data,
		without_arguments.size, '<', '>');
	buffer_deinit(&without_arguments);

	/* A leading type ends where the last "word::" after a blank begins. */
	for (size_t at = out->size; at-- > start;) {
		if (!isspace((unsigned char)out->data[at]))
			continue;
		size_t end = at + 1;
		while (end < out->size &&
			(isalnum((unsigned char)out->data[end]) || out->data[end] == '_'))
			end++;
		if (end > at + 1 && end + 1 < out->size && out->data[end] == ':' &&
			out->data[end + 1] == ':') {
			memmove(out->data + start, out->data + at + 1, out->size - at - 1);
			out->size -= at + 1 - start;
			break;
		}
	}
}
