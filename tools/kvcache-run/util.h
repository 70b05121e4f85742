/* SPDX-License-Identifier: MIT */
/*
 * util.h - what every part of kvcache-run uses: complaints, texts on a
 * terminal, numbers, files, time.
 */
#ifndef RUN_UTIL_H
#define RUN_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/**
 * complain() - one line on standard error
 *
 * As put_shown() prints it. Clears a progress line first. Return: -1, so that a
 * caller can return it.
 */
__attribute__((format(printf, 1, 2)))
int complain(const char *fmt, ...);

/*
 * Bytes of the first of @len bytes' characters; or -1 if it is no UTF-8, or a
 * control character: those steer terminals and break lines.
 */
int shown_char(const char *s, size_t len);
/* A text from outside, with U+FFFD for what is not shown. */
void put_shown(const char *s, FILE *f);

/* The end of the program, with one line that says so. */
__attribute__((noreturn))
void out_of_memory(void);

/* Memory, or out_of_memory(). */
void *xrealloc(void *p, size_t n, size_t size);
void *xcalloc(size_t n, size_t size);
__attribute__((format(printf, 1, 2)))
char *xasprintf(const char *fmt, ...);

/* Seconds of a monotonic clock. */
double now(void);

/* Numbers as people write them. False: not one, or out of range. */
bool parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
bool parse_double(const char *s, double min, double max, double *out);
/* "64K", "2MiB", "1.5g" or bytes. */
bool parse_size(const char *s, uint64_t *out);

/* "2 MiB", "94.5 KiB", "17 B"; @buf has room for 32 bytes and is returned. */
const char *human_size(uint64_t bytes, char *buf);
/* Bytes as --pool takes them: "24M". */
const char *option_size(uint64_t bytes, char *buf);

/**
 * read_file() - a whole file, or standard input for "-"
 * @path: the file
 * @len: bytes read
 *
 * Return: its bytes, less than 256 MiB, and a NUL, to be freed by the caller;
 * or NULL after a complaint.
 */
char *read_file(const char *path, size_t *len);

#endif /* RUN_UTIL_H */
