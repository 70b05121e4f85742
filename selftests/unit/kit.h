/* SPDX-License-Identifier: MIT */
/*
 * kit.h - a small cache in this process, or on the device or broker that device.h
 * speaks of, and rows that follow from tokens.
 *
 * The K and V rows of a token are a digest of all tokens up to it (and of the
 * conversation's extra bytes), as a model's would be. So what a sequence must
 * hold is known from its tokens alone, whoever wrote the pages. All values are
 * small multiples of 1/16, exact in types without scales; others store what
 * kva_row_encode() says, the same bits in every variant of the kernels.
 */
#ifndef KIT_H
#define KIT_H

#include "device.h"
#include "internal.h"

#define KIT_DIM 16
#define KIT_LAYERS 3

/* Of KVC_E4M3T: up to 8, and what saturates. */
static const float kit_k_scales[KIT_LAYERS] = { 1 / 32.0f, 0.013f, 0.25f };
static const float kit_v_scales[KIT_LAYERS] = { 0.02f, 2.5f, 1 / 128.0f };

struct kit {
	struct kvc_sys *admin;	/* of a device or a broker; else NULL */
	struct kvc *ctx;
	struct kvc_cache *c;
	struct kvc_batch *b;
	struct kvc_group g[2];
	struct kvc_model m;
	uint32_t nr_pages;
};

/* What to build; zeros are a page of 4 tokens, f32, one group, 2 KV heads. */
struct kit_spec {
	uint32_t pages;
	uint32_t max;
	uint32_t page_tokens;
	uint32_t type;
	uint32_t v_type;	/* if not 0: K and V differ */
	uint32_t kv_heads;
	uint32_t ngroups;	/* the second: layer 1, one KV head, f16 */
	uint32_t row_major;
	uint32_t window;	/* of the last group */
	uint32_t sinks;
	uint32_t commons;	/* publish into a tenant of at most so many pages */
	struct kvc_cache_opts o;
};

static inline uint64_t kit_mix(uint64_t a, uint64_t b)
{
	a ^= b * 0x9e3779b97f4a7c15ULL;
	a = (a ^ a >> 30) * 0xbf58476d1ce4e5b9ULL;
	a = (a ^ a >> 27) * 0x94d049bb133111ebULL;
	return a ^ a >> 31;
}

static inline float kit_elem(uint64_t history, uint32_t layer, int is_v,
			     uint32_t head, uint32_t d)
{
	uint64_t h = kit_mix(history, (uint64_t)layer << 40 | head << 20 |
			     d << 1 | is_v);

	return (int)(h >> 56) / 16.0f - 8;
}

static inline const struct kvc_group *kit_group(const struct kit *k,
						uint32_t layer)
{
	return &k->g[k->m.layer_group ? k->m.layer_group[layer] : 0];
}

static inline uint64_t kit_page_size(const struct kit_spec *spec)
{
	uint32_t heads = spec->kv_heads ? spec->kv_heads : 2, size = 64;
	uint32_t P = spec->page_tokens ? spec->page_tokens : 4;

	/* Larger ones than it takes: the end of a page is not used. */
	if (device_path())
		size = KVCACHE_PAGE_SIZE_MIN;
	/* f32 in all layers, slots rounded to a pair: more than enough. */
	while (size < (P + 1) * KIT_LAYERS * heads * 2 * KIT_DIM * 4)
		size *= 2;
	return size;
}

/* A tenant that lets the own one publish and look up, with a max. */
static inline uint32_t kit_commons(struct kit *k, uint64_t max)
{
	struct kvcache_tenant_set t = {
		.set = KVCACHE_SET_LIMITS,
		.max = max,
		.deadline_ns = KVCACHE_TIME_NEVER,
		.name = "commons",
	};
	struct kvcache_tenant_grant g = {
		.rights = KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH,
		.to = k->ctx->tenant,
		.max_held = KVCACHE_LIMIT_MAX,
	};

	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_CREATE, &t));
	g.tenant = t.out_tenant;
	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_GRANT, &g));
	return t.out_tenant;
}

/* k->ctx, and nothing else of @k: @nr_pages free pages, a tenant's @max. */
static inline void kit_connect(struct kit *k, uint64_t page_size,
			       uint32_t nr_pages, uint64_t max)
{
	struct kvc_open_opts open = {
		.sz = sizeof(open),
		.local_bytes = nr_pages * page_size,
		.local_page_size = page_size,
		.local_max = max,
	};
	struct kvcache_query q = { 0 };
	uint32_t tenant;

	k->nr_pages = nr_pages;
	k->admin = NULL;
	if (device_path())
		k->admin = device_begin(page_size, nr_pages, max, &tenant);
	ASSERT_EQ(0, kvc_open(k->admin ? device_path() : "local",
			      k->admin ? NULL : &open, &k->ctx));
	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(1, q.out_nr_pools);
	ASSERT_EQ(nr_pages, q.out_pools[0].nr_pages);
	ASSERT_EQ(nr_pages, q.out_pools[0].nr_free);
}

