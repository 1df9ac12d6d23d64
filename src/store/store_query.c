/* SPDX-License-Identifier: Apache-2.0 */
/* The condition of a query. */
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "store/store_index.h"

/* By name, and by pid when the name could be one. */
#define OF_NAME "target = ?1"
#define OF_NAME_OR_PID "(target = ?1 OR pid = CAST(?1 AS INTEGER))"
#define OF_QUERY                                                     \
	" AND (?2 = 0 OR pid = ?2) AND (?3 = 0 OR started_ms = ?3) " \
	"AND time_ms BETWEEN ?4 AND ?5 AND (?7 = 0 OR reason <> '') "

static const char *of_target(const char *name)
{
	if (name == NULL)
		return "1";
	const size_t digits = strspn(name, "0123456789");

	return digits > 0 && digits < 10 && name[digits] == '\0' ? OF_NAME_OR_PID : OF_NAME;
}

bool store_prepare_query(struct store *store, const struct store_query *query, const char *columns,
	const char *more, const char *tail, sqlite3_stmt **statement, struct error *err)
{
	CLEANUP(free_cleanup)
	char *text = xasprintf("SELECT %s FROM snapshot WHERE %s" OF_QUERY "%s %s", columns,
		of_target(query->target), more, tail);

	if (!store_prepare(store, text, statement, err))
		return false;
	if (query->target != NULL)
		sqlite3_bind_text(*statement, 1, query->target, -1, SQLITE_STATIC);
	sqlite3_bind_int64(*statement, 2, query->pid);
	sqlite3_bind_int64(*statement, 3, query->started_ms);
	sqlite3_bind_int64(*statement, 4, query->from_ms);
	sqlite3_bind_int64(*statement, 5, query->to_ms);
	sqlite3_bind_int64(*statement, 7, query->captured);
	return true;
}
