// SPDX-License-Identifier: MIT
/*
 * Metrics of a ledger that is made up: names that a backend could send, values at
 * the ends of their ranges, sums, and looks at a ledger that does not stand still.
 */
#include "harness.h"
#include "metrics.h"

/**
 * struct made_up - a ledger
 * @seq: its sequence number
 * @moves: changes between two commands
 * @still_after: looks after which it stands still
 * @queries: KVCACHE_QUERY so far
 * @pools: pools
 * @tenants: tenants, numbered from 1
 * @name: of the first
 * @err: what KVCACHE_POOL_GET returns
 * @backwards: the list of tenants has no end
 * @like: what all tenants are like
 * @counters: of each pool
 */
struct made_up {
	uint64_t seq;
	unsigned int moves;
	unsigned int still_after;
	unsigned int queries;
	unsigned int pools;
	unsigned int tenants;
	const char *name;
	int err;
	bool backwards;
	struct kvcache_tenant_info like;
	struct kvcache_pool_get counters;
};

static void query(struct made_up *m, struct kvcache_query *q)
{
	unsigned int i;

	if (++m->queries > m->still_after)
		m->moves = 0;
	q->out_seq = m->seq;
	q->out_nr_pools = m->pools;
	for (i = 0; i < m->pools && i < KVCACHE_MAX_POOLS; i++) {
		q->out_pools[i].id = i;
		q->out_pools[i].page_size = 1 << 16;
		snprintf(q->out_pools[i].name, KVCACHE_NAME_LEN, "p%u", i);
	}
}

static void tenant_get(struct made_up *m, struct kvcache_tenant_get *g)
{
	unsigned int id = g->start ? g->start : 1;

	g->out_seq = m->seq;
	for (; id <= m->tenants && g->out_nr < KVCACHE_GET_TENANTS; id++) {
		struct kvcache_tenant_info *t = &g->out_info[g->out_nr++];

		*t = m->like;
		t->id = id;
		if (id == 1 && m->name)
			memcpy(t->name, m->name, strnlen(m->name, sizeof(t->name)));
		else
			snprintf(t->name, sizeof(t->name), "t%u", id);
	}
	g->out_next = id <= m->tenants ? id : m->backwards ? g->start : 0;
}

static int call(void *arg, unsigned int nr, void *cmd)
{
	struct made_up *m = arg;

	m->seq += m->moves;
	switch (nr) {
	case KVCACHE_NR_QUERY:
		query(m, cmd);
		return 0;
	case KVCACHE_NR_TENANT_GET:
		tenant_get(m, cmd);
		return 0;
	case KVCACHE_NR_POOL_GET:
		if (m->err)
			return m->err;
		*(struct kvcache_pool_get *)cmd = m->counters;
		((struct kvcache_pool_get *)cmd)->out_seq = m->seq;
		return 0;
	}
	return -ENOTTY;
}

/* The text, to be freed; NULL if there is none. */
static char *text_of(struct made_up *m, const struct metrics_opts *o)
{
	static struct look l;
	struct buffer b = { 0 };

	if (look_read(call, m, METRICS_LOOK, METRICS_TRIES, &l))
		return NULL;
	if (metrics_write(&l, o, &b)) {
		free(b.s);
		b.s = NULL;
	}
	look_free(&l);
	buffer_add(&b, "", 1);
	return b.s;
}

static bool has(struct made_up *m, const struct metrics_opts *o,
		const char *line)
{
	char *s = text_of(m, o), *want = NULL;
	bool found;

	if (!s || asprintf(&want, "\n%s\n", line) < 0)
		return false;
	found = strstr(s, want);
	free(want);
	free(s);
	return found;
}
#define HAS(line)							\
	do {								\
		if (!has(&m, &o, line))					\
			TH_LOG("no %s", line);				\
		EXPECT_EQ(true, has(&m, &o, line));			\
	} while (0)
#define HAS_NOT(line) EXPECT_EQ(false, has(&m, &o, line))

static const struct metrics_opts o;

