// SPDX-License-Identifier: MIT
/*
 * layout.c - how a page is divided among layers, heads and tokens.
 *
 * A page of a group is [layer][K, V][kv_head][slab]; kernels/ says what a slab
 * is. Pure arithmetic: nothing here needs a context.
 */
#include <endian.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <nettle/sha2.h>

#include "internal.h"

#define MAX_HEADS 4096
#define MAX_Q_HEADS 65536	/* rows of scratch stay below 2^32 */
#define MIN_PAGE_SIZE 64	/* in-process test pools */
#define FINGERPRINT_VERSION 1	/* of keys: changes when their meaning does */

struct why {
	char *buf;
	size_t len;
};

__attribute__((format(printf, 3, 4)))
static int refuse(const struct why *why, int err, const char *fmt, ...)
{
	va_list ap;

	if (!why->buf)
		return err;
	va_start(ap, fmt);
	vsnprintf(why->buf, why->len, fmt, ap);
	va_end(ap);
	return err;
}

static int check_group(const struct kvc_model *m, uint32_t i,
		       const struct why *why)
{
	const struct kvc_group *g = &m->groups[i];

	if (!g->kv_heads || g->kv_heads > MAX_HEADS)
		return refuse(why, -EINVAL, "group %u: %u KV heads, 1 to %u can be",
			      i, g->kv_heads, MAX_HEADS);
	if (m->q_heads % g->kv_heads)
		return refuse(why, -EINVAL,
			      "group %u: %u query heads are no multiple of %u KV heads",
			      i, m->q_heads, g->kv_heads);
	if (!g->k_dim || g->k_dim % 16 || g->k_dim > KVA_DIM_MAX ||
	    !g->v_dim || g->v_dim % 16 || g->v_dim > KVA_DIM_MAX)
		return refuse(why, -EINVAL,
			      "group %u: head dimensions %u and %u, multiples of 16 up to %u can be",
			      i, g->k_dim, g->v_dim, KVA_DIM_MAX);
	if (g->k_type >= KVA_NR_TYPES || g->v_type >= KVA_NR_TYPES)
		return refuse(why, -EINVAL, "group %u: unknown element type %u",
			      i, g->k_type >= KVA_NR_TYPES ? g->k_type :
							     g->v_type);
	if (g->sinks && !g->window)
		return refuse(why, -EINVAL,
			      "group %u: %u sinks without a window", i,
			      g->sinks);
	return 0;
}

static int check_model(const struct kvc_model *m, uint64_t page_size,
		       const struct why *why)
{
	int rc;

	if (!m->nlayers || m->nlayers > KVC_MAX_LAYERS)
		return refuse(why, -EINVAL, "%u layers, 1 to %u can be",
			      m->nlayers, KVC_MAX_LAYERS);
	if (!m->ngroups || m->ngroups > KVC_MAX_GROUPS || !m->groups)
		return refuse(why, -EINVAL, "%u layer groups, 1 to %u can be",
			      m->ngroups, KVC_MAX_GROUPS);
	if (page_size < MIN_PAGE_SIZE || page_size > KVCACHE_PAGE_SIZE_MAX ||
	    page_size & (page_size - 1))
		return refuse(why, -EINVAL,
			      "a page of %llu bytes: powers of two to %llu can be",
			      (unsigned long long)page_size,
			      KVCACHE_PAGE_SIZE_MAX);
	if (!m->q_heads || m->q_heads > MAX_Q_HEADS)
		return refuse(why, -EINVAL,
			      "%u query heads, 1 to %u can be", m->q_heads,
			      MAX_Q_HEADS);
	if (m->page_tokens >= 16 && m->page_tokens % 8)
		return refuse(why, -EINVAL,
			      "%u tokens a page: from 16 on a multiple of 8",
			      m->page_tokens);
	for (uint32_t i = 0; i < m->ngroups; i++) {
		rc = check_group(m, i, why);
		if (rc)
			return rc;
	}
	return 0;
}

/* Bytes of the slabs of @tokens slots; all ones if that is past 64 bits. */
static uint64_t slots_bytes(struct kvc_lgroup *g, uint32_t order,
			    uint32_t tokens)
{
	uint64_t bytes;

	g->k_slab = kva_slab_size(g->g.k_type, order, 0, tokens, g->g.k_dim);
	g->v_slab = kva_slab_size(g->g.v_type, order, 1, tokens, g->g.v_dim);
	/* 2^32 slots of 4,096 heads of twice 1,024 x 4 bytes: below 2^58. */
	g->layer_bytes = g->g.kv_heads * (g->k_slab + g->v_slab);
	if (__builtin_mul_overflow(g->layer_bytes, g->nlayers, &bytes))
		return UINT64_MAX;
	return bytes;
}

