// SPDX-License-Identifier: MIT
/*
 * util.c - complaints, texts on a terminal, numbers, files, time.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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
	fputs("kvcache-run: ", stderr);
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

bool parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || v < min || v > max)
		return false;
	*out = v;
	return true;
}

bool parse_double(const char *s, double min, double max, double *out)
{
	char *end;
	double v;

	if (!isdigit((unsigned char)*s) && *s != '.')
		return false;
	v = strtod(s, &end);
	if (*end || !isfinite(v) || v < min || v > max)
		return false;
	*out = v;
	return true;
}

bool parse_size(const char *s, uint64_t *out)
{
	static const char units[] = "kmgt";
	unsigned int shift = 0;
	const char *u;
	char *end;
	double v;

	if (!isdigit((unsigned char)*s))
		return false;
	v = strtod(s, &end);
	u = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (u) {
		shift = 10 * (u - units + 1);
		end++;
		if (!strcasecmp(end, "ib") || !strcasecmp(end, "b"))
			end += strlen(end);
	}
	v = ldexp(v, shift);
	if (*end || !(v < 0x1p63))
		return false;
	*out = v;
	return true;
}

const char *human_size(uint64_t bytes, char *buf)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = bytes;
	unsigned int i = 0;

	while (v >= 1024 && i < 4) {
		v /= 1024;
		i++;
	}
	snprintf(buf, 32, v == floor(v) || v >= 100 ? "%.0f %s" : "%.1f %s",
		 v, units[i]);
	return buf;
}

const char *option_size(uint64_t bytes, char *buf)
{
	static const char units[] = "KMGT";
	unsigned int i = 0;

	while (i < 4 && bytes && !(bytes & 1023)) {
		bytes >>= 10;
		i++;
	}
	if (i)
		snprintf(buf, 32, "%llu%c", (unsigned long long)bytes,
			 units[i - 1]);
	else
		snprintf(buf, 32, "%llu", (unsigned long long)bytes);
	return buf;
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
