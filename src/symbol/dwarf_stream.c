/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/dwarf_abbrev.h"
#include "symbol/dwarf_claims.h"
#include "symbol/inflate_stream.h"
#include "symbol/work.h"

/* Pieces that are unpacked and not yet read: more would only leave the caches. */
static const size_t MAX_WAITING_BYTES = (size_t)8 << 20;

/* A part of .debug_info that begins where a unit does. */
struct info_piece {
	struct info_piece *next;
	unsigned char *bytes;
	size_t size, capacity;
	uint64_t offset; /* in the section */
	struct dwarf_unit *units;
	size_t unit_count, unit_capacity;
	size_t whole_bytes; /* of these units */
};

struct dwarf_stream {
	const struct dwarf_stream_request *request;
	struct dwarf *dwarf;
	struct dwarf_answer *answers;
	struct arena *arenas;		 /* one per thread */
	struct dwarf_abbrevs_at *tables; /* the last one of each thread */
	struct dwarf_claims claims;

	/* Of the thread that unpacks. */
	struct inflate_stream *inflate;
	struct info_piece
		*filling; /* begins with the unit that the last piece has only a part of */
	uint64_t read_bytes;
	bool has_units;	    /* without any, the whole section says why */
	bool has_all_units; /* the rest is not a unit */
	bool has_padding;   /* and zeros are in front of it, so there may be more units */

	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t changed;
	size_t next_section;
	size_t loaded_sections;
	bool is_prepared;
	bool is_inflating;
	bool is_inflated;
	struct info_piece *waiting, **last_waiting; /* to be read, in the order of the section */
	size_t waiting_bytes;
	struct info_piece *unused;
	bool is_stopped;
	enum dwarf_stream_result result;
	struct error *err;
};

/* Largest first: the others are loaded beside it. .debug_info is not among them. */
static const enum dwarf_section sections[] = {
	DWARF_STR,
	DWARF_LINE,
	DWARF_RNGLISTS,
	DWARF_ABBREV,
	DWARF_RANGES,
	DWARF_ADDR,
	DWARF_STR_OFFSETS,
	DWARF_LINE_STR,
	DWARF_ARANGES,
};

enum { SECTION_COUNT = sizeof sections / sizeof *sections };

bool dwarf_stream_is_possible(const struct elf_image *image, struct elf_packed *info)
{
	struct error ignored; /* reading it as a whole finds it, too */
	char build_id[ELF_BUILD_ID_TEXT_BYTES];

	if (elf_image_alternate_link(image, build_id) != NULL ||
		!elf_image_find_packed(image, ".debug_info", info, &ignored) || info->data == NULL)
		return false;
	return inflate_stream_is_possible(info);
}

/* All tables of most files; of a large one, enough of them to tell dwz from a compiler. */
static const size_t MAX_ABBREV_BYTES = (size_t)256 << 10;

bool dwarf_stream_is_worthwhile(const struct elf_image *image)
{
	const struct elf_section *const section = elf_image_section(image, ".debug_abbrev");
	CLEANUP(free_cleanup) unsigned char *unpacked = NULL;
	struct elf_packed packed;
	struct error ignored; /* reading it as a whole finds it, too */

	if (!elf_image_find_packed(image, ".debug_abbrev", &packed, &ignored))
		return false;
	const uint64_t all = packed.data != NULL ? packed.size
			     : section != NULL	 ? section->size
						 : 0;
	const size_t size = all < MAX_ABBREV_BYTES ? all : MAX_ABBREV_BYTES;
	if (packed.data == NULL)
		return !dwarf_abbrevs_refer_outside(
			cursor_over(section == NULL ? NULL : image->data + section->offset, size));
	if (!inflate_stream_is_possible(&packed))
		return true;
	struct inflate_stream *const inflate = inflate_stream_new(image, &packed);
	unpacked = xmalloc(size);
	const bool ok = inflate_stream_read(inflate, unpacked, size);
	inflate_stream_free(inflate);
	return ok && !dwarf_abbrevs_refer_outside(cursor_over(unpacked, size));
}

static void piece_free(struct info_piece *piece)
{
	if (piece == NULL)
		return;
	free(piece->bytes);
	free(piece->units);
	free(piece);
}

