// SPDX-License-Identifier: MIT
/*
 * ids.c - a growing list of token ids.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ids.h"
#include "text.h"
#include "tokenizer.h"
#include "util.h"

static void reserve(struct ids *ids, size_t more)
{
	if (ids->n + more <= ids->cap)
		return;
	ids->cap = ids->n + more + ids->cap / 2 + 64;
	ids->v = xrealloc(ids->v, ids->cap, sizeof(*ids->v));
}

void ids_push(struct ids *ids, uint32_t id)
{
	reserve(ids, 1);
	ids->v[ids->n++] = id;
}

int ids_check(const char *text, size_t len, const char *what)
{
	size_t good = utf8_check(text, len);

	if (good == len)
		return 0;
	return complain("%s: byte %zu is not UTF-8: convert the text to UTF-8",
			what, good + 1);
}

int ids_text(struct ids *ids, const struct tokenizer *t, const char *text,
	     size_t len, bool special, const char *what)
{
	int n;

	if (len >= INT32_MAX)
		return complain("%s: %zu bytes are too many: give less text",
				what, len);
	if (ids_check(text, len, what))
		return -1;
	reserve(ids, len + 1);
	n = tokenizer_encode(t, text, len, special, ids->v + ids->n, len + 1);
	if (n < 0)
		return complain("%s: cannot be tokenized: %s", what,
				strerror(-n));
	ids->n += n;
	return 0;
}

int ids_parse(struct ids *ids, const char *s, uint32_t vocab, const char *what)
{
	const char *at = s;
	unsigned long id;
	char *end;

	for (;;) {
		/* strtoul() takes signs, and counts down from its end. */
		at += strspn(at, " \t");
		errno = 0;
		id = strtoul(at, &end, 10);
		if (!isdigit((unsigned char)*at) || errno)
			return complain("%s: \"%.20s\" is not a token id: give ids as 1,5,9",
					what, at);
		if (id >= vocab)
			return complain("%s: there is no token %lu: the model has %u, from 0",
					what, id, vocab);
		ids_push(ids, id);
		if (!*end)
			return 0;
		if (*end != ',')
			return complain("%s: \"%.20s\" is not a comma: give ids as 1,5,9",
					what, end);
		at = end + 1;
	}
}

void ids_free(struct ids *ids)
{
	free(ids->v);
}
