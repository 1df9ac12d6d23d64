/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fleet_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/verb.h"
#include "gateway/request_policy.h"

enum { PASSWORD_FILE_BYTES = 1 << 16 };

/* The first line of the file. */
static bool read_password(const char *path, char **password, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(fd_cleanup) int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return file_open_failed(path, errno, err);
	text.limit = PASSWORD_FILE_BYTES;
	if (!request_policy_check_secret(fd, path, "the password", err) ||
		!file_read_fd(fd, path, &text, err))
		return false;
	const char *const line = buffer_string(&text);
	*password = xstrndup(line, strcspn(line, "\r\n"));
	explicit_bzero(text.data, text.size);
	return true;
}

static void password_cleanup(char **password)
{
	if (*password != NULL)
		explicit_bzero(*password, strlen(*password));
	free(*password);
}

static void warn_of_exposure(const char *name)
{
	verb_warn("%s: the password crosses the network unencrypted (use TLS: the scheme with an "
		  "s, clickhouses://)",
		name);
}

bool fleet_store_open(const struct fleet_store_options *options, struct clickhouse **clickhouse,
	struct error *err)
{
	CLEANUP(password_cleanup) char *password = NULL;

	if (options->password_file != NULL &&
		!read_password(options->password_file, &password, err))
		return false;
	const struct clickhouse_options wanted = {
		.url = options->url,
		.password = password,
		.authorities = getenv("HEAPCTL_CACERT"),
	};
	if (!clickhouse_open(&wanted, clickhouse, err))
		return false;
	if (clickhouse_is_exposed(*clickhouse))
		warn_of_exposure(clickhouse_name(*clickhouse));
	return true;
}

bool fleet_destination_open(const struct fleet_store_options *options,
	struct destination_options wanted, struct destination **destination, struct error *err)
{
	CLEANUP(password_cleanup) char *password = NULL;

	if (options->password_file != NULL &&
		!read_password(options->password_file, &password, err))
		return false;
	wanted.url = options->url;
	wanted.password = password;
	wanted.authorities = getenv("HEAPCTL_CACERT");
	if (!destination_open(&wanted, destination, err))
		return false;
	if (destination_is_exposed(*destination))
		warn_of_exposure(destination_name(*destination));
	return true;
}
