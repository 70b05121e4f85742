/* SPDX-License-Identifier: MIT */
/*
 * timing.h - --timing: the time of every generated token, as CSV.
 */
#ifndef RUN_TIMING_H
#define RUN_TIMING_H

#include <stdint.h>
#include <stdio.h>

struct conv;

/* The line with the columns' names. */
void timing_begin(FILE *f);
/**
 * timing_row() - the line of the newest token of a conversation
 * @f: where it goes, or NULL for nowhere
 * @c: the conversation, its token already in
 * @pos: position whose logits gave the token
 * @forwarded: positions of the conversation that were computed for it
 * @rows: positions of all conversations in the same step
 * @secs: seconds that the step took
 */
void timing_row(FILE *f, const struct conv *c, uint32_t pos,
		uint32_t forwarded, uint32_t rows, double secs);

#endif /* RUN_TIMING_H */
