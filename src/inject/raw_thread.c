/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/raw_thread.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/image_exchange.h"
#include "base/xalloc.h"
#include "inject/threads.h"
#include "symbol/elf_image.h"

enum {
	START_MS = 5000,  /* until the new thread runs */
	CALL_MS = 5000,	  /* for one system call */
	ENTER_MS = 10000, /* until the agent has started */
	POLL_US = 200,
	PAGE = 4096,
	HEADERS_MAX = 16,
	/*
	 * Behind the image, for its first thread: the image's C library keeps the addresses of what
	 * is at its top.
	 */
	FIRST_STACK_BYTES = 128 * 1024,
	AGAIN_BELOW_BYTES = 1024,
	STACK_ALIGNMENT = 16,
	PATH_BYTES = 64,
};

/* --- The image's file --- */

struct image {
	const unsigned char *bytes;
	Elf64_Ehdr header;
	Elf64_Phdr code, data;
	uint64_t span; /* bytes of both, from the first address, which is 0 */
};

static bool is_inside(const struct loader_request *request, const Elf64_Phdr *segment)
{
	return segment->p_filesz <= segment->p_memsz && segment->p_offset <= request->image_size &&
	       segment->p_filesz <= request->image_size - segment->p_offset;
}

/* Two segments: code at address 0, with the headers, and data. */
static bool read_image(struct image *image, const struct loader_request *request, struct error *err)
{
	const Elf64_Ehdr *const header = &image->header;
	Elf64_Phdr segments[HEADERS_MAX];
	bool is_good = false;

	*image = (struct image){ .bytes = request->image };
	if (request->image_size > sizeof image->header) {
		memcpy(&image->header, request->image, sizeof image->header);
		is_good =
			memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_type == ET_DYN &&
			header->e_phnum <= HEADERS_MAX && header->e_phentsize == sizeof *segments &&
			header->e_phoff <= request->image_size &&
			header->e_phnum * sizeof *segments <= request->image_size - header->e_phoff;
	}
	if (is_good)
		memcpy(segments, image->bytes + header->e_phoff,
			header->e_phnum * sizeof *segments);
	for (size_t i = 0; is_good && i < header->e_phnum; i++) {
		if (segments[i].p_type == PT_LOAD)
			*((segments[i].p_flags & PF_W) != 0 ? &image->data : &image->code) =
				segments[i];
	}
	image->span = image->data.p_vaddr + image->data.p_memsz;
	image->span = (image->span + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	return (is_good && image->code.p_vaddr == 0 && image->code.p_offset == 0 &&
		       image->code.p_filesz > 0 && image->data.p_filesz > 0 &&
		       is_inside(request, &image->code) && is_inside(request, &image->data) &&
		       image->data.p_vaddr / PAGE >= (image->code.p_memsz + PAGE - 1) / PAGE) ||
	       error_set(err, ERROR_INPUT, "the agent for static programs is damaged");
}

/* --- The conversation --- */

static uint64_t field(const struct injection *injection, size_t offset)
{
	return injection->memory + offset;
}

static bool send_state(const struct injection *injection, uint32_t state, struct error *err)
{
	return remote_write(&injection->remote, field(injection, 0), &state, sizeof state) ||
	       injection_explain_end(err);
}

/* False in time out, or when the memory is not there. */
static bool wait_for_state(const struct injection *injection, uint32_t wanted, int wait_ms)
{
	const int64_t until_ms = clock_monotonic_ms() + wait_ms;

	do {
		uint32_t state = IMAGE_MAPPED;
		if (remote_copy(&injection->remote, field(injection, 0), &state, sizeof state) &&
			state == wanted)
			return true;
		if (remote_is_gone(&injection->remote))
			return false;
		clock_sleep_us(POLL_US);
	} while (clock_monotonic_ms() < until_ms);
	return false;
}

static bool explain_silence(
	const struct injection *injection, const char *what, int wait_ms, struct error *err)
{
	if (remote_is_gone(&injection->remote))
		return injection_explain_end(err);
	error_set(err, ERROR_TIMEOUT, "%s for %d s", what, wait_ms / 1000);
	return error_hint(err, "raise its limit of memory or threads (RLIMIT_AS, RLIMIT_DATA, "
			       "RLIMIT_NPROC), or try again if the machine is too busy");
}

/* One system call of the new thread. */
static bool call(const struct injection *injection, const uint64_t numbers[7], int64_t *returned,
	struct error *err)
{
	if (!remote_write(&injection->remote,
		    field(injection, offsetof(struct image_exchange, call)), numbers,
		    7 * sizeof *numbers))
		return injection_explain_end(err);
	if (!send_state(injection, IMAGE_CALL, err))
		return false;
	if (!wait_for_state(injection, IMAGE_READY, CALL_MS))
		return explain_silence(injection, "the new thread did not run", CALL_MS, err);
	return remote_copy(&injection->remote,
		       field(injection, offsetof(struct image_exchange, returned)), returned,
		       sizeof *returned) ||
	       injection_explain_end(err);
}

static bool map(const struct injection *injection, uint64_t address, uint64_t size, int protection,
	int flags, uint64_t *mapped, struct error *err)
{
	const uint64_t numbers[7] = { SYS_mmap, address, size, (uint64_t)protection,
		(uint64_t)(flags | MAP_PRIVATE | MAP_ANONYMOUS), UINT64_MAX, 0 };
	int64_t returned = 0;

	if (!call(injection, numbers, &returned, err))
		return false;
	if (returned < 0 && returned > -PAGE) {
		error_set(err, ERROR_MEMORY, "it cannot map %s memory: %s",
			(protection & PROT_EXEC) != 0 ? "executable" : "more",
			errno_text((int)-returned));
		return error_hint(err, "a limit (RLIMIT_AS) or a policy (SELinux execmem)");
	}
	*mapped = (uint64_t)returned;
	return true;
}

static void unmap(const struct injection *injection, uint64_t address, uint64_t size)
{
	const uint64_t numbers[7] = { SYS_munmap, address, size };
	int64_t returned = 0;
	struct error ignored;

	if (!call(injection, numbers, &returned, &ignored)) {
		/* The process has ended, most likely. */
	}
}

/* --- The image in the process --- */

/* The code last, from its end on: an image that is there in full has all of its data. */
static bool write_image(const struct injection *injection, const struct image *image,
	uint64_t address, struct error *err)
{
	const struct remote_process *const remote = &injection->remote;

	return (remote_write(remote, address + image->data.p_vaddr,
			image->bytes + image->data.p_offset, image->data.p_filesz) &&
		       remote_write(remote, address + PAGE, image->bytes + PAGE,
			       image->code.p_filesz - PAGE) &&
		       remote_write(remote, address, image->bytes, PAGE)) ||
	       injection_explain_end(err);
}

static bool map_image(const struct injection *injection, const struct image *image,
	uint64_t *address, struct error *err)
{
	const uint64_t code_bytes = (image->code.p_memsz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	const uint64_t bytes = image->span + FIRST_STACK_BYTES;
	uint64_t ignored;

	if (!map(injection, 0, bytes, PROT_READ | PROT_WRITE, 0, address, err))
		return false;
	if (map(injection, *address, code_bytes, PROT_READ | PROT_EXEC, MAP_FIXED, &ignored, err) &&
		write_image(injection, image, *address, err))
		return true;
	unmap(injection, *address, bytes);
	return false;
}

/* Of an earlier attach, of the same bytes; 0: none. */
static uint64_t find_image(const struct injection *injection, const struct image *image)
{
	CLEANUP(free_cleanup) unsigned char *code = xmalloc(image->code.p_filesz);

	for (size_t i = 0; i < injection->remote.count; i++) {
		const uint64_t address = injection->remote.modules[i].bias;
		if (injection->remote.modules[i].role != REMOTE_PROGRAM && address != 0 &&
			remote_copy(&injection->remote, address, code, image->code.p_filesz) &&
			memcmp(code, image->bytes, image->code.p_filesz) == 0)
			return address;
	}
	return 0;
}

/* --- Its start --- */

static bool read_vector(const struct injection *injection, uint64_t type, uint64_t *value)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	uint64_t pair[2];

	if (!file_try_read(&text, "/proc/%d/task/%d/auxv", (int)injection->remote.pid,
		    (int)injection->remote.thread))
		return false;
	for (size_t at = 0; text.size - at >= sizeof pair; at += sizeof pair) {
		memcpy(pair, text.data + at, sizeof pair);
		if (pair[0] == type) {
			*value = pair[1];
			return true;
		}
	}
	return false;
}

/* The bias that the kernel has added to the program's addresses. */
static bool find_bias(const struct injection *injection, uint64_t *bias, struct error *err)
{
	for (size_t i = 0; i < injection->remote.count; i++) {
		const struct remote_module *const module = &injection->remote.modules[i];
		/* A C library that is just opened looks like a program, too. */
		if (module->role == REMOTE_PROGRAM && !module->is_apart) {
			*bias = module->bias;
			return true;
		}
	}
	return error_set(err, ERROR_UNSUPPORTED, "its program's headers are not mapped");
}

/*
 * A program without an index of its unwind information, as `gcc -static` makes: where that is, its
 * file says. Without it stacks end early.
 */
static void find_frames(const struct injection *injection, struct image_exchange *exchange)
{
	CLEANUP(elf_image_close) struct elf_image file = { 0 };
	struct error ignored;
	char path[PATH_BYTES];

	for (size_t i = 0; i < injection->remote.count; i++) {
		const struct remote_module *const module = &injection->remote.modules[i];
		if (module->role == REMOTE_PROGRAM && !module->is_apart && module->table.count > 0)
			return;
	}
	snprintf(path, sizeof path, "/proc/%d/exe", (int)injection->remote.thread);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !elf_image_open_fd(fd, path, &file, &ignored))
		return;
	for (size_t i = 0; i < file.section_count; i++) {
		if (strcmp(file.sections[i].name, ".eh_frame") != 0)
			continue;
		exchange->program_frames = file.sections[i].vaddr + exchange->program_bias;
		exchange->program_frames_bytes = file.sections[i].size;
	}
}

