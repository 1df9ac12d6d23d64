/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/account.h"

#include <math.h>
#include <string.h>

#include "unit.h"

#define FIELDS(rss, anonymous) "Rss: " rss " kB\nAnonymous: " anonymous " kB\nSwap: 4 kB\n"

static const char text[] = "400000-401000 r-xp 00000000 08:01 7 /bin/server\n" FIELDS(
	"100", "0") "401000-402000 rw-p 00001000 08:01 7 /bin/server\n" FIELDS("30",
	"20") "600000-700000 rw-p 00000000 00:00 0 [heap]\n" FIELDS("40",
	"40") "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n" FIELDS("0",
	"0") "7f0000001000-7f0000801000 rw-p 00000000 00:00 0 \n" FIELDS("16",
	"16") "7f0000900000-7f0001000000 rw-p 00000000 00:00 0 \n" FIELDS("1000",
	"1000") "7ffc00000000-7ffc00020000 rw-p 00000000 00:00 0 [stack]\n" FIELDS("24", "24");

static struct smaps read_text(void)
{
	struct smaps smaps;

	assert_true(smaps_read(text, sizeof text - 1, &smaps));
	return smaps;
}

static void tells_kinds_of_memory_apart(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();

	assert_int_equal(smaps.resident, 1210 * 1024);
	assert_int_equal(smaps.files, 110 * 1024);
	assert_int_equal(smaps.file_data, 20 * 1024);
	assert_int_equal(smaps.program_break, 40 * 1024);
	assert_int_equal(smaps.stacks, 40 * 1024);
	assert_int_equal(smaps.anonymous, 1000 * 1024);
	assert_int_equal(smaps.swapped, 28 * 1024);
	assert_int_equal(smaps.mapping_count, 7);
	/* Of [7f0000900000, 7f0001000000) alone: the heap and the stacks are no allocator's. */
	assert_int_equal(smaps.gib_ranges, 1);
	assert_int_equal(smaps.two_mib_ranges, 4);
}

static void huge_pages_are_counted_beside_the_kinds(void **state)
{
	(void)state;
	static const char maps[] = "7f0000000000-7f0010000000 rw-p 00000000 00:00 0 \n" FIELDS(
		"4096", "4096") "AnonHugePages: 2048 kB\nShmemPmdMapped: 0 kB\n"
				"7f0020000000-7f0021000000 rw-s 00000000 00:01 2 /SYSV0\n" FIELDS(
					"6144", "0") "ShmemPmdMapped: 4096 kB\n"
						     "FilePmdMapped: 0 kB\n";
	struct smaps smaps;

	assert_true(smaps_read(maps, sizeof maps - 1, &smaps));
	assert_int_equal(smaps.huge_pages, 6144 * 1024);
	assert_int_equal(smaps.resident, 10240 * 1024);
}

static void shared_memory_is_no_file(void **state)
{
	(void)state;
	static const char maps[] =
		"7f0000000000-7f0010000000 rw-s 00000000 00:01 1 /dev/zero (deleted)\n" FIELDS(
			"200",
			"0") "7f0020000000-7f0021000000 rw-s 00000000 00:01 2 /SYSV00000000 "
			     "(deleted)\n" FIELDS("30",
				     "0") "7f0030000000-7f0031000000 rw-p 00000000 00:01 3 "
					  "/memfd:jit (deleted)\n" FIELDS("4",
						  "1") "7f0040000000-7f0041000000 rw-s 00000000 "
						       "00:18 4 /dev/shm/PostgreSQL.1\n" FIELDS("5"
												"0",
							       "0") "7f0050000000-7f0051000000 "
								    "r--p 00000000 08:01 5 "
								    "/dev/shmfile\n" FIELDS(
									    "7", "0");
	struct smaps smaps;

	assert_true(smaps_read(maps, sizeof maps - 1, &smaps));
	assert_int_equal(smaps.shmem, (200 + 30 + 3 + 50) * 1024);
	assert_int_equal(smaps.file_data, 1 * 1024);
	assert_int_equal(smaps.files, 7 * 1024);
	assert_int_equal(smaps.resident, smaps.shmem + smaps.file_data + smaps.files);
}

