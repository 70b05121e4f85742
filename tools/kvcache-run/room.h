/* SPDX-License-Identifier: MIT */
/*
 * room.h - whether a conversation can ever fit, and what to say if not.
 */
#ifndef RUN_ROOM_H
#define RUN_ROOM_H

#include <stdbool.h>

struct conv;
struct engine;

/**
 * room_possible() - can this conversation be kept at all
 * @e: the engine, with its pool
 * @c: the conversation
 *
 * With --on-full preempt all of its tokens must fit, since it is to be
 * finished; with stop its prompt. Complains if not, with the pages wanted,
 * held, allowed and missing, and what would make room.
 */
bool room_possible(const struct engine *e, const struct conv *c);

/* Complain that a running conversation gets no page for its next token. */
void room_ended(const struct engine *e, const struct conv *c,
		unsigned int running);

#endif /* RUN_ROOM_H */
