/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/identity.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/xalloc.h"

static bool is_name(const char *name)
{
	for (const char *at = name; *at != '\0'; at++)
		if (!isalnum((unsigned char)*at) && *at != '_')
			return false;
	return name[0] != '\0' && !isdigit((unsigned char)name[0]);
}

/* Where the value is kept, and how much of it; NULL for one label too many. */
static char *place_of(struct fleet_identity *identity, const char *name, size_t *size)
{
	if (strcmp(name, "service") == 0) {
		*size = sizeof identity->service;
		return identity->service;
	}
	if (strcmp(name, "version") == 0) {
		*size = sizeof identity->version;
		return identity->version;
	}
	if (strcmp(name, "host") == 0) {
		*size = sizeof identity->host;
		return identity->host;
	}
	*size = sizeof identity->labels[0].value;
	for (size_t i = 0; i < identity->label_count; i++)
		if (strcmp(identity->labels[i].name, name) == 0)
			return identity->labels[i].value;
	if (identity->label_count == IDENTITY_LABELS)
		return NULL;
	struct fleet_label *const label = &identity->labels[identity->label_count++];
	snprintf(label->name, sizeof label->name, "%s", name);
	return label->value;
}

bool identity_set(
	struct fleet_identity *identity, const char *name, const char *value, struct error *err)
{
	size_t size = 0;

	if (!is_name(name) || strlen(name) >= sizeof identity->labels[0].name) {
		error_set(err, ERROR_USAGE, "\"%.80s\" is not the name of a label", name);
		return error_hint(err, "it begins with a letter, and has letters, digits and "
				       "underscores");
	}
	if (value[0] == '\0' || !utf8_is_printable(value, strlen(value)))
		return error_set(err, ERROR_USAGE, "the value of %s is %s", name,
			value[0] == '\0' ? "empty" : "not printable");
	/* Too long for any, so that no label is begun in vain. */
	if (strlen(value) >= sizeof identity->labels[0].value)
		return error_set(err, ERROR_USAGE, "the value of %s has more than %zu bytes", name,
			sizeof identity->labels[0].value - 1);
	char *const place = place_of(identity, name, &size);
	if (place == NULL)
		return error_set(err, ERROR_USAGE, "more than %d labels", IDENTITY_LABELS);
	if (strlen(value) >= size)
		return error_set(err, ERROR_USAGE, "the value of %s has more than %zu bytes", name,
			size - 1);
	if (place[0] == '\0')
		snprintf(place, size, "%s", value);
	return true;
}

bool identity_set_label(struct fleet_identity *identity, const char *label, struct error *err)
{
	const char *const equals = strchr(label, '=');

	if (equals == NULL) {
		error_set(err, ERROR_USAGE, "\"%.80s\" has no value", label);
		return error_hint(err, "write NAME=VALUE");
	}
	CLEANUP(free_cleanup) char *name = xstrndup(label, (size_t)(equals - label));
	return identity_set(identity, name, equals + 1, err);
}

bool identity_set_labels(struct fleet_identity *identity, const char *labels, struct error *err)
{
	CLEANUP(free_cleanup) char *copy = xstrdup(labels);
	char *rest = copy;

	for (const char *label; (label = strsep(&rest, ",")) != NULL;)
		if (label[0] != '\0' && !identity_set_label(identity, label, err))
			return false;
	return true;
}

/* The largest size up to `limit` that ends between two characters. */
static size_t whole_characters(const char *text, size_t limit)
{
	size_t at = 0;

	while (text[at] != '\0') {
		const size_t length = utf8_length(text + at, strlen(text + at));
		if (at + (length == 0 ? 1 : length) > limit)
			break;
		at += length == 0 ? 1 : length;
	}
	return at;
}

void identity_set_found(struct fleet_identity *identity, const char *name, const char *value)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	size_t size = 0;

	if (value == NULL || value[0] == '\0')
		return;
	utf8_append_printable(&text, value, strlen(value));
	char *const place = place_of(identity, name, &size);
	if (place != NULL && place[0] == '\0')
		snprintf(place, size, "%.*s", (int)whole_characters(buffer_string(&text), size - 1),
			buffer_string(&text));
}