static void one_arena_cannot_become_fewer(void **state)
{
	(void)state;
	const struct account_profile none = { 0 };
	struct account_stats stats = {
		.allocated = 1000, .active = 5000, .base = 100, .slab_fragmentation = 10
	};

	for (int one = 0; one < 2; one++) {
		stats.has_one_arena = one;
		const struct account account = account_make(&stats, NULL, &none);
		for (size_t i = 0; i < account.row_count; i++) {
			const struct account_row *const row = &account.rows[i];
			if (one && (strstr(row->advice, "fewer arenas") != NULL ||
					   strcmp(row->option, "narenas") == 0))
				fail_msg("%s: %s", row->name, row->advice);
			if (!one && strcmp(row->name, "metadata") == 0)
				assert_string_equal(row->option, "narenas");
		}
	}
}

static void counts_ranges_of_addresses_once(void **state)
{
	(void)state;
	/* Two in one range, one across a border of 1 GiB, one too small, one without access. */
	static const char maps[] = "7f0000000000-7f0000180000 rw-p 00000000 00:00 0 \n"
				   "7f0000190000-7f0000290000 rw-p 00000000 00:00 0 \n"
				   "7f003fe00000-7f0040200000 rw-p 00000000 00:00 0 \n"
				   "7f0100000000-7f0100080000 rw-p 00000000 00:00 0 \n"
				   "7f0200000000-7f0200800000 ---p 00000000 00:00 0 \n";
	struct smaps smaps;

	assert_true(smaps_read(maps, sizeof maps - 1, &smaps));
	assert_int_equal(smaps.gib_ranges, 2);
	assert_int_equal(smaps.two_mib_ranges, 4);
}

/* Large parts of the address space without access are kept by allocators. */
static void no_stack_is_above_a_large_reservation(void **state)
{
	(void)state;
	static const char maps[] = "7f0000000000-7f0001000000 ---p 00000000 00:00 0 \n" FIELDS(
		"0", "0") "7f0001000000-7f0001200000 rw-p 00000000 00:00 0 \n" FIELDS("8", "8");
	struct smaps smaps;

	assert_true(smaps_read(maps, sizeof maps - 1, &smaps));
	assert_int_equal(smaps.stacks, 0);
	assert_int_equal(smaps.anonymous, 8 * 1024);
}

static const char unreserved[] =
	"7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n" FIELDS("0", "0")
	/* No stack, although it lies above a guard. */
	"7f0000001000-7f0000201000 rw-p 00000000 00:00 0 \n" FIELDS("512",
		"512") "VmFlags: rd wr mr mw me nr \n"
		       "7f0000400000-7f0000800000 rw-p 00000000 00:00 0 \n" FIELDS("1024",
			       "1024") "VmFlags: rd wr mr mw me nr sd \n"
				       "7f0000900000-7f0000a00000 rw-p 00000000 00:00 0 \n" FIELDS(
					       "100", "100") "VmFlags: rd wr mr mw me ac \n";

static void tells_mappings_apart_that_nothing_is_kept_free_for(void **state)
{
	(void)state;
	struct smaps smaps;

	assert_true(smaps_read(unreserved, sizeof unreserved - 1, &smaps));
	assert_int_equal(smaps.unreserved_size, 6 << 20);
	assert_int_equal(smaps.unreserved_resident, 1536 * 1024);
	assert_int_equal(smaps.anonymous, 1636 * 1024);
	assert_int_equal(smaps.stacks, 0);
}

static void refuses_what_is_no_smaps(void **state)
{
	(void)state;
	struct smaps smaps;

	assert_false(smaps_read("", 0, &smaps));
	assert_false(smaps_read("Rss: 5 kB\n", 10, &smaps));
}

static double sum_of(const struct account *account)
{
	double sum = 0;

	for (size_t i = 0; i < account->row_count; i++)
		sum += account->rows[i].kind == ACCOUNT_OUTSIDE ? 0 : account->rows[i].bytes;
	return sum;
}

