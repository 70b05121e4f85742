/* SPDX-License-Identifier: MIT */
/*
 * interrupt.h - the first SIGINT ends the run in good order, a second one at
 * once.
 */
#ifndef RUN_INTERRUPT_H
#define RUN_INTERRUPT_H

#include <stdbool.h>

void interrupt_catch(void);
bool interrupted(void);

#endif /* RUN_INTERRUPT_H */
