/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the unwind table of a file as it would be loaded.
 * usage: unwind_cover FILE; prints "ROWS CODE_BYTES COVERED_BYTES BUILD_US".
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "unwind/table.h"

struct image {
	char *bytes; /* as loaded to address 0 */
	int fd;
};

static bool copy_image(void *context, uint64_t address, void *bytes, size_t size)
{
	const struct image *const image = context;

	memcpy(bytes, image->bytes + address, size);
	return true;
}

static bool load(struct image *image, const Elf64_Phdr *segment)
{
	const uint64_t page_offset = segment->p_vaddr % 4096;

	return segment->p_filesz == 0 ||
	       mmap(image->bytes + segment->p_vaddr - page_offset, segment->p_filesz + page_offset,
		       PROT_READ, MAP_PRIVATE | MAP_FIXED, image->fd,
		       (off_t)(segment->p_offset - page_offset)) != MAP_FAILED;
}

int main(int argc, char **argv)
{
	enum { SEGMENTS_MAX = 64 };
	const size_t space = (size_t)1 << 36;
	struct image image = { .fd = argc < 2 ? -1 : open(argv[1], O_RDONLY) };
	struct unwind_loaded header = { .copy = copy_image, .context = &image };
	struct unwind_table table;
	struct error err;
	Elf64_Ehdr file;
	Elf64_Phdr segments[SEGMENTS_MAX];

	image.bytes =
		mmap(NULL, space, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image.bytes == MAP_FAILED || pread(image.fd, &file, sizeof file, 0) != sizeof file ||
		file.e_phnum > SEGMENTS_MAX ||
		pread(image.fd, segments, file.e_phnum * sizeof *segments, (off_t)file.e_phoff) < 0)
		return 2;
	for (unsigned i = 0; i < file.e_phnum; i++) {
		if (segments[i].p_type == PT_LOAD && !load(&image, &segments[i]))
			return 2;
		if (segments[i].p_type == PT_GNU_EH_FRAME) {
			header.address = segments[i].p_vaddr;
			header.size = segments[i].p_memsz;
		}
	}
	const int64_t begin = clock_monotonic_ns();
	if (!unwind_loaded_table(&table, UNWIND_OWN_MACHINE, &header, 0, &memory_pages, &err))
		return 1;
	printf("%zu %llu %llu %lld\n", table.count, (unsigned long long)table.code_bytes,
		(unsigned long long)table.covered_bytes,
		(long long)((clock_monotonic_ns() - begin) / 1000));
	return 0;
}
