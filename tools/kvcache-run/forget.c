// SPDX-License-Identifier: MIT
/*
 * forget.c - a context that is full: its first tokens stay, half of the others go,
 * and the text goes on.
 *
 * Keys of what follows are rotated to their new positions. Pages that others hold
 * or find are copied for that; if there are none for it, what is kept is computed
 * anew.
 */
#include <errno.h>
#include <string.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "model.h"
#include "sched.h"
#include "util.h"

/* A multiple of the pages of every group with a window, if that can be. */
static uint32_t whole_pages(const struct engine *e, uint32_t n)
{
	uint32_t unit = 1, g, P, a, b, t;

	for (g = 0; g < e->shape.ngroups; g++) {
		P = kvc_cache_page_tokens(e->cache, g);
		if (e->shape.ngroups > 1 && !e->groups.group[g].window)
			continue;
		for (a = unit, b = P; b; t = a % b, a = b, b = t)
			;
		unit *= P / a;
	}
	return n >= unit ? n / unit * unit : n;
}

static void forget_ids(struct conv *c, uint32_t keep, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		ids_push(&c->gone, c->ids.v[keep + i]);
	memmove(c->ids.v + keep, c->ids.v + keep + n,
		(c->ids.n - keep - n) * sizeof(*c->ids.v));
	c->ids.n -= n;
	c->shifts++;
	/* The system message is not what the commons know of it any more. */
	if (c->common > keep)
		c->common = keep;
}

int sched_forget(struct sched *s, struct conv *c)
{
	const struct engine *e = s->e;
	uint32_t keep = e->opts->keep, len = kvc_seq_len(c->seq), n;
	struct kvc_rotation rot[2];
	int ret;

	n = whole_pages(e, (len - keep) / 2);
	model_rotation(e->model, rot);
	ret = kvc_seq_remove(c->seq, keep, n, rot);
	if (!ret) {
		forget_ids(c, keep, n);
		return 0;
	}
	if (ret != -ENOSPC && ret != -EDQUOT && ret != -E2BIG &&
	    ret != -ENODATA && ret != -ESTALE)
		return complain("conversation %s: nothing can be forgotten: %s",
				c->name, kvc_errmsg(e->kvc));
	sched_preempt(s, c);
	forget_ids(c, keep, n);
	c->stored -= n;
	return 1;
}
