/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash_index.h"
#include "base/string_pool.h"
#include "base/xalloc.h"

enum { ABANDONED_SECONDS = 3600 };

static const char suffix[] = ".sym";

bool symbol_cache_prepare(const char *path)
{
	CLEANUP(free_cleanup) char *partial = xstrdup(path);
	struct stat status;

	if (stat(path, &status) != 0) {
		for (char *slash = partial + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
			*slash = '\0';
			(void)mkdir(partial, 0700);
			*slash = '/';
		}
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return false;
		if (stat(path, &status) != 0)
			return false;
	}
	return S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

struct kept_file {
	char *name;
	uint64_t size;
	time_t modified;
};

struct file_list {
	struct kept_file *files;
	size_t count, capacity;
	uint64_t bytes;
};

static int compare_age(const void *a, const void *b)
{
	const struct kept_file *const left = a;
	const struct kept_file *const right = b;

	return left->modified < right->modified ? -1 : left->modified > right->modified;
}

/* Our files end in ".sym"; while being written a random part follows. */
static bool is_ours(const char *name, bool *is_temporary)
{
	const char *const at = strstr(name, suffix);

	if (at == NULL)
		return false;
	*is_temporary = at[sizeof suffix - 1] != '\0';
	return true;
}

static void list_files(DIR *directory, struct file_list *list)
{
	const time_t now = time(NULL);
	const int fd = dirfd(directory);

	for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		struct stat status;
		bool is_temporary = false;
		if (!is_ours(entry->d_name, &is_temporary) ||
			fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
			!S_ISREG(status.st_mode))
			continue;
		if (is_temporary) {
			if (status.st_mtime + ABANDONED_SECONDS < now)
				(void)unlinkat(fd, entry->d_name, 0);
			continue;
		}
		*XAPPEND(list->files, list->count, list->capacity) = (struct kept_file){
			.name = xstrdup(entry->d_name),
			.size = (uint64_t)status.st_size,
			.modified = status.st_mtime,
		};
		list->bytes += (uint64_t)status.st_size;
	}
}

void symbol_cache_trim(const char *path, size_t limit)
{
	DIR *const directory = opendir(path);
	struct file_list list = { 0 };

	if (directory == NULL)
		return;
	list_files(directory, &list);
	if (list.bytes > limit)
		qsort(list.files, list.count, sizeof *list.files, compare_age);
	for (size_t i = 0; i < list.count; i++) {
		if (list.bytes > limit && unlinkat(dirfd(directory), list.files[i].name, 0) == 0)
			list.bytes -= list.files[i].size;
		free(list.files[i].name);
	}
	free(list.files);
	closedir(directory);
}

enum { VERSION = 5, REFRESH_SECONDS = 24 * 3600 };

static const char magic[8] = "heapsym";

/* Texts are offsets into the last part of the file. */
struct header {
	char magic[8];
	uint32_t version;
	uint32_t source;
	uint64_t size;	   /* of the whole file */
	uint64_t checksum; /* of everything, with a 0 in its own place */
	uint64_t options_hash;
	uint32_t reserved;
	uint32_t answer_count;
	uint32_t frame_count;
	uint32_t probe_count;
	uint32_t segment_count;
	uint32_t text_size;
	uint32_t subject;
	uint32_t file;
	uint32_t debug_file;
	uint32_t build_id;
	uint32_t problem;
	uint32_t hint;
};

/* The parts after the header, in this order. */
struct stored_answer {
	uint64_t file_offset;
	uint32_t first_frame;
	uint32_t frame_count;
	uint64_t into_function;
};

struct stored_probe {
	struct file_identity identity;
	uint64_t path;
};

struct stored_segment {
	uint64_t offset;
	uint64_t file_bytes;
	uint64_t vaddr;
	uint64_t memory_bytes;
	uint64_t executable;
};

struct stored_frame {
	uint32_t function;
	uint32_t linkage_name;
	uint32_t file;
	uint32_t line;
	uint32_t start_line;
};

static char *path_of(const char *directory, const char *subject)
{
	return xasprintf("%s/%016llx.sym", directory,
		(unsigned long long)hash_fixed_bytes(subject, strlen(subject)));
}

