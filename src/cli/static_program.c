/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only in a heapctl that is linked statically (-Dstatic_program=true). Its C library would load the
 * system's modules for users and hosts, which want the system's own C library; the parts that are
 * inside suffice.
 */
#include <nss.h>

__attribute__((constructor)) static void use_built_in_databases(void)
{
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("group", "files");
	__nss_configure_lookup("hosts", "files dns");
}
