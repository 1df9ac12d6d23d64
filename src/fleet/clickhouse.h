/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ClickHouse over HTTP. The server is not trusted: an answer is checked to the last byte before
 * anything of it is used. Errors are those of fleet/http.h.
 *
 * An insert is done when the status is 200 and the body is empty. Its body is always compressed
 * with gzip: ClickHouse takes the end of a connection for the end of an uncompressed body, and
 * keeps the rows before it.
 *
 * For one thread at a time.
 */
#pragma once

#include <jansson.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

struct clickhouse_options {
	/* clickhouse://[USER@]HOST[:PORT]/DATABASE, or clickhouses:// with TLS */
	const char *url;
	const char *password;	 /* NULL: none */
	const char *authorities; /* a PEM file; NULL: those of the system */
};

struct clickhouse;

/* Whether it is the URL of one. */
bool clickhouse_url_detect(const char *url);

/* Does not connect. ERROR_USAGE for a URL that is not one, or has a password in it. */
MUST_CHECK bool clickhouse_open(
	const struct clickhouse_options *options, struct clickhouse **ret, struct error *err);
void clickhouse_close(struct clickhouse *clickhouse);

DEFINE_CLEANUP(clickhouse_cleanup, struct clickhouse *, clickhouse_close)

/*
 * From then on what runs fails with ERROR_STATE within a second after this is true, and a query is
 * stopped on the server. NULL: never.
 */
void clickhouse_set_cancel(struct clickhouse *clickhouse, bool (*is_cancelled)(void));

/* Whether the password crosses a network unencrypted. */
bool clickhouse_is_exposed(const struct clickhouse *clickhouse);

/* For messages, "db.example.com:8123/heap"; and the database alone. */
const char *clickhouse_name(const struct clickhouse *clickhouse);
const char *clickhouse_database(const struct clickhouse *clickhouse);

/* The major version, "18.16.1" is 18. */
MUST_CHECK bool clickhouse_version(
	struct clickhouse *clickhouse, unsigned *version, struct error *err);

/*
 * For a user who may write: from now on inserts into Distributed tables are done when a replica of
 * each shard has the rows, and questions are for the same replicas, which others may be behind.
 */
void clickhouse_begin_writing(struct clickhouse *clickhouse);

/*
 * Runs a statement that answers nothing. `parameters` is "" or "&NAME=VALUE...", encoded; without
 * `has_database` it is of no database.
 */
MUST_CHECK bool clickhouse_run(struct clickhouse *clickhouse, const char *statement,
	const char *parameters, bool has_database, struct error *err);

/*
 * The same for a statement with ON CLUSTER, of no database: done when each server says so.
 */
MUST_CHECK bool clickhouse_run_for_all(
	struct clickhouse *clickhouse, const char *statement, struct error *err);

/*
 * Inserts rows of the format TabSeparated: "INSERT INTO t (a, b) FORMAT TabSeparated". The server
 * refuses a second statement with the same `id` while the first one runs; NULL: none.
 */
MUST_CHECK bool clickhouse_insert(struct clickhouse *clickhouse, const char *statement,
	const struct buffer *rows, const char *id, struct error *err);

/*
 * The rows of a query, an array of arrays; free with json_decref. `types` has a letter for each
 * column: u an integer from 0, f a number or null, s a text, a an array of texts. ERROR_INPUT
 * when the answer is anything else.
 */
MUST_CHECK bool clickhouse_select(struct clickhouse *clickhouse, const char *query,
	const char *types, json_t **rows, struct error *err);

/* The same of the server's own tables: the database of the URL may have to be made yet. */
MUST_CHECK bool clickhouse_select_system(struct clickhouse *clickhouse, const char *query,
	const char *types, json_t **rows, struct error *err);

DEFINE_CLEANUP(clickhouse_rows_cleanup, json_t *, json_decref)

/* Values of such a row. */
uint64_t clickhouse_unsigned(const json_t *row, size_t column);
double clickhouse_real(const json_t *row, size_t column); /* NAN for null */
const char *clickhouse_text(const json_t *row, size_t column);
