// SPDX-License-Identifier: MIT
/*
 * ledger_world.c - a ledger of any size in which every page is cached, and
 * rounds of operations on a part of the pages, each at a random place.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kmod/ledger.h"

#include "ledger.h"

const char *const ledger_op_name[LEDGER_NR_OPS] = {
	"alloc, taking back", "free", "alloc", "touch", "publish", "put",
	"lookup, prefix", "lookup, tail",
};

static uint64_t rng = 1;

static uint32_t random_below(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 32) % n;
}

/* 0 to @n - 1 in random order. */
static void permute(uint32_t *out, uint32_t n)
{
	uint32_t k, j;

	for (k = 0; k < n; k++) {
		j = random_below(k + 1);
		out[k] = out[j];
		out[j] = k;
	}
}

static void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "kvcache-bench: no memory for %s\n", what);
	exit(1);
}

/* A chain's tenant: at most as many have pages as there are chains. */
static struct kvl_client *owner(const struct ledger_world *w, uint32_t chain)
{
	return w->client[chain % w->tenants];
}

static void make_key(uint8_t *key, uint64_t chain, uint32_t pos)
{
	memset(key, 0, KVCACHE_KEY_LEN);
	memcpy(key, &chain, sizeof(chain));
	memcpy(key + 8, &pos, sizeof(pos));
}

/* ---- calls ----------------------------------------------------------- */

/* Around each call of the ledger: whoever looks at it, and its argument. */
static void enter(const struct ledger_world *w, const void *arg, size_t size)
{
	if (w->enter)
		w->enter(arg, size);
}

static int leave(const struct ledger_world *w, int err)
{
	if (w->leave)
		w->leave();
	return err;
}

static int alloc(struct ledger_world *w, struct kvl_client *c, u64 *out,
		 uint32_t nr)
{
	struct kvl_request r = { .nr = nr, .pages = out };

	enter(w, out, nr * sizeof(*out));
	return leave(w, kvl_alloc(w->l, c, &r, false, 0));
}

static int put(struct ledger_world *w, struct kvl_client *c, const u64 *pages,
	       uint32_t nr)
{
	enter(w, pages, nr * sizeof(*pages));
	return leave(w, kvl_free(w->l, c, 0, pages, nr, 0));
}

static int advise(struct ledger_world *w, struct kvl_client *c, uint32_t advice,
		  const u64 *pages, uint32_t nr)
{
	static struct kvcache_advise a;

	a.nr = nr;
	a.advice = advice;
	memcpy(a.pages, pages, nr * sizeof(*pages));
	enter(w, &a, sizeof(a));
	return leave(w, kvl_advise(w->l, c, &a, 0));
}

static int publish(struct ledger_world *w, struct kvl_client *c,
		   uint64_t chain, uint32_t pos, u64 handle)
{
	static struct kvcache_publish p = {
		.nr = 1,
		.pages[0] = {
			.nr_keys = 1,
			.priority = KVCACHE_PRIO_DEFAULT,
			.ttl_ns = KVCACHE_TIME_NEVER,
			.keys[0].fill = 16,
		},
	};

	p.pages[0].handle = handle;
	make_key(p.pages[0].keys[0].key, chain, pos);
	enter(w, &p, sizeof(p));
	return leave(w, kvl_publish(w->l, c, &p, NULL, 0));
}

static int lookup(struct ledger_world *w, struct kvl_client *c, uint64_t chain,
		  uint32_t tail)
{
	static struct kvcache_lookup a;
	uint32_t want = tail ? tail : LEDGER_CHAIN, k;
	int err;

	a.keys_per_page = 1;
	a.nr_keys = LEDGER_CHAIN;
	a.tail = tail;
	for (k = 0; k < LEDGER_CHAIN; k++)
		make_key(a.keys[k], chain, k);
	enter(w, &a, sizeof(a));
	err = leave(w, kvl_lookup(w->l, c, &a, 0));
	return err ? err : a.out_nr_pages == want ? 0 : -ENOENT;
}