/* With the lock. The first failure counts. */
static void stop(
	struct dwarf_stream *stream, enum dwarf_stream_result result, const struct error *err)
{
	if (!stream->is_stopped && err != NULL)
		*stream->err = *err;
	if (!stream->is_stopped)
		stream->result = result;
	stream->is_stopped = true;
}

static struct info_piece *take_unused(struct dwarf_stream *stream)
{
	struct info_piece *const piece = stream->unused;

	if (piece == NULL)
		return xcalloc(1, sizeof *piece);
	stream->unused = piece->next;
	piece->next = NULL;
	piece->size = piece->unit_count = piece->whole_bytes = 0;
	return piece;
}

/* The bytes of the unit at the cursor, with its length; 0 when not even that is there. */
static uint64_t unit_bytes(struct cursor in)
{
	const size_t start = cursor_offset(&in);
	uint64_t length = cursor_u32(&in);

	if (length == UINT32_MAX)
		length = cursor_u64(&in);
	const size_t header = cursor_offset(&in) - start;
	if (!cursor_ok(&in))
		return 0;
	return length > UINT64_MAX - header ? UINT64_MAX : length + header;
}

/* What is no unit, as for the reader of the whole section. */
static void check_rest(
	struct dwarf_stream *stream, const struct cursor *rest, uint64_t unit, uint64_t size)
{
	static const uint64_t ZERO_UNIT_BYTES = 4;

	if (cursor_left(rest) == size && dwarf_is_alignment(rest))
		return;
	if (unit == ZERO_UNIT_BYTES)
		stream->has_padding = true;
	else
		dwarf_note_damage(stream->dwarf, "a unit outside .debug_info");
}

/* Notes the units that are whole. Returns how many bytes the piece needs for one more. */
static uint64_t find_units(struct dwarf_stream *stream, struct info_piece *piece)
{
	const uint64_t limit = stream->request->info.size - piece->offset;

	while (!stream->has_all_units) {
		struct cursor in = cursor_over(piece->bytes, piece->size);
		struct dwarf_unit unit;
		cursor_seek(&in, piece->whole_bytes);
		const struct cursor rest = in;
		const uint64_t bytes = unit_bytes(in);
		if (bytes > cursor_left(&in) && bytes <= limit - piece->whole_bytes)
			return piece->whole_bytes + bytes;
		if (piece->size < limit && limit - piece->whole_bytes <= DWARF_MAX_ALIGNMENT_BYTES)
			return limit;
		if (bytes == 0 && piece->size < limit)
			return piece->size + 1;
		/* Also where the section ends, and with it the units. */
		if (!dwarf_unit_read_header(stream->dwarf, &in, &unit)) {
			stream->has_all_units = true;
			check_rest(stream, &rest, bytes, limit - piece->whole_bytes);
			break;
		}
		unit.is_of_piece = true;
		piece->whole_bytes = unit.limit;
		if (!dwarf_unit_is_readable(&unit))
			continue;
		*XAPPEND(piece->units, piece->unit_count, piece->unit_capacity) = unit;
		stream->has_units = true;
	}
	return 0;
}

static bool reserve(
	const struct dwarf_stream *stream, struct info_piece *piece, size_t size, struct error *err)
{
	if (size <= piece->capacity)
		return true;
	unsigned char *const bytes = realloc(piece->bytes, size);
	if (bytes == NULL)
		return error_set(err, ERROR_MEMORY, "%s: .debug_info: no memory for %zu bytes",
			stream->dwarf->path, size);
	piece->bytes = bytes;
	piece->capacity = size;
	return true;
}

static bool read_up_to(
	struct dwarf_stream *stream, struct info_piece *piece, uint64_t size, struct error *err)
{
	if (!reserve(stream, piece, size, err))
		return false;
	if (!inflate_stream_read(stream->inflate, piece->bytes + piece->size, size - piece->size))
		return error_set(err, ERROR_INPUT,
			"%s: .debug_info: the compressed contents are damaged",
			stream->dwarf->path);
	stream->read_bytes += size - piece->size;
	piece->size = size;
	return true;
}