static const struct account_row *row(const struct account *account, const char *name)
{
	for (size_t i = 0; i < account->row_count; i++) {
		if (strcmp(account->rows[i].name, name) == 0)
			return &account->rows[i];
	}
	fail_msg("no row %s", name);
	return NULL;
}

static const struct account_stats stats = {
	.allocated = 500000,
	.active = 600000,
	.dirty = 50000,
	.base = 30000,
	.retained = 1e6,
	.tcache = 10000,
	.slab_fragmentation = 60000,
	.large_padding = 30000,
};

static void adds_up_to_resident_memory(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile none = { 0 };
	const struct account account = account_make(&stats, &smaps, &none);

	assert_true(fabs(sum_of(&account) - 1210 * 1024) < 1e-6);
	assert_true(row(&account, "in_use")->bytes == 490000);
	assert_true(row(&account, "slab_fragmentation")->bytes == 60000);
	assert_true(row(&account, "rounding")->bytes == 10000);
	assert_true(row(&account, "other")->bytes == 1000 * 1024 - 680000);
	assert_string_equal(row(&account, "dirty")->option, "dirty_decay_ms");
}

static void the_agents_tables_are_no_other_memory(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile none = { 0 };
	struct account_stats with = stats;
	const struct account without = account_make(&stats, &smaps, &none);
	const double other = row(&without, "other")->bytes;

	with.agent = 40000;
	const struct account known = account_make(&with, &smaps, &none);
	assert_true(row(&known, "agent")->bytes == 40000);
	assert_true(row(&known, "other")->bytes == other - 40000);
	assert_true(fabs(sum_of(&known) - 1210 * 1024) < 1e-6);
	/* A status may say anything. */
	const double wrong[] = { 1e18, -1e18, 0 };
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		with.agent = wrong[i];
		const struct account account = account_make(&with, &smaps, &none);
		assert_true(row(&account, "agent")->bytes >= 0);
		assert_true(row(&account, "agent")->bytes <= 1000 * 1024);
		assert_true(fabs(sum_of(&account) - 1210 * 1024) < 1e-6);
	}
}

static void keeps_adding_up_when_jemalloc_counts_too_much(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile none = { 0 };
	struct account_stats large = stats;

	large.dirty = 5e6;
	const struct account account = account_make(&large, &smaps, &none);
	assert_true(row(&account, "not_resident")->bytes < 0);
	assert_contains(row(&account, "not_resident")->text, "not resident");
	assert_true(fabs(sum_of(&account) - 1210 * 1024) < 1e-6);
}

static void no_row_is_larger_than_what_there_is_to_divide(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile sampled = { .is_there = true, .sampling = 1e9 };
	struct account_stats odd = stats;

	/* Read one after the other, the figures may contradict each other. */
	odd.slab_fragmentation = odd.large_padding = 90000;
	const struct account account = account_make(&odd, &smaps, &sampled);
	assert_true(row(&account, "slab_fragmentation")->bytes == 90000);
	assert_true(row(&account, "large_padding")->bytes == 10000);
	assert_true(row(&account, "rounding")->bytes == 0);
	assert_true(row(&account, "sampling")->bytes == 490000);
	assert_true(row(&account, "in_use")->bytes == 0);
	odd.slab_fragmentation = 1e6;
	const struct account slabs = account_make(&odd, &smaps, &sampled);
	assert_true(row(&slabs, "slab_fragmentation")->bytes == 100000);
	assert_true(row(&slabs, "large_padding")->bytes == 0);
	assert_true(fabs(sum_of(&slabs) - 1210 * 1024) < 1e-6);
}

