// SPDX-License-Identifier: MIT
/*
 * cache.c - a model's cache: a layout, a pool, and the kernels for both.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MAX_SPLIT (1U << 24)

static int find_pool(struct kvc *ctx, uint32_t id,
		     struct kvcache_pool_info *out)
{
	struct kvcache_query q = { .flags = 0 };
	int rc;

	rc = kvc_call(ctx, KVCACHE_NR_QUERY, &q);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < q.out_nr_pools; i++) {
		if (q.out_pools[i].id != id)
			continue;
		*out = q.out_pools[i];
		return 0;
	}
	kvc_fail(ctx, -ENOENT, "there is no pool %u", id);
	return -ENOENT;
}

/*
 * Everybody may ask whether a tenant exists by publishing into it, while only
 * administrators see others' in a list. This page has no key: it is refused in
 * any case, after the domain was looked at.
 */
static int check_domain(const struct kvc_cache *c, uint32_t domain,
			const char *name)
{
	struct kvcache_publish r = {
		.pool = c->o.pool,
		.nr = 1,
		.domain = domain,
	};
	struct kvc_msg msg;

	if (!r.domain)
		return 0;
	kvc_msg_save(c->ctx, &msg);
	if (kvc_call(c->ctx, KVCACHE_NR_PUBLISH, &r) != -ENOENT) {
		kvc_msg_restore(c->ctx, &msg);
		return 0;
	}
	return kvc_fail(c->ctx, -ENOENT, "%s: there is no tenant %u", name,
			r.domain);
}

static int choose_ops(struct kvc *ctx, const char *isa,
		      const struct kva_ops **out)
{
	const struct kva_ops *ops;
	unsigned int i;
	int runs;

	if (!isa) {
		*out = kva_config();
		if (*out)
			return 0;
		return kvc_fail(ctx, -EOPNOTSUPP,
				"KVATTN_ISA=%s: no such kernels, or not for this CPU",
				getenv("KVATTN_ISA"));
	}
	for (i = 0; (ops = kva_variant(i, &runs)); i++) {
		if (strcmp(ops->name, isa))
			continue;
		if (!runs)
			return kvc_fail(ctx, -EOPNOTSUPP,
					"this CPU does not run the %s kernels",
					isa);
		*out = ops;
		return 0;
	}
	return kvc_fail(ctx, -EOPNOTSUPP, "there are no \"%s\" kernels", isa);
}

static int open_pool(struct kvc_cache *c, const struct kvc_model *m)
{
	struct kvc *ctx = c->ctx;
	struct kvcache_pool_info pool;
	char why[160];
	int rc;

	rc = find_pool(ctx, c->o.pool, &pool);
	if (rc)
		return rc;
	if (pool.kind != KVCACHE_POOL_HOST)
		return kvc_fail(ctx, -EOPNOTSUPP,
				"pool %u is on a device, and this build has kernels for host memory only",
				pool.id);
	rc = kvc_layout_init(&c->l, m, pool.page_size, why, sizeof(why));
	if (!rc)
		rc = kvc_layout_scales(&c->l, why, sizeof(why));
	if (rc)
		return kvc_fail(ctx, rc, "%s", why);
	for (uint32_t i = 0; c->o.keep_all && i < c->l.ngroups; i++)
		c->l.group[i].span = 0;
	c->ro = ctx->sys->ops->window(ctx->sys, pool.id, 0);
	c->rw = ctx->sys->ops->window(ctx->sys, pool.id, 1);
	if (!c->ro || !c->rw)
		return kvc_fail(ctx, -ENOMEM, "pool %u cannot be mapped",
				pool.id);
	/* With the null page; it grows if the pool does. */
	c->slots = calloc(pool.nr_pages + 1, sizeof(struct kvc_page *));
	if (!c->slots)
		return kvc_nomem(ctx);
	c->nslots = pool.nr_pages + 1;
	return 0;
}

void kvc_roots(const struct kvc_cache *c, uint32_t group, const void *extra,
	       size_t extra_len, uint8_t root[KVCACHE_KEY_LEN],
	       uint8_t common_root[KVCACHE_KEY_LEN])
{
	kvc_key_root(root, &c->l.group[group], c->o.salt, extra, extra_len);
	kvc_key_root(common_root, &c->l.group[group], c->o.commons_salt, extra,
		     extra_len);
}

int kvc_cache_create(struct kvc *ctx, const struct kvc_model *model,
		     const struct kvc_cache_opts *opts, struct kvc_cache **out)
{
	struct kvc_model m;
	struct kvc_cache *c;
	int rc;

	c = calloc(1, sizeof(*c));
	if (!c)
		return kvc_nomem(ctx);
	c->ctx = ctx;
	if (kvc_opts_copy(&m, sizeof(m), model) ||
	    kvc_opts_copy(&c->o, sizeof(c->o), opts)) {
		rc = kvc_fail(ctx, -EINVAL,
			      "struct kvc_model or kvc_cache_opts: bad sz, or members that this library does not know");
		goto fail;
	}
	if (c->o.split % 16 || c->o.split > MAX_SPLIT) {
		rc = kvc_fail(ctx, -EINVAL,
			      "a split of %u tokens: multiples of 16 to %u can be",
			      c->o.split, MAX_SPLIT);
		goto fail;
	}
	rc = choose_ops(ctx, c->o.isa, &c->ops);
	if (rc)
		goto fail;
	rc = open_pool(c, &m);
	if (!rc)
		rc = check_domain(c, c->o.domain, "domain");
	if (!rc)
		rc = check_domain(c, c->o.commons, "commons");
	if (rc)
		goto fail;
	rc = kva_threads_create(c->o.threads, &c->threads);
	if (rc) {
		kvc_fail(ctx, rc, "the kernels' threads: %s",
			 strerrordesc_np(-rc));
		goto fail;
	}
	for (uint32_t i = 0; i < c->l.ngroups; i++)
		kvc_roots(c, i, NULL, 0, c->root[i], c->common_root[i]);
	c->next = ctx->caches;
	ctx->caches = c;
	*out = c;
	return 0;

fail:
	free(c->slots);
	free(c);
	return rc;
}

void kvc_cache_destroy(struct kvc_cache *c)
{
	struct kvc_cache **at;

	if (!c)
		return;
	for (at = &c->ctx->caches; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	for (uint32_t i = 0; i < c->nslots; i++)
		if (c->slots[i])
			kvc_page_drop(c, c->slots[i]);
	kva_threads_destroy(c->threads);
	free(c->slots);
	free(c->index);
	free(c->fresh);
	free(c->tiers);
	free(c);
}

const char *kvc_cache_isa(const struct kvc_cache *c)
{
	return c->ops->name;
}

uint32_t kvc_cache_page_tokens(const struct kvc_cache *c, uint32_t group)
{
	return group < c->l.ngroups ? c->l.group[group].page_tokens : 0;
}

uint32_t kvc_cache_block_tokens(const struct kvc_cache *c, uint32_t group)
{
	return group < c->l.ngroups ? c->l.group[group].block_tokens : 0;
}

void kvc_cache_stats(const struct kvc_cache *c, struct kvc_stats *out)
{
	*out = c->st;
}
