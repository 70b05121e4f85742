/* SPDX-License-Identifier: MIT */
/*
 * beams.h - the likeliest text, as far as a search with a few beams finds it.
 */
#ifndef RUN_BEAMS_H
#define RUN_BEAMS_H

struct conv;
struct emit;
struct sched;

/**
 * beams_run() - search for a conversation's continuation
 * @s: the scheduler, for its engine, its batch and its counters
 * @c: the conversation, begun
 *
 * What was found is in @c->beams, the best first, and that is its text. Return: 0;
 * -1 after a complaint.
 */
int beams_run(struct sched *s, struct conv *c);

#endif /* RUN_BEAMS_H */
