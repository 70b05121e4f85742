/* SPDX-License-Identifier: MIT */
/*
 * emit.h - the text of conversations, as it comes.
 */
#ifndef RUN_EMIT_H
#define RUN_EMIT_H

#include <stdbool.h>

struct conv;

/**
 * struct emit - where text goes
 * @quiet: nowhere
 * @names: several conversations: each line begins with its conversation's name
 */
struct emit {
	bool quiet;
	bool names;
};

/* Print what is new and can be printed of a conversation's text. */
void emit_text(const struct emit *em, struct conv *c);
/* The same of one that has ended: the rest too. */
void emit_end(const struct emit *em, struct conv *c);

#endif /* RUN_EMIT_H */
