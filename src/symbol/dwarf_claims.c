/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_claims.h"

#include <stdlib.h>

#include "base/search.h"
#include "base/xalloc.h"
#include "symbol/dwarf_aranges.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_value.h"

static const uint32_t NO_CLAIMANT = UINT32_MAX;

struct dwarf_claimant {
	uint64_t offset;
	uint32_t *positions; /* part of claims.positions */
	size_t count;
	bool has_arrived;
};

static int compare_claimants(const void *a, const void *b)
{
	const uint64_t left = ((const struct dwarf_claimant *)a)->offset;
	const uint64_t right = ((const struct dwarf_claimant *)b)->offset;

	return left < right ? -1 : left > right;
}

static struct dwarf_claimant *find_claimant(const struct dwarf_claims *claims, uint64_t offset)
{
	const struct dwarf_claimant key = { .offset = offset };

	return claims->claimant_count == 0
		       ? NULL
		       : bsearch(&key, claims->claimants, claims->claimant_count, sizeof key,
				 compare_claimants);
}

/* A unit may have several sets. */
static void find_claimants(struct dwarf_claims *claims, const struct dwarf *dwarf)
{
	const struct elf_bytes *const aranges = &dwarf->sections[DWARF_ARANGES];
	struct cursor in = cursor_over(aranges->data, aranges->size);
	struct dwarf_arange_set set;
	uint64_t start = 0;
	uint64_t size = 0;
	size_t kept = 0;

	while (dwarf_arange_set_next(&in, &set))
		if (dwarf_arange_next(&set, &start, &size))
			*XAPPEND(claims->claimants, claims->claimant_count,
				claims->claimant_capacity) =
				(struct dwarf_claimant){ .offset = set.unit_offset };
	if (claims->claimant_count == 0)
		return;
	qsort(claims->claimants, claims->claimant_count, sizeof *claims->claimants,
		compare_claimants);
	for (size_t i = 1; i < claims->claimant_count; i++)
		if (claims->claimants[i].offset != claims->claimants[kept].offset)
			claims->claimants[++kept] = claims->claimants[i];
	claims->claimant_count = kept + 1;
}

/* The first set that has an address gets it. */
static void assign(const struct dwarf_claims *claims, const struct dwarf *dwarf, uint32_t *owners)
{
	const struct dwarf_addresses *const addresses = claims->addresses;
	const struct elf_bytes *const aranges = &dwarf->sections[DWARF_ARANGES];
	struct cursor in = cursor_over(aranges->data, aranges->size);
	CLEANUP(free_cleanup) uint32_t *next = xcalloc(addresses->count + 1, sizeof *next);
	struct dwarf_arange_set set;
	uint64_t start = 0;
	uint64_t size = 0;

	vaddrs_free_all(next, addresses->count);
	while (dwarf_arange_set_next(&in, &set)) {
		const struct dwarf_claimant *const claimant =
			find_claimant(claims, set.unit_offset);
		while (claimant != NULL && dwarf_arange_next(&set, &start, &size)) {
			uint64_t limit = 0;
			if (!dwarf_spend(dwarf, 1))
				return;
			if (start < dwarf->code_start ||
				__builtin_add_overflow(start, size, &limit))
				continue;
			const size_t first =
				vaddrs_lower_bound(addresses->vaddrs, addresses->count, start);
			for (uint32_t i = vaddrs_first_free(next, (uint32_t)first);
				i < addresses->count && addresses->vaddrs[i] < limit;
				i = vaddrs_first_free(next, i)) {
				owners[i] = (uint32_t)(claimant - claims->claimants);
				vaddrs_take(next, i);
			}
		}
	}
}

/* Counting sort: each claimant's addresses stay sorted. */
static void group(struct dwarf_claims *claims, const uint32_t *owners)
{
	const struct dwarf_addresses *const addresses = claims->addresses;
	uint32_t *next = claims->positions = xcalloc(addresses->count, sizeof *next);

	claims->open = xcalloc(addresses->count, sizeof *claims->open);
	claims->open_vaddrs = xcalloc(addresses->count, sizeof *claims->open_vaddrs);
	for (size_t i = 0; i < addresses->count; i++)
		if (owners[i] != NO_CLAIMANT)
			claims->claimants[owners[i]].count++;
	for (size_t i = 0; i < claims->claimant_count; i++) {
		claims->claimants[i].positions = next;
		next += claims->claimants[i].count;
		claims->claimants[i].count = 0;
	}
	for (size_t i = 0; i < addresses->count; i++) {
		if (owners[i] == NO_CLAIMANT) {
			claims->open_vaddrs[claims->open_count] = addresses->vaddrs[i];
			claims->open[claims->open_count++] = (uint32_t)i;
			claims->has_open_function =
				claims->has_open_function || addresses->is_function[i];
			continue;
		}
		struct dwarf_claimant *const owner = &claims->claimants[owners[i]];
		owner->positions[owner->count++] = (uint32_t)i;
	}
	claims->offers = xcalloc(claims->open_count, sizeof *claims->offers);
}

void dwarf_claims_init(struct dwarf_claims *claims, const struct dwarf *dwarf,
	const struct dwarf_addresses *addresses)
{
	CLEANUP(free_cleanup) uint32_t *owners = xcalloc(addresses->count, sizeof *owners);

	*claims = (struct dwarf_claims){ .addresses = addresses };
	pthread_mutex_init(&claims->lock, NULL);
	find_claimants(claims, dwarf);
	for (size_t i = 0; i < addresses->count; i++)
		owners[i] = NO_CLAIMANT;
	assign(claims, dwarf, owners);
	group(claims, owners);
}

