/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses each unit has to answer, where units arrive one by one. .debug_aranges, which is
 * read first, settles most of them. For the others each unit says itself where its code is, and
 * offers its answers; which offer counts is decided when all units have arrived: the first of those
 * that .debug_aranges does not have, and only if that leaves a function without a unit, the first
 * of all.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/dwarf_job.h"
#include "symbol/dwarf_unit.h"

/* The best one for an address so far: overlapping units would make many. */
struct dwarf_offer {
	bool is_made;
	bool in_aranges;
	uint64_t unit_offset;
	struct dwarf_answer answer;
};

struct dwarf_claimant; /* a unit in .debug_aranges */

struct dwarf_claims {
	const struct dwarf_addresses *addresses;
	struct dwarf_claimant *claimants; /* sorted by the unit's offset */
	size_t claimant_count, claimant_capacity;
	uint32_t *positions; /* of the claimants' addresses */
	uint32_t *open;	     /* the positions of the others */
	uint64_t *open_vaddrs;
	size_t open_count;
	bool has_open_function;
	pthread_mutex_t lock;
	struct dwarf_offer *offers; /* one for each of `open`; under the lock */
};

enum { DWARF_CLAIM_SURE, DWARF_CLAIM_OFFERED, DWARF_CLAIM_KINDS };

/* Positions of addresses, sorted. */
struct dwarf_claimed {
	const uint32_t *positions;
	size_t count;
};

/* What a unit has to answer. */
struct dwarf_claim {
	struct dwarf_claimed kinds[DWARF_CLAIM_KINDS];
	bool in_aranges;
	uint32_t *owned;
};

/* Reads .debug_aranges. */
void dwarf_claims_init(struct dwarf_claims *claims, const struct dwarf *dwarf,
	const struct dwarf_addresses *addresses);
void dwarf_claims_deinit(struct dwarf_claims *claims);

/* For each unit once, at its offset in the section. Any thread. */
void dwarf_claims_of_unit(struct dwarf_claims *claims, struct dwarf_unit *unit, uint64_t offset,
	struct dwarf_claim *claim);
void dwarf_claim_deinit(struct dwarf_claim *claim);

/* Takes the answers for what the claim offers. Any thread. */
void dwarf_claims_offer(struct dwarf_claims *claims, uint64_t offset,
	const struct dwarf_claim *claim, const struct dwarf_answer *answers);

/*
 * Puts the offers that count among the answers. False when .debug_aranges gave addresses to a unit
 * that does not exist.
 */
bool dwarf_claims_settle(struct dwarf_claims *claims, struct dwarf_answer *answers);
