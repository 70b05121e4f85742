/* SPDX-License-Identifier: MIT */
/*
 * verify.h - is what comes out of the cache what would come without one, and
 * does what is in it stay as it was written?
 */
#ifndef RUN_VERIFY_H
#define RUN_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

struct check;
struct conv;
struct engine;
struct kvc_seq;

/**
 * struct verdict - the result of one conversation's checks
 * @positions: positions whose logits were used to choose a token
 * @diffs: [@positions] largest difference of a logit of each from one pass
 *         without a cache; the owner of the verdict frees it
 * @diff: largest of these
 * @bound: what @diff may be, and half of the margin below which tokens may
 *         differ; 0 if nothing was checked
 * @steps: positions that were computed once more, each by itself
 * @step_diff: largest difference of a logit from those
 * @step_bound: what @step_diff may be
 * @equal: positions with the same most likely token
 * @unclear: positions whose margin is below twice the bound
 * @first_unclear: the first of those, or @positions
 * @wrong: positions with another token although the margin is larger
 * @rows: stored rows of K and V whose digests were compared
 * @changed: of these, rows that changed after they were written
 * @changed_layer: layer of the first of them
 * @changed_pos: its position
 * @ok: nothing failed
 */
struct verdict {
	uint32_t positions;
	float *diffs;
	float diff;
	float bound;
	uint32_t steps;
	float step_diff;
	float step_bound;
	uint32_t equal;
	uint32_t unclear;
	uint32_t first_unclear;
	uint32_t wrong;
	uint64_t rows;
	uint64_t changed;
	uint32_t changed_layer;
	uint32_t changed_pos;
	bool ok;
};

/* Largest difference that types of keys and values may cause to any logit of
 * @n positions, at least 1. */
float verify_bound(int k_type, int v_type, uint32_t n);

struct check *check_create(const struct engine *e);
void check_free(struct check *k);

/* Take the digests of rows that the sequence has got since the last call. */
void check_rows(struct check *k, const struct kvc_seq *seq);
/* Compare all of them with the rows as they are now. */
void check_same(struct check *k, const struct kvc_seq *seq);
/* The same, before the pages are given back. */
void check_drop(struct check *k, const struct kvc_seq *seq);
/* Its pages were revoked: nothing is known of what it will have. */
void check_lost(struct check *k);
bool check_is_lost(const struct check *k);
/* It has pages again, after check_drop(): those that it had must be as it left them. */
void check_back(struct check *k, const struct kvc_seq *seq);
/* Keep the logits that chose the token after position @pos. */
void check_logits(struct check *k, uint32_t pos, const float *logits);

/**
 * check_conv() - compare a conversation with passes that use no cache
 * @k: what was kept of it
 * @c: the conversation
 * @out: the result
 *
 * Return: 0, or -1 after a complaint.
 */
int check_conv(struct check *k, const struct conv *c, struct verdict *out);

#endif /* RUN_VERIFY_H */