static void measures_what_of_jemallocs_mappings_is_resident(void **state)
{
	(void)state;
	const struct account_profile none = { 0 };
	struct account_stats own = stats;
	struct smaps smaps;

	assert_true(smaps_read(unreserved, sizeof unreserved - 1, &smaps));
	own.allocated = 2e6;
	own.active = 2.1e6;
	own.mapped = 5 << 20;
	own.retained = 1 << 20;
	struct account account = account_make(&own, &smaps, &none);
	assert_true(fabs(row(&account, "not_resident")->bytes - (1536 * 1024 - 2.18e6)) < 1e-6);
	assert_int_equal(row(&account, "not_resident")->source, ACCOUNT_MEASURED);
	assert_true(row(&account, "other")->bytes == 100 * 1024);
	assert_true(fabs(sum_of(&account) - 1636 * 1024) < 1e-6);
	own.allocated = own.active = 1e5;
	account = account_make(&own, &smaps, &none);
	assert_true(row(&account, "not_resident")->bytes > 0);
	assert_contains(row(&account, "not_resident")->text, "beyond its count");
	own.allocated = 2e6;
	own.active = 2.1e6;
	/* Others map like this, too: then the two look the same. */
	own.retained = 0;
	own.mapped = 1 << 20;
	account = account_make(&own, &smaps, &none);
	assert_true(fabs(row(&account, "not_resident")->bytes - (1636 * 1024 - 2.18e6)) < 1e-6);
	assert_true(fabs(sum_of(&account) - 1636 * 1024) < 1e-6);
}

static void leaves_out_the_untouched_index(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile none = { 0 };
	const double leaf = 2 << 20, touched = 4 * 4096;
	struct account_stats indexed = stats;

	indexed.base = leaf + 30000;
	indexed.has_page_index = true;
	const struct account account = account_make(&indexed, &smaps, &none);
	assert_true(row(&account, "metadata")->bytes == 30000 + touched);
	assert_true(row(&account, "index")->bytes == leaf - touched);
	assert_true(fabs(sum_of(&account) - 1210 * 1024) < 1e-6);
	/* Where jemalloc's own data has no room for it there is none. */
	indexed.base = 30000;
	const struct account small = account_make(&indexed, &smaps, &none);
	assert_true(row(&small, "metadata")->bytes == 30000);
}

static void the_program_break_is_jemallocs_with_dss_primary(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile none = { 0 };
	struct account_stats own = stats;

	own.is_in_break = true;
	const struct account account = account_make(&own, &smaps, &none);
	assert_true(row(&account, "program_break")->bytes == 0);
	assert_true(row(&account, "other")->bytes == 1040 * 1024 - 680000);
	assert_true(fabs(sum_of(&account) - 1210 * 1024) < 1e-6);
}

static void what_jemalloc_gave_itself_is_its_own_data(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile none = { 0 };
	struct account_stats own = stats;

	own.internal = 7000;
	const struct account account = account_make(&own, &smaps, &none);
	assert_true(row(&account, "in_use")->bytes == 483000);
	assert_true(row(&account, "metadata")->bytes == 37000);
	assert_true(row(&account, "allocated")->bytes == 500000);
	assert_true(fabs(sum_of(&account) - 1210 * 1024) < 1e-6);
}

static const char *profile_advice(double low, double high)
{
	const struct account_profile known = {
		.is_there = true, .inuse = 0.5 * (low + high), .inuse_low = low, .inuse_high = high
	};
	const struct account account = account_make(&stats, NULL, &known);

	return row(&account, "profile")->advice;
}

static void says_how_the_profile_compares(void **state)
{
	(void)state;
	/* In use are 490000. */
	assert_contains(profile_advice(300000, 480000), "less than in use");
	assert_contains(profile_advice(480000, 500000), "as much as is in use");
	assert_contains(profile_advice(500000, 600000), "more than in use");
}

/* A row for all that is swapped, sampled and indexed: none is lost for want of room. */
static void has_room_forevery_row(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	const struct account_profile known = { .is_there = true, .inuse = 1, .untouched = 1 };
	struct account_stats full = stats;

	full.base = 3 << 20;
	full.has_page_index = true;
	const struct account account = account_make(&full, &smaps, &known);
	assert_true(row(&account, "swapped")->bytes == 28 * 1024);
	assert_true(row(&account, "retained")->bytes == 1e6);
	assert_true(row(&account, "untouched")->bytes == 1);
	(void)row(&account, "index");
}

