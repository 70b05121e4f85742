/* SPDX-License-Identifier: MIT */
/*
 * requests.h - conversations from a file, or from standard input as they come,
 * with one JSON object a line.
 */
#ifndef RUN_REQUESTS_H
#define RUN_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>

struct conv;
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

/* The longest line of standard input. */
#define FEED_MAX (256U << 20)

/**
 * struct feed - requests that come on standard input, a line each
 * @buf: [@len] what has come and was not used
 * @len: its bytes
 * @cap: room at @buf
 * @seen: of @len, bytes without an end of line
 * @row: lines so far
 * @end: no more comes
 */
struct feed {
	char *buf;
	size_t len;
	size_t cap;
	size_t seen;
	unsigned int row;
	bool end;
};

/* What feed_next() returns, or -1 after a complaint that ends the run. */
enum {
	FEED_NONE = 0,		/* nothing has come, or a signal */
	FEED_ONE,		/* a conversation, or a turn of one that is kept */
	FEED_BAD,		/* a line that was complained about */
	FEED_END,
};

/**
 * feed_next() - the next request
 * @f: the feed
 * @e: the engine
 * @l: the list, to which a new conversation is added
 * @wait: sleep until there is one
 * @out: FEED_ONE: the conversation
 */
int feed_next(struct feed *f, const struct engine *e, struct input_list *l,
	      bool wait, struct conv **out);

#endif /* RUN_REQUESTS_H */
