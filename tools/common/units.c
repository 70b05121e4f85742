// SPDX-License-Identifier: MIT
/*
 * units.c - numbers, sizes, limits and times as people write and read them.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "units.h"

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

/*
 * Digits with a point in them or none: strtod() alone would take hexadecimal
 * digits and exponents. Long double has every 64-bit number. Returns the rest.
 */
static const char *decimal(const char *s, long double *out)
{
	static const char digits[] = "0123456789";
	size_t n = strspn(s, digits);

	if (!n)
		return NULL;
	if (s[n] == '.' && isdigit((unsigned char)s[n + 1]))
		n += 1 + strspn(s + n + 1, digits);
	*out = strtold(s, NULL);
	return s + n;
}

bool parse_size(const char *s, uint64_t *out)
{
	static const char units[] = "kmgt";
	const char *end, *u;
	long double v;

	end = decimal(s, &v);
	if (!end)
		return false;
	u = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (u) {
		v = ldexpl(v, 10 * (u - units + 1));
		end++;
		if (!strcasecmp(end, "ib") || !strcasecmp(end, "b"))
			end += strlen(end);
	} else if (v != floorl(v)) {
		return false;
	}
	if (*end || !(v < 0x1p63L))
		return false;
	*out = v;
	return true;
}

bool parse_time(const char *s, uint64_t *out)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{ "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "min", 60e9 },
		{ "h", 3600e9 }, { "d", 86400e9 },
	};
	const char *end;
	long double v;
	size_t i;

	if (!strcmp(s, "never")) {
		*out = UINT64_MAX;
		return true;
	}
	end = decimal(s, &v);
	for (i = 0; end && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name))
			continue;
		v *= units[i].ns;
		if (!(v < 0x1p63L))
			return false;
		*out = v;
		return true;
	}
	return false;
}

bool parse_limit(const char *s, struct limit *out)
{
	struct limit l = { .kind = LIMIT_MAX };
	const char *end;
	long double v;

	end = decimal(s, &v);
	if (end && !strcmp(end, "%")) {
		if (v > 100)
			return false;
		l.kind = LIMIT_PERCENT;
		l.percent = v;
	} else if (strcmp(s, "max")) {
		l.kind = LIMIT_BYTES;
		if (!parse_size(s, &l.bytes))
			return false;
	}
	*out = l;
	return true;
}

bool limit_pages(const struct limit *l, uint64_t page_size, uint64_t nr_pages,
		 uint64_t *pages)
{
	switch (l->kind) {
	case LIMIT_BYTES:
		if (l->bytes && l->bytes < page_size)
			return false;
		*pages = l->bytes / page_size;
		return true;
	case LIMIT_PERCENT:
		/* 7 % of 100 is 7, whatever 0.07 is in binary. */
		*pages = floor(nr_pages * l->percent / 100 + 1e-9);
		return true;
	default:
		*pages = UINT64_MAX;
		return true;
	}
}

/* A value that has a unit: no digits that nobody reads. */
static void scaled(double v, const char *unit, char *buf)
{
	snprintf(buf, 32, v == floor(v) || v >= 100 ? "%.0f %s" : "%.1f %s",
		 v, unit);
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
	scaled(v, units[i], buf);
	return buf;
}

const char *human_limit(uint64_t pages, uint64_t page_size, char *buf)
{
	if (pages == UINT64_MAX)
		return strcpy(buf, "max");
	return human_size(pages * page_size, buf);
}

const char *human_time(uint64_t ns, char *buf)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{ "d", 86400e9 }, { "h", 3600e9 }, { "min", 60e9 }, { "s", 1e9 },
		{ "ms", 1e6 },
	};
	size_t i = 0;

	if (ns == UINT64_MAX)
		return strcpy(buf, "never");
	while (i < 4 && ns < units[i].ns)
		i++;
	scaled(ns / units[i].ns, units[i].name, buf);
	return buf;
}

const char *human_count(uint64_t n, char *buf)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu",
			   (unsigned long long)n);
	char *to = buf;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
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
