/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps memory from functions that are named for what they do with it, so that a profile of mappings
 * is known to the byte: BYTES of each are mapped, unless the function says otherwise.
 *
 *	sampled_mapped FILE	a file of at least BYTES
 *
 * It says "ready", "kept" and "freed", and waits for a line each time.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BYTES = 16 * PAGE, READ_WRITE = PROT_READ | PROT_WRITE };

#define SITE __attribute__((noinline)) static

/* What is mapped in the caller. The caller works on, so its frame stays. */
static inline __attribute__((always_inline)) char *map(
	void *address, size_t size, int protection, int flags, int fd)
{
	char *const memory = mmap(address, size, protection, flags, fd, 0);

	if (memory == MAP_FAILED)
		exit(2);
	return memory;
}

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

SITE char *site_plain(void)
{
	return map(NULL, BYTES, READ_WRITE, ANONYMOUS, -1);
}

/* A size that ends within a page. */
SITE char *site_uneven(void)
{
	return map(NULL, BYTES - 100, READ_WRITE, ANONYMOUS, -1);
}

SITE char *site_shared(void)
{
	return map(NULL, BYTES, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
}

/* Of 20 pages are left: 0 to 3, 6, and 9 to 19. */
SITE char *site_cut(void)
{
	char *const memory = map(NULL, 20 * PAGE, READ_WRITE, ANONYMOUS, -1);

	munmap(memory + 4 * PAGE, 2 * PAGE);
	munmap(memory + 7 * PAGE, 2 * PAGE);
	/* Fails, and changes nothing. */
	(void)munmap(memory + 1, PAGE);
	return memory;
}

SITE char *site_grown(void)
{
	char *memory = map(NULL, 2 * PAGE, READ_WRITE, ANONYMOUS, -1);

	for (size_t size = 4 * PAGE; size <= BYTES; size *= 2) {
		memory = mremap(memory, size / 2, size, MREMAP_MAYMOVE);
		if (memory == MAP_FAILED)
			exit(2);
	}
	return memory;
}

/* Reserved, and then made memory: half of it. */
SITE char *site_reserved(void)
{
	char *const memory = map(NULL, 2 * BYTES, PROT_NONE, ANONYMOUS, -1);

	return map(memory, BYTES, READ_WRITE, ANONYMOUS | MAP_FIXED, -1);
}

/* None is left: replaced by what cannot be written. */
SITE char *site_replaced(void)
{
	char *const memory = map(NULL, BYTES, READ_WRITE, ANONYMOUS, -1);

	return map(memory, BYTES, PROT_NONE, ANONYMOUS | MAP_FIXED, -1);
}

/* None: a file that is read, also when it is mapped anew. */
SITE char *site_file(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *const memory = map(NULL, PAGE, PROT_READ, MAP_SHARED, fd);

	close(fd);
	return mremap(memory, PAGE, BYTES, MREMAP_MAYMOVE);
}

static void wait_for_line(const char *word)
{
	char line[16];

	if (write(1, word, strlen(word)) < 0 || read(0, line, sizeof line) <= 0)
		exit(2);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	wait_for_line("ready\n");
	char *const plain = site_plain(), *const uneven = site_uneven(),
		    *const shared = site_shared(), *const cut = site_cut(),
		    *const grown = site_grown(), *const reserved = site_reserved(),
		    *const replaced = site_replaced(), *const file = site_file(argv[1]);
	wait_for_line("kept\n");
	munmap(plain, BYTES);
	munmap(uneven, BYTES - 100);
	munmap(shared, BYTES);
	munmap(cut, 20 * PAGE);
	munmap(grown, BYTES);
	munmap(reserved, 2 * BYTES);
	munmap(replaced, BYTES);
	munmap(file, BYTES);
	wait_for_line("freed\n");
	return 0;
}