void dwarf_claims_deinit(struct dwarf_claims *claims)
{
	if (claims->addresses == NULL)
		return;
	pthread_mutex_destroy(&claims->lock);
	free(claims->claimants);
	free(claims->positions);
	free(claims->open);
	free(claims->open_vaddrs);
	free(claims->offers);
	*claims = (struct dwarf_claims){ 0 };
}

static int compare_positions(const void *a, const void *b)
{
	const uint32_t left = *(const uint32_t *)a;
	const uint32_t right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

static struct dwarf_offer *offer_at(const struct dwarf_claims *claims, uint32_t position)
{
	const uint32_t *const found = bsearch(
		&position, claims->open, claims->open_count, sizeof position, compare_positions);

	return &claims->offers[found - claims->open];
}

static bool is_better(bool in_aranges, uint64_t unit_offset, const struct dwarf_offer *offer)
{
	if (!offer->is_made || offer->in_aranges != in_aranges)
		return !offer->is_made || offer->in_aranges;
	return unit_offset < offer->unit_offset;
}

static size_t sort_unique(uint32_t *positions, size_t count)
{
	size_t kept = 1;

	qsort(positions, count, sizeof *positions, compare_positions);
	for (size_t i = 1; i < count; i++)
		if (positions[i] != positions[kept - 1])
			positions[kept++] = positions[i];
	return kept;
}

/* The open addresses in the ranges of the unit's root, without those that have a better offer. */
static void find_offered(struct dwarf_claims *claims, struct dwarf_unit *unit, uint64_t offset,
	struct dwarf_claim *claim)
{
	const struct dwarf_root *const root = dwarf_unit_root(unit);
	struct dwarf_range_reader ranges;
	struct dwarf_range range;
	uint32_t *found = NULL;
	size_t count = 0;
	size_t capacity = 0;

	dwarf_range_begin(&ranges, unit, &root->low_pc, &root->high_pc, &root->ranges);
	while (dwarf_range_next(&ranges, &range) && dwarf_spend(unit->dwarf, 1)) {
		size_t i = vaddrs_lower_bound(claims->open_vaddrs, claims->open_count, range.start);
		for (; i < claims->open_count && claims->open_vaddrs[i] < range.limit &&
			dwarf_spend(unit->dwarf, 1);
			i++)
			*XAPPEND(found, count, capacity) = claims->open[i];
		/* Ranges may overlap. */
		if (count > 2 * claims->open_count)
			count = sort_unique(found, count);
	}
	if (count == 0)
		return;
	count = sort_unique(found, count);
	size_t kept = 0;
	pthread_mutex_lock(&claims->lock);
	for (size_t i = 0; i < count; i++)
		if (is_better(claim->in_aranges, offset, offer_at(claims, found[i])))
			found[kept++] = found[i];
	pthread_mutex_unlock(&claims->lock);
	claim->owned = found;
	claim->kinds[DWARF_CLAIM_OFFERED] = (struct dwarf_claimed){ found, kept };
}

void dwarf_claims_of_unit(struct dwarf_claims *claims, struct dwarf_unit *unit, uint64_t offset,
	struct dwarf_claim *claim)
{
	struct dwarf_claimant *const claimant = find_claimant(claims, offset);

	*claim = (struct dwarf_claim){ .in_aranges = claimant != NULL };
	if (claimant != NULL) {
		claimant->has_arrived = true;
		claim->kinds[DWARF_CLAIM_SURE] =
			(struct dwarf_claimed){ claimant->positions, claimant->count };
	}
	if (claims->open_count == 0 || (claimant != NULL && !claims->has_open_function) ||
		unit->type == DW_UT_type || unit->type == DW_UT_partial)
		return;
	find_offered(claims, unit, offset, claim);
}

void dwarf_claim_deinit(struct dwarf_claim *claim)
{
	free(claim->owned);
}

void dwarf_claims_offer(struct dwarf_claims *claims, uint64_t offset,
	const struct dwarf_claim *claim, const struct dwarf_answer *answers)
{
	const struct dwarf_claimed *const offered = &claim->kinds[DWARF_CLAIM_OFFERED];

	pthread_mutex_lock(&claims->lock);
	for (size_t i = 0; i < offered->count; i++) {
		struct dwarf_offer *const offer = offer_at(claims, offered->positions[i]);
		if (is_better(claim->in_aranges, offset, offer))
			*offer =
				(struct dwarf_offer){ true, claim->in_aranges, offset, answers[i] };
	}
	pthread_mutex_unlock(&claims->lock);
}

bool dwarf_claims_settle(struct dwarf_claims *claims, struct dwarf_answer *answers)
{
	bool is_missing = false;

	for (size_t i = 0; i < claims->claimant_count; i++)
		if (claims->claimants[i].count != 0 && !claims->claimants[i].has_arrived)
			return false;
	for (size_t i = 0; i < claims->open_count && !is_missing; i++)
		is_missing = claims->addresses->is_function[claims->open[i]] &&
			     (!claims->offers[i].is_made || claims->offers[i].in_aranges);
	for (size_t i = 0; i < claims->open_count; i++) {
		const struct dwarf_offer *const offer = &claims->offers[i];
		if (offer->is_made && (!offer->in_aranges || is_missing))
			answers[claims->open[i]] = offer->answer;
	}
	return true;
}