/* What the kernel puts on the stack of a new program. */
struct image_stack {
	uint64_t argument_count, arguments[3], environment[1];
	uint64_t vector[22];
	char name[16];
};

static bool write_stack(const struct injection *injection, const struct image *image,
	uint64_t address, uint64_t stack, struct error *err)
{
	const uint64_t name = stack + offsetof(struct image_stack, name);
	uint64_t random = stack, kernel = 0;

	/* Of the program: above all frames of its main thread, and the kernel's own module. */
	if (!read_vector(injection, AT_RANDOM, &random) ||
		!read_vector(injection, AT_SYSINFO_EHDR, &kernel)) {
		/* The image can do without. */
	}
	const struct image_stack made = { .argument_count = 2,
		.arguments = { name, injection->memory, 0 },
		.vector = { AT_PHDR, address + image->header.e_phoff, AT_PHENT, sizeof(Elf64_Phdr),
			AT_PHNUM, image->header.e_phnum, AT_PAGESZ, PAGE, AT_RANDOM, random,
			AT_SYSINFO_EHDR, kernel, AT_ENTRY, address + image->header.e_entry, AT_NULL,
			0 },
		.name = "heapctl" };

	return remote_write(&injection->remote, stack, &made, sizeof made) ||
	       injection_explain_end(err);
}

