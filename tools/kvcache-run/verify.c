// SPDX-License-Identifier: MIT
/*
 * verify.c - compare with passes that use no cache, and watch stored rows.
 *
 * Of every stored row of K and V (all heads of a layer at one position) a
 * digest is taken right after the step that wrote it, and compared when the
 * conversation ends or gives its pages back; and when it finds such a page
 * again, for what happened in between.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kvattn.h>
#include <nettle/sha2.h>

#include "conv.h"
#include "engine.h"
#include "model.h"
#include "progress.h"
#include "sample.h"
#include "util.h"
#include "verify.h"

#define STEPWISE 8	/* positions that are computed once more alone */
#define READ_ROWS 256	/* rows read at a time */

/*
 * Documentation/kernels.rst derives the rule and says how these were measured;
 * they are for weights as f32. At a typical position the worst logit is off by
 * STORING times the unit roundoff of the stored type, plus ARITHMETIC. Half of
 * r to the power -TAIL is the share of positions that are more than r times as
 * far off.
 */
#define STORING 16.0
#define ARITHMETIC 3.2e-5
#define TAIL 3.0
#define CHANCE 0.01	/* that a conversation fails with nothing wrong */

/*
 * Unit roundoff of what is stored; of packed types the one that a floating point
 * type with the same typical error would have: Documentation/quantisation.rst.
 */
static const double roundoff[KVA_NR_TYPES] = {
	[KVA_F32] = 0x1p-24,
	[KVA_F16] = 0x1p-11,
	[KVA_BF16] = 0x1p-8,
	[KVA_INT8] = 0.021,
	[KVA_E4M3] = 0.047,
	[KVA_E4M3T] = 0.082,
	[KVA_INT4] = 0.25,
	[KVA_INT4H] = 0.14,
};

/* The logits that chose one token. */
struct kept {
	uint32_t pos;
	float *logits;
};

/**
 * struct check - what is kept of one conversation
 * @e: the engine
 * @digests: [@nrows][layers][K, V]
 * @nrows: positions
 * @cap: room at @digests, in positions
 * @pages: of each group [@npages] handles of the pages that it gave back, which
 *         hold @nrows
 * @npages: their number
 * @lost: its pages were revoked, and it has not begun again
 * @kept: logits, by ascending position
 * @nkept: their number
 * @buf: rows of one layer's K or V, [heads][READ_ROWS][dim]
 * @v: the result so far
 */
struct check {
	const struct engine *e;
	uint64_t *digests;
	uint32_t nrows;
	uint32_t cap;
	uint64_t *pages[2];
	uint32_t npages[2];
	bool lost;
	struct kept *kept;
	uint32_t nkept;
	uint8_t *buf;
	struct verdict v;
};

float verify_bound(int k_type, int v_type, uint32_t n)
{
	double u = fmax(roundoff[k_type], roundoff[v_type]);

	return (STORING * u + ARITHMETIC) *
	       pow(n / (2 * CHANCE), 1 / TAIL);
}

static size_t row_size(const struct check *k, int is_v)
{
	const struct kvc_group *g = &k->e->groups.group[0];

	return is_v ? kva_row_size(g->v_type, g->v_dim)
		    : kva_row_size(g->k_type, g->k_dim);
}

struct check *check_create(const struct engine *e)
{
	struct check *k = xcalloc(1, sizeof(*k));
	size_t row;

	k->e = e;
	row = row_size(k, 0) > row_size(k, 1) ? row_size(k, 0) : row_size(k, 1);
	k->buf = xcalloc((size_t)e->groups.group[0].kv_heads * READ_ROWS, row);
	return k;
}

void check_free(struct check *k)
{
	uint32_t i;

	if (!k)
		return;
	for (i = 0; i < k->nkept; i++)
		free(k->kept[i].logits);
	free(k->kept);
	free(k->v.diffs);
	free(k->digests);
	free(k->pages[0]);
	free(k->pages[1]);
	free(k->buf);
	free(k);
}

static uint64_t *digest_at(struct check *k, uint32_t pos, uint32_t layer,
			   int is_v)
{
	return k->digests +
	       ((size_t)pos * k->e->info.nlayers + layer) * 2 + is_v;
}