/* Four sums side by side, since a processor can do that much at once. */
static uint64_t checksum(const char *data, size_t size)
{
	uint64_t sums[4] = { size, 1, 2, 3 };
	uint64_t words[4];
	size_t at = 0;

	for (; size - at >= sizeof words; at += sizeof words) {
		memcpy(words, data + at, sizeof words);
		for (int i = 0; i < 4; i++)
			sums[i] = (sums[i] ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		/* The highest bits have no other way down. */
		for (int i = 0; i < 4; i++)
			sums[i] ^= sums[i] >> 32;
	}
	const uint64_t rest = hash_fixed_bytes(data + at, size - at);
	return hash_fixed_combine(hash_fixed_combine(sums[0], sums[1]),
		hash_fixed_combine(hash_fixed_combine(sums[2], sums[3]), rest));
}

static uint64_t checksum_of(const struct header *header, const char *rest)
{
	struct header blank = *header;

	blank.checksum = 0;
	return hash_fixed_combine(checksum((const char *)&blank, sizeof blank),
		checksum(rest, header->size - sizeof *header));
}

/* The parts of a file that was read. */
struct parts {
	const struct header *header;
	const struct stored_answer *answers;
	const struct stored_probe *probes;
	const struct stored_segment *segments;
	const struct stored_frame *frames;
	struct elf_bytes texts;
};

static bool find_parts(const struct buffer *contents, struct parts *parts)
{
	if (contents->size < sizeof(struct header))
		return false;
	const struct header *const header = (const void *)contents->data;
	const char *const at = contents->data + sizeof *header;
	if (memcmp(header->magic, magic, sizeof magic) != 0 || header->version != VERSION ||
		header->size != contents->size)
		return false;
	const uint64_t answer_bytes = header->answer_count * sizeof(struct stored_answer);
	const uint64_t probe_bytes = header->probe_count * sizeof(struct stored_probe);
	const uint64_t segment_bytes = header->segment_count * sizeof(struct stored_segment);
	const uint64_t frame_bytes = header->frame_count * sizeof(struct stored_frame);
	if (sizeof *header + answer_bytes + probe_bytes + segment_bytes + frame_bytes +
			header->text_size !=
		contents->size)
		return false;
	parts->header = header;
	parts->answers = (const void *)at;
	parts->probes = (const void *)(at + answer_bytes);
	parts->segments = (const void *)(at + answer_bytes + probe_bytes);
	parts->frames = (const void *)(at + answer_bytes + probe_bytes + segment_bytes);
	parts->texts = elf_text_table(
		contents->data + contents->size - header->text_size, header->text_size);
	return checksum_of(header, at) == header->checksum;
}

/* The entry's arrays in one block: answers, probes, segments, frames. */
static bool build_tables(const struct parts *parts, struct symbol_cache *cache)
{
	const struct header *const header = parts->header;
	struct symbol_cache_entry *const entry = &cache->entry;
	const size_t bytes = header->answer_count * sizeof(struct symbol_cache_answer) +
			     header->probe_count * sizeof(struct file_probe) +
			     header->segment_count * sizeof(struct elf_segment) +
			     header->frame_count * sizeof(struct symbol_frame);

	cache->tables = xmalloc(bytes);
	entry->answers = cache->tables;
	entry->answer_count = header->answer_count;
	entry->probes = (void *)(entry->answers + header->answer_count);
	entry->probe_count = header->probe_count;
	entry->segments = (void *)(entry->probes + header->probe_count);
	entry->segment_count = header->segment_count;
	struct symbol_frame *const frames = (void *)(entry->segments + header->segment_count);

	for (uint32_t i = 0; i < header->frame_count; i++) {
		const struct stored_frame *const from = &parts->frames[i];
		frames[i] = (struct symbol_frame){
			.function = elf_text_at(&parts->texts, from->function),
			.linkage_name = elf_text_at(&parts->texts, from->linkage_name),
			.file = elf_text_at(&parts->texts, from->file),
			.line = from->line,
			.start_line = from->start_line,
		};
	}
	for (uint32_t i = 0; i < header->answer_count; i++) {
		const struct stored_answer *const from = &parts->answers[i];
		if (from->first_frame > header->frame_count ||
			from->frame_count > header->frame_count - from->first_frame)
			return false;
		entry->answers[i] =
			(struct symbol_cache_answer){ from->file_offset, frames + from->first_frame,
				from->frame_count, (uint32_t)from->into_function };
	}
	for (uint32_t i = 0; i < header->probe_count; i++) {
		const char *const path = elf_text_at(&parts->texts, parts->probes[i].path);
		entry->probes[i] =
			(struct file_probe){ (char *)(uintptr_t)path, parts->probes[i].identity };
	}
	for (uint32_t i = 0; i < header->segment_count; i++) {
		const struct stored_segment *const from = &parts->segments[i];
		entry->segments[i] = (struct elf_segment){ from->offset, from->file_bytes,
			from->vaddr, from->memory_bytes, from->executable != 0 };
	}
	return true;
}

static bool parse(struct symbol_cache *cache, const char *subject)
{
	struct parts parts;

	if (!find_parts(&cache->contents, &parts))
		return false;
	const struct header *const header = parts.header;
	const struct elf_bytes *const texts = &parts.texts;
	cache->entry = (struct symbol_cache_entry){
		.subject = elf_text_at(texts, header->subject),
		.options_hash = header->options_hash,
		.report = {
			.path = "",
			.file = elf_text_at(texts, header->file),
			.debug_file = elf_text_at(texts, header->debug_file),
			.build_id = elf_text_at(texts, header->build_id),
			.source = (enum symbol_source)header->source,
			.problem = elf_text_at(texts, header->problem),
			.hint = elf_text_at(texts, header->hint),
			.from_cache = true,
		},
	};
	return header->source <= SYMBOL_SOURCE_DWARF &&
	       strcmp(cache->entry.subject, subject) == 0 && build_tables(&parts, cache);
}

/* Files that are used stay younger than those that are not. */
static void refresh(const char *path)
{
	struct stat status;

	if (stat(path, &status) == 0 && status.st_mtime + REFRESH_SECONDS < time(NULL))
		(void)utimensat(AT_FDCWD, path, NULL, 0);
}

bool symbol_cache_read(const char *directory, const char *subject, struct symbol_cache *cache)
{
	CLEANUP(free_cleanup) char *path = path_of(directory, subject);
	struct symbol_cache read = { 0 };
	struct error err;

	/* Read, not mapped: nothing that happens to the file afterwards can hurt. */
	buffer_init(&read.contents, &memory_or_exit);
	read.contents.limit = 2 * (size_t)SYMBOL_CACHE_FILE_LIMIT_BYTES;
	const struct file_identity identity = file_identify(path);
	if (identity.inode == 0 || identity.size > SYMBOL_CACHE_FILE_LIMIT_BYTES)
		return false;
	/* One read, and the one after it that says that this was all. */
	(void)buffer_reserve(&read.contents, identity.size + 2 * 16384);
	if (!file_read(path, &read.contents, &err) || !parse(&read, subject)) {
		symbol_cache_deinit(&read);
		return false;
	}
	refresh(path);
	*cache = read;
	return true;
}

void symbol_cache_deinit(struct symbol_cache *cache)
{
	if (cache->contents.memory != NULL)
		buffer_deinit(&cache->contents);
	free(cache->tables);
	*cache = (struct symbol_cache){ 0 };
}

static int compare_offset(const void *key, const void *item)
{
	const uint64_t wanted = *(const uint64_t *)key;
	const uint64_t offset = ((const struct symbol_cache_answer *)item)->file_offset;

	return wanted < offset ? -1 : wanted > offset;
}

const struct symbol_cache_answer *symbol_cache_find(
	const struct symbol_cache *cache, uint64_t file_offset)
{
	if (cache->entry.answer_count == 0)
		return NULL;
	return bsearch(&file_offset, cache->entry.answers, cache->entry.answer_count,
		sizeof *cache->entry.answers, compare_offset);
}

/* The texts of a file being written, each once. */
struct text_writer {
	/* Many frames share a pointer, and pointers are quicker to compare. */
	struct text_numbers pointers;
	uint32_t *pointer_offsets;
	struct hash_index index;
	struct buffer text;
	uint32_t *offsets; /* of the distinct texts in the order they came */
	size_t pointer_capacity;
	size_t count, capacity;
};

struct text_key {
	const struct text_writer *writer;
	const char *text;
};

static bool is_written(const void *items, uint32_t position, const void *key)
{
	const struct text_key *const wanted = key;
	const uint32_t *const offsets = items;

	return strcmp(wanted->writer->text.data + offsets[position], wanted->text) == 0;
}

static uint32_t write_distinct(struct text_writer *writer, const char *text)
{
	const struct text_key key = { writer, text };
	const uint32_t next = (uint32_t)writer->count;
	const size_t size = strlen(text);
	const uint32_t found = hash_index_add(
		&writer->index, hash_bytes(text, size), is_written, writer->offsets, &key, next);

	if (found != HASH_INDEX_NONE)
		return writer->offsets[found];
	*XAPPEND(writer->offsets, writer->count, writer->capacity) = (uint32_t)writer->text.size;
	const uint32_t offset = (uint32_t)writer->text.size;
	buffer_append(&writer->text, text, size + 1);
	return offset;
}

static uint32_t write_text(struct text_writer *writer, const char *text)
{
	const size_t count = writer->pointers.count;
	const uint32_t number = text_numbers_add(&writer->pointers, text);

	if (number == count) {
		writer->pointer_offsets = xgrow(writer->pointer_offsets, &writer->pointer_capacity,
			count + 1, sizeof *writer->pointer_offsets);
		writer->pointer_offsets[number] = write_distinct(writer, text);
	}
	return writer->pointer_offsets[number];
}

static void write_answers(
	const struct symbol_cache_entry *entry, struct header *header, struct buffer *out)
{
	for (size_t i = 0; i < entry->answer_count; i++) {
		const struct symbol_cache_answer *const answer = &entry->answers[i];
		const struct stored_answer stored = { answer->file_offset, header->frame_count,
			(uint32_t)answer->frame_count, answer->into_function };
		buffer_append(out, &stored, sizeof stored);
		header->frame_count += (uint32_t)answer->frame_count;
	}
	header->answer_count = (uint32_t)entry->answer_count;
}

static void write_files(const struct symbol_cache_entry *entry, struct header *header,
	struct text_writer *texts, struct buffer *out)
{
	for (size_t i = 0; i < entry->probe_count; i++) {
		const struct stored_probe stored = { entry->probes[i].identity,
			write_text(texts, entry->probes[i].path) };
		buffer_append(out, &stored, sizeof stored);
	}
	header->probe_count = (uint32_t)entry->probe_count;
	for (size_t i = 0; i < entry->segment_count; i++) {
		const struct elf_segment *const from = &entry->segments[i];
		const struct stored_segment stored = { from->offset, from->file_bytes, from->vaddr,
			from->memory_bytes, from->executable };
		buffer_append(out, &stored, sizeof stored);
	}
	header->segment_count = (uint32_t)entry->segment_count;
}

static void write_frames(
	const struct symbol_cache_entry *entry, struct text_writer *texts, struct buffer *out)
{
	for (size_t i = 0; i < entry->answer_count; i++)
		for (size_t j = 0; j < entry->answers[i].frame_count; j++) {
			const struct symbol_frame *const frame = &entry->answers[i].frames[j];
			const struct stored_frame stored = {
				.function = write_text(texts, frame->function),
				.linkage_name = write_text(texts, frame->linkage_name),
				.file = write_text(texts, frame->file),
				.line = frame->line,
				.start_line = frame->start_line,
			};
			buffer_append(out, &stored, sizeof stored);
		}
}

static void encode(const struct symbol_cache_entry *entry, struct buffer *out)
{
	const struct symbol_module_report *const report = &entry->report;
	struct text_writer texts = { 0 };

	hash_index_init(&texts.index);
	buffer_init(&texts.text, &memory_or_exit);
	struct header header = {
		.version = VERSION,
		.source = (uint32_t)report->source,
		.options_hash = entry->options_hash,
		.subject = write_text(&texts, entry->subject),
		.file = write_text(&texts, report->file),
		.debug_file = write_text(&texts, report->debug_file),
		.build_id = write_text(&texts, report->build_id),
		.problem = write_text(&texts, report->problem),
		.hint = write_text(&texts, report->hint),
	};
	memcpy(header.magic, magic, sizeof magic);
	buffer_append(out, &header, sizeof header);
	write_answers(entry, &header, out);
	write_files(entry, &header, &texts, out);
	write_frames(entry, &texts, out);
	header.text_size = (uint32_t)texts.text.size;
	buffer_append(out, texts.text.data, texts.text.size);
	header.size = out->size;
	header.checksum = checksum_of(&header, out->data + sizeof header);
	memcpy(out->data, &header, sizeof header);
	text_numbers_deinit(&texts.pointers);
	hash_index_deinit(&texts.index);
	free(texts.pointer_offsets);
	buffer_deinit(&texts.text);
	free(texts.offsets);
}

bool symbol_cache_write(const char *directory, const struct symbol_cache_entry *entry)
{
	CLEANUP(free_cleanup) char *path = path_of(directory, entry->subject);
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	struct error err;

	encode(entry, &out);
	if (out.size > SYMBOL_CACHE_FILE_LIMIT_BYTES)
		return false;
	if (file_write(path, out.data, out.size, 0600, &err))
		symbol_cache_trim(directory, SYMBOL_CACHE_LIMIT_BYTES);
	return true;
}
