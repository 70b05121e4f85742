/* SPDX-License-Identifier: MIT */
/*
 * progress.h - one line of progress, on a terminal only.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>

/* Show @what and the share that is done, 0 to 1. */
void progress(const char *what, double done);
/* Take the line away, before something else is printed. */
void progress_clear(void);
/* Show nothing while the cursor stands behind text. */
void progress_pause(bool paused);

#endif /* PROGRESS_H */
