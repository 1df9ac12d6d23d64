/* SPDX-License-Identifier: Apache-2.0 */
/* What report_option_table calls its options, for those who act on them. */
#pragma once

/* Of the options that mean more than a value in struct report_options. */
enum {
	OPTION_CUM = 1,
	OPTION_INTERACTIVE,
	OPTION_ADDRESSES,
	OPTION_LINES,
	OPTION_FUNCTIONS,
	OPTION_FILES,
	OPTION_RENDERER, /* the renderer of the option's name */
	OPTION_GV,
	OPTION_EVINCE,
	OPTION_WEB,
	OPTION_LIST,
	OPTION_DISASM,
	OPTION_SYMBOLS,
	OPTION_RAW,
	OPTION_INUSE_OBJECTS, /* these four as enum profile_counter has them */
	OPTION_INUSE_SPACE,
	OPTION_ALLOC_OBJECTS,
	OPTION_ALLOC_SPACE,
	OPTION_TOTAL_DELAY,
	OPTION_CONTENTIONS,
	OPTION_MEAN_DELAY,
	OPTION_DEBUG_SYMS_BY_ID,
	OPTION_TEST_STRIDE,
	OPTION_VERSION,
	OPTION_WEBLIST,
	OPTION_PPROF,
	OPTION_TAG,
	OPTION_TAG_IGNORE,
	OPTION_SORT,
	OPTION_GRANULARITY,
	OPTION_BUILD_ID_DIR,
	OPTION_DEBUGINFOD,
	OPTION_SAMPLE_INDEX,
	OPTION_REFUSED, /* of pprof, and there is something else for it */
};
