/* SPDX-License-Identifier: Apache-2.0 */
#include "render/renderers.h"

#include <string.h>

#include "base/utf8.h"
#include "render/assets.h"
#include "render/flame_data.h"

static void append_html(struct buffer *out, const char *text)
{
	const char *const end = text + strlen(text);

	while (text < end) {
		const size_t length = utf8_length(text, (size_t)(end - text));
		if (length == 0)
			buffer_append_string(out, UTF8_REPLACEMENT);
		else if (*text == '<')
			buffer_append_string(out, "&lt;");
		else if (*text == '&')
			buffer_append_string(out, "&amp;");
		else
			buffer_append(out, text, length);
		text += length == 0 ? 1 : length;
	}
}

bool render_flame(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	(void)err;
	buffer_append_string(out, flame_page_head);
	append_html(out, view->title[0] == '\0' ? "heap profile" : view->title);
	buffer_append_string(out, view->is_difference ? " - what changed" : " - flame graph");
	buffer_append_string(out, flame_page_middle);
	flame_data_write(view, options, out);
	buffer_append_string(out, flame_page_tail);
	return true;
}

bool render_flame_data(const struct view *view, const struct render_options *options,
	struct buffer *out, struct error *err)
{
	(void)err;
	flame_data_write(view, options, out);
	return true;
}
