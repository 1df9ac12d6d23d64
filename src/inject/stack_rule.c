/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/stack_rule.h"

#include <string.h>

#include "base/xalloc.h"
#include "unwind/step.h"

/* --- The rule --- */

/*
 * The frames that started the thread: clone3 and start_thread, or _start, __libc_start_main and
 * __libc_start_call_main. They are the C library's, and hold nothing.
 */
static size_t without_start(const struct thread_stack *stack)
{
	enum { STARTERS_MAX = 2 };
	size_t count = stack->count;

	if (!stack->is_complete)
		return count;
	if (count > 1 && stack->kinds[count - 1] != STACK_LIBC &&
		stack->kinds[count - 2] == STACK_LIBC)
		count--;
	for (int i = 0; i < STARTERS_MAX && count > 0 && stack->kinds[count - 1] == STACK_LIBC; i++)
		count--;
	return count;
}

static const char *refusal_of(enum stack_kind kind, bool is_waiting)
{
	switch (kind) {
	case STACK_LIBC:
	case STACK_WAITING:
		return "is in the C library";
	case STACK_LOADER:
		return "is loading a library";
	case STACK_ALLOCATOR:
		return "is in the allocator";
	case STACK_SIGNAL:
		return "is in a signal handler";
	case STACK_UNREAD:
		return "has a stack that cannot be walked to its end";
	case STACK_WITH_MALLOC:
		return is_waiting ? NULL : "may be in the program's own malloc";
	case STACK_UNKNOWN:
		return is_waiting ? NULL : "runs code that was made at run time";
	case STACK_CODE:
	default:
		return NULL;
	}
}

/*
 * Of the frames from `first` to `limit`: those of the thread itself, or of what a signal has
 * interrupted.
 */
static const char *context_refusal(
	const struct thread_stack *stack, size_t first, size_t limit, bool may_wait)
{
	size_t code = first;

	while (code < limit &&
		(stack->kinds[code] == STACK_LIBC || stack->kinds[code] == STACK_WAITING))
		code++;
	/* The outermost of them is the function that the program has called. */
	const bool is_waiting = code > first && may_wait && stack->kinds[code - 1] == STACK_WAITING;
	if (code > first && !is_waiting)
		return refusal_of(STACK_LIBC, false);
	if (!is_waiting && (!stack->is_complete || stack->count == 0))
		return "has a stack that cannot be walked to its end";
	for (size_t i = code; i < limit; i++) {
		const char *const refusal = refusal_of(stack->kinds[i], is_waiting);
		if (refusal != NULL)
			return refusal;
	}
	return NULL;
}

const char *stack_refusal(const struct thread_stack *stack)
{
	const size_t count = without_start(stack);
	size_t limit = 0;

	for (size_t first = 0;; first = limit + 1) {
		limit = first;
		while (limit < count && stack->kinds[limit] != STACK_SIGNAL)
			limit++;
		const bool is_interrupted = first > 0;
		const char *const refusal =
			context_refusal(stack, first, limit, is_interrupted || stack->is_in_call);
		if (is_interrupted && (refusal != NULL || limit == first || !stack->is_complete))
			return refusal_of(STACK_SIGNAL, false);
		if (refusal != NULL || limit >= count)
			return refusal;
	}
}

bool stack_is_outside(
	const struct thread_stack *stack, uint64_t code, size_t size, bool has_frame_pointer)
{
	/* Signals come as soon as the code no longer blocks them: their handlers return there. */
	bool is_proven = has_frame_pointer || stack->is_complete;

	for (size_t i = 0; i < stack->count; i++) {
		if (stack->pcs[i] - code <= size)
			return false;
		if (stack->kinds[i] == STACK_SIGNAL || stack->kinds[i] == STACK_UNREAD)
			is_proven = stack->is_complete;
	}
	return is_proven && stack->count > 0;
}

/* --- Functions that wait --- */

/*
 * The function that makecontext() lets a stack end in has no name, and its unwind information does
 * not say that there is no caller. No call returns to the beginning of a function, so an address
 * that makecontext() refers to (relative to the end of the instruction) is no other return address.
 */
bool stack_is_context_end(const struct stack_waiting *waiting, uint64_t pc)
{
	int32_t distance;

	for (size_t i = 0; i + sizeof distance <= waiting->makecontext_size; i++) {
		const uint64_t next = waiting->makecontext + i + sizeof distance;
		memcpy(&distance, waiting->makecontext_code + i, sizeof distance);
		if (next + (uint64_t)(int64_t)distance == pc)
			return true;
	}
	return false;
}