static inline void kit_disconnect(struct kit *k)
{
	kvc_close(k->ctx);
	k->ctx = NULL;
	if (k->admin)
		device_end(k->admin);
}

static inline void kit_open(struct kit *k, const struct kit_spec *spec)
{
	static const uint8_t two_groups[KIT_LAYERS] = { 0, 1, 0 };
	struct kvc_cache_opts o = spec->o;

	kit_connect(k, kit_page_size(spec), spec->pages ? spec->pages : 64,
		    spec->max);
	k->g[0] = (struct kvc_group) {
		.kv_heads = spec->kv_heads ? spec->kv_heads : 2,
		.k_dim = KIT_DIM, .v_dim = KIT_DIM,
		.k_type = spec->type,
		.v_type = spec->v_type ? spec->v_type : spec->type,
	};
	k->g[1] = (struct kvc_group) {
		.kv_heads = 1, .k_dim = KIT_DIM, .v_dim = KIT_DIM,
		.k_type = KVC_F16, .v_type = KVC_F16,
	};
	k->g[spec->ngroups == 2].window = spec->window;
	k->g[spec->ngroups == 2].sinks = spec->sinks;
	k->m = (struct kvc_model) {
		.sz = sizeof(k->m),
		.nlayers = KIT_LAYERS,
		.ngroups = spec->ngroups ? spec->ngroups : 1,
		.groups = k->g,
		.layer_group = spec->ngroups == 2 ? two_groups : NULL,
		.q_heads = 2 * k->g[0].kv_heads,
		.page_tokens = spec->page_tokens ? spec->page_tokens : 4,
		.row_major = spec->row_major,
		.k_scales = kit_k_scales,
		.v_scales = kit_v_scales,
	};
	/* Unless told, each group takes what fits: the second's pages have more. */
	if (spec->ngroups == 2)
		k->m.page_tokens = spec->page_tokens;
	if (spec->commons)
		o.domain = kit_commons(k, spec->commons);
	o.sz = sizeof(o);
	o.threads = 1;
	ASSERT_EQ(0, kvc_cache_create(k->ctx, &k->m, &o, &k->c));
	ASSERT_EQ(0, kvc_batch_create(k->c, &k->b));
}

static inline void kit_close(struct kit *k)
{
	kvc_batch_destroy(k->b);
	kvc_cache_destroy(k->c);
	kit_disconnect(k);
}

/* A second cache of the same model in the same pool: it knows no page of @k's. */
static inline void kit_twin(const struct kit *k, struct kit *twin)
{
	struct kvc_cache_opts o = k->c->o;

	*twin = *k;
	ASSERT_EQ(0, kvc_cache_create(k->ctx, &k->m, &o, &twin->c));
	ASSERT_EQ(0, kvc_batch_create(twin->c, &twin->b));
}

static inline void kit_twin_close(struct kit *twin)
{
	kvc_batch_destroy(twin->b);
	kvc_cache_destroy(twin->c);
}

static inline struct kvcache_pool_info kit_pool(struct kit *k)
{
	struct kvcache_query q = { 0 };

	if (k->admin)
		device_settle(k->admin, 0);
	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(q.out_pools[0].nr_pages,
		  q.out_pools[0].nr_free + q.out_pools[0].nr_private +
		  q.out_pools[0].nr_shared + q.out_pools[0].nr_cached +
		  q.out_pools[0].nr_retiring);
	return q.out_pools[0];
}

/* Pages in use by somebody. */
static inline uint64_t kit_used(struct kit *k)
{
	struct kvcache_pool_info p = kit_pool(k);

	return p.nr_private + p.nr_shared;
}

/* A fixture's, unless a test closed it to open another: there is one device. */
static inline void kit_end(struct kit *k)
{
	if (!k->ctx)
		return;
	EXPECT_EQ(0, kit_used(k));
	kit_close(k);
}

static inline struct kvc_seq *kit_seq(struct kit *k, const char *extra)
{
	struct kvc_seq_opts o = {
		.sz = sizeof(o),
		.extra = extra,
		.extra_len = extra ? strlen(extra) : 0,
	};
	struct kvc_seq *s = NULL;

	/* Pages that come back do so in their order. */
	if (k->admin)
		device_settle(k->admin, 0);
	ASSERT_EQ(0, kvc_seq_create(k->c, &o, &s));
	return s;
}

static inline uint64_t kit_seed(const char *extra)
{
	uint64_t h = 1;

	while (extra && *extra)
		h = kit_mix(h, *extra++);
	return h;
}

