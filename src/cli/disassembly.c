/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/disassembly.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/xalloc.h"

/* "objdump:/opt/bin/objdump" among the items names the program; anything else is a prefix. */
static char *tool_of(const char *item, size_t size, const char *tool)
{
	const char *const colon = memchr(item, ':', size);
	const size_t tool_size = strlen(tool);

	if (colon != NULL)
		return (size_t)(colon - item) == tool_size && memcmp(item, tool, tool_size) == 0
			       ? xstrndup(colon + 1, size - tool_size - 1)
			       : NULL;
	CLEANUP(free_cleanup) char *path = xasprintf("%.*s%s", (int)size, item, tool);
	return access(path, X_OK) == 0 ? TAKE(path) : NULL;
}

char *disassembly_find_tool(const char *tool, const char *tools)
{
	if (tools == NULL || tools[0] == '\0')
		tools = getenv("JEPROF_TOOLS");
	while (tools != NULL && tools[0] != '\0') {
		const size_t size = strcspn(tools, ",");
		char *const path = size == 0 ? NULL : tool_of(tools, size, tool);
		if (path != NULL)
			return path;
		tools += size + (tools[size] == ',');
	}
	return xstrdup(tool);
}

/* Runs the program and reads what it prints. */
static bool read_output(const char *const *arguments, struct buffer *out, struct error *err)
{
	int ends[2];
	pid_t pid = 0;
	int status = 0;
	posix_spawn_file_actions_t actions;
	char *const *const argv = (char *const *)(uintptr_t)arguments;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_system(err, errno, "making a pipe");
	CLEANUP(fd_cleanup) const int from = ends[0];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	const int problem = posix_spawnp(&pid, arguments[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (problem != 0) {
		error_system(err, problem, "starting %s", arguments[0]);
		return error_hint(err, "install binutils, or name one with --tools");
	}
	const bool done = file_read_fd(from, arguments[0], out, err);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (done && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		return error_set(err, ERROR_SYSTEM, "%s failed", arguments[0]);
	return done;
}

struct objdump_reader {
	struct disassembly *disassembly;
	const char *file;
	uint32_t line;
	uint64_t limit;
};

/* "  1139:\tcall 1030 <malloc@plt>" */
static bool read_instruction(struct objdump_reader *reader, const char *line, size_t size)
{
	struct disassembly *const disassembly = reader->disassembly;
	char *after = NULL;
	const uint64_t start = strtoull(line, &after, 16);

	if (line[0] != ' ' || after == line || *after != ':')
		return false;
	after += 1 + strspn(after + 1, " \t");
	if (disassembly->count != 0)
		disassembly->instructions[disassembly->count - 1].limit = start;
	disassembly->instructions = xgrow(disassembly->instructions, &disassembly->capacity,
		disassembly->count + 1, sizeof *disassembly->instructions);
	disassembly->instructions[disassembly->count++] = (struct instruction){
		.start = start,
		.limit = reader->limit,
		.text = string_pool_add_sized(
			&disassembly->strings, after, size - (size_t)(after - line)),
		.file = reader->file,
		.line = reader->line,
	};
	return true;
}

/* "/src/a.c:12" or "/src/a.c:12 (discriminator 3)" */
static void read_place(struct objdump_reader *reader, const char *line, size_t size)
{
	const char *const bracket = memmem(line, size, " (discriminator", 15);
	const size_t end = bracket == NULL ? size : (size_t)(bracket - line);
	size_t colon = end;

	while (colon > 0 && line[colon - 1] >= '0' && line[colon - 1] <= '9')
		colon--;
	if (colon < 2 || colon == end || line[colon - 1] != ':')
		return;
	reader->file = string_pool_add_sized(&reader->disassembly->strings, line, colon - 1);
	reader->line = (uint32_t)strtoul(line + colon, NULL, 10);
}

bool disassembly_make(struct disassembly *disassembly, const char *objdump, const char *path,
	uint64_t start, uint64_t limit, struct error *err)
{
	CLEANUP(free_cleanup) char *from = xasprintf("--start-address=0x%" PRIx64, start);
	CLEANUP(free_cleanup) char *to = xasprintf("--stop-address=0x%" PRIx64, limit);
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };
	const char *const arguments[] = { objdump, "-C", "-d", "-l", "--no-show-raw-insn", from, to,
		"--", path, NULL };

	*disassembly = (struct disassembly){ 0 };
	string_pool_init(&disassembly->strings);
	struct objdump_reader reader = { .disassembly = disassembly, .file = "", .limit = limit };
	buffer_init(&text, &memory_or_exit);
	if (!read_output(arguments, &text, err)) {
		disassembly_deinit(disassembly);
		return false;
	}
	for (const char *line = buffer_string(&text); *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		if (!read_instruction(&reader, line, size))
			read_place(&reader, line, size);
		line += size + (line[size] == '\n');
	}
	return true;
}

void disassembly_deinit(struct disassembly *disassembly)
{
	free(disassembly->instructions);
	string_pool_deinit(&disassembly->strings);
	*disassembly = (struct disassembly){ 0 };
}
