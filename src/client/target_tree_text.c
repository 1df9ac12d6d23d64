/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target_tree_text.h"

#include <string.h>

bool target_tree_detect(const char *text)
{
	const size_t size = strlen(text), end = strlen(TARGET_TREE_SUFFIX);

	return size > end && strcmp(text + size - end, TARGET_TREE_SUFFIX) == 0 &&
	       strchr(text, '/') == NULL;
}

bool target_tree_refuse(const char *text, struct error *err)
{
	error_set(err, ERROR_USAGE, "%s means several processes", text);
	return error_hint(err, "report, dump, record and top take it; here, give the pid of one of "
			       "them");
}
