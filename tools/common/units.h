/* SPDX-License-Identifier: MIT */
/*
 * units.h - numbers, sizes, limits and times as people write them, and as they
 * are shown to people.
 *
 * Nothing is guessed: a number that is not wholly understood is none.
 */
#ifndef UNITS_H
#define UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: not one, or out of range. @out is written on success only. */
bool parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
bool parse_double(const char *s, double min, double max, double *out);
/* "64K", "2MiB", "1.5g" or bytes, below 2^63. */
bool parse_size(const char *s, uint64_t *out);
/* "500ms", "30s", "10m", "2h", "7d" in nanoseconds; "never" is UINT64_MAX. */
bool parse_time(const char *s, uint64_t *out);

/**
 * struct limit - a limit on pages, before the pool is known
 * @kind: what was written
 * @bytes: with LIMIT_BYTES
 * @percent: with LIMIT_PERCENT, 0 to 100
 */
struct limit {
	enum { LIMIT_NONE, LIMIT_BYTES, LIMIT_PERCENT, LIMIT_MAX } kind;
	uint64_t bytes;
	double percent;
};

/* A size as parse_size() takes it, "max", or "25%" of the pool. */
bool parse_limit(const char *s, struct limit *out);
/*
 * Its pages in a pool of @nr_pages of @page_size bytes, rounded down; UINT64_MAX
 * for "max". False: a size that is less than a page, but not 0.
 */
bool limit_pages(const struct limit *l, uint64_t page_size, uint64_t nr_pages,
		 uint64_t *pages);

/* "2 MiB", "94.5 KiB", "17 B"; @buf has room for 32 bytes and is returned. */
const char *human_size(uint64_t bytes, char *buf);
/* Pages of a limit, as human_size(), or "max". */
const char *human_limit(uint64_t pages, uint64_t page_size, char *buf);
/* "500 ms", "1.5 s", "10 min", "2 h", "7 d", "never". */
const char *human_time(uint64_t ns, char *buf);
/* "23,040"; @buf has room for 32 bytes and is returned. */
const char *human_count(uint64_t n, char *buf);
/* Bytes as --pool takes them: "24M". */
const char *option_size(uint64_t bytes, char *buf);

#endif /* UNITS_H */