/* Unpacks until the piece has a whole unit, or the units end. */
static bool fill(struct dwarf_stream *stream, struct info_piece *piece, struct error *err)
{
	const uint64_t limit = stream->request->info.size - piece->offset;

	for (;;) {
		uint64_t wanted = find_units(stream, piece);
		if (wanted == 0 || piece->whole_bytes != 0)
			break;
		if (wanted < stream->request->piece_bytes)
			wanted = stream->request->piece_bytes;
		if (!read_up_to(stream, piece, wanted < limit ? wanted : limit, err))
			return false;
	}
	return true;
}

/* The checksum is that of the whole section, so what is no unit is unpacked as well. */
static bool read_rest(struct dwarf_stream *stream, struct info_piece *piece, struct error *err)
{
	while (stream->read_bytes < stream->request->info.size) {
		const uint64_t left = stream->request->info.size - stream->read_bytes;
		const uint64_t size =
			left < stream->request->piece_bytes ? left : stream->request->piece_bytes;
		piece->size = 0;
		if (!read_up_to(stream, piece, size, err))
			return false;
	}
	return inflate_stream_is_complete(stream->inflate) ||
	       error_set(err, ERROR_INPUT, "%s: .debug_info: the compressed contents are damaged",
		       stream->dwarf->path);
}

/* With the lock, which is released while it works. */
static void inflate_piece(struct dwarf_stream *stream)
{
	struct info_piece *const piece = stream->filling;
	struct info_piece *const next = take_unused(stream);
	struct error err;

	stream->is_inflating = true;
	pthread_mutex_unlock(&stream->lock);
	bool ok = fill(stream, piece, &err);
	if (ok) {
		const size_t rest = piece->size - piece->whole_bytes;
		next->offset = piece->offset + piece->whole_bytes;
		ok = reserve(stream, next, rest, &err);
		if (ok && rest != 0)
			memcpy(next->bytes, piece->bytes + piece->whole_bytes, rest);
		next->size = ok ? rest : 0;
	}
	if (ok && stream->has_all_units && !stream->has_padding)
		ok = read_rest(stream, next, &err);
	pthread_mutex_lock(&stream->lock);
	stream->filling = next;
	stream->is_inflating = false;
	stream->is_inflated = stream->has_all_units;
	*stream->last_waiting = piece;
	stream->last_waiting = &piece->next;
	stream->waiting_bytes += piece->size;
	if (!ok)
		stop(stream, DWARF_STREAM_FAILED, &err);
	pthread_cond_broadcast(&stream->changed);
}

/* With the lock, as above. The last section makes the stream ready to answer. */
static void load_section(struct dwarf_stream *stream)
{
	const enum dwarf_section section = sections[stream->next_section++];
	struct error err;

	pthread_mutex_unlock(&stream->lock);
	bool ok = dwarf_load_section(stream->dwarf, stream->request->image, section, false, &err);
	pthread_mutex_lock(&stream->lock);
	const bool is_last = ++stream->loaded_sections == SECTION_COUNT;
	if (ok && is_last && !stream->is_stopped) {
		pthread_mutex_unlock(&stream->lock);
		ok = dwarf_finish_loading(stream->dwarf, stream->request->info.size, &err);
		if (ok)
			dwarf_claims_init(
				&stream->claims, stream->dwarf, stream->request->addresses);
		pthread_mutex_lock(&stream->lock);
		stream->is_prepared = ok;
	}
	if (!ok)
		stop(stream, DWARF_STREAM_FAILED, &err);
	pthread_cond_broadcast(&stream->changed);
}

/* False when the unit cannot be read alone. */
static bool answer_unit(
	struct dwarf_stream *stream, struct dwarf_unit *unit, uint64_t offset, size_t thread)
{
	struct dwarf_claim claim;

	dwarf_claims_of_unit(&stream->claims, unit, offset, &claim);
	for (int i = 0; i < DWARF_CLAIM_KINDS; i++) {
		const struct dwarf_claimed *const claimed = &claim.kinds[i];
		if (claimed->count == 0)
			continue;
		dwarf_unit_borrow_abbrevs(unit, &stream->tables[thread]);
		if (dwarf_unit_abbrevs(unit)->refers_outside) {
			dwarf_claim_deinit(&claim);
			return false;
		}
		CLEANUP(free_cleanup)
		struct dwarf_answer *answers = xcalloc(claimed->count, sizeof *answers);
		dwarf_unit_answer(unit, stream->request->splits, stream->request->addresses,
			claimed->positions, claimed->count, &stream->arenas[thread], answers);
		if (i == DWARF_CLAIM_SURE)
			for (size_t j = 0; j < claimed->count; j++)
				stream->answers[claimed->positions[j]] = answers[j];
		else
			dwarf_claims_offer(&stream->claims, offset, &claim, answers);
	}
	dwarf_claim_deinit(&claim);
	return true;
}