/* Append all layers of a planned step. */
static inline void kit_append(struct kit *k, const struct kvc_item *items,
			      uint32_t n, const char *extra)
{
	uint32_t rows = 0, i, j, layer, h, d, heads, r;
	uint64_t history;
	float *kk, *vv;

	for (i = 0; i < n; i++)
		rows += items[i].n;
	for (layer = 0; layer < KIT_LAYERS; layer++) {
		heads = kit_group(k, layer)->kv_heads;
		kk = malloc(rows * heads * KIT_DIM * sizeof(float));
		vv = malloc(rows * heads * KIT_DIM * sizeof(float));
		for (i = 0, r = 0; i < n; i++) {
			history = kit_seed(extra);
			for (j = 0; j < kvc_seq_len(items[i].seq); j++)
				history = kit_mix(history,
					kvc_seq_tokens(items[i].seq)[j]);
			for (j = 0; j < items[i].n; j++, r++) {
				history = kit_mix(history, items[i].tokens[j]);
				for (h = 0; h < heads; h++) {
					for (d = 0; d < KIT_DIM; d++) {
						size_t at = (r * heads + h) *
							    KIT_DIM + d;

						kk[at] = kit_elem(history, layer,
								  0, h, d);
						vv[at] = kit_elem(history, layer,
								  1, h, d);
					}
				}
			}
		}
		ASSERT_EQ(0, kvc_append(k->b, layer, NULL, NULL, 0, kk,
					heads * KIT_DIM, vv, heads * KIT_DIM));
		free(kk);
		free(vv);
	}
}

/* One step; 0, or what the plan said. */
static inline int kit_step(struct kit *k, const struct kvc_item *items,
			   uint32_t n, const char *extra)
{
	int rc = kvc_batch_plan(k->b, items, n);

	if (rc)
		return rc;
	kit_append(k, items, n, extra);
	ASSERT_EQ(0, kvc_batch_commit(k->b));
	return 0;
}

static inline int kit_add(struct kit *k, struct kvc_seq *s,
			  const uint32_t *tokens, uint32_t n)
{
	struct kvc_item item = { s, tokens, n };

	return kit_step(k, &item, 1, NULL);
}

/* A prompt as an engine runs it: what is cached, then the rest. */
static inline uint32_t kit_prompt(struct kit *k, struct kvc_seq *s,
				  const uint32_t *tokens, uint32_t n)
{
	int reused = kvc_seq_prefix(s, tokens, n);

	ASSERT_GE(reused, 0);
	ASSERT_LT(reused, (int)KVC_MAX(n, 1u));
	ASSERT_EQ(reused, kvc_seq_len(s));
	ASSERT_EQ(0, kit_add(k, s, tokens + reused, n - reused));
	ASSERT_EQ(n, kvc_seq_len(s));
	return reused;
}

static inline bool kit_row_is(const struct kit *k, uint32_t layer, int is_v,
			      uint32_t head, uint64_t history, const void *row)
{
	const struct kvc_group *g = kit_group(k, layer);
	uint32_t type = is_v ? g->v_type : g->k_type, d;
	float want[KIT_DIM], stored[KIT_DIM + 1];

	for (d = 0; d < KIT_DIM; d++)
		want[d] = kit_elem(history, layer, is_v, head, d);
	kva_row_encode(type, (is_v ? kit_v_scales : kit_k_scales)[layer], want,
		       stored, KIT_DIM);
	return !memcmp(row, stored, kva_row_size(type, KIT_DIM));
}

/* Must a token's row be there, when @len tokens are? */
static inline bool kit_is_kept(const struct kit *k, uint32_t layer,
			       uint32_t len, uint32_t i)
{
	const struct kvc_group *g = kit_group(k, layer);

	return !g->window || k->c->o.keep_all || i < g->sinks ||
	       (uint64_t)i + g->window > len;
}

/*
 * Every stored row is the one that the sequence's tokens say; those that left
 * a window are there too, or -ENODATA.
 */
static inline void kit_check_extra(const struct kit *k, const struct kvc_seq *s,
				   const char *extra)
{
	uint32_t len = kvc_seq_len(s), layer, head, i;
	size_t row;
	uint64_t history;
	char *rows;
	int is_v, rc;

	for (layer = 0; layer < KIT_LAYERS; layer++) {
		const struct kvc_group *g = kit_group(k, layer);

		rows = malloc(len * sizeof(float[KIT_DIM + 1]) + 1);
		for (is_v = 0; is_v <= 1; is_v++) {
			row = kva_row_size(is_v ? g->v_type : g->k_type,
					   KIT_DIM);
			for (head = 0; head < g->kv_heads; head++) {
				rc = kvc_seq_read(s, layer, is_v, head, 0, len,
						  rows);
				ASSERT_TRUE(!rc || (g->window &&
						    rc == -ENODATA));
				history = kit_seed(extra);
				for (i = 0; i < len; i++) {
					history = kit_mix(history,
						kvc_seq_tokens(s)[i]);
					if (rc && kvc_seq_read(s, layer, is_v,
							head, i, 1,
							rows + i * row)) {
						ASSERT_FALSE(kit_is_kept(k,
							layer, len, i));
						continue;
					}
					ASSERT_TRUE(kit_row_is(k, layer, is_v,
							       head, history,
							       rows + i * row));
				}
			}
		}
		free(rows);
	}
}

static inline void kit_check(const struct kit *k, const struct kvc_seq *s)
{
	kit_check_extra(k, s, NULL);
}

/* tokens[i] = first + i */
static inline void kit_count(uint32_t *tokens, uint32_t n, uint32_t first)
{
	for (uint32_t i = 0; i < n; i++)
		tokens[i] = first + i;
}

#endif /* KIT_H */