/* Fill in what follows from the number of tokens in a page. */
static int divide(struct kvc_layout *l, uint32_t i, uint32_t page_tokens,
		  const struct why *why)
{
	struct kvc_lgroup *g = &l->group[i];
	uint32_t p = page_tokens;

	if (!p) {
		/* An upper bound: a slab is never smaller than its rows. */
		p = l->page_size / g->token_bytes;
		while (p && slots_bytes(g, l->order,
					p < 16 ? p : p - p % 8) > l->page_size)
			p--;
		if (p >= 16)
			p -= p % 8;
	}
	if (!p || slots_bytes(g, l->order, p) > l->page_size)
		return refuse(why, -E2BIG,
			      "group %u: %u tokens of %llu bytes do not fit in a page of %llu bytes: take larger pages",
			      i, p ? p : 1, (unsigned long long)g->token_bytes,
			      (unsigned long long)l->page_size);
	g->page_tokens = p;
	g->block_tokens = p;
	if (p >= 16) {
		g->block_tokens = 16;
		while ((p + g->block_tokens - 1) / g->block_tokens >
		       KVCACHE_MAX_PAGE_KEYS)
			g->block_tokens += 16;
	}
	return 0;
}

/* Scales that lie outside the page decide what its codes mean. */
static void scales_update(const struct kvc_layout *l, uint32_t group,
			  struct sha256_ctx *h)
{
	uint32_t bits, i;

	for (i = 0; i < l->nlayers; i++) {
		const float *scales[] = { &l->k_scale[i], &l->v_scale[i] };

		if (l->layer_group[i] != group)
			continue;
		for (unsigned int k = 0; k < 2; k++) {
			if (*scales[k] == 0)
				continue;
			memcpy(&bits, scales[k], sizeof(bits));
			bits = htole32(bits);
			sha256_update(h, sizeof(bits), (const uint8_t *)&bits);
		}
	}
}

/*
 * What a page's bytes mean; with @row what a row's do, whatever pages and order
 * it lies in.
 */
static void fingerprint(struct kvc_layout *l, const struct kvc_model *m,
			uint32_t i, bool row, uint8_t out[KVCACHE_KEY_LEN])
{
	struct kvc_lgroup *g = &l->group[i];
	const uint32_t v[] = {
		htole32(row ? 0 : FINGERPRINT_VERSION), htole32(i),
		htole32(l->nlayers), htole32(row ? 0 : l->order),
		htole32(g->nlayers),
		htole32(g->g.kv_heads), htole32(g->g.k_dim),
		htole32(g->g.v_dim), htole32(g->g.k_type),
		htole32(g->g.v_type), htole32(g->g.window),
		htole32(g->g.sinks), htole32(row ? 0 : g->page_tokens),
		htole32(row ? 0 : g->block_tokens),
	};
	uint64_t epoch = htole64(m->epoch);
	struct sha256_ctx h;

	sha256_init(&h);
	sha256_update(&h, sizeof(v), (const uint8_t *)v);
	sha256_update(&h, sizeof(m->id), m->id);
	sha256_update(&h, sizeof(epoch), (const uint8_t *)&epoch);
	sha256_update(&h, l->nlayers, l->layer_group);
	scales_update(l, i, &h);
	sha256_digest(&h, KVCACHE_KEY_LEN, out);
}

/* Of the layers that use them: others' are no part of anything. */
static void take_scales(struct kvc_layout *l, const struct kvc_model *m)
{
	for (uint32_t i = 0; i < m->nlayers; i++) {
		const struct kvc_group *g = &m->groups[l->layer_group[i]];

		if (g->k_type == KVC_E4M3T && m->k_scales)
			l->k_scale[i] = m->k_scales[i];
		if (g->v_type == KVC_E4M3T && m->v_scales)
			l->v_scale[i] = m->v_scales[i];
	}
}

static int check_scale(const struct why *why, uint32_t layer, char name,
		       uint32_t type, float scale)
{
	if (type != KVC_E4M3T || (isnormal(scale) && scale > 0))
		return 0;
	if (scale == 0)
		return refuse(why, -EINVAL,
			      "layer %u: %c is e4m3t and has no scale: give one for each layer",
			      layer, name);
	return refuse(why, -EINVAL,
		      "layer %u: %c has a scale of %g: normal numbers above 0 can be",
		      layer, name, scale);
}

int kvc_layout_scales(const struct kvc_layout *l, char *buf, size_t buf_len)
{
	const struct why why = { buf, buf_len };
	int rc = 0;

	for (uint32_t i = 0; i < l->nlayers && !rc; i++) {
		const struct kvc_group *g = &l->group[l->layer_group[i]].g;

		rc = check_scale(&why, i, 'K', g->k_type, l->k_scale[i]);
		if (!rc)
			rc = check_scale(&why, i, 'V', g->v_type,
					 l->v_scale[i]);
	}
	return rc;
}

