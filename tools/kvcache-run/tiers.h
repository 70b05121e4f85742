/* SPDX-License-Identifier: MIT */
/*
 * tiers.h - what --tier puts under the pool.
 */
#ifndef RUN_TIERS_H
#define RUN_TIERS_H

#include <stdio.h>

#include <jansson.h>

struct engine;

#define MAX_TIERS 4	/* as many as a cache takes */

/**
 * struct tiers - those of a run
 * @t: [@n] the tiers, the upper one first
 * @name: [@n] what they are, without what is secret
 * @n: their number
 */
struct tiers {
	struct kvc_tier *t[MAX_TIERS];
	char *name[MAX_TIERS];
	unsigned int n;
};

/* Is it understood? 0, or -1 after a complaint. */
int tiers_check(const char *spec);
/* Open all that the options name, under the cache: 0, or -1 after a complaint. */
int tiers_open(struct engine *e);
/* The cache is gone. */
void tiers_close(struct engine *e);
/* Wait for what is being written, so that counters are final. */
void tiers_settle(const struct engine *e);
/* A line for each, with what it did. */
void tiers_print(const struct engine *e, FILE *f);
json_t *tiers_json(const struct engine *e);

#endif /* RUN_TIERS_H */