/* Digest of row @i of the @n rows in the buffer. */
static uint64_t digest(const struct check *k, uint32_t i, uint32_t n,
		       size_t size)
{
	uint8_t out[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;
	uint64_t d;
	uint32_t h;

	sha256_init(&sha);
	for (h = 0; h < k->e->groups.group[0].kv_heads; h++)
		sha256_update(&sha, size,
			      k->buf + ((size_t)h * n + i) * size);
	sha256_digest(&sha, sizeof(out), out);
	memcpy(&d, out, sizeof(d));
	return d;
}

/* False: some have left a window. */
static bool read_rows(struct check *k, const struct kvc_seq *seq,
		      uint32_t layer, int is_v, uint32_t first, uint32_t n)
{
	size_t size = row_size(k, is_v);
	uint32_t h;

	for (h = 0; h < k->e->groups.group[0].kv_heads; h++)
		if (kvc_seq_read(seq, layer, is_v, h, first, n,
				 k->buf + (size_t)h * n * size) == -ENODATA)
			return false;
	return true;
}

static void compare(struct check *k, uint32_t pos, uint32_t layer, int is_v,
		    uint64_t d)
{
	/* It had left a window, and another reading found it again. */
	if (!*digest_at(k, pos, layer, is_v)) {
		*digest_at(k, pos, layer, is_v) = d;
		return;
	}
	k->v.rows++;
	if (d == *digest_at(k, pos, layer, is_v))
		return;
	if (!k->v.changed++) {
		k->v.changed_layer = layer;
		k->v.changed_pos = pos;
	}
}

/* One layer's K or V; what is not there any more has digest 0. */
static void layer_digests(struct check *k, const struct kvc_seq *seq,
			  uint32_t layer, int is_v, uint32_t first, uint32_t n,
			  bool take)
{
	uint32_t i;
	uint64_t d;

	if (!read_rows(k, seq, layer, is_v, first, n)) {
		for (i = 0; n > 1 && i < n; i++)
			layer_digests(k, seq, layer, is_v, first + i, 1, take);
		if (n == 1 && take)
			*digest_at(k, first, layer, is_v) = 0;
		return;
	}
	for (i = 0; i < n; i++) {
		d = digest(k, i, n, row_size(k, is_v));
		if (take)
			*digest_at(k, first + i, layer, is_v) = d;
		else
			compare(k, first + i, layer, is_v, d);
	}
}

/* Digests of rows [@first, @first + @n) of a group: taken, or compared. */
static void digests(struct check *k, const struct kvc_seq *seq, uint32_t group,
		    uint32_t first, uint32_t n, bool take)
{
	uint32_t layer;

	for (layer = 0; layer < k->e->info.nlayers; layer++) {
		if (k->e->groups.layer_group[layer] != group)
			continue;
		layer_digests(k, seq, layer, 0, first, n, take);
		layer_digests(k, seq, layer, 1, first, n, take);
	}
}

/* Of all groups. */
static void all_digests(struct check *k, const struct kvc_seq *seq,
			uint32_t first, uint32_t n, bool take)
{
	uint32_t g;

	for (g = 0; g < k->e->shape.ngroups; g++)
		digests(k, seq, g, first, n, take);
}

void check_rows(struct check *k, const struct kvc_seq *seq)
{
	uint32_t len = kvc_seq_len(seq), n;

	if (len > k->cap) {
		k->cap = len + len / 2;
		k->digests = xrealloc(k->digests, k->cap,
				      2 * k->e->info.nlayers *
				      sizeof(*k->digests));
	}
	for (; k->nrows < len; k->nrows += n) {
		n = len - k->nrows < READ_ROWS ? len - k->nrows : READ_ROWS;
		all_digests(k, seq, k->nrows, n, true);
	}
}

void check_same(struct check *k, const struct kvc_seq *seq)
{
	uint32_t at, n;

	for (at = 0; at < k->nrows; at += n) {
		n = k->nrows - at < READ_ROWS ? k->nrows - at : READ_ROWS;
		all_digests(k, seq, at, n, false);
	}
}

void check_drop(struct check *k, const struct kvc_seq *seq)
{
	uint32_t g, n;

	check_same(k, seq);
	for (g = 0; g < k->e->shape.ngroups; g++) {
		n = kvc_seq_handles(seq, g, NULL, 0);
		k->npages[g] = n;
		k->pages[g] = xrealloc(k->pages[g], n, sizeof(*k->pages[g]));
		kvc_seq_handles(seq, g, k->pages[g], n);
	}
}

void check_lost(struct check *k)
{
	k->lost = true;
	k->nrows = 0;
}

bool check_is_lost(const struct check *k)
{
	return k->lost;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/*
 * A page that went to somebody else has another handle: what it holds now was
 * computed again, beside other rows of a step, and may differ in its last bits.
 */
static void group_back(struct check *k, const struct kvc_seq *seq, uint32_t g)
{
	uint32_t per_page = kvc_cache_page_tokens(k->e->cache, g);
	uint32_t npages = kvc_seq_handles(seq, g, NULL, 0), at, n, i;
	uint64_t *pages = xcalloc(npages, sizeof(*pages));

	kvc_seq_handles(seq, g, pages, npages);
	for (at = 0; at < k->nrows; at += n) {
		i = at / per_page;
		n = least(per_page - at % per_page, k->nrows - at);
		n = least(n, READ_ROWS);
		digests(k, seq, g, at, n, pages[i] != k->pages[g][i]);
	}
	free(pages);
}

void check_back(struct check *k, const struct kvc_seq *seq)
{
	uint32_t g;

	k->nrows = least(k->nrows, kvc_seq_len(seq));
	k->lost = false;
	for (g = 0; g < k->e->shape.ngroups; g++)
		group_back(k, seq, g);
	check_rows(k, seq);
}

void check_logits(struct check *k, uint32_t pos, const float *logits)
{
	size_t size = k->e->info.vocab * sizeof(*logits);
	struct kept *kept;

	k->kept = xrealloc(k->kept, k->nkept + 1, sizeof(*k->kept));
	kept = &k->kept[k->nkept++];
	kept->pos = pos;
	kept->logits = xrealloc(NULL, size, 1);
	memcpy(kept->logits, logits, size);
}

/* Not a number counts as infinitely wrong. */
static float distance(const float *a, const float *b, uint32_t n)
{
	float most = 0, d;
	uint32_t i;

	for (i = 0; i < n; i++) {
		d = fabsf(a[i] - b[i]);
		if (!(d <= most))
			most = isnan(d) ? INFINITY : d;
	}
	return most;
}

/* Where check_conv() is in the pass over the whole text. */
struct pass {
	struct check *k;
	uint32_t at;
};

static void one_position(void *arg, uint32_t pos, const float *logits)
{
	struct pass *p = arg;
	struct check *k = p->k;
	const struct kept *kept = &k->kept[p->at];
	uint32_t vocab = k->e->info.vocab, n = least(2, vocab), top[2];
	struct verdict *v = &k->v;
	bool equal;

	v->diffs[p->at] = distance(kept->logits, logits, vocab);
	v->diff = fmaxf(v->diff, v->diffs[p->at]);
	sample_top(logits, vocab, n, top);
	equal = sample_greedy(kept->logits, vocab) == top[0];
	v->equal += equal;
	/* A token that has no rival cannot be another. */
	if (n < 2 || logits[top[0]] - logits[top[1]] >= 2 * v->bound)
		v->wrong += !equal;
	else if (!v->unclear++)
		v->first_unclear = p->at;
	p->at++;
}

static int one_pass(struct check *k, const struct conv *c)
{
	uint32_t *want = xcalloc(k->nkept, sizeof(*want)), i;
	struct pass p = { .k = k };
	int ret;

	k->v.diffs = xcalloc(k->nkept, sizeof(*k->v.diffs));
	for (i = 0; i < k->nkept; i++)
		want[i] = k->kept[i].pos;
	ret = model_recompute(k->e->model, c->ids.v, want[k->nkept - 1] + 1,
			      want, k->nkept, NULL, one_position, &p);
	free(want);
	return ret;
}

static int stepwise(struct check *k, const struct conv *c)
{
	uint32_t n = k->v.steps, i, at;
	uint32_t vocab = k->e->info.vocab;
	float *logits = xcalloc(vocab, sizeof(*logits));
	int ret = 0;

	for (i = 0; i < n && !ret; i++) {
		progress("verifying", (double)i / n);
		at = n > 1 ? (uint64_t)i * (k->nkept - 1) / (n - 1) : 0;
		ret = model_recompute(k->e->model, c->ids.v,
				      k->kept[at].pos + 1, &k->kept[at].pos, 1,
				      logits, NULL, NULL);
		k->v.step_diff = fmaxf(k->v.step_diff,
				       distance(k->kept[at].logits, logits,
						vocab));
	}
	progress_clear();
	free(logits);
	return ret;
}

int check_conv(struct check *k, const struct conv *c, struct verdict *out)
{
	int k_type = k->e->opts->k_type, v_type = k->e->opts->v_type;
	struct verdict *v = &k->v;
	int ret = 0;

	v->positions = k->nkept;
	v->steps = least(k->nkept, STEPWISE);
	v->first_unclear = k->nkept;
	v->bound = verify_bound(k_type, v_type, k->nkept ? k->nkept : 1);
	v->step_bound = verify_bound(k_type, v_type, v->steps ? v->steps : 1);
	progress("verifying", 0);
	if (k->nkept) {
		ret = one_pass(k, c);
		if (!ret)
			ret = stepwise(k, c);
	}
	progress_clear();
	if (ret)
		return complain("conversation %s: recomputing failed: %s",
				c->name, strerror(-ret));
	v->ok = v->diff <= v->bound && v->step_diff <= v->step_bound &&
		!v->wrong && !v->changed;
	*out = *v;
	v->diffs = NULL;
	return 0;
}
