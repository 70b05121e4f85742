// SPDX-License-Identifier: MIT
/*
 * oracle.c - LRU and Belady's MIN over the blocks of a sequence of requests.
 */
#include <stdlib.h>

#include "oracle.h"

#define NEVER	(1ULL << 40)	/* later than any step */
#define DEPTH	(1U << 20)	/* more than a prompt has blocks */

struct block {
	bool there;
	uint32_t users;
	uint64_t rank;		/* the highest goes first */
	uint32_t use;		/* of @uses: the next one, for Belady */
	uint32_t last_use;
};

struct victim {
	uint64_t rank;
	uint32_t block;
};

struct oracle {
	const struct trace *t;
	bool apart;
	bool ideal;
	enum oracle_policy policy;
	uint64_t pages;
	uint64_t used;
	uint64_t clock;
	struct block *block;
	uint32_t *uses;		/* steps at which blocks are looked up */
	uint32_t *hits;		/* [requests] */
	uint32_t *held;		/* [requests] leading blocks that it uses */
	struct victim *heap;
	size_t nr_heap;
	size_t cap;
	struct oracle_found *out;
};

static const uint32_t *blocks_of(const struct oracle *o, uint32_t r)
{
	return o->apart ? o->t->v[r].own : o->t->v[r].block;
}

static uint32_t pages_of(const struct oracle *o, uint32_t r)
{
	return o->ideal ? o->t->v[r].full : o->t->v[r].pages;
}

/* ---- the heap, where out of date entries stay until they come up -------- */

static void push(struct oracle *o, uint64_t rank, uint32_t block)
{
	size_t k = o->nr_heap++, up;

	if (o->nr_heap > o->cap) {
		o->cap = o->cap ? 2 * o->cap : 4096;
		o->heap = reallocarray(o->heap, o->cap, sizeof(*o->heap));
		if (!o->heap)
			replay_die("out of memory");
	}
	for (; k && o->heap[up = (k - 1) / 2].rank < rank; k = up)
		o->heap[k] = o->heap[up];
	o->heap[k] = (struct victim) { rank, block };
}

static struct victim pop(struct oracle *o)
{
	struct victim first = o->heap[0], v = o->heap[--o->nr_heap];
	size_t k = 0, down;

	while ((down = 2 * k + 1) < o->nr_heap) {
		if (down + 1 < o->nr_heap &&
		    o->heap[down + 1].rank > o->heap[down].rank)
			down++;
		if (o->heap[down].rank <= v.rank)
			break;
		o->heap[k] = o->heap[down];
		k = down;
	}
	o->heap[k] = v;
	return first;
}

static void make_room(struct oracle *o, uint64_t n)
{
	while (o->used + n > o->pages && o->nr_heap) {
		struct victim v = pop(o);
		struct block *b = &o->block[v.block];

		if (!b->there || b->users || b->rank != v.rank)
			continue;
		b->there = false;
		o->used--;
		o->out->evicted++;
	}
	if (o->used + n > o->pages && o->used + n - o->pages > o->out->beyond)
		o->out->beyond = o->used + n - o->pages;
	o->used += n;
}

/* ---- steps -------------------------------------------------------------- */

/* Nobody uses the block any more; @k is its place in the prompt. */
static void rest(struct oracle *o, uint32_t block, uint32_t k, size_t now)
{
	struct block *b = &o->block[block];
	uint64_t next = NEVER;

	if (o->policy == ORACLE_LRU) {
		/* Called from leaf to root: so the leaf is the older one. */
		b->rank = UINT64_MAX - ++o->clock;
	} else {
		while (b->use < b->last_use && o->uses[b->use] <= now)
			b->use++;
		if (b->use < b->last_use)
			next = o->uses[b->use];
		b->rank = next * DEPTH + k;
	}
	push(o, b->rank, block);
}

/* Lets go of the first @n blocks of a request. */
static void let_go(struct oracle *o, uint32_t r, uint32_t n, size_t now)
{
	const uint32_t *block = blocks_of(o, r);

	while (n--)
		if (!--o->block[block[n]].users)
			rest(o, block[n], n, now);
}

