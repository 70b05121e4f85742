/* SPDX-License-Identifier: MIT */
/*
 * kvcached.h - what the cases of kvcached have in common: commands as they are,
 * in this process, on a device or on a broker.
 */
#ifndef CONFORMANCE_KVCACHED_H
#define CONFORMANCE_KVCACHED_H

#include "kit.h"
#include "scenarios/kit.h"

/**
 * struct here - a pool of pages of 64 KiB, number 0, and one client
 * @k: its context
 * @s: its backend, which lets it do all
 * @p: the same, for functions of scenarios
 */
struct here {
	struct kit k;
	struct kvc_sys *s;
	struct place p;
};

static inline void here_begin(struct here *h, uint32_t nr_pages, uint64_t max)
{
	memset(h, 0, sizeof(*h));
	kit_connect(&h->k, PAGE, nr_pages, max);
	h->s = h->k.ctx->sys;
	h->p.admin = h->s;
}

/* What it holds goes with it. */
static inline void here_end(struct here *h)
{
	kit_disconnect(&h->k);
}

/* Limits as change number @revision; what is in force goes to @now. */
static inline int revise(struct place *p, uint32_t id, uint64_t revision,
			 uint64_t max, uint64_t *now)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .tenant = id, .pool = p->pool,
		.set = KVCACHE_SET_LIMITS, .revision = revision, .max = max,
		.deadline_ns = NEVER,
	};
	int rc = sys_call(p->admin, KVCACHE_NR_TENANT_SET, &set);

	if (!rc)
		*now = set.out_revision;
	return rc;
}

static inline void number_key(uint8_t *key, uint32_t n)
{
	memset(key, 0x5a, KVCACHE_KEY_LEN);
	memcpy(key, &n, sizeof(n));
}

/* With @nr keys, which are the numbers from @key on, of fills 1, 2, ... */
static inline int publish_keys(struct kvc_sys *s, uint64_t *page, uint32_t key,
			       uint32_t nr)
{
	struct kvcache_publish c = { .size = sizeof(c), .nr = 1 };
	struct kvcache_publish_page *e = &c.pages[0];
	int rc;

	e->handle = *page;
	e->nr_keys = nr;
	e->priority = KVCACHE_PRIO_DEFAULT;
	e->ttl_ns = NEVER;
	for (uint32_t k = 0; k < nr; k++) {
		e->keys[k].fill = k + 1;
		number_key(e->keys[k].key, key + k);
	}
	rc = sys_call(s, KVCACHE_NR_PUBLISH, &c);
	if (!rc)
		*page = e->out_handle;
	return rc;
}

/* How many of a page's @nr keys are found; held, if there is a @page. */
static inline uint32_t keys_found(struct kvc_sys *s, uint32_t key, uint32_t nr,
				  uint64_t *page)
{
	struct kvcache_lookup l = {
		.size = sizeof(l), .nr_keys = nr, .keys_per_page = nr,
		.flags = page ? 0 : KVCACHE_LOOKUP_PEEK,
	};

	for (uint32_t k = 0; k < nr; k++)
		number_key(l.keys[k], key + k);
	ASSERT_EQ(0, sys_call(s, KVCACHE_NR_LOOKUP, &l));
	if (page)
		*page = l.out_found[0].handle;
	return l.out_nr_keys;
}

/*
 * The module checks all of its invariants for who reads this file. A broker
 * does so when selftests/broker/test_suites.sh asks it, after each program.
 */
static inline void expect_books_right(void)
{
	char said[256] = "";
	FILE *f;

	if (!device_path() || device_is_broker())
		return;
	f = fopen("/sys/kernel/debug/kvcache/verify", "r");
	ASSERT_TRUE(f != NULL);
	EXPECT_TRUE(fgets(said, sizeof(said), f) != NULL);
	EXPECT_STREQ("ok\n", said);
	fclose(f);
}

#endif /* CONFORMANCE_KVCACHED_H */
