/* SPDX-License-Identifier: Apache-2.0 */
/* A library that sets jemalloc's options by defining the variable that jemalloc looks for. */
extern const char *malloc_conf;

__attribute__((visibility("default"))) const char *malloc_conf =
	"prof:true,prof_active:false,lg_prof_sample:17,nosuch:1";
