/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose main thread gives up rights by itself, in one of the ways that its argument names,
 * and then waits for the end of its input. What the C library does for all threads is not used.
 */
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void check(long result, const char *what)
{
	if (result != 0) {
		perror(what);
		exit(1);
	}
}

static void keep_capabilities(unsigned permitted, unsigned effective)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct data[2] = { { .permitted = permitted,
		.effective = effective } };

	check(syscall(SYS_capset, &header, data), "capset");
}

static void add_filter(unsigned flags)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_fprog program = { .len = 1, .filter = code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program), "seccomp");
}

static void drop_bounding(void)
{
	for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		check(prctl(PR_CAPBSET_DROP, i, 0, 0, 0), "PR_CAPBSET_DROP");
}

static void drop_right(const char *what)
{
	const unsigned bind = 1U << CAP_NET_BIND_SERVICE;

	if (strcmp(what, "capabilities") == 0)
		keep_capabilities(bind, bind);
	else if (strcmp(what, "bounding") == 0)
		drop_bounding();
	else if (strcmp(what, "effective") == 0)
		keep_capabilities(bind | 1U << CAP_SETUID | 1U << CAP_SETGID, bind);
	else if (strcmp(what, "no_new_privs") == 0)
		check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	else if (strcmp(what, "second-filter") == 0) {
		add_filter(SECCOMP_FILTER_FLAG_TSYNC);
		add_filter(0);
	} else if (strcmp(what, "user") == 0)
		check(syscall(SYS_setresuid, 65534, 65534, 65534), "setresuid");
	else if (strcmp(what, "effective-user") == 0)
		check(syscall(SYS_setresuid, -1, 65534, -1), "setresuid");
	else if (strcmp(what, "nothing") != 0)
		exit(2);
}

int main(int argc, char **argv)
{
	char byte;

	if (argc != 2)
		return 2;
	/* By then the agent's thread runs, with all rights. */
	puts("started");
	fflush(stdout);
	check(read(STDIN_FILENO, &byte, 1) == 1 ? 0 : -1, "read");
	drop_right(argv[1]);
	puts(argv[1]);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
	/* An orderly end is part of what must not change. */
	check(setuid(getuid()), "setuid");
	return 0;
}
