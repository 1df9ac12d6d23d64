/* SPDX-License-Identifier: Apache-2.0 */
#include "store/identity.h"

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

/* Where a value is kept, and how much of it. */
struct identity_place {
	char *text; /* NULL for one label too many */
	size_t size;
	const char **source;
};

static struct identity_place place_of_label(struct snapshot_identity *identity, const char *name)
{
	struct identity_label *label = NULL;

	for (size_t i = 0; i < identity->label_count && label == NULL; i++)
		if (strcmp(identity->labels[i].name, name) == 0)
			label = &identity->labels[i];
	if (label == NULL && identity->label_count == IDENTITY_LABELS)
		return (struct identity_place){ 0 };
	if (label == NULL) {
		label = &identity->labels[identity->label_count++];
		snprintf(label->name, sizeof label->name, "%s", name);
	}
	return (struct identity_place){ label->value, sizeof label->value, &label->source };
}

static struct identity_place place_of(struct snapshot_identity *identity, const char *name)
{
	if (strcmp(name, "service") == 0)
		return (struct identity_place){ identity->service, sizeof identity->service,
			&identity->service_source };
	if (strcmp(name, "version") == 0)
		return (struct identity_place){ identity->version, sizeof identity->version,
			&identity->version_source };
	if (strcmp(name, "host") == 0)
		return (struct identity_place){ identity->host, sizeof identity->host,
			&identity->host_source };
	return place_of_label(identity, name);
}

bool identity_set(
	struct snapshot_identity *identity, const char *name, const char *value, struct error *err)
{
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
	const struct identity_place place = place_of(identity, name);
	if (place.text == NULL)
		return error_set(err, ERROR_USAGE, "more than %d labels", IDENTITY_LABELS);
	if (strlen(value) >= place.size)
		return error_set(err, ERROR_USAGE, "the value of %s has more than %zu bytes", name,
			place.size - 1);
	if (place.text[0] == '\0') {
		snprintf(place.text, place.size, "%s", value);
		*place.source = identity->source;
	}
	return true;
}

bool identity_set_label(struct snapshot_identity *identity, const char *label, struct error *err)
{
	const char *const equals = strchr(label, '=');

	if (equals == NULL) {
		error_set(err, ERROR_USAGE, "\"%.80s\" has no value", label);
		return error_hint(err, "write NAME=VALUE");
	}
	CLEANUP(free_cleanup) char *name = xstrndup(label, (size_t)(equals - label));
	return identity_set(identity, name, equals + 1, err);
}

bool identity_set_labels(struct snapshot_identity *identity, const char *labels, struct error *err)
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

void identity_set_found(struct snapshot_identity *identity, const char *name, const char *value)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (value == NULL || value[0] == '\0')
		return;
	utf8_append_printable(&text, value, strlen(value));
	const struct identity_place place = place_of(identity, name);
	if (place.text == NULL || place.text[0] != '\0')
		return;
	snprintf(place.text, place.size, "%.*s",
		(int)whole_characters(buffer_string(&text), place.size - 1), buffer_string(&text));
	*place.source = identity->source;
}

void identity_set_found_labels(struct snapshot_identity *identity, const char *labels)
{
	CLEANUP(free_cleanup) char *copy = xstrdup(labels);
	char *rest = copy;

	for (char *label; (label = strsep(&rest, ",")) != NULL;) {
		char *const equals = strchr(label, '=');
		if (equals == NULL)
			continue;
		*equals = '\0';
		if (is_name(label) && strlen(label) < sizeof identity->labels[0].name)
			identity_set_found(identity, label, equals + 1);
	}
}

void identity_join_labels(const struct snapshot_identity *identity, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < identity->label_count; i++) {
		const struct identity_label *const label = &identity->labels[i];
		const size_t needed = strlen(label->name) + strlen(label->value) + 2;
		if (needed >= size - used || strchr(label->value, ',') != NULL)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s=%s", used == 0 ? "" : ",",
			label->name, label->value);
	}
}