static void read_makecontext(struct stack_waiting *waiting, const struct remote_process *remote,
	const struct remote_module *libc)
{
	struct remote_function function;

	if (remote_functions(remote, libc, "makecontext", &function, 1) == 0)
		return;
	const size_t size = function.end - function.begin < STACK_MAKECONTEXT_MAX
				    ? function.end - function.begin
				    : STACK_MAKECONTEXT_MAX;
	waiting->makecontext = function.begin;
	waiting->makecontext_size =
		remote_copy_some(remote, function.begin, waiting->makecontext_code, size);
}

void stack_waiting_find(struct stack_waiting *waiting, const struct remote_process *remote)
{
	/* Not those that wait for a lock, which may be the allocator's. */
	static const char *const names[] = { "poll", "ppoll", "__poll_chk", "select", "pselect",
		"epoll_wait", "epoll_pwait", "epoll_pwait2", "read", "readv", "__read_chk", "pread",
		"recv", "__recv_chk", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4",
		"wait", "wait3", "wait4", "waitpid", "waitid", "pause", "sigsuspend", "sigwait",
		"sigwaitinfo", "sigtimedwait", "nanosleep", "clock_nanosleep", "usleep", "sleep",
		"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait",
		"cnd_timedwait", "sem_wait", "sem_timedwait", "sem_clockwait", "pthread_join",
		"pthread_timedjoin_np", "pthread_clockjoin_np", "thrd_join", "thrd_sleep",
		"pthread_barrier_wait", "semop", "semtimedop", "msgrcv", "mq_receive",
		"mq_timedreceive" };

	*waiting = (struct stack_waiting){ 0 };
	musl_code_find(&waiting->musl, remote);
	for (size_t i = 0; i < remote->count && !remote->has_musl; i++) {
		if (remote->modules[i].role != REMOTE_LIBC || remote->modules[i].is_apart)
			continue;
		read_makecontext(waiting, remote, &remote->modules[i]);
		for (size_t j = 0; j < sizeof names / sizeof *names; j++)
			waiting->count += remote_functions(remote, &remote->modules[i], names[j],
				waiting->functions + waiting->count,
				STACK_WAITING_MAX - waiting->count);
	}
}

static bool is_waiting_function(const struct stack_waiting *waiting, uint64_t pc)
{
	for (size_t i = 0; i < waiting->count; i++) {
		if (pc >= waiting->functions[i].begin && pc < waiting->functions[i].end)
			return true;
	}
	return false;
}

/* --- The walk --- */

enum { STACK_BYTES_MAX = 256 * 1024 };

/* The upper part of a stack, as it was at one moment. */
struct stack_bytes {
	uint64_t address;
	size_t size;
	unsigned char bytes[STACK_BYTES_MAX];
};

static bool read_word(void *context, uint64_t address, uint64_t *value)
{
	const struct stack_bytes *const copy = context;

	if (address < copy->address || copy->size < sizeof *value ||
		address - copy->address > copy->size - sizeof *value)
		return false;
	memcpy(value, copy->bytes + (address - copy->address), sizeof *value);
	return true;
}

static enum stack_kind kind_of(const struct remote_module *module,
	const struct stack_waiting *waiting, struct unwind_rule rule, uint64_t pc)
{
	if (rule.cfa == UNWIND_CFA_SIGNAL)
		return STACK_SIGNAL;
	if (module == NULL ||
		(rule.cfa == UNWIND_CFA_NONE &&
			(module->role == REMOTE_PROGRAM || module->role == REMOTE_LIBRARY)))
		return STACK_UNKNOWN;
	switch (module->role) {
	case REMOTE_LIBC:
		return is_waiting_function(waiting, pc) ? STACK_WAITING : STACK_LIBC;
	case REMOTE_LOADER:
		return STACK_LOADER;
	case REMOTE_ALLOCATOR:
		return STACK_ALLOCATOR;
	case REMOTE_PROGRAM:
		return module->has_malloc ? STACK_WITH_MALLOC : STACK_CODE;
	case REMOTE_LIBRARY:
	default:
		return STACK_CODE;
	}
}

