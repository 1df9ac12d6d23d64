/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of allocators that the sampler replaces: ROW(name, field, releases) each, where
 * sampler/entries.c has replace_FIELD and original_FIELD. C++'s names are those of the Itanium ABI,
 * where size_t is unsigned long.
 *
 * The agent and `heapctl attach --method entry` both number them by their place in this list.
 */
#pragma once

/* clang-format off */
#define ENTRY_LIST(ROW) \
	ROW("malloc", malloc, false) \
	ROW("calloc", calloc, false) \
	ROW("aligned_alloc", aligned_alloc, false) \
	ROW("memalign", memalign, false) \
	ROW("posix_memalign", posix_memalign, false) \
	ROW("valloc", valloc, false) \
	ROW("pvalloc", pvalloc, false) \
	ROW("realloc", realloc, true) \
	ROW("reallocarray", reallocarray, true) \
	ROW("reallocf", reallocf, true) \
	ROW("free", free, true) \
	ROW("cfree", cfree, true) \
	ROW("vfree", vfree, true) \
	ROW("free_sized", free_sized, true) \
	ROW("free_aligned_sized", free_aligned_sized, true) \
	ROW("_Znwm", new, false) \
	ROW("_Znam", new_array, false) \
	ROW("_ZnwmRKSt9nothrow_t", new_nothrow, false) \
	ROW("_ZnamRKSt9nothrow_t", new_array_nothrow, false) \
	ROW("_ZnwmSt11align_val_t", new_aligned, false) \
	ROW("_ZnamSt11align_val_t", new_array_aligned, false) \
	ROW("_ZnwmSt11align_val_tRKSt9nothrow_t", new_aligned_nothrow, false) \
	ROW("_ZnamSt11align_val_tRKSt9nothrow_t", new_array_aligned_nothrow, false) \
	ROW("_ZdlPv", delete, true) \
	ROW("_ZdaPv", delete_array, true) \
	ROW("_ZdlPvm", delete_sized, true) \
	ROW("_ZdaPvm", delete_array_sized, true) \
	ROW("_ZdlPvRKSt9nothrow_t", delete_nothrow, true) \
	ROW("_ZdaPvRKSt9nothrow_t", delete_array_nothrow, true) \
	ROW("_ZdlPvSt11align_val_t", delete_aligned, true) \
	ROW("_ZdaPvSt11align_val_t", delete_array_aligned, true) \
	ROW("_ZdlPvmSt11align_val_t", delete_sized_aligned, true) \
	ROW("_ZdaPvmSt11align_val_t", delete_array_sized_aligned, true) \
	ROW("_ZdlPvSt11align_val_tRKSt9nothrow_t", delete_aligned_nothrow, true) \
	ROW("_ZdaPvSt11align_val_tRKSt9nothrow_t", delete_array_aligned_nothrow, true) \
	ROW("mallocx", mallocx, false) \
	ROW("rallocx", rallocx, true) \
	ROW("xallocx", xallocx, true) \
	ROW("dallocx", dallocx, true) \
	ROW("sdallocx", sdallocx, true) \
	ROW("mi_malloc", mi_malloc, false) \
	ROW("mi_zalloc", mi_zalloc, false) \
	ROW("mi_malloc_small", mi_malloc_small, false) \
	ROW("mi_zalloc_small", mi_zalloc_small, false) \
	ROW("mi_new", mi_new, false) \
	ROW("mi_new_nothrow", mi_new_nothrow, false) \
	ROW("mi_calloc", mi_calloc, false) \
	ROW("mi_mallocn", mi_mallocn, false) \
	ROW("mi_new_n", mi_new_n, false) \
	ROW("mi_valloc", mi_valloc, false) \
	ROW("mi_pvalloc", mi_pvalloc, false) \
	ROW("mi_realloc", mi_realloc, true) \
	ROW("mi_reallocf", mi_reallocf, true) \
	ROW("mi_rezalloc", mi_rezalloc, true) \
	ROW("mi_recalloc", mi_recalloc, true) \
	ROW("mi_new_realloc", mi_new_realloc, true) \
	ROW("mi_new_reallocn", mi_new_reallocn, true) \
	ROW("mi_reallocarray", mi_reallocarray, true) \
	ROW("mi_reallocn", mi_reallocn, true) \
	ROW("mi_realloc_aligned", mi_realloc_aligned, true) \
	ROW("mi_rezalloc_aligned", mi_rezalloc_aligned, true) \
	ROW("mi_recalloc_aligned", mi_recalloc_aligned, true) \
	ROW("mi_malloc_aligned", mi_malloc_aligned, false) \
	ROW("mi_zalloc_aligned", mi_zalloc_aligned, false) \
	ROW("mi_calloc_aligned", mi_calloc_aligned, false) \
	ROW("mi_new_aligned", mi_new_aligned, false) \
	ROW("mi_new_aligned_nothrow", mi_new_aligned_nothrow, false) \
	ROW("mi_posix_memalign", mi_posix_memalign, false) \
	ROW("mi_aligned_alloc", mi_aligned_alloc, false) \
	ROW("mi_memalign", mi_memalign, false) \
	ROW("mi_free", mi_free, true) \
	ROW("mi_free_size", mi_free_size, true) \
	ROW("mi_free_size_aligned", mi_free_size_aligned, true) \
	ROW("mi_free_aligned", mi_free_aligned, true) \
	ROW("mi_cfree", mi_cfree, true) \
	ROW("tc_malloc", tc_malloc, false) \
	ROW("tc_malloc_skip_new_handler", tc_malloc_skip_new_handler, false) \
	ROW("tc_calloc", tc_calloc, false) \
	ROW("tc_realloc", tc_realloc, true) \
	ROW("tc_memalign", tc_memalign, false) \
	ROW("tc_posix_memalign", tc_posix_memalign, false) \
	ROW("tc_valloc", tc_valloc, false) \
	ROW("tc_pvalloc", tc_pvalloc, false) \
	ROW("tc_free", tc_free, true) \
	ROW("tc_free_sized", tc_free_sized, true) \
	ROW("tc_cfree", tc_cfree, true) \
	ROW("tc_new", tc_new, false) \
	ROW("tc_newarray", tc_newarray, false) \
	ROW("tc_new_nothrow", tc_new_nothrow, false) \
	ROW("tc_newarray_nothrow", tc_newarray_nothrow, false) \
	ROW("tc_new_aligned", tc_new_aligned, false) \
	ROW("tc_newarray_aligned", tc_newarray_aligned, false) \
	ROW("tc_new_aligned_nothrow", tc_new_aligned_nothrow, false) \
	ROW("tc_newarray_aligned_nothrow", tc_newarray_aligned_nothrow, false) \
	ROW("tc_delete", tc_delete, true) \
	ROW("tc_deletearray", tc_deletearray, true) \
	ROW("tc_delete_sized", tc_delete_sized, true) \
	ROW("tc_deletearray_sized", tc_deletearray_sized, true) \
	ROW("tc_delete_nothrow", tc_delete_nothrow, true) \
	ROW("tc_deletearray_nothrow", tc_deletearray_nothrow, true) \
	ROW("tc_delete_aligned", tc_delete_aligned, true) \
	ROW("tc_deletearray_aligned", tc_deletearray_aligned, true) \
	ROW("tc_delete_sized_aligned", tc_delete_sized_aligned, true) \
	ROW("tc_deletearray_sized_aligned", tc_deletearray_sized_aligned, true) \
	ROW("tc_delete_aligned_nothrow", tc_delete_aligned_nothrow, true) \
	ROW("tc_deletearray_aligned_nothrow", tc_deletearray_aligned_nothrow, true)

/* Of the C library: memory without an allocator. Only in the modules' tables, and by request. */
#define MAPPED_ENTRY_LIST(ROW) \
	ROW("mmap", mmap, false) \
	ROW("mmap64", mmap64, false) \
	ROW("munmap", munmap, true) \
	ROW("mremap", mremap, true)
/* clang-format on */