static bool write_request(const struct injection *injection, const struct image *image,
	const struct loader_request *request, uint64_t address, uint64_t stack, struct error *err)
{
	const size_t first = offsetof(struct image_exchange, entry);
	struct image_exchange exchange = { .entry = address + image->header.e_entry,
		.stack = stack };

	if (!find_bias(injection, &exchange.program_bias, err) ||
		!read_vector(injection, AT_PHDR, &exchange.program_headers) ||
		!read_vector(injection, AT_PHNUM, &exchange.program_header_count))
		return remote_is_gone(&injection->remote)
			       ? injection_explain_end(err)
			       : error_set(err, ERROR_UNSUPPORTED,
					 "its program's headers are not known");
	find_frames(injection, &exchange);
	snprintf(exchange.settings, sizeof exchange.settings, "%s", request->settings);
	return write_stack(injection, image, address, stack, err) &&
	       (remote_write(&injection->remote, injection->memory + first,
			(char *)&exchange + first, sizeof exchange - first) ||
		       injection_explain_end(err));
}

static bool enter_image(
	const struct injection *injection, const struct loader_request *request, struct error *err)
{
	uint64_t address = 0;
	struct image image;

	if (!read_image(&image, request, err))
		return false;
	address = find_image(injection, &image);
	/* Of another attach than the first: below what the thread has on it now. */
	uint64_t stack = injection->memory + IMAGE_MEMORY_BYTES - IMAGE_BORROWED_STACK_BYTES -
			 AGAIN_BELOW_BYTES - sizeof(struct image_stack);
	if (address == 0) {
		if (!map_image(injection, &image, &address, err))
			return false;
		stack = address + image.span + FIRST_STACK_BYTES - sizeof(struct image_stack);
	}
	return write_request(injection, &image, request, address,
		       stack & ~(uint64_t)(STACK_ALIGNMENT - 1), err) &&
	       send_state(injection, IMAGE_ENTER, err);
}

static bool read_answer(const struct injection *injection, int *returned, char *answer, size_t size,
	struct error *err)
{
	struct image_exchange exchange;

	if (!wait_for_state(injection, IMAGE_RETURNED, ENTER_MS))
		return explain_silence(injection, "the agent did not start", ENTER_MS, err);
	if (!remote_copy(&injection->remote, injection->memory, &exchange, sizeof exchange))
		return injection_explain_end(err);
	*returned = exchange.result;
	snprintf(answer, size, "%.*s", (int)sizeof exchange.answer - 1, exchange.answer);
	return true;
}

bool raw_thread_run(const struct injection *injection, const struct borrowed_thread *borrowed,
	const struct loader_request *request, int *returned, char *answer, size_t size,
	struct error *err)
{
	uint64_t thread = 0;

	if (!wait_for_state(injection, IMAGE_READY, START_MS) ||
		!remote_copy(&injection->remote,
			field(injection, offsetof(struct image_exchange, thread)), &thread,
			sizeof thread))
		return explain_silence(injection, "the new thread did not start", START_MS, err);
	const bool has_entered = enter_image(injection, request, err);
	if (has_entered && !read_answer(injection, returned, answer, size, err))
		/* The thread ends by itself; the bytes stay, as those of an attach that was killed.
		 */
		return false;
	borrow_finish(injection, borrowed, (pid_t)thread, IMAGE_READ);
	return has_entered;
}
