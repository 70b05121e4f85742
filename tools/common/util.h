/* SPDX-License-Identifier: MIT */
/*
 * util.h - what the tools share: complaints, texts on a terminal, memory, files,
 * time. Numbers and sizes are in units.h.
 */
#ifndef UTIL_H
#define UTIL_H

#include <stddef.h>
#include <stdio.h>

#include "units.h"

/**
 * complain() - one line on standard error
 * @fmt: as of printf(), without a newline
 *
 * Begins with the program's name, as put_shown() prints it. Clears a progress
 * line first. Return: -1, so that a caller can return it.
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

/**
 * read_file() - a whole file, or standard input for "-"
 * @path: the file
 * @len: bytes read
 *
 * Return: its bytes, less than 256 MiB, and a NUL, to be freed by the caller;
 * or NULL after a complaint.
 */
char *read_file(const char *path, size_t *len);

#endif /* UTIL_H */
