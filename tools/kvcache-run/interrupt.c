// SPDX-License-Identifier: MIT
/*
 * interrupt.c - the first SIGINT ends the run in good order.
 */
#include <signal.h>
#include <string.h>

#include "interrupt.h"

static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
	caught = 1;
}

void interrupt_catch(void)
{
	static char stack[1 << 16];
	const stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction sa;

	/*
	 * oneDNN's generated f32 products have the stack pointer in the heap
	 * for a while: a handler on that stack writes over what is there.
	 */
	sigaltstack(&alt, NULL);
	/* No SA_RESTART: a read of the next turn ends as well. */
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_signal;
	sa.sa_flags = SA_RESETHAND | SA_ONSTACK;
	sigaction(SIGINT, &sa, NULL);
}

bool interrupted(void)
{
	return caught;
}