/* Every row of jemalloc's and of the kernel's, by its name, size and option. */
static void each_row_has_its_figure_and_option(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		double bytes;
		const char *option;
		enum account_kind kind;
		enum account_source source;
	} expected[] = {
		{ "in_use", 483000, "", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "sampling", 0, "lg_prof_sample", ACCOUNT_ALLOCATOR, ACCOUNT_ESTIMATED },
		{ "thread_caches", 10000, "tcache_max", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "slab_fragmentation", 60000, "narenas", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "large_padding", 30000, "cache_oblivious", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "rounding", 10000, "", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "dirty", 50000, "dirty_decay_ms", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "muzzy", 3000, "muzzy_decay_ms", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "metadata", 37000, "narenas", ACCOUNT_ALLOCATOR, ACCOUNT_COUNTED },
		{ "agent", 20000, "", ACCOUNT_KERNEL, ACCOUNT_REPORTED },
		{ "other", 1000 * 1024 - 703000, "", ACCOUNT_KERNEL, ACCOUNT_MEASURED },
		{ "files", 110 * 1024, "", ACCOUNT_KERNEL, ACCOUNT_MEASURED },
		{ "shmem", 0, "", ACCOUNT_KERNEL, ACCOUNT_MEASURED },
		{ "file_data", 20 * 1024, "", ACCOUNT_KERNEL, ACCOUNT_MEASURED },
		{ "stacks", 40 * 1024, "", ACCOUNT_KERNEL, ACCOUNT_MEASURED },
		{ "program_break", 40 * 1024, "dss", ACCOUNT_KERNEL, ACCOUNT_MEASURED },
		{ "allocated", 500000, "", ACCOUNT_OUTSIDE, ACCOUNT_COUNTED },
		{ "retained", 1e6, "retain", ACCOUNT_OUTSIDE, ACCOUNT_COUNTED },
		{ "swapped", 28 * 1024, "", ACCOUNT_OUTSIDE, ACCOUNT_MEASURED },
	};
	const struct smaps smaps = read_text();
	const struct account_profile none = { 0 };
	struct account_stats own = stats;

	own.internal = 7000;
	own.muzzy = 3000;
	own.agent = 20000;
	const struct account account = account_make(&own, &smaps, &none);
	assert_int_equal(account.row_count, sizeof expected / sizeof *expected);
	assert_true(account.resident == 1210 * 1024);
	for (size_t i = 0; i < account.row_count; i++) {
		const struct account_row *const is = &account.rows[i];
		assert_string_equal(is->name, expected[i].name);
		if (fabs(is->bytes - expected[i].bytes) > 1e-6)
			fail_msg("%s: %f, not %f", is->name, is->bytes, expected[i].bytes);
		assert_string_equal(is->option, expected[i].option);
		assert_int_equal(is->kind, expected[i].kind);
		assert_int_equal(is->source, expected[i].source);
	}
}

static void sets_sampled_objects_apart(void **state)
{
	(void)state;
	const struct smaps smaps = read_text();
	struct profile_sample sample = { .counters = { 2, 2048, 0, 0 } };
	const struct profile profile = { .weighting = PROFILE_EXPONENTIAL,
		.sampler = "",
		.sampling = "",
		.interval_bytes = 524288,
		.samples = &sample,
		.sample_count = 1 };
	const struct account_profile known = account_profile_of(&profile);
	const struct account account = account_make(&stats, &smaps, &known);

	/* Two objects of 1 KiB with 16 KiB each, of which a page beyond them is resident. */
	assert_true(fabs(known.sampling - 8192) < 1);
	assert_true(fabs(known.untouched - 2 * (16384 - 1024 - 4096)) < 1);
	assert_true(fabs(row(&account, "in_use")->bytes - (490000 - 2 * 15360)) < 1);
	assert_true(fabs(sum_of(&account) - 1210 * 1024) < 1e-6);
	assert_true(known.inuse_low < known.inuse && known.inuse < known.inuse_high);
}

