/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/module.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

struct symbol_module *module_new(
	const struct symbolizer_options *options, const struct symbol_mapping *mapping)
{
	struct symbol_module *const module = xcalloc(1, sizeof *module);

	string_pool_init(&module->strings);
	arena_init(&module->arena);
	module->options = options;
	module->path = module_keep(module, mapping->path);
	module->build_id = module_keep(module, mapping->build_id);
	module->file = mapping->file == NULL ? NULL : module_keep(module, mapping->file);
	module->pid = mapping->pid;
	module->deleted = mapping->deleted;
	module->report = (struct symbol_module_report){
		.path = module->path,
		.file = "",
		.debug_file = "",
		.build_id = module->build_id,
		.problem = "",
		.hint = "",
	};
	return module;
}

void module_free(struct symbol_module *module)
{
	if (module == NULL)
		return;
	for (size_t i = 0; i < module->cache_count; i++) {
		symbol_cache_deinit(module->caches[i]);
		free(module->caches[i]);
	}
	free(module->caches);
	string_pool_deinit(&module->strings);
	arena_deinit(&module->arena);
	for (size_t i = 0; i < module->text_count; i++)
		free(module->texts[i]);
	free(module->texts);
	free(module->queries);
	free(module);
}

bool module_owns(const struct symbol_module *module, const struct symbol_mapping *mapping)
{
	const bool has_file = mapping->file != NULL;

	return module->pid == mapping->pid && module->deleted == mapping->deleted &&
	       strcmp(module->path, mapping->path) == 0 &&
	       strcmp(module->build_id, mapping->build_id) == 0 &&
	       (module->file != NULL) == has_file &&
	       (!has_file || strcmp(module->file, mapping->file) == 0);
}
