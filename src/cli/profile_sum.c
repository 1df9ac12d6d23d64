/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_sum.h"

#include <stdio.h>

#include "cli/report_output.h"
#include "render/quantity.h"

bool profile_sum_save(char **operands, size_t count, struct output *output, struct error *err)
{
	const struct report_options options = {
		.output = REPORT_RAW,
		.operands = operands,
		.operand_count = count,
	};
	CLEANUP(report_session_close) struct report_session session = { 0 };
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;

	if (!report_session_open(&session, &options, err) ||
		!report_output_raw(&session, &out, err) ||
		!file_write_fd(output_fd(output), output_name(output), out.data, out.size, err) ||
		!output_commit(output, err))
		return false;
	fprintf(stderr, "%s: %s, %zu process%s added up\n", output_name(output),
		quantity_format(QUANTITY_BYTES, (double)out.size, false).text,
		session.profile_count, session.profile_count == 1 ? "" : "es");
	return true;
}
