/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/musl_stack.h"

#include <string.h>
#include <sys/syscall.h>

#include "base/xalloc.h"

enum {
	CODE_BYTES_MAX = 4 * 1024 * 1024,
	STACK_BYTES_MAX = 8 * 1024 * 1024,
	PIECE_BYTES = 64 * 1024,
};

/* --- Its code --- */

/* The end of __syscall_cp_asm: the last arguments, a word for its caller, syscall, ret. */
static const char wait_code[] = "\x4d\x89\xca\x4c\x8b\x44\x24\x08\x4c\x8b\x4c\x24\x10"
				"\x4c\x89\x5c\x24\x08\x0f\x05\xc3";
/* mov $15, %rax (rt_sigreturn); syscall */
static const char restorer_code[] = "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05";

/* Its address, if it is there once; `at` bytes into it. */
static uint64_t find_code(const struct remote_module *module, const char *code, size_t size,
	const char *pattern, size_t length, size_t at)
{
	const char *const found = memmem(code, size, pattern, length);
	const char *const rest = found == NULL ? NULL : found + 1;

	return found == NULL || memmem(rest, size - (size_t)(rest - code), pattern, length) != NULL
		       ? 0
		       : module->begin + (uint64_t)(found - code) + at;
}

static void read_libc(struct musl_code *code, const struct remote_process *remote,
	const struct remote_module *module)
{
	const uint64_t all = module->end - module->begin;
	const size_t size = all < CODE_BYTES_MAX ? (size_t)all : CODE_BYTES_MAX;
	CLEANUP(free_cleanup) char *bytes = xmalloc(size);
	const size_t got = remote_copy_some(remote, module->begin, bytes, size);

	code->wait = find_code(
		module, bytes, got, wait_code, sizeof wait_code - 1, sizeof wait_code - 2);
	code->restorer = find_code(module, bytes, got, restorer_code, sizeof restorer_code - 1, 0);
	if (remote_functions(remote, module, "fork", &code->fork, 1) == 0)
		code->fork = (struct remote_function){ 0 };
}

void musl_code_find(struct musl_code *code, const struct remote_process *remote)
{
	*code = (struct musl_code){ 0 };
	if (!remote->has_musl)
		return;
	code->exit = remote_function(remote, REMOTE_LIBC, "exit");
	code->pthread_exit = remote_function(remote, REMOTE_LIBC, "pthread_exit");
	for (size_t i = 0; i < remote->count && code->wait == 0; i++) {
		if (remote->modules[i].role == REMOTE_LIBC)
			read_libc(code, remote, &remote->modules[i]);
	}
}

bool musl_is_waiting(const struct musl_code *code, uint64_t pc, long call)
{
	enum { SYSCALL_BYTES = 2 };
	/* futex: a condition, a semaphore, a thread's end. Not those that begin something. */
	static const long calls[] = {
#ifdef SYS_poll
		SYS_poll, SYS_select, SYS_epoll_wait, SYS_pause,
#endif
		SYS_ppoll, SYS_pselect6, SYS_epoll_pwait, SYS_read, SYS_readv, SYS_pread64,
		SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_accept, SYS_accept4, SYS_wait4,
		SYS_waitid, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_nanosleep,
		SYS_clock_nanosleep, SYS_futex, SYS_semtimedop, SYS_msgrcv, SYS_mq_timedreceive,
		SYS_restart_syscall
	};

	/* A call that begins anew has the instruction before it. */
	if (code->wait == 0 || code->restorer == 0 ||
		(pc != code->wait && pc != code->wait - SYSCALL_BYTES))
		return false;
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		if (calls[i] == call)
			return true;
	}
	return false;
}

bool musl_is_forking(const struct musl_code *code, const struct remote_process *remote, uint64_t sp,
	uint64_t pc, long call)
{
	enum { WORDS = 64, CALL = 0xe8, CALL_BYTES = 5 };
	uint64_t words[WORDS];
	unsigned char byte = 0;

	/* It waits for its locks elsewhere than for the program. */
	if (call != SYS_futex || musl_is_waiting(code, pc, call))
		return false;
	const size_t got = remote_copy_some(remote, sp, words, sizeof words);
	for (size_t i = 0; i < got / sizeof *words; i++) {
		if (words[i] > code->fork.begin && words[i] < code->fork.end &&
			remote_copy(remote, words[i] - CALL_BYTES, &byte, sizeof byte) &&
			byte == CALL)
			return true;
	}
	return false;
}

/* The instruction that makes a result the first argument, then a call. */
static bool calls_with_result(const unsigned char *bytes, size_t size, uint64_t address,
	const char *move, size_t length, uint64_t function)
{
	enum { CALL = 0xe8, CALL_BYTES = 5 };
	int32_t distance;

	if (function == 0 || size < length + CALL_BYTES || memcmp(bytes, move, length) != 0 ||
		bytes[length] != CALL)
		return false;
	memcpy(&distance, bytes + length + 1, sizeof distance);
	return address + length + CALL_BYTES + (uint64_t)(int64_t)distance == function;
}

bool musl_is_start(
	const struct musl_code *code, const struct remote_process *remote, uint64_t return_address)
{
	static const char move_int[] = "\x89\xc7", move_pointer[] = "\x48\x89\xc7",
			  extend_int[] = "\x48\x63\xf8"; /* of C11's threads */
	unsigned char bytes[8];
	const struct remote_module *const module = remote_find(remote, return_address);

	if (module == NULL || module->role != REMOTE_LIBC ||
		!remote_copy(remote, return_address, bytes, sizeof bytes))
		return false;
	return calls_with_result(bytes, sizeof bytes, return_address, move_int, sizeof move_int - 1,
		       code->exit) ||
	       calls_with_result(bytes, sizeof bytes, return_address, move_pointer,
		       sizeof move_pointer - 1, code->pthread_exit) ||
	       calls_with_result(bytes, sizeof bytes, return_address, extend_int,
		       sizeof extend_int - 1, code->pthread_exit);
}

/* --- A stack --- */

/* In the unused bytes behind the code of a module. */
static bool is_in_spare(const struct remote_process *remote, uint64_t address)
{
	const struct remote_module *const module = remote_find_begun(remote, address);

	return module != NULL && address - module->spare < module->spare_bytes;
}

size_t musl_find_words(const struct musl_code *code, const struct remote_process *remote,
	uint64_t sp, uint64_t top, uint64_t words[], size_t max, bool *is_whole)
{
	CLEANUP(free_cleanup) uint64_t *piece = xmalloc(PIECE_BYTES);
	uint64_t at = sp & ~UINT64_C(7);
	const uint64_t limit = at + STACK_BYTES_MAX;
	const uint64_t end = top > at && top < limit ? top : limit;
	size_t count = 0;

	*is_whole = false;
	while (at < end) {
		const size_t size = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
		const size_t got = remote_copy_some(remote, at, piece, size);
		for (size_t i = 0; i < got / sizeof *piece; i++) {
			if (piece[i] != code->restorer && !is_in_spare(remote, piece[i]))
				continue;
			if (count == max)
				return count;
			words[count++] = piece[i];
		}
		if (got < size || at + got >= end) {
			*is_whole = got < size || end == top;
			break;
		}
		at += got;
	}
	return count;
}
