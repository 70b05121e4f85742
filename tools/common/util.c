// SPDX-License-Identifier: MIT
/*
 * util.c - complaints, texts on a terminal, memory, files, time.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "progress.h"
#include "utf8.h"
#include "util.h"

int shown_char(const char *s, size_t len)
{
	uint32_t cp;
	int n = utf8_decode(s, len, &cp);

	return n < 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0) ? -1 : n;
}

void put_shown(const char *s, FILE *f)
{
	size_t len = strlen(s);
	int n;

	for (; len; s += n, len -= n) {
		n = shown_char(s, len);
		if (n > 0) {
			fwrite(s, n, 1, f);
		} else {
			fputs("\xef\xbf\xbd", f);
			n = 1;
		}
	}
}

/* What it names may come out of a file, and bring more than a line. */
int complain(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	progress_clear();
	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	put_shown(n < 0 ? "out of memory" : s, stderr);
	fputc('\n', stderr);
	if (n >= 0)
		free(s);
	return -1;
}

void out_of_memory(void)
{
	complain("out of memory: use a smaller model, context or pool");
	exit(1);
}

void *xrealloc(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n ? n : 1, size);
	if (!p)
		out_of_memory();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		out_of_memory();
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		out_of_memory();
	va_end(ap);
	return s;
}

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/* More than any prompt; a device or a pipe may have no end. */
#define READ_MAX ((size_t)256 << 20)

char *read_file(const char *path, size_t *len)
{
	bool std = !strcmp(path, "-");
	FILE *f = std ? stdin : fopen(path, "r");
	size_t cap = 0, n = 0, got;
	char *buf = NULL;

	if (!f) {
		complain("%s: %s: give a file that can be read", path,
			 strerror(errno));
		return NULL;
	}
	do {
		cap = cap ? 2 * cap : 1 << 16;
		buf = xrealloc(buf, cap + 1, 1);
		got = fread(buf + n, 1, cap - n, f);
		n += got;
	} while (n == cap && n < READ_MAX);
	if (n >= READ_MAX) {
		complain("%s: has 256 MiB or more: give a smaller file", path);
		free(buf);
		buf = NULL;
	} else if (ferror(f)) {
		complain("%s: %s: give a file that can be read", path,
			 strerror(errno));
		free(buf);
		buf = NULL;
	} else {
		buf[n] = 0;
		*len = n;
	}
	if (!std)
		fclose(f);
	return buf;
}
