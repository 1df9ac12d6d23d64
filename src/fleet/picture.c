/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/picture.h"

#include <jansson.h>
#include <math.h>

#include "base/json_writer.h"
#include "fleet/question_parts.h"

void fleet_picture_init(struct fleet_picture *picture)
{
	*picture = (struct fleet_picture){ .title = "", .subtitle = "" };
	fleet_findings_init(&picture->now);
	fleet_findings_init(&picture->base);
}

void fleet_picture_deinit(struct fleet_picture *picture)
{
	fleet_findings_deinit(&picture->now);
	fleet_findings_deinit(&picture->base);
}

void fleet_picture_set_texts(struct fleet_picture *picture, const char *title, const char *subtitle)
{
	picture->title = string_pool_add(&picture->now.strings, title);
	picture->subtitle = string_pool_add(&picture->now.strings, subtitle);
}

/* Columns of a site, in this order. */
enum { SERVICE, VALUE, VARIANCE, OBJECTS, SAMPLES, FRAMES, COLUMNS };

static void write_site(struct json_writer *json, const struct fleet_finding *finding)
{
	json_array_begin(json);
	json_put_string(json, finding->service);
	json_put_real(json, finding->value);
	json_put_real(json, finding->variance);
	json_put_real(json, finding->objects);
	json_put_real(json, finding->samples);
	json_array_begin(json);
	for (size_t i = 0; i < finding->depth; i++)
		json_put_string(json, finding->frames[i]);
	json_array_end(json);
	json_array_end(json);
}

static void write_side(
	struct json_writer *json, const char *name, const struct fleet_findings *findings)
{
	json_member_object(json, name);
	json_member_real(json, "total", findings->total);
	json_member_real(json, "variance", findings->total_variance);
	json_member_array(json, "sites");
	for (size_t i = 0; i < findings->count; i++)
		write_site(json, &findings->items[i]);
	json_array_end(json);
	json_object_end(json);
}

void fleet_picture_write(const struct fleet_picture *picture, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_string(&json, "title", picture->title);
	json_member_string(&json, "subtitle", picture->subtitle);
	json_member_bool(&json, "services", picture->has_services);
	write_side(&json, "now", &picture->now);
	if (picture->is_difference)
		write_side(&json, "base", &picture->base);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

/* Null where it is unknown. */
static bool is_variance(const json_t *value)
{
	return json_is_number(value) || json_is_null(value);
}

static double variance_of(const json_t *value)
{
	return json_is_null(value) ? NAN : json_number_value(value);
}

static bool is_site(const json_t *site)
{
	const json_t *const frames = json_array_get(site, FRAMES);
	size_t index;
	json_t *frame;

	if (json_array_size(site) != COLUMNS || !json_is_string(json_array_get(site, SERVICE)) ||
		!json_is_array(frames))
		return false;
	for (size_t column = VALUE; column < FRAMES; column++)
		if (!json_is_number(json_array_get(site, column)) &&
			!(column == VARIANCE && is_variance(json_array_get(site, column))))
			return false;
	json_array_foreach(frames, index, frame)
	{
		if (!json_is_string(frame))
			return false;
	}
	return true;
}

static void read_site(struct fleet_findings *findings, const json_t *site)
{
	struct fleet_finding *const finding = question_add_finding(findings);

	finding->service = question_take_text(findings, site, SERVICE);
	finding->value = json_number_value(json_array_get(site, VALUE));
	finding->variance = variance_of(json_array_get(site, VARIANCE));
	finding->objects = json_number_value(json_array_get(site, OBJECTS));
	finding->samples = json_number_value(json_array_get(site, SAMPLES));
	question_take_frames(findings, finding, json_array_get(site, FRAMES));
}

static bool read_side(const json_t *side, struct fleet_findings *findings)
{
	const json_t *const sites = json_object_get(side, "sites");
	size_t index;
	json_t *site;

	if (!json_is_number(json_object_get(side, "total")) ||
		!is_variance(json_object_get(side, "variance")) || !json_is_array(sites))
		return false;
	findings->total = json_number_value(json_object_get(side, "total"));
	findings->total_variance = variance_of(json_object_get(side, "variance"));
	json_array_foreach(sites, index, site)
	{
		if (!is_site(site))
			return false;
		read_site(findings, site);
	}
	return true;
}

static bool read_picture(const json_t *value, struct fleet_picture *picture)
{
	const char *const title = json_string_value(json_object_get(value, "title"));
	const char *const subtitle = json_string_value(json_object_get(value, "subtitle"));
	const json_t *const base = json_object_get(value, "base");

	if (title == NULL || subtitle == NULL ||
		!read_side(json_object_get(value, "now"), &picture->now) ||
		(base != NULL && !read_side(base, &picture->base)))
		return false;
	fleet_picture_set_texts(picture, title, subtitle);
	picture->is_difference = base != NULL;
	picture->has_services = json_is_true(json_object_get(value, "services"));
	return true;
}

bool fleet_picture_read(
	const char *text, size_t size, struct fleet_picture *picture, struct error *err)
{
	json_t *const value = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const bool is_read = value != NULL && read_picture(value, picture);

	json_decref(value);
	return is_read || error_set(err, ERROR_INPUT, "this is no picture of a fleet");
}
