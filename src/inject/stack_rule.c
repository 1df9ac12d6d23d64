/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/stack_rule.h"

#include <string.h>
#include <sys/syscall.h>

#include "base/xalloc.h"
#include "inject/signal_frame.h"
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
	case STACK_JOINING:
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

static bool is_of_libc(enum stack_kind kind)
{
	return kind == STACK_LIBC || kind == STACK_WAITING || kind == STACK_JOINING;
}

/*
 * Of the frames from `first` to `limit`: those of the thread itself, or of what a signal has
 * interrupted.
 */
static const char *context_refusal(
	const struct thread_stack *stack, size_t first, size_t limit, bool may_wait)
{
	size_t code = first;

	while (code < limit && is_of_libc(stack->kinds[code]))
		code++;
	/* The outermost of them is the function that the program has called. */
	const enum stack_kind called = code > first ? stack->kinds[code - 1] : STACK_CODE;
	const bool is_waiting =
		may_wait && (called == STACK_WAITING ||
				    (called == STACK_JOINING && first == 0 && stack->is_in_futex));
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

static void add_functions(struct stack_functions *functions, const struct remote_process *remote,
	const struct remote_module *libc, const char *const names[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		functions->count += remote_functions(remote, libc, names[i],
			functions->functions + functions->count,
			STACK_FUNCTIONS_MAX - functions->count);
}

void stack_waiting_find(struct stack_waiting *waiting, const struct remote_process *remote)
{
	/* Not those that wait for a lock, which may be the allocator's. */
	static const char *const names[] = { "poll", "ppoll", "__poll_chk", "select", "pselect",
		"epoll_wait", "epoll_pwait", "epoll_pwait2", "read", "readv", "__read_chk", "pread",
		"recv", "__recv_chk", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4",
		"wait", "wait3", "wait4", "waitpid", "waitid", "pause", "sigsuspend", "sigwait",
		"sigwaitinfo", "sigtimedwait", "nanosleep", "clock_nanosleep", "usleep", "sleep",
		"sem_wait", "sem_timedwait", "sem_clockwait", "thrd_sleep", "pthread_barrier_wait",
		"semop", "semtimedop", "msgrcv", "mq_receive", "mq_timedreceive" };
	/* A thread's stack is released with a lock, and a mutex may need memory for priorities. */
	static const char *const joining[] = { "pthread_join", "pthread_timedjoin_np",
		"pthread_clockjoin_np", "thrd_join", "pthread_cond_wait", "pthread_cond_timedwait",
		"pthread_cond_clockwait", "cnd_wait", "cnd_timedwait" };

	*waiting = (struct stack_waiting){ 0 };
	musl_code_find(&waiting->musl, remote);
	for (size_t i = 0; i < remote->count && !remote->has_musl; i++) {
		const struct remote_module *const module = &remote->modules[i];
		if (module->role != REMOTE_LIBC || module->is_apart)
			continue;
		read_makecontext(waiting, remote, module);
		add_functions(
			&waiting->waiting, remote, module, names, sizeof names / sizeof *names);
		add_functions(&waiting->joining, remote, module, joining,
			sizeof joining / sizeof *joining);
	}
}

static bool is_in_functions(const struct stack_functions *functions, uint64_t pc)
{
	for (size_t i = 0; i < functions->count; i++) {
		if (pc >= functions->functions[i].begin && pc < functions->functions[i].end)
			return true;
	}
	return false;
}

static enum stack_kind kind_in_libc(const struct stack_waiting *waiting, uint64_t pc)
{
	if (is_in_functions(&waiting->joining, pc))
		return STACK_JOINING;
	return is_in_functions(&waiting->waiting, pc) ? STACK_WAITING : STACK_LIBC;
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
		return kind_in_libc(waiting, pc);
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

/* Whether a handler returns to this frame, also where no unwind information says so. */
static bool is_signal_frame(const struct remote_process *remote, const struct stack_bytes *copy,
	const struct unwind_frame *frame)
{
	const uint64_t at = frame->sp - sizeof(uint64_t) - copy->address;

	return !frame->is_exact_pc && copy->size >= SIGNAL_FRAME_BYTES &&
	       at <= copy->size - SIGNAL_FRAME_BYTES && signal_frame_is(remote, copy->bytes + at);
}

struct frame_walk {
	const struct remote_process *remote;
	const struct stack_waiting *waiting;
	struct stack_bytes *copy;
	uint64_t top; /* as the thread's registers say it */
	struct unwind_frame frame;
	bool has_frame;
	/*
	 * From code without unwind information on, at `unproven`, the signal's frame that the walk
	 * has to come to next: its stack pointer. A handler leaves the frame pointer of what it
	 * has interrupted as it is, and the chain of frame pointers passes all in between.
	 */
	bool is_unproven;
	uint64_t unproven, next_signal; /* UINT64_MAX: there is none */
};

static void seek_signal(struct frame_walk *walk)
{
	const struct stack_bytes *const copy = walk->copy;
	const uint64_t first = (walk->frame.sp - copy->address + 7) & ~UINT64_C(7);
	const uint64_t to_top = walk->top - copy->address;
	const uint64_t end =
		walk->top > walk->frame.sp && to_top < copy->size ? to_top : copy->size;

	walk->is_unproven = true;
	walk->unproven = walk->frame.sp;
	walk->next_signal = UINT64_MAX;
	if (walk->frame.sp < copy->address || first >= end)
		return;
	const uint64_t found = signal_frame_find(
		walk->remote, copy->address + first, copy->bytes + first, (size_t)(end - first));
	if (found != 0)
		walk->next_signal = found + sizeof(uint64_t);
}

static bool has_missed_signal(const struct frame_walk *walk)
{
	return walk->is_unproven && walk->next_signal != UINT64_MAX &&
	       (!walk->has_frame || walk->frame.sp > walk->next_signal);
}

static struct unwind_rule next_rule(struct frame_walk *walk, const struct remote_module *module)
{
	struct unwind_rule rule = rule_of(module, unwind_lookup_pc(&walk->frame));

	/* All of that is another matter with musl: see add_words(). */
	if (walk->remote->has_musl)
		return rule;
	if (is_signal_frame(walk->remote, walk->copy, &walk->frame))
		rule = (struct unwind_rule){ .cfa = UNWIND_CFA_SIGNAL };
	if (rule.cfa == UNWIND_CFA_SIGNAL)
		walk->is_unproven = false;
	else if (rule.cfa == UNWIND_CFA_NONE && !walk->is_unproven)
		seek_signal(walk);
	return rule;
}

static bool step(struct frame_walk *walk, struct unwind_rule rule)
{
	if (rule.cfa != UNWIND_CFA_NONE)
		return unwind_step(UNWIND_OWN_MACHINE, rule, &walk->frame, read_word, walk->copy);
	/* musl's frames keep no chain. */
	return !walk->remote->has_musl &&
	       unwind_step_chain(UNWIND_OWN_MACHINE, &walk->frame, read_word, walk->copy);
}

/* Where makecontext() or musl lets a stack end. */
static bool is_end(const struct frame_walk *walk)
{
	const struct unwind_frame *const frame = &walk->frame;

	return !frame->is_exact_pc &&
	       (stack_is_context_end(walk->waiting, frame->pc) ||
		       (walk->remote->has_musl &&
			       musl_is_start(&walk->waiting->musl, walk->remote, frame->pc)));
}

bool stack_visit(const struct remote_process *remote, const struct stack_waiting *waiting,
	const struct stack_registers *registers,
	bool (*visit)(void *context, const struct stack_frame *frame), void *context)
{
	CLEANUP(free_cleanup) struct stack_bytes *copy = xmalloc(sizeof *copy);
	struct frame_walk walk = { .remote = remote,
		.waiting = waiting,
		.copy = copy,
		.top = registers->top,
		.frame = { .pc = registers->pc,
			.sp = registers->sp,
			.fp = registers->fp,
			.is_exact_pc = true },
		.has_frame = true };

	memcpy(walk.frame.scratch, registers->scratch, sizeof walk.frame.scratch);
	copy->address = registers->sp;
	copy->size = remote_copy_some(remote, registers->sp, copy->bytes, sizeof copy->bytes);
	/* One is left for a signal's frame. */
	for (int i = 1; i < STACK_FRAMES_MAX && walk.has_frame && !has_missed_signal(&walk); i++) {
		const struct unwind_frame *const frame = &walk.frame;
		if (is_end(&walk))
			return true;
		const uint64_t pc = unwind_lookup_pc(frame);
		const struct remote_module *const module = remote_find(remote, pc);
		const struct unwind_rule rule = next_rule(&walk, module);
		if (!visit(context, &(struct stack_frame){ module, rule, pc, frame->pc, frame->sp,
					    frame->is_exact_pc }))
			return false;
		if (rule.cfa == UNWIND_CFA_END)
			return true;
		walk.has_frame = step(&walk, rule);
	}
	if (has_missed_signal(&walk))
		visit(context, &(struct stack_frame){
				       .rule = { .cfa = UNWIND_CFA_SIGNAL }, .sp = walk.unproven });
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

	const bool is_in_futex =
		registers->call == SYS_futex || registers->call == SYS_restart_syscall;

	*stack = (struct thread_stack){ .is_in_call = registers->is_in_call,
		.is_in_futex = registers->is_in_call && is_in_futex };
	stack->is_complete = stack_visit(remote, waiting, registers, add_kind, &walk);
	if (remote->has_musl && !stack->is_complete)
		add_words(stack, remote, &waiting->musl, registers);
}
