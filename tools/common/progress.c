// SPDX-License-Identifier: MIT
/*
 * progress.c - one line of progress on standard error, if that is a terminal.
 */
#include <stdio.h>
#include <unistd.h>

#include "progress.h"

static bool paused;
static bool shown;

void progress_pause(bool p)
{
	if (p)
		progress_clear();
	paused = p;
}

void progress(const char *what, double done)
{
	static int last;
	int percent = 100 * done;

	if (paused || (shown && percent == last) || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[K%s %3d %%", what, percent);
	fflush(stderr);
	last = percent;
	shown = true;
}

void progress_clear(void)
{
	if (!shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	shown = false;
}
