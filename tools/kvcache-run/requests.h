/* SPDX-License-Identifier: MIT */
/*
 * requests.h - conversations from a file with one JSON object a line.
 */
#ifndef RUN_REQUESTS_H
#define RUN_REQUESTS_H

struct engine;
struct input_list;

/**
 * requests_read() - add the conversations of a file
 * @e: the engine, opened
 * @l: the list
 * @path: the file, or "-"
 *
 * Return: 0, or -1 after a complaint that names the line.
 */
int requests_read(const struct engine *e, struct input_list *l,
		  const char *path);

#endif /* RUN_REQUESTS_H */