/* ---- the ledger ------------------------------------------------------ */

static void make_tenants(struct ledger_world *w)
{
	struct kvcache_tenant_set set;
	struct kvl_tenant *t;
	uint32_t k;

	w->client = calloc(w->tenants, sizeof(*w->client));
	need(w->client != NULL, "clients");
	for (k = 0; k < w->tenants; k++) {
		t = kvl_tenant_alloc(w->l);
		w->client[k] = kvl_client_alloc(w->l);
		need(t && w->client[k], "tenants");
		memset(&set, 0, sizeof(set));
		snprintf(set.name, sizeof(set.name), "t%u", k);
		need(!kvl_tenant_create(w->l, t, &set, 0), "tenants");
		need(!kvl_client_attach(w->l, w->client[k], set.out_tenant),
		     "clients");
	}
}

/* Frees all pages in random order, so that they are handed out in one. */
static void shuffle_free_pages(struct ledger_world *w)
{
	u64 *h = malloc(w->pages * sizeof(*h)), t;
	uint32_t k, j, nr;

	need(h != NULL, "handles");
	for (k = 0; k < w->pages; k += nr) {
		nr = w->pages - k < 256 ? w->pages - k : 256;
		need(!alloc(w, w->client[0], h + k, nr), "pages");
	}
	for (k = w->pages; k > 1; k--) {
		j = random_below(k);
		t = h[j];
		h[j] = h[k - 1];
		h[k - 1] = t;
	}
	for (k = 0; k < w->pages; k += nr) {
		nr = w->pages - k < 256 ? w->pages - k : 256;
		need(!put(w, w->client[0], h + k, nr), "pages");
	}
	free(h);
}

static int fill(struct ledger_world *w)
{
	u64 h[LEDGER_CHAIN];
	struct kvl_client *c;
	uint32_t chain, k;
	int err = 0;

	for (chain = 0; chain < w->pages / LEDGER_CHAIN && !err; chain++) {
		c = owner(w, chain);
		err = alloc(w, c, h, LEDGER_CHAIN);
		for (k = 0; k < LEDGER_CHAIN && !err; k++)
			err = publish(w, c, w->serial + chain, k, h[k]);
		if (!err)
			err = put(w, c, h, LEDGER_CHAIN);
	}
	w->serial += chain;
	return err;
}