static struct unwind_rule rule_of(const struct remote_module *module, uint64_t pc)
{
	if (module == NULL || module->table.count == 0 || pc - module->begin > UINT32_MAX)
		return (struct unwind_rule){ .cfa = UNWIND_CFA_NONE };
	return unwind_table_find(
		module->table.rows, module->table.count, (uint32_t)(pc - module->begin));
}

bool stack_visit(const struct remote_process *remote, const struct stack_waiting *waiting,
	const struct stack_registers *registers,
	bool (*visit)(void *context, const struct stack_frame *frame), void *context)
{
	CLEANUP(free_cleanup) struct stack_bytes *copy = xmalloc(sizeof *copy);
	struct unwind_frame frame = {
		.pc = registers->pc, .sp = registers->sp, .fp = registers->fp, .is_exact_pc = true
	};

	memcpy(frame.scratch, registers->scratch, sizeof frame.scratch);
	copy->address = frame.sp;
	copy->size = remote_copy_some(remote, frame.sp, copy->bytes, sizeof copy->bytes);
	for (int i = 0; i < STACK_FRAMES_MAX; i++) {
		const uint64_t pc = unwind_lookup_pc(&frame);
		if (!frame.is_exact_pc && (stack_is_context_end(waiting, frame.pc) ||
						  (remote->has_musl && musl_is_start(&waiting->musl,
									       remote, frame.pc))))
			return true;
		const struct remote_module *const module = remote_find(remote, pc);
		const struct unwind_rule rule = rule_of(module, pc);

		if (!visit(context, &(struct stack_frame){ module, rule, pc, frame.pc, frame.sp,
					    frame.is_exact_pc }))
			return false;
		if (rule.cfa == UNWIND_CFA_END)
			return true;
		/* Its frames keep no chain. */
		if (remote->has_musl && rule.cfa == UNWIND_CFA_NONE)
			return false;
		const bool has_caller =
			rule.cfa == UNWIND_CFA_NONE
				? unwind_step_chain(UNWIND_OWN_MACHINE, &frame, read_word, copy)
				: unwind_step(UNWIND_OWN_MACHINE, rule, &frame, read_word, copy);
		if (!has_caller)
			return false;
	}
	return false;
}

struct kinds_walk {
	struct thread_stack *stack;
	const struct stack_waiting *waiting;
	const struct stack_registers *registers;
};

static bool add_kind(void *context, const struct stack_frame *frame)
{
	const struct kinds_walk *const walk = context;

	const bool is_waiting =
		walk->registers->is_in_call && frame->is_exact_pc &&
		musl_is_waiting(&walk->waiting->musl, frame->pc, walk->registers->call);

	walk->stack->pcs[walk->stack->count] = frame->next_pc;
	walk->stack->kinds[walk->stack->count++] =
		is_waiting ? STACK_WAITING
			   : kind_of(frame->module, walk->waiting, frame->rule, frame->pc);
	/* All that is below is the program's. */
	return !is_waiting;
}

/* What the walk has not reached: any word may be where the thread comes back to. */
static void add_words(struct thread_stack *stack, const struct remote_process *remote,
	const struct musl_code *code, const struct stack_registers *registers)
{
	bool is_whole = false;
	/* One is left for what was not read. */
	const size_t first = stack->count < STACK_FRAMES_MAX ? stack->count : STACK_FRAMES_MAX - 1;
	const size_t added = musl_find_words(code, remote, registers->sp, registers->top,
		stack->pcs + first, STACK_FRAMES_MAX - 1 - first, &is_whole);

	for (size_t i = first; i < first + added; i++)
		stack->kinds[i] = stack->pcs[i] == code->restorer ? STACK_SIGNAL : STACK_CODE;
	stack->count = first + added;
	if (!is_whole) {
		stack->pcs[stack->count] = 0;
		stack->kinds[stack->count++] = STACK_UNREAD;
	}
}

void stack_walk(struct thread_stack *stack, const struct remote_process *remote,
	const struct stack_waiting *waiting, const struct stack_registers *registers)
{
	struct kinds_walk walk = { stack, waiting, registers };

	*stack = (struct thread_stack){ .is_in_call = registers->is_in_call };
	stack->is_complete = stack_visit(remote, waiting, registers, add_kind, &walk);
	if (remote->has_musl && !stack->is_complete)
		add_words(stack, remote, &waiting->musl, registers);
}
