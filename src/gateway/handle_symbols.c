/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files and indexes of symbols by build-id, in debuginfod's protocol. They are sent as they
 * are; who reads them checks them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rooted_file.h"
#include "base/xalloc.h"
#include "gateway/handlers.h"

static const uint64_t MAX_FILE_BYTES = UINT64_C(1) << 30;
enum { PIECE_BYTES = 256 * 1024, MIN_BUILD_ID_TEXT = 4, MAX_BUILD_ID_TEXT = 128 };

static bool check_build_id(const char *text, struct error *err)
{
	const size_t size = strlen(text);

	if (strspn(text, "0123456789abcdef") != size)
		return error_set(err, ERROR_NOT_FOUND, "a build-id has lower-case hex digits");
	if (size >= MIN_BUILD_ID_TEXT && size <= MAX_BUILD_ID_TEXT)
		return true;
	error_set(err, ERROR_NOT_FOUND, "the build-id is too %s: %zu hex digit%s",
		size < MIN_BUILD_ID_TEXT ? "short" : "long", size, size == 1 ? "" : "s");
	return error_hint(err, "give all digits of the build-id, %d to %d", MIN_BUILD_ID_TEXT,
		MAX_BUILD_ID_TEXT);
}

/* The first `size` bytes, which may be fewer by now: a file that another program changes. */
static bool copy(int from, int to, uint64_t size, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer piece = BUFFER_OR_EXIT;

	(void)buffer_reserve(&piece, PIECE_BYTES);
	while (size > 0) {
		const size_t wanted = size < PIECE_BYTES ? (size_t)size : PIECE_BYTES;
		const ssize_t got = read(from, piece.data, wanted);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_system(err, errno, "reading the file of a build-id");
		if (got == 0)
			break;
		if (!file_write_fd(to, "a scratch file", piece.data, (size_t)got, err))
			return false;
		size -= (uint64_t)got;
	}
	return true;
}

/* A copy, because a file that gets shorter while it is sent would end the gateway. */
static bool take_copy(int from, uint64_t size, struct blob **blob, struct error *err)
{
	CLEANUP(fd_cleanup) int to = -1;
	uint64_t held = 0;

	if (!blob_open_scratch(&to, err) || !blob_scratch_take(&held, size, err))
		return false;
	if (!copy(from, to, size, err)) {
		byte_budget_give(&blob_scratch_budget, held);
		return false;
	}
	return blob_take_scratch(TAKE_FD(to), held, blob, err);
}

bool symbols_debuginfo(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	const char *const build_id = request_text(request, "build_id");
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	CLEANUP(blob_cleanup) struct blob *blob = NULL;
	struct stat status;

	if (gateway->symbols_folder == NULL) {
		error_set(err, ERROR_NOT_FOUND, "no symbols are served");
		return error_hint(err, "start heapctl serve with --symbols DIR");
	}
	if (!check_build_id(build_id, err))
		return false;
	buffer_printf(&path, "/.build-id/%.2s/%s.debug", build_id, build_id + 2);
	CLEANUP(fd_cleanup)
	const int fd = rooted_file_open(
		gateway->symbols_folder, buffer_string(&path), O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return error_set(err, ERROR_NOT_FOUND, "nothing is known of this build-id");
	if (status.st_size <= 0 || (uint64_t)status.st_size > MAX_FILE_BYTES)
		return error_set(
			err, ERROR_UNSUPPORTED, "its file has more than 1 GiB, or nothing");
	if (!take_copy(fd, (uint64_t)status.st_size, &blob, err))
		return false;
	reply_blob(reply, 200, "application/octet-stream", blob);
	return true;
}