static size_t memory(void)
{
	const struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

void ledger_world_make(struct ledger_world *w, uint32_t pages,
		       uint32_t tenants, uint32_t sample)
{
	const struct kvl_config cfg = {
		.max_tenants = tenants, .max_clients = tenants,
		.nr_events = 16, .seed = 42,
	};
	const struct kvl_pool_config pool = {
		.name = "bench", .flags = KVL_POOL_DIRECT,
		.page_size = KVCACHE_PAGE_SIZE_MIN,
		.nr_pages = pages - pages % LEDGER_CHAIN,
	};
	size_t before = memory();
	struct kvl_nodes *nodes;
	struct kvl_pool *p = NULL;

	memset(w, 0, sizeof(*w));
	w->pages = pool.nr_pages;
	w->tenants = tenants;
	w->l = kvl_create(&cfg);
	need(w->l && !kvl_pool_alloc(w->l, &pool, &p), "a pool");
	need(kvl_pool_add(w->l, p) == 0, "a pool");
	/* One a page for its key, some for volatile pages. */
	nodes = kvl_nodes_alloc(2 * w->pages);
	need(nodes != NULL, "nodes");
	kvl_nodes_add(w->l, nodes);
	make_tenants(w);
	w->bytes = memory() - before;

	w->sample = sample < w->pages / 2 ? sample : w->pages / 2;
	w->sample -= w->sample % LEDGER_CHAIN;
	w->handle = malloc(w->sample * sizeof(*w->handle));
	w->order = malloc(w->sample * sizeof(*w->order));
	w->chains = malloc(w->sample / LEDGER_CHAIN * sizeof(*w->chains));
	need(w->handle && w->order && w->chains, "handles");
	permute(w->order, w->sample);
	permute(w->chains, w->sample / LEDGER_CHAIN);
	shuffle_free_pages(w);
	need(!fill(w), "keys");
}

void ledger_world_free(struct ledger_world *w)
{
	kvl_destroy(w->l);
	free(w->client);
	free(w->handle);
	free(w->order);
	free(w->chains);
}

/* ---- a round --------------------------------------------------------- */

uint32_t ledger_op_count(const struct ledger_world *w, enum ledger_op op)
{
	return op == LEDGER_TAIL ?
	       w->sample / LEDGER_CHAIN * LEDGER_TAIL_KEYS : w->sample;
}

/* One operation on all pages or chains of the sample. */
static int do_op(struct ledger_world *w, enum ledger_op op)
{
	uint32_t n = w->sample, k, i, chain;
	struct kvl_client *c;
	u64 *h;
	int err = 0;

	if (op >= LEDGER_PUT)
		n /= LEDGER_CHAIN;
	for (k = 0; k < n && !err; k++) {
		i = op >= LEDGER_PUT ? k : w->order[k];
		chain = op >= LEDGER_PUT ? w->chains[k] : i / LEDGER_CHAIN;
		h = &w->handle[op >= LEDGER_PUT ? chain * LEDGER_CHAIN : i];
		c = owner(w, chain);
		switch (op) {
		case LEDGER_TAKE:
		case LEDGER_ALLOC:
			err = alloc(w, c, h, 1);
			break;
		case LEDGER_FREE:
			err = put(w, c, h, 1);
			break;
		case LEDGER_TOUCH:
			err = advise(w, c, KVCACHE_ADVISE_TOUCH, h, 1);
			break;
		case LEDGER_PUBLISH:
			err = publish(w, c, w->serial + chain,
				      i % LEDGER_CHAIN, *h);
			break;
		case LEDGER_PUT:
			err = put(w, c, h, LEDGER_CHAIN);
			break;
		case LEDGER_PREFIX:
			err = lookup(w, c, w->serial + chain, 0);
			break;
		default:
			err = lookup(w, c, w->serial + chain, LEDGER_TAIL_KEYS);
		}
	}
	return err;
}

/* Makes the pages of the sample volatile, or not. */
static int advise_all(struct ledger_world *w, uint32_t advice)
{
	uint32_t k;
	int err = 0;

	for (k = 0; k < w->sample && !err; k += LEDGER_CHAIN)
		err = advise(w, owner(w, k / LEDGER_CHAIN), advice,
			     w->handle + k, LEDGER_CHAIN);
	return err;
}

/* Puts the last pages of each chain, which a tail lookup returned. */
static int put_tails(struct ledger_world *w)
{
	uint32_t k;
	int err = 0;

	for (k = LEDGER_CHAIN; k <= w->sample && !err; k += LEDGER_CHAIN)
		err = put(w, owner(w, k / LEDGER_CHAIN - 1),
			  w->handle + k - LEDGER_TAIL_KEYS, LEDGER_TAIL_KEYS);
	return err;
}

int ledger_round(struct ledger_world *w, void (*begin)(void *, enum ledger_op),
		 void (*end)(void *, enum ledger_op), void *arg)
{
	enum ledger_op op;
	int err = 0;

	for (op = 0; op < LEDGER_NR_OPS && !err; op++) {
		if (op == LEDGER_TOUCH)
			err = advise_all(w, KVCACHE_ADVISE_VOLATILE);
		if (err)
			break;
		begin(arg, op);
		err = do_op(w, op);
		end(arg, op);
		if (!err && op == LEDGER_TOUCH)
			err = advise_all(w, KVCACHE_ADVISE_NONVOLATILE);
		if (!err && op == LEDGER_PREFIX)
			err = do_op(w, LEDGER_PUT);
		if (!err && op == LEDGER_TAIL)
			err = put_tails(w);
	}
	w->serial += w->sample / LEDGER_CHAIN;
	return err;
}
