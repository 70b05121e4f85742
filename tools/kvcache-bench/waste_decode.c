// SPDX-License-Identifier: MIT
/*
 * waste_decode.c - how fast attention reads pages of a size: decode of many
 * sequences through the library, all layers, beside the same on pages of
 * another size.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "waste.h"

#define CHUNK	512	/* tokens in a step that fills */
#define ROUNDS	5	/* of a size and its reference; small pages are slow */

struct world {
	struct waste_cache w;
	struct kvc_batch *batch;
	struct kvc_seq **seq;
	struct kvc_item *items;
	uint32_t nseq;
	uint32_t *ids;
	float *kv;	/* [CHUNK][WASTE_KV_HEADS][WASTE_DIM] */
	float *q;	/* [nseq][WASTE_Q_HEADS][WASTE_DIM] */
	float *o;
};

static void need(const struct world *w, int rc)
{
	if (rc)
		bench_die("%s", kvc_errmsg(w->w.kvc));
}

static void append(struct world *w, uint32_t n, uint32_t tokens)
{
	size_t stride = WASTE_KV_HEADS * WASTE_DIM;
	uint32_t i;

	for (i = 0; i < n; i++)
		w->items[i].n = tokens;
	need(w, kvc_batch_plan(w->batch, w->items, n));
	for (i = 0; i < WASTE_LAYERS; i++)
		need(w, kvc_append(w->batch, i, NULL, NULL, 0, w->kv, stride,
				   w->kv, stride));
}

/* Sequence after sequence, so that the pages of each lie together. */
static void fill(struct world *w)
{
	const struct kvc_item all = w->items[0];
	uint32_t i, done;

	for (i = 0; i < w->nseq; i++) {
		w->items[0].seq = w->seq[i];
		for (done = 0; done < WASTE_CONTEXT - 1; done += CHUNK) {
			uint32_t left = WASTE_CONTEXT - 1 - done;

			append(w, 1, left < CHUNK ? left : CHUNK);
			need(w, kvc_batch_commit(w->batch));
		}
	}
	w->items[0] = all;
}

static void set_up(struct world *w, uint64_t page_size, size_t bytes)
{
	const struct kvc_model *m = waste_model();
	struct kvc_footprint f;
	uint32_t i;

	memset(w, 0, sizeof(*w));
	if (kvc_footprint(m, page_size, WASTE_CONTEXT, 1, &f))
		bench_die("no token fits in a page of %llu bytes: take larger pages",
			  (unsigned long long)page_size);
	w->nseq = bytes / f.used_bytes + 1;
	waste_open(&w->w, page_size, f.pages * w->nseq);
	need(w, kvc_batch_create(w->w.cache, &w->batch));
	w->seq = bench_alloc(w->nseq, sizeof(*w->seq));
	w->items = bench_alloc(w->nseq, sizeof(*w->items));
	w->ids = bench_alloc(CHUNK, sizeof(*w->ids));
	w->kv = bench_alloc((size_t)(w->nseq > CHUNK ? w->nseq : CHUNK) *
			    WASTE_KV_HEADS * WASTE_DIM, sizeof(float));
	w->q = bench_alloc((size_t)w->nseq * WASTE_Q_HEADS * WASTE_DIM,
			   sizeof(float));
	w->o = bench_alloc((size_t)w->nseq * WASTE_Q_HEADS * WASTE_DIM,
			   sizeof(float));
	for (i = 0; i < CHUNK * WASTE_KV_HEADS * WASTE_DIM; i++)
		w->kv[i] = sinf(i);
	for (i = 0; i < w->nseq * WASTE_Q_HEADS * WASTE_DIM; i++)
		w->q[i] = cosf(i);
	for (i = 0; i < w->nseq; i++) {
		need(w, kvc_seq_create(w->w.cache, NULL, &w->seq[i]));
		w->items[i] = (struct kvc_item) {
			.seq = w->seq[i], .tokens = w->ids, .n = 1,
		};
	}
	fill(w);
	append(w, w->nseq, 1);
}

static void tear_down(struct world *w)
{
	uint32_t i;

	kvc_batch_destroy(w->batch);
	for (i = 0; i < w->nseq; i++)
		kvc_seq_free(w->seq[i], KVC_SEQ_DISCARD);
	waste_close(&w->w);
	free(w->seq);
	free(w->items);
	free(w->ids);
	free(w->kv);
	free(w->q);
	free(w->o);
}

static double step(struct world *w)
{
	size_t stride = WASTE_Q_HEADS * WASTE_DIM;
	double start = bench_seconds(), bytes;
	uint32_t i;

	for (i = 0; i < WASTE_LAYERS; i++)
		need(w, kvc_attend(w->batch, i, 1 / sqrtf(WASTE_DIM), w->q,
				   stride, w->o, stride));
	bytes = 4.0 * w->nseq * WASTE_CONTEXT * WASTE_LAYERS * WASTE_KV_HEADS *
		WASTE_DIM;
	return bytes / (bench_seconds() - start) * 1e-9;
}

void waste_decode(uint64_t page_size, uint64_t ref_size, size_t bytes,
		  struct waste_speed *out)
{
	double rate[ROUNDS], ratio[ROUNDS], before, after;
	struct world w, ref;
	int i;

	set_up(&w, page_size, bytes);
	set_up(&ref, ref_size, bytes);
	step(&w);
	before = step(&ref);
	for (i = 0; i < ROUNDS; i++) {
		rate[i] = step(&w);
		after = step(&ref);
		ratio[i] = rate[i] / ((before + after) / 2);
		before = after;
	}
	tear_down(&w);
	tear_down(&ref);
	out->rate = bench_stat(rate, ROUNDS);
	out->ratio = bench_stat(ratio, ROUNDS);
}
