/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/on_demand.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/safe_point.h"

int on_demand_signal(void)
{
	return SIGRTMAX - 3;
}

#if defined(__x86_64__)
static bool is_safe_point(const ucontext_t *context)
{
	const uintptr_t pointer = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	uint8_t code[4];

	/* All four bytes on the page that the thread runs on: the next one may not be there. */
	if ((pointer & 4095) < 2 || (pointer & 4095) > 4094)
		return false;
	memcpy(code, (const void *)(pointer - 2), sizeof code);
	return safe_point_is_waiting(code, context->uc_mcontext.gregs[REG_RAX]);
}
#else
static bool is_safe_point(const ucontext_t *context)
{
	(void)context;
	return false;
}
#endif

static void handle_signal(int number, siginfo_t *info, void *context)
{
	const int errnum = errno;

	(void)number;
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == ON_DEMAND_WORD &&
		(info->si_uid == 0 || info->si_uid == geteuid()) && is_safe_point(context))
		agent_begin_on_demand();
	errno = errnum;
}

bool on_demand_install(struct error *err)
{
	struct sigaction action = { .sa_sigaction = handle_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	struct sigaction before;

#if !defined(__x86_64__)
	return error_set(err, ERROR_UNSUPPORTED, "starting on demand works on x86-64 only");
#endif
	if (sigaction(on_demand_signal(), NULL, &before) != 0)
		return error_system(err, errno, "looking at signal %d", on_demand_signal());
	if (before.sa_handler != SIG_DFL)
		return error_set(
			err, ERROR_STATE, "the program uses signal %d itself", on_demand_signal());
	sigemptyset(&action.sa_mask);
	if (sigaction(on_demand_signal(), &action, NULL) != 0)
		return error_system(err, errno, "handling signal %d", on_demand_signal());
	return true;
}

void on_demand_remove(void)
{
	struct sigaction now;

	if (sigaction(on_demand_signal(), NULL, &now) == 0 && now.sa_sigaction == handle_signal)
		signal(on_demand_signal(), SIG_DFL);
}