/* With the lock, as above. */
static void answer_piece(struct dwarf_stream *stream, size_t thread)
{
	struct info_piece *const piece = stream->waiting;
	bool ok = true;

	stream->waiting = piece->next;
	if (stream->waiting == NULL)
		stream->last_waiting = &stream->waiting;
	stream->waiting_bytes -= piece->size;
	pthread_mutex_unlock(&stream->lock);
	for (size_t i = 0; i < piece->unit_count && ok; i++)
		ok = answer_unit(
			stream, &piece->units[i], piece->offset + piece->units[i].offset, thread);
	pthread_mutex_lock(&stream->lock);
	piece->next = stream->unused;
	stream->unused = piece;
	if (!ok)
		stop(stream, DWARF_STREAM_UNSUITED, NULL);
	pthread_cond_broadcast(&stream->changed);
}

/*
 * What a thread does: unpacking first, which no other thread may do at the same time and everything
 * else waits for; then what has to be there before the first answer.
 */
static void work(void *context, size_t thread)
{
	struct dwarf_stream *const stream = context;

	pthread_mutex_lock(&stream->lock);
	while (!stream->is_stopped) {
		if (!stream->is_inflated && !stream->is_inflating &&
			stream->waiting_bytes < MAX_WAITING_BYTES)
			inflate_piece(stream);
		else if (stream->next_section < SECTION_COUNT)
			load_section(stream);
		else if (stream->is_prepared && stream->waiting != NULL)
			answer_piece(stream, thread);
		else if (stream->is_prepared && stream->is_inflated)
			break;
		else
			pthread_cond_wait(&stream->changed, &stream->lock);
	}
	pthread_mutex_unlock(&stream->lock);
}

static void free_pieces(struct info_piece *piece)
{
	struct info_piece *next = NULL;

	for (; piece != NULL; piece = next) {
		next = piece->next;
		piece_free(piece);
	}
}

enum dwarf_stream_result dwarf_stream_run(struct dwarf *dwarf,
	const struct dwarf_stream_request *request, struct dwarf_answer *answers,
	struct arena *arenas, struct error *err)
{
	const size_t thread_count = parallel_thread_count(request->threads);
	struct dwarf_stream stream = {
		.request = request,
		.dwarf = dwarf,
		.answers = answers,
		.arenas = arenas,
		.tables = xcalloc(thread_count, sizeof *stream.tables),
		.inflate = inflate_stream_new(request->image, &request->info),
		.filling = xcalloc(1, sizeof *stream.filling),
		.result = DWARF_STREAM_ANSWERED,
		.err = err,
	};

	stream.last_waiting = &stream.waiting;
	pthread_mutex_init(&stream.lock, NULL);
	pthread_cond_init(&stream.changed, NULL);
	parallel_run(thread_count, request->threads, work, &stream);
	pthread_cond_destroy(&stream.changed);
	pthread_mutex_destroy(&stream.lock);
	free_pieces(stream.waiting);
	free_pieces(stream.unused);
	piece_free(stream.filling);
	inflate_stream_free(stream.inflate);
	for (size_t i = 0; i < thread_count; i++)
		dwarf_abbrevs_free(stream.tables[i].abbrevs);
	free(stream.tables);
	/* Not before: the other sections have to be loaded. */
	if ((stream.has_padding || !stream.has_units) && stream.result == DWARF_STREAM_ANSWERED)
		stream.result = DWARF_STREAM_UNSUITED;
	if (stream.is_prepared && stream.result == DWARF_STREAM_ANSWERED &&
		!dwarf_claims_settle(&stream.claims, answers))
		stream.result = DWARF_STREAM_UNSUITED;
	dwarf_claims_deinit(&stream.claims);
	return stream.result;
}
