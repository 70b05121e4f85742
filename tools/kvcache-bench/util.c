// SPDX-License-Identifier: MIT
/*
 * util.c - what commands of kvcache-bench do when something is missing, and
 * while something takes long.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

void bench_die(const char *fmt, ...)
{
	va_list ap;

	bench_progress_clear();
	fputs("kvcache-bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void *bench_alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		bench_die("out of memory");
	return p;
}

void bench_progress_clear(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

void bench_progress(const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	bench_progress_clear();
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
}
