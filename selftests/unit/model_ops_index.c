// SPDX-License-Identifier: MIT
/*
 * model_ops_index.c - publish and lookup. Keys are those of a few chains, so
 * that pages are found, duplicated and continued.
 */
#include <errno.h>
#include <string.h>

#include "model_ops.h"

static void make_key(u8 *out, u32 chain, u32 pos)
{
	memset(out, 0x5a, KVCACHE_KEY_LEN);
	out[0] = chain;
	out[17] = pos;
}

static u32 chain_of(struct model *m)
{
	return m->op->a % (1 + m->cfg->spread % 4);
}

static u32 keys_per_page(struct model *m)
{
	static const u8 kpp[] = { 1, 2, 4, 16 };

	return m->op->d % 16 ? kpp[m->cfg->kpp % 4] : 1 + model_rand(m, 16);
}

static void fill_entry(struct model *m, struct kvcache_publish_page *e,
		       u32 chain, u32 first, u32 kpp)
{
	const struct model_op *op = m->op;
	u32 k;

	e->nr_keys = op->d % 4 ? kpp : 1 + model_rand(m, kpp);
	e->priority = model_rand(m, 4) ? KVCACHE_PRIO_DEFAULT :
					 model_rand(m, 101);
	e->ttl_ns = model_rand(m, 4) ? KVCACHE_TIME_NEVER : model_rand(m, 300);
	e->flags = (op->b & 7) == 1 ? KVCACHE_PUBLISH_NODEDUP : 0;
	e->flags |= op->b & 8 ? KVCACHE_PUBLISH_COPY : 0;
	e->flags |= (op->b & 0x30) == 0x10 ? KVCACHE_PUBLISH_WINDOW : 0;
	if (first)
		make_key(e->parent, chain, first - 1);
	for (k = 0; k < e->nr_keys; k++) {
		make_key(e->keys[k].key, chain, first + k);
		e->keys[k].fill = 16 * (k + 1);
	}
	/* Rarely: keys of anywhere, other fills, or wrong ones. */
	if (op->c % 16 == 1)
		for (k = 0; k < e->nr_keys; k++) {
			make_key(e->keys[k].key, chain,
				 (first + 3 * k + model_rand(m, 3)) % 64);
			e->keys[k].fill = 8 * (k + 1 + model_rand(m, 2));
		}
	if (op->c == 255)
		e->keys[0].fill = 0;
	if (op->c == 254)
		e->priority = KVCACHE_PRIO_MAX + 1;
	if (op->c == 253)
		e->nr_keys = model_rand(m, 2) * 17;
}

void model_publish(struct model *m)
{
	const struct model_op *op = m->op;
	struct kvcache_publish a = { .size = sizeof(a) }, b;
	u32 c = model_client(m), chain = chain_of(m), kpp = keys_per_page(m);
	u32 max = 1 + op->d % 5, have, first, k;
	u64 h[ORC_PAGES + 1] = { 0 }, copies[KVCACHE_MAX_PUBLISH] = { 0 };
	int err;

	if (!c)
		return;
	a.pool = model_pool(m);
	have = model_handles(m, c, a.pool, h, 16, op->c % 32 ?
			     KVCACHE_PAGE_PRIVATE : 0, op->c % 32 == 2);
	a.nr = min_t(u32, have, max);
	if (op->tenant % 4 == 0)
		a.domain = model_tenant(m, op->tenant / 4);
	/* Rather one that lets it in. */
	for (k = 1; op->tenant % 8 == 0 && k < ORC_TENANTS; k++)
		if (m->o.tenant[m->o.client[c].tenant].from[k].rights &
		    KVCACHE_GRANT_PUBLISH)
			a.domain = k;
	first = kpp * model_rand(m, 4);
	for (k = 0; k < a.nr; k++) {
		a.pages[k].handle = h[k];
		fill_entry(m, &a.pages[k], chain, first + k * kpp, kpp);
		if (a.nr + k < have && op->b & 0x40)
			copies[k] = h[a.nr + k];
	}
	b = a;
	while ((err = kvl_publish(m->l, m->client[c], &a, copies, m->now)) ==
	       -EAGAIN && !m->failed)
		model_feed(m, a.pool);
	model_note(m, "publish: client %u, pool %u, domain %u, chain %u:",
		   c, a.pool, a.domain, chain);
	for (k = 0; k < a.nr; k++)
		model_note(m, " %llx.%u%s%s%s", (unsigned long long)h[k] >> 32,
			   kvl_index(h[k]),
			   a.pages[k].flags & KVCACHE_PUBLISH_NODEDUP ?
			   " whatever exists" : "",
			   a.pages[k].flags & KVCACHE_PUBLISH_WINDOW ?
			   " windowed" : "", copies[k] ? " or a copy" : "");
	model_note(m, " from %u, %u keys = %d", first, kpp, err);
	SAME(m, "kvl_publish()", err,
	     orc_publish(&m->o, c, &b, copies, m->now));
	for (k = 0; k < a.nr && !m->failed && !err; k++) {
		SAME(m, "out_result", a.pages[k].out_result,
		     b.pages[k].out_result);
		SAME(m, "out_handle", a.pages[k].out_handle,
		     b.pages[k].out_handle);
	}
	if (!m->failed && memcmp(&a, &b, sizeof(a)))
		model_fail(m, "the results of kvl_publish() differ");
}

void model_lookup(struct model *m)
{
	const struct model_op *op = m->op;
	u32 c = model_client(m), chain = chain_of(m), k;
	struct kvcache_lookup a = { .size = sizeof(a) }, b;
	int err;

	if (!c)
		return;
	a.pool = model_pool(m);
	a.keys_per_page = op->c == 255 ? 0 : keys_per_page(m);
	a.nr_keys = op->c == 254 ? 257 : 1 + op->b % 40;
	a.tail = op->c % 3 ? 0 : 1 + model_rand(m, 4);
	a.flags = op->c % 5 ? 0 : KVCACHE_LOOKUP_PEEK;
	for (k = 0; k < min_t(u32, a.nr_keys, KVCACHE_MAX_KEYS); k++)
		make_key(a.keys[k], chain, k + (op->c % 16 == 1));
	b = a;
	while ((err = kvl_lookup(m->l, m->client[c], &a, m->now)) == -EAGAIN &&
	       !m->failed)
		model_feed(m, a.pool);
	model_note(m, "lookup: client %u, pool %u, chain %u, %u keys of %u, tail %u%s = %d, %u keys:",
		   c, a.pool, chain, a.nr_keys, a.keys_per_page, a.tail,
		   a.flags ? ", peek" : "", err, a.out_nr_keys);
	for (k = 0; k < a.out_nr_pages; k++)
		model_note(m, " %u", kvl_index(a.out_found[k].handle));
	SAME(m, "kvl_lookup()", err, orc_lookup(&m->o, c, &b, m->now));
	SAME(m, "out_nr_pages", a.out_nr_pages, b.out_nr_pages);
	SAME(m, "out_nr_keys", a.out_nr_keys, b.out_nr_keys);
	SAME(m, "out_idle", a.out_idle, b.out_idle);
	SAME(m, "out_available", a.out_available, b.out_available);
	for (k = 0; k < b.out_nr_pages && !m->failed; k++) {
		SAME(m, "found page", a.out_found[k].handle,
		     b.out_found[k].handle);
		SAME(m, "found fill", a.out_found[k].fill, b.out_found[k].fill);
	}
	if (!m->failed && memcmp(&a, &b, sizeof(a)))
		model_fail(m, "the results of kvl_lookup() differ");
}