static void look(struct oracle *o, uint32_t r)
{
	const uint32_t *block = blocks_of(o, r);
	uint32_t k;

	for (k = 0; k < o->t->v[r].ask && o->block[block[k]].there; k++)
		o->block[block[k]].users++;
	o->hits[r] = o->held[r] = k;
}

/* Its own copy of a block becomes the block, or goes if there is one by now. */
static void publish(struct oracle *o, uint32_t r)
{
	const uint32_t *block = blocks_of(o, r);
	uint32_t k;

	for (k = o->hits[r]; k < o->t->v[r].full; k++) {
		struct block *b = &o->block[block[k]];

		if (b->there)
			o->used--;
		b->there = true;
		b->users++;
	}
	o->held[r] = k;
}

static void one_step(struct oracle *o, const struct step *s, size_t now)
{
	uint32_t r = s->request;

	switch (s->what) {
	case STEP_LOOK:
		look(o, r);
		break;
	case STEP_DROP:
		let_go(o, r, o->held[r], now);
		break;
	case STEP_START:
		make_room(o, pages_of(o, r) - o->hits[r]);
		o->out->hits += o->hits[r];
		break;
	case STEP_PUBLISH:
		publish(o, r);
		break;
	case STEP_END:
		o->used -= pages_of(o, r) - o->held[r];
		let_go(o, r, o->held[r], now);
		break;
	}
}

/* ---- what is to come ---------------------------------------------------- */

/* Lists for each block at which steps it is looked up. */
static void foresee(struct oracle *o, const struct step *step, size_t n,
		    uint32_t nr)
{
	uint32_t sum = 0, k, c;
	size_t i;

	for (i = 0; i < n; i++)
		if (step[i].what == STEP_LOOK)
			for (k = 0; k < o->t->v[step[i].request].ask; k++)
				o->block[blocks_of(o, step[i].request)[k]]
					.last_use++;
	for (k = 0; k < nr; k++) {
		c = o->block[k].last_use;
		o->block[k].use = o->block[k].last_use = sum;
		sum += c;
	}
	o->uses = replay_alloc(sum + 1, sizeof(*o->uses));
	for (i = 0; i < n; i++)
		if (step[i].what == STEP_LOOK)
			for (k = 0; k < o->t->v[step[i].request].ask; k++) {
				c = blocks_of(o, step[i].request)[k];
				o->uses[o->block[c].last_use++] = i;
			}
}

static void run(struct oracle *o, const struct step *step, size_t n)
{
	uint32_t nr = o->apart ? o->t->nr_own : o->t->nr_block;
	size_t i;

	*o->out = (struct oracle_found) { 0 };
	o->block = replay_alloc(nr + 1, sizeof(*o->block));
	o->hits = replay_alloc(o->t->n, sizeof(*o->hits));
	o->held = replay_alloc(o->t->n, sizeof(*o->held));
	foresee(o, step, n, nr);
	for (i = 0; i < n; i++)
		one_step(o, &step[i], i);
	free(o->block);
	free(o->hits);
	free(o->held);
	free(o->uses);
	free(o->heap);
}

void oracle_run(const struct trace *t, const struct step *step, size_t n,
		uint64_t pages, enum oracle_policy policy, bool apart,
		struct oracle_found *out)
{
	struct oracle o = {
		.t = t, .apart = apart, .policy = policy, .pages = pages,
		.out = out,
	};

	run(&o, step, n);
}

void oracle_ideal(const struct trace *t, uint64_t pages,
		  enum oracle_policy policy, struct oracle_found *out)
{
	static const enum step_what what[] = {
		STEP_LOOK, STEP_START, STEP_PUBLISH, STEP_END,
	};
	struct step *step = replay_alloc(4 * t->n, sizeof(*step));
	struct oracle o = {
		.t = t, .ideal = true, .policy = policy, .pages = pages,
		.out = out,
	};
	size_t i;

	for (i = 0; i < 4 * t->n; i++)
		step[i] = (struct step) { i / 4, what[i % 4] };
	run(&o, step, 4 * t->n);
	free(step);
}