TEST(odd_names)
{
	static const struct {
		const char *name;
		const char *label;
	} names[] = {
		{ "plain", "plain" },
		{ "a\"b", "a\\\"b" },
		{ "a\\", "a\\\\" },
		{ "a\nb", "a\\nb" },
		{ "\"} 1\nx{y=\"", "\\\"} 1\\nx{y=\\\"" },
		{ "a\x1b[2J\rb\x7f", "a\xef\xbf\xbd[2J\xef\xbf\xbd"
		  "b\xef\xbf\xbd" },
		{ "\xc3\xa4\xe2\x82\xac", "\xc3\xa4\xe2\x82\xac" },
		{ "a\xff\xc3", "a\xef\xbf\xbd\xef\xbf\xbd" },
		{ "", "" },
		/* As long as it can be, without a NUL. */
		{ "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefX",
		  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" },
	};
	struct made_up m = { .pools = 1, .tenants = 1 };
	char line[256];
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		m.name = names[i].name;
		snprintf(line, sizeof(line),
			 "kvcache_tenant_waiters{tenant=\"%s\",pool=\"p0\"} 0",
			 names[i].label);
		HAS(line);
	}
}

TEST(ends_of_ranges)
{
	struct made_up m = {
		.pools = 1, .tenants = 1,
		.like = {
			.max = KVCACHE_LIMIT_MAX, .min = UINT64_MAX / 65536,
			.low = UINT64_MAX / 65536 + 1, .ttl_ns = 1,
			.lookups = UINT64_MAX, .clients = UINT32_MAX,
		},
	};

	HAS("kvcache_tenant_max_bytes{tenant=\"t1\",pool=\"p0\"} +Inf");
	HAS("kvcache_tenant_min_bytes{tenant=\"t1\",pool=\"p0\"} 18446744073709486080");
	HAS("kvcache_tenant_low_bytes{tenant=\"t1\",pool=\"p0\"} +Inf");
	HAS("kvcache_tenant_lookups_total{tenant=\"t1\",pool=\"p0\"} 18446744073709551615");
	HAS("kvcache_tenant_clients{tenant=\"t1\"} 4294967295");
	HAS("kvcache_tenant_ttl_seconds{tenant=\"t1\"} 0.000000001");
	m.like.ttl_ns = 90 * 1000000000ULL;
	HAS("kvcache_tenant_ttl_seconds{tenant=\"t1\"} 90");
	m.like.ttl_ns = 1000000010;
	HAS("kvcache_tenant_ttl_seconds{tenant=\"t1\"} 1.00000001");
	m.like.ttl_ns = KVCACHE_TIME_NEVER;
	HAS("kvcache_tenant_ttl_seconds{tenant=\"t1\"} +Inf");
}

TEST(times_are_added_up)
{
	struct made_up m = {
		.pools = 1,
		.counters = {
			.out_wait_ns = 12345678901ULL,
			.out_wait_times = { [0] = 1, [1] = 2, [13] = 4, [14] = 8 },
			.out_waits = { [KVCACHE_WAIT_TIMED_OUT] = 15 },
		},
	};

	HAS("kvcache_pool_wait_seconds_bucket{pool=\"p0\",le=\"1e-06\"} 1");
	HAS("kvcache_pool_wait_seconds_bucket{pool=\"p0\",le=\"4e-06\"} 3");
	HAS("kvcache_pool_wait_seconds_bucket{pool=\"p0\",le=\"16.777216\"} 3");
	HAS("kvcache_pool_wait_seconds_bucket{pool=\"p0\",le=\"67.108864\"} 7");
	HAS("kvcache_pool_wait_seconds_bucket{pool=\"p0\",le=\"+Inf\"} 15");
	HAS("kvcache_pool_wait_seconds_count{pool=\"p0\"} 15");
	HAS("kvcache_pool_wait_seconds_sum{pool=\"p0\"} 12.345678901");
	HAS("kvcache_pool_waits_total{pool=\"p0\",cause=\"timed_out\"} 15");
}

/* A backend of an older release, or one that shows them to others. */
TEST(without_counters)
{
	struct made_up m = { .pools = 2, .tenants = 1 };
	const int errs[] = { -ENOTTY, -EPERM };
	size_t i;

	HAS("# TYPE kvcache_pool_waits counter");
	for (i = 0; i < 2; i++) {
		m.err = errs[i];
		HAS_NOT("# TYPE kvcache_pool_waits counter");
		HAS_NOT("# TYPE kvcache_pool_wait_seconds histogram");
		HAS("# TYPE kvcache_pool_hits counter");
		HAS("kvcache_tenant_waiters{tenant=\"t1\",pool=\"p1\"} 0");
	}
}

