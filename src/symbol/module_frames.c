/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/module_frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/demangle.h"

/* The name of a frame while its linkage name waits to be demangled. */
struct pending_frame {
	struct symbol_frame *frame;
	uint32_t name; /* in the name table */
};

struct pending {
	struct name_table names;
	struct pending_frame *frames;
	size_t count, capacity;
	struct text_map texts; /* frames share them */
};

/* Texts may overlap, so that all of them together are far longer than the file. */
static bool pay_for_texts(struct symbol_module *module, uint64_t read_before)
{
	enum { BYTES_AT_ONCE = 8 };

	return module->strings.read_bytes == read_before ||
	       work_budget_spend(&module->work->search.budget,
		       (module->strings.read_bytes - read_before) / BYTES_AT_ONCE);
}

static const char *keep(struct symbol_module *module, struct pending *pending, const char *text)
{
	const uint64_t before = module->strings.read_bytes;
	const char *const kept = text_map_add(&pending->texts, &module->strings, text);

	return pay_for_texts(module, before) ? kept : "";
}

/*
 * A mangled name takes precedence, because it tells overloads and instances apart; a plain one
 * ("__GI___libc_malloc") does not: the source's name says more.
 */
static void set_name(struct symbol_module *module, struct pending *pending,
	struct symbol_frame *frame, const char *linkage, const char *name)
{
	frame->function = keep(module, pending, name);
	frame->linkage_name = "";
	if (linkage[0] == '\0' || work_budget_is_spent(&module->work->search.budget))
		return;
	const uint64_t before = module->strings.read_bytes;
	pending->frames = xgrow(
		pending->frames, &pending->capacity, pending->count + 1, sizeof *pending->frames);
	pending->frames[pending->count++] =
		(struct pending_frame){ frame, name_table_add(&pending->names, linkage) };
	(void)pay_for_texts(module, before);
}

static struct symbol_frame *new_frames(
	struct module_query *query, struct arena *arena, size_t count)
{
	struct symbol_frame *const frames =
		arena_alloc(arena, count * sizeof *frames, _Alignof(struct symbol_frame));

	query->frames = frames;
	query->frame_count = count;
	return frames;
}

/* What DWARF knows, with the symbol table's name for a function that DWARF has no full name of. */
static void take_answer(struct symbol_module *module, struct pending *pending, size_t i,
	const struct dwarf_answer *answer)
{
	struct module_work *const work = module->work;
	const char *const symbol = work->matches[i].name;
	struct symbol_frame *const frames =
		new_frames(work->queries[i], &module->arena, answer->frame_count);

	for (uint32_t j = 0; j < answer->frame_count; j++) {
		const struct dwarf_frame *const from = &answer->frames[j];
		const bool is_outermost = j + 1 == answer->frame_count;
		const char *linkage = from->linkage;
		/* gcc's name, in DWARF 2, for the cold part of a function: the linker has a better.
		 */
		const bool is_part = strncmp(from->name, "__second_sect_of_", 17) == 0;
		const char *const name = is_part && symbol != NULL ? "" : from->name;
		frames[j].file = keep(module, pending, from->file);
		frames[j].line = from->line;
		frames[j].start_line = from->start_line;
		if (is_outermost && linkage[0] == '\0' && symbol != NULL &&
			(name[0] == '\0' || demangle_wanted(symbol)))
			linkage = symbol;
		set_name(module, pending, &frames[j], linkage, name);
	}
}

static void take_match(struct symbol_module *module, struct pending *pending, size_t i)
{
	struct module_work *const work = module->work;

	if (work->matches[i].name == NULL)
		return;
	struct symbol_frame *const frame = new_frames(work->queries[i], &module->arena, 1);
	*frame = (struct symbol_frame){ .file = "" };
	set_name(module, pending, frame, work->matches[i].name, "");
}

static void demangle(struct symbol_module *module, struct name_table *names)
{
	CLEANUP(free_cleanup) char **texts = NULL;
	size_t count = 0;

	name_table_demangle(names, module->options->threads, &texts, &count);
	module->texts = xgrow(
		module->texts, &module->text_capacity, module->text_count + count, sizeof(char *));
	if (count != 0)
		memcpy(module->texts + module->text_count, texts, count * sizeof(char *));
	module->text_count += count;
}

void module_build_frames(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	const struct dwarf_answer *const answers =
		work->dwarf == NULL ? NULL : dwarf_answers(work->dwarf);
	struct pending pending = { 0 };

	name_table_init(&pending.names, &module->strings, &work->search.budget);
	text_map_init(&pending.texts);
	for (size_t i = 0; i < work->count; i++) {
		if (answers != NULL && answers[i].frame_count != 0)
			take_answer(module, &pending, i, &answers[i]);
		else
			take_match(module, &pending, i);
	}
	/* The cache keeps both. */
	if (!module->options->no_demangle || module->subject != NULL)
		demangle(module, &pending.names);
	for (size_t i = 0; i < pending.count; i++) {
		const struct name *const name = &pending.names.names[pending.frames[i].name];
		struct symbol_frame *const frame = pending.frames[i].frame;
		frame->linkage_name = name->linkage;
		if (name->function[0] != '\0')
			frame->function = name->function;
		else if (frame->function[0] == '\0')
			frame->function = name->linkage;
	}
	name_table_deinit(&pending.names);
	text_map_deinit(&pending.texts);
	free(pending.frames);
}

void module_add_named_frame(struct symbol_module *module, struct module_query *query,
	const char *name, size_t name_size)
{
	struct symbol_frame *const frame = new_frames(query, &module->arena, 1);

	*frame = (struct symbol_frame){
		.function = string_pool_add_sized(&module->strings, name, name_size),
		.linkage_name = "",
		.file = "",
	};
}

void module_forget_demangled(struct symbol_module *module)
{
	for (size_t i = 0; i < module->query_count; i++) {
		struct module_query *const query = &module->queries[i];
		const struct symbol_frame *const old = query->frames;
		struct symbol_frame *const frames =
			new_frames(query, &module->arena, query->frame_count);
		for (size_t j = 0; j < query->frame_count; j++) {
			frames[j] = old[j];
			if (frames[j].linkage_name[0] != '\0')
				frames[j].function = frames[j].linkage_name;
		}
	}
}
