/* SPDX-License-Identifier: Apache-2.0 */
/* The page for people: files that are built in; nothing comes from elsewhere. */
#include <stdio.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/xalloc.h"
#include "gateway/handlers.h"
#include "gateway/web_assets.h"
#include "render/assets.h"
#include "wire/http_target.h"

/* Scripts and styles only as files of this very gateway; pictures also from memory. */
static const char page_policy[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* What the flame graph brings along. */
static const struct web_asset flame_assets[] = {
	{ "flame.js", "text/javascript; charset=utf-8", flame_script, sizeof flame_script - 1 },
	{ "flame.css", "text/css; charset=utf-8", flame_style, sizeof flame_style - 1 },
	{ 0 },
};

static const struct web_asset *find_in(const struct web_asset *assets, const char *name)
{
	for (const struct web_asset *asset = assets; asset->name != NULL; asset++) {
		if (strcmp(asset->name, name) == 0)
			return asset;
	}
	return NULL;
}

static const struct web_asset *find_asset(const char *name)
{
	const struct web_asset *const asset = find_in(web_assets, name);

	return asset != NULL ? asset : find_in(flame_assets, name);
}

/* A browser that has this very file is told so. */
static void reply_asset(
	const struct request *request, const struct web_asset *asset, struct reply *reply)
{
	struct buffer body;
	char tag[32];

	snprintf(tag, sizeof tag, "\"%016llx\"",
		(unsigned long long)hash_fixed_bytes(asset->data, asset->size));
	buffer_init(&body, &memory_or_exit);
	const bool is_known = strcmp(request->if_none_match, tag) == 0;
	if (!is_known)
		buffer_append(&body, asset->data, asset->size);
	reply_buffer(reply, is_known ? 304 : 200, asset->media_type, &body);
	reply->policy = page_policy;
	reply->may_be_cached = true;
	reply_header(reply, "ETag", "%s", tag);
	reply_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
	buffer_deinit(&body);
}

void page_root(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	(void)gateway;
	if (request->target_name == NULL) {
		reply_asset(request, find_asset("index.html"), reply);
		return;
	}
	struct buffer url;

	buffer_init(&url, &memory_or_exit);
	buffer_append_string(&url, "/#/");
	http_append_encoded(&url, request->target_name);
	reply_text(reply, 302, "%s\n", buffer_string(&url));
	reply_header(reply, "Location", "%s", buffer_string(&url));
	buffer_deinit(&url);
}

void page_asset(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	const char *const name = request_text(request, "file");
	const struct web_asset *const asset = find_asset(name);
	struct error err = { 0 };

	(void)gateway;
	if (asset != NULL) {
		reply_asset(request, asset, reply);
		return;
	}
	error_set(&err, ERROR_NOT_FOUND, "the page has no file '%.60s'", name);
	reply_error(reply, &err);
}
