// SPDX-License-Identifier: MIT
/*
 * fanout.c - several samples of one prompt: it is computed once, and each goes on
 * from the same pages.
 */
#include <stdlib.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "sched.h"
#include "util.h"
#include "verify.h"

static int by_handle(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void sched_shared(struct sched *s, struct kvc_seq *const *seq, unsigned int n)
{
	uint64_t *v, sum = 0, held = 0, at = 0;
	unsigned int i;
	uint32_t g;

	for (i = 0; i < n; i++)
		sum += kvc_seq_pages(seq[i]);
	if (sum <= s->share_sum)
		return;
	for (i = 0; i < n; i++)
		for (g = 0; g < s->e->shape.ngroups; g++)
			at += kvc_seq_handles(seq[i], g, NULL, 0);
	v = xcalloc(at, sizeof(*v));
	for (i = 0, at = 0; i < n; i++)
		for (g = 0; g < s->e->shape.ngroups; g++)
			at += kvc_seq_handles(seq[i], g, v + at, UINT32_MAX);
	qsort(v, at, sizeof(*v), by_handle);
	/* 0 is what has left a window. */
	for (uint64_t k = 0; k < at; k++)
		held += v[k] && (!k || v[k] != v[k - 1]);
	free(v);
	s->share_sum = sum;
	s->share_held = held;
}

void sched_fan_out(struct sched *s, struct conv *c, const float *logits,
		   double secs)
{
	unsigned int n = c->nkids, i;

	c->nkids = 0;
	for (i = 0; i < n; i++)
		sched_add(s, c->kids[i]);
	for (i = 0; i < n && s->nrun < s->e->opts->parallel; i++) {
		struct conv *kid = c->kids[i];

		/* Those for which there is no place wait, as any other. */
		if (kvc_seq_fork(c->seq, &kid->seq))
			break;
		kid->started = c->started;
		kid->reused = kid->ids.n;
		if (kid->check)
			check_rows(kid->check, kid->seq);
		s->run[s->nrun++] = kid;
		sched_next_token(s, kid, logits, 0, secs);
	}
}

void sched_end_kids(struct sched *s, struct conv *c)
{
	unsigned int n = c->nkids, i;

	c->nkids = 0;
	for (i = 0; i < n; i++) {
		c->kids[i]->state = CONV_DONE;
		c->kids[i]->finish = c->finish;
		if (s->hooks->ended)
			s->hooks->ended(s->hooks->arg, c->kids[i]);
	}
}