TEST(the_rest)
{
	struct metrics_opts few = { .max_tenants = 2 };
	struct made_up m = {
		.pools = 2, .tenants = 130,
		.like = {
			.cur = 3, .min = 1, .max = 10, .hits = 5, .clients = 2,
			.ttl_ns = 1,
		},
	};

	EXPECT_EQ(true, has(&m, &few, "kvcache_tenant_clients{tenant=\"(rest)\"} 256"));
	/* Once one of them is removed, that would go back. */
	EXPECT_EQ(false, has(&m, &few, "kvcache_tenant_hits_total{tenant=\"(rest)\",pool=\"p1\"} 640"));
	EXPECT_EQ(true, has(&m, &few, "kvcache_tenant_current_bytes{tenant=\"(rest)\",pool=\"p1\"} 25165824"));
	EXPECT_EQ(true, has(&m, &few, "kvcache_tenant_max_bytes{tenant=\"(rest)\",pool=\"p0\"} 83886080"));
	EXPECT_EQ(true, has(&m, &few, "kvcache_tenant_hits_total{tenant=\"t2\",pool=\"p1\"} 5"));
	EXPECT_EQ(false, has(&m, &few, "kvcache_tenant_hits_total{tenant=\"t3\",pool=\"p1\"} 5"));
	EXPECT_EQ(false, has(&m, &few, "kvcache_tenant_ttl_seconds{tenant=\"(rest)\"} 0.000000128"));
	m.like.max = KVCACHE_LIMIT_MAX;
	EXPECT_EQ(true, has(&m, &few, "kvcache_tenant_max_bytes{tenant=\"(rest)\",pool=\"p0\"} +Inf"));
	few.max_tenants = 130;
	EXPECT_EQ(false, has(&m, &few, "kvcache_tenant_clients{tenant=\"(rest)\"} 0"));
	EXPECT_EQ(true, has(&m, &few, "kvcache_tenant_clients{tenant=\"t130\"} 2"));
}

/* Looked at until it stands still, and no longer than that. */
TEST(one_moment)
{
	struct made_up m = {
		.pools = 2, .tenants = 100, .moves = 1, .still_after = 5,
	};
	struct look l;

	ASSERT_EQ(0, look_read(call, &m, METRICS_LOOK, 16, &l));
	EXPECT_EQ(true, look_is_one(&l));
	EXPECT_EQ(6, m.queries);
	EXPECT_EQ(100, l.tenant[1].n);
	look_free(&l);

	m = (struct made_up){
		.pools = 2, .tenants = 100, .moves = 1, .still_after = 99,
	};
	ASSERT_EQ(0, look_read(call, &m, METRICS_LOOK, 16, &l));
	EXPECT_EQ(false, look_is_one(&l));
	EXPECT_EQ(16, m.queries);
	look_free(&l);
}

TEST(replies_that_cannot_be)
{
	struct made_up m = { .pools = 1, .tenants = 3, .backwards = true };
	struct look l;

	/* Of one reply: its end is its beginning, 0, and that is an end. */
	ASSERT_EQ(0, look_read(call, &m, METRICS_LOOK, 1, &l));
	look_free(&l);
	m.tenants = 70;
	EXPECT_EQ(-EPROTO, look_read(call, &m, METRICS_LOOK, 1, &l));
	m = (struct made_up){ .pools = KVCACHE_MAX_POOLS + 1 };
	EXPECT_EQ(-EPROTO, look_read(call, &m, METRICS_LOOK, 1, &l));
	m = (struct made_up){ .pools = 1, .err = -ENOTCONN };
	EXPECT_EQ(-ENOTCONN, look_read(call, &m, METRICS_LOOK, 1, &l));
	m = (struct made_up){ .pools = 0 };
	HAS("kvcache_ledger_sequence 0");
	HAS("# EOF");
}

TEST_HARNESS_MAIN