static void only_what_has_room_for_it_is_beyond_a_sampled_object(void **state)
{
	(void)state;
	struct profile_sample samples[] = { { .counters = { 1, 14336, 0, 0 } },
		{ .counters = { 1, 16384, 0, 0 } }, { .counters = { 1, 1 << 20, 0, 0 } } };
	const struct profile profile = { .weighting = PROFILE_EXPONENTIAL,
		.sampler = "",
		.interval_bytes = 524288,
		.samples = samples,
		.sample_count = 3 };
	const struct account_profile known = account_profile_of(&profile);

	assert_true(fabs(known.sampled - 1) < 1e-6);
	assert_true(fabs(known.sampling - 2048) < 1);
	assert_true(fabs(known.untouched) < 1);
}

static void objects_that_heapctl_samples_are_not_padded(void **state)
{
	(void)state;
	struct profile_sample sample = { .counters = { 1, 1024, 0, 0 } };
	const struct profile profile = { .weighting = PROFILE_EXPONENTIAL,
		.sampler = "heapctl",
		.interval_bytes = 4096,
		.samples = &sample,
		.sample_count = 1 };
	const struct account_profile known = account_profile_of(&profile);

	assert_true(known.inuse > 0);
	assert_true(known.sampled == 0 && known.sampling == 0 && known.untouched == 0);
}

static void says_when_jemalloc_was_built_without_statistics(void **state)
{
	(void)state;
	json_t *const document = json_loads(
		"{\"jemalloc\": {\"version\": \"5.3.0\", \"config\": {\"stats\": false}}}", 0,
		NULL);
	struct account_stats figures;
	struct error err;

	assert_false(account_stats_read("server[1]", document, &figures, &err));
	assert_string_equal(err.message, "the jemalloc of server[1] was built without statistics");
	assert_contains(err.hint, "--enable-stats");
	json_decref(document);
}

static void ends_with_jemalloc_where_the_kernel_was_not_asked(void **state)
{
	(void)state;
	const struct account_profile none = { 0 };
	const struct account account = account_make(&stats, NULL, &none);

	assert_false(account.has_kernel);
	assert_true(fabs(sum_of(&account) - 680000) < 1e-6);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(tells_kinds_of_memory_apart),
	cmocka_unit_test(huge_pages_are_counted_beside_the_kinds),
	cmocka_unit_test(shared_memory_is_no_file),
	cmocka_unit_test(one_arena_cannot_become_fewer),
	cmocka_unit_test(counts_ranges_of_addresses_once),
	cmocka_unit_test(no_stack_is_above_a_large_reservation),
	cmocka_unit_test(refuses_what_is_no_smaps),
	cmocka_unit_test(adds_up_to_resident_memory),
	cmocka_unit_test(the_agents_tables_are_no_other_memory),
	cmocka_unit_test(keeps_adding_up_when_jemalloc_counts_too_much),
	cmocka_unit_test(no_row_is_larger_than_what_there_is_to_divide),
	cmocka_unit_test(tells_mappings_apart_that_nothing_is_kept_free_for),
	cmocka_unit_test(measures_what_of_jemallocs_mappings_is_resident),
	cmocka_unit_test(leaves_out_the_untouched_index),
	cmocka_unit_test(the_program_break_is_jemallocs_with_dss_primary),
	cmocka_unit_test(what_jemalloc_gave_itself_is_its_own_data),
	cmocka_unit_test(says_how_the_profile_compares),
	cmocka_unit_test(has_room_forevery_row),
	cmocka_unit_test(each_row_has_its_figure_and_option),
	cmocka_unit_test(sets_sampled_objects_apart),
	cmocka_unit_test(only_what_has_room_for_it_is_beyond_a_sampled_object),
	cmocka_unit_test(objects_that_heapctl_samples_are_not_padded),
	cmocka_unit_test(says_when_jemalloc_was_built_without_statistics),
	cmocka_unit_test(ends_with_jemalloc_where_the_kernel_was_not_asked),
};

UNIT_MAIN(tests)