int kvc_layout_init(struct kvc_layout *l, const struct kvc_model *m,
		    uint64_t page_size, char *buf, size_t buf_len)
{
	const struct why why = { buf, buf_len };
	uint32_t i, gi;
	int rc;

	rc = check_model(m, page_size, &why);
	if (rc)
		return rc;
	memset(l, 0, sizeof(*l));
	l->nlayers = m->nlayers;
	l->ngroups = m->ngroups;
	l->q_heads = m->q_heads;
	l->order = m->row_major ? KVA_ROW : KVA_CPU;
	l->page_size = page_size;
	l->epoch = m->epoch;
	memcpy(l->id, m->id, sizeof(l->id));
	for (i = 0; i < m->nlayers; i++) {
		gi = m->layer_group ? m->layer_group[i] : 0;
		if (gi >= m->ngroups)
			return refuse(&why, -EINVAL,
				      "layer %u: group %u of %u", i, gi,
				      m->ngroups);
		l->layer_group[i] = gi;
		l->layer_index[i] = l->group[gi].nlayers++;
	}
	take_scales(l, m);
	for (i = 0; i < m->ngroups; i++) {
		struct kvc_lgroup *g = &l->group[i];

		g->g = m->groups[i];
		g->span = g->g.window;
		if (!g->nlayers)
			return refuse(&why, -EINVAL, "group %u has no layer", i);
		g->token_bytes = (uint64_t)g->nlayers * g->g.kv_heads *
			(kva_row_size(g->g.k_type, g->g.k_dim) +
			 kva_row_size(g->g.v_type, g->g.v_dim));
		rc = divide(l, i, m->page_tokens, &why);
		if (rc)
			return rc;
		fingerprint(l, m, i, false, g->fingerprint);
		fingerprint(l, m, i, true, g->row_id);
	}
	return 0;
}

void kvc_layout_view(const struct kvc_layout *l, uint32_t layer, void *base,
		     struct kva_view *v)
{
	const struct kvc_lgroup *g = &l->group[l->layer_group[layer]];

	*v = (struct kva_view) {
		.base = base,
		.page_stride = l->page_size,
		.page_tokens = g->page_tokens,
		.kv_heads = g->g.kv_heads,
		.k_dim = g->g.k_dim,
		.v_dim = g->g.v_dim,
		.k_type = g->g.k_type,
		.v_type = g->g.v_type,
		.order = l->order,
		.k_scale = l->k_scale[layer],
		.v_scale = l->v_scale[layer],
		.k_off = l->layer_index[layer] * g->layer_bytes,
		.k_head_stride = g->k_slab,
		.v_head_stride = g->v_slab,
	};
	v->v_off = v->k_off + g->g.kv_heads * g->k_slab;
}

int kvc_footprint(const struct kvc_model *model, uint64_t page_size,
		  uint64_t ntokens, uint64_t nseq, struct kvc_footprint *out)
{
	struct kvc_footprint f = { 0 };
	struct kvc_layout l;
	struct kvc_model m;
	int rc;

	rc = kvc_opts_copy(&m, sizeof(m), model);
	if (rc)
		return rc;
	rc = kvc_layout_init(&l, &m, page_size, NULL, 0);
	if (rc)
		return rc;

	f.page_tokens = l.group[0].page_tokens;
	f.block_tokens = l.group[0].block_tokens;
	for (uint32_t i = 0; i < l.ngroups; i++) {
		const struct kvc_lgroup *g = &l.group[i];
		uint64_t pages, slack, gap;

		pages = kvc_pages_for(g, ntokens) - kvc_pages_gone(g, ntokens);
		slack = kvc_pages_for(g, ntokens) * g->page_tokens - ntokens;
		gap = page_size - g->page_tokens * g->token_bytes;
		f.bytes_per_token += g->token_bytes;
		if (__builtin_mul_overflow(pages, nseq, &pages) ||
		    __builtin_mul_overflow(slack, nseq, &slack) ||
		    __builtin_mul_overflow(slack, g->token_bytes, &slack) ||
		    __builtin_mul_overflow(gap, pages, &gap) ||
		    __builtin_add_overflow(f.pages, pages, &f.pages) ||
		    __builtin_add_overflow(f.unused_bytes, slack,
					   &f.unused_bytes) ||
		    __builtin_add_overflow(f.layout_bytes, gap,
					   &f.layout_bytes))
			return -EOVERFLOW;
	}
	if (__builtin_mul_overflow(f.pages, page_size, &f.held_bytes))
		return -EOVERFLOW;
	f.used_bytes = f.held_bytes - f.unused_bytes - f.layout_bytes;
	*out = f;
	return 0;
}
