// SPDX-License-Identifier: MIT
/*
 * test_event.c - read() and poll(): who is told what, when, and by which
 * record.
 */
#include "child.h"

/* Two clients of red and one of blue listen, without ever waiting in read(). */
FIXTURE(event) {
	struct world w;
	int red, blue;
};

/* What is there to be read: 1, 0, or -errno. */
static int ready(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, timeout_ms) < 0)
		return -errno;
	if (p.revents & (POLLERR | POLLHUP))
		return -EPIPE;
	return !!(p.revents & POLLIN);
}

/* One record. Bytes read, or -errno. */
static int get(int fd, struct kvcache_event *ev)
{
	ssize_t n;

	memset(ev, 0xcc, sizeof(*ev));
	n = read(fd, ev, sizeof(*ev));
	return n < 0 ? -errno : (int)n;
}

/* The next record of this type, or -ENOENT when there is none left. */
static int get_type(int fd, uint16_t type,
		    struct kvcache_event *ev)
{
	int n;

	while ((n = get(fd, ev)) == sizeof(*ev))
		if (ev->type == type)
			return 0;
	return n == -EAGAIN ? -ENOENT : n;
}

static void drop_all(int fd)
{
	struct kvcache_event ev;

	while (get(fd, &ev) > 0)
		;
}

FIXTURE_SETUP(event)
{
	struct world *w = &self->w;

	ASSERT_EQ(0, world_make(w, PAGE, PAGES));
	self->red = w->fd[0];
	self->blue = w->fd[1];
	ASSERT_EQ(0, fcntl(self->red, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(0, fcntl(self->blue, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(0, ready(self->red, 0));
	ASSERT_EQ(0, ready(self->blue, 0));
}

FIXTURE_TEARDOWN(event)
{
	EXPECT_EQ(0, world_end(&self->w));
}

static bool is_key(const uint8_t *bytes, uint32_t key)
{
	uint8_t all[KVCACHE_KEY_LEN] = { 0 };

	memcpy(all, &key, sizeof(key));
	return !memcmp(all, bytes, sizeof(all));
}

/* A page of the client under the key, with a reference. */
static int publish(struct world *w, int fd, uint32_t key, uint64_t *page)
{
	int err = dev_alloc(fd, w->pool, 1, page);

	return err ? err : dev_publish(fd, w->pool, page, key);
}

/* ---- reading ------------------------------------------------------------- */

TEST_F(event, who_is_not_attached_is_told_nothing)
{
	struct world *w = &self->w;
	struct kvcache_event ev;

	EXPECT_EQ(-ENOTCONN, get(w->admin, &ev));
	EXPECT_TRUE(is_poison(&ev, sizeof(ev)));
	EXPECT_EQ(-EPIPE, ready(w->admin, 0));
}

TEST_F(event, a_buffer_takes_whole_records)
{
	static const size_t bad[3] = { 0, 1, sizeof(struct kvcache_event) - 1 };
	struct world *w = &self->w;
	uint64_t page;
	struct kvcache_event ev[3];
	int k;

	for (k = 0; k < 3; k++)
		ASSERT_EQ(0, publish(w, self->red, k, &page));
	for (k = 0; k < 3; k++) {
		EXPECT_EQ(-1, read(self->red, ev, bad[k]));
		EXPECT_EQ(EINVAL, errno);
	}
	memset(ev, 0xcc, sizeof(ev));
	EXPECT_EQ(sizeof(ev[0]), read(self->red, ev, 2 * sizeof(ev[0]) - 1));
	EXPECT_TRUE(is_poison(&ev[1], 2 * sizeof(ev[1])));
	EXPECT_EQ(2 * sizeof(ev[0]), read(self->red, &ev[1], 2 * sizeof(ev[1])));
	for (k = 0; k < 3; k++)
		EXPECT_TRUE(is_key(ev[k].key, k));
	EXPECT_EQ(-EAGAIN, get(self->red, ev));
	EXPECT_EQ(0, ready(self->red, 0));
}

TEST_F(event, a_buffer_has_to_be_writable)
{
	void *bad = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	struct world *w = &self->w;
	uint64_t page;
	struct kvcache_event ev;

	ASSERT_NE(MAP_FAILED, bad);
	ASSERT_EQ(0, publish(w, self->red, 1, &page));
	EXPECT_EQ(-1, read(self->red, bad, sizeof(ev)));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, publish(w, self->red, 2, &page));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
}

TEST_F(event, a_queue_begins_with_the_first_look)
{
	struct world *w = &self->w;
	int fd = dev_client("red");
	uint64_t page;
	struct kvcache_event ev;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(0, publish(w, self->red, 1, &page));
	EXPECT_EQ(-EAGAIN, get(fd, &ev));
	EXPECT_TRUE(is_poison(&ev, sizeof(ev)));
	ASSERT_EQ(0, publish(w, self->red, 2, &page));
	EXPECT_EQ(1, ready(fd, 0));
	ASSERT_EQ(sizeof(ev), get(fd, &ev));
	EXPECT_TRUE(is_key(ev.key, 2));
	/* Each listener of a tenant has all of its own. */
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_TRUE(is_key(ev.key, 1));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_TRUE(is_key(ev.key, 2));
	close(fd);
}

TEST_F(event, other_tenants_are_told_nothing)
{
	struct world *w = &self->w;
	uint64_t page;
	struct kvcache_event ev;

	ASSERT_EQ(0, publish(w, self->red, 1, &page));
	EXPECT_EQ(0, ready(self->blue, 50));
	EXPECT_EQ(-EAGAIN, get(self->blue, &ev));
}

TEST_F(event, a_full_queue_counts_what_it_dropped)
{
	struct world *w = &self->w;
	uint64_t page, seq = 0;
	struct kvcache_event ev;
	int k;

	ASSERT_EQ(0, publish(w, self->red, 1, &page));
	drop_all(self->red);
	for (k = 0; k < 300; k++)
		ASSERT_EQ(0, dev_advise(self->red, w->pool, page,
					KVCACHE_ADVISE_PRIORITY, NULL));
	for (k = 0; k < 256; k++) {
		ASSERT_EQ(sizeof(ev), get(self->red, &ev));
		EXPECT_EQ(k ? 0 : 44, ev.dropped);
		EXPECT_EQ(KVCACHE_EV_UPDATED, ev.type);
		EXPECT_LT(seq, ev.seq);
		seq = ev.seq;
	}
	EXPECT_EQ(-EAGAIN, get(self->red, &ev));
}

/* ---- waiting ------------------------------------------------------------- */

/* A child that reads, or polls, until something comes. */
struct reader {
	uint32_t pool;
	bool polls;
	volatile int listens;
	volatile int n;
	struct kvcache_event ev;
};

static void on_signal(int sig)
{
}

static int read_one(void *arg)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct reader *r = arg;
	int fd = dev_client("red");

	MUST(fd >= 0);
	MUST(ready(fd, 0) == 0);
	sigaction(SIGUSR1, &sa, NULL);
	r->listens = 1;
	if (r->polls)
		MUST(ready(fd, -1) == 1);
	r->n = get(fd, &r->ev);
	return 0;
}

/* Is the process asleep? */
static bool sleeps(pid_t pid)
{
	char path[64], text[256] = "", *end;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return false;
	close(fd);
	end = strrchr(text, ')');
	return end && end[2] == 'S';
}

TEST_F(event, who_waits_in_read_or_poll_is_woken)
{
	struct reader *r = shared_memory(sizeof(*r));
	struct world *w = &self->w;
	uint64_t page;
	pid_t pid;
	int k;

	ASSERT_NE(MAP_FAILED, (void *)r);
	for (k = 0; k < PAGES; k++) {
		memset(r, 0, sizeof(*r));
		r->pool = w->pool;
		r->polls = k & 1;
		pid = child_start(read_one, r);
		/* Some rounds are a race. */
		ASSERT_TRUE(SOON(r->listens && (k & 2 || sleeps(pid))));
		ASSERT_EQ(0, publish(w, self->red, k, &page));
		ASSERT_EQ(0, child_end(pid));
		EXPECT_EQ(sizeof(r->ev), r->n);
		EXPECT_TRUE(is_key(r->ev.key, k));
		ASSERT_EQ(0, dev_free(self->red, w->pool, &page, 1));
	}
}

TEST_F(event, a_signal_ends_a_read)
{
	struct reader *r = shared_memory(sizeof(*r));
	pid_t pid;

	ASSERT_NE(MAP_FAILED, (void *)r);
	pid = child_start(read_one, r);
	ASSERT_TRUE(SOON(r->listens && sleeps(pid)));
	kill(pid, SIGUSR1);
	ASSERT_EQ(0, child_end(pid));
	EXPECT_EQ(-EINTR, r->n);
}

/* ---- whose queue it is --------------------------------------------------- */

static int reads_anothers(void *arg)
{
	int fd = *(int *)arg;
	struct kvcache_event ev;

	MUST(get(fd, &ev) == -EPERM);
	MUST(is_poison(&ev, sizeof(ev)));
	MUST(ready(fd, 0) == -EPIPE);
	return 0;
}

static int sends_its_client(void *arg)
{
	int fd = dev_client("red");

	MUST(fd >= 0);
	MUST(ready(fd, 0) == 0);
	send_fd(*(int *)arg, fd);
	return 0;
}

TEST_F(event, a_queue_is_its_owners)
{
	struct world *w = &self->w;
	uint64_t page;
	int both[2], fd;
	struct kvcache_event ev;

	ASSERT_EQ(0, publish(w, self->red, 1, &page));
	EXPECT_EQ(0, in_child(reads_anothers, &self->red));
	EXPECT_EQ(sizeof(ev), get(self->red, &ev));

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, both));
	ASSERT_EQ(0, in_child(sends_its_client, &both[1]));
	fd = receive_fd(both[0]);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EOWNERDEAD, get(fd, &ev));
	EXPECT_TRUE(is_poison(&ev, sizeof(ev)));
	EXPECT_EQ(-EPIPE, ready(fd, 0));
	close(fd);
	close(both[0]);
	close(both[1]);
}

/* ---- the records --------------------------------------------------------- */

TEST_F(event, published_updated_and_cleared)
{
	struct world *w = &self->w;
	struct kvcache_publish p = {
		.size = sizeof(p), .pool = w->pool, .nr = 1,
		.pages[0] = {
			.nr_keys = 2, .priority = 77, .ttl_ns = NEVER,
			.parent = { 9 },
			.keys = { { { 1 }, 3 }, { { 2 }, 5 } },
		},
	};
	struct kvcache_advise a = {
		.size = sizeof(a), .pool = w->pool, .nr = 1,
		.advice = KVCACHE_ADVISE_PRIORITY, .priority = 60,
		.ttl_ns = 5000000000ULL,
	};
	struct kvcache_tenant_ref ref = {
		.size = sizeof(ref), .tenant = w->tenant[0], .pool = w->pool,
	};
	uint64_t page;
	struct kvcache_event ev;

	ASSERT_EQ(0, dev_alloc(self->red, w->pool, 1, &page));
	p.pages[0].handle = page;
	ASSERT_EQ(0, dev_call(self->red, KVCACHE_NR_PUBLISH, &p));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_PUBLISHED, ev.type);
	EXPECT_EQ(w->pool, ev.pool);
	EXPECT_EQ(w->tenant[0], ev.tenant);
	EXPECT_EQ(77, ev.priority);
	EXPECT_EQ(p.pages[0].out_handle, ev.value);
	EXPECT_TRUE(is_key(ev.key, 2));
	EXPECT_TRUE(is_key(ev.parent, 9));

	a.pages[0] = p.pages[0].out_handle;
	ASSERT_EQ(0, dev_call(self->red, KVCACHE_NR_ADVISE, &a));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_UPDATED, ev.type);
	EXPECT_EQ(60, ev.priority);
	EXPECT_EQ(5000000000ULL, ev.value);
	EXPECT_TRUE(is_key(ev.key, 2));

	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_CLEARED, ev.type);
	EXPECT_EQ(w->tenant[0], ev.tenant);
	EXPECT_EQ(-EAGAIN, get(self->red, &ev));
}

TEST_F(event, evicted_when_somebody_needs_the_room)
{
	struct world *w = &self->w;
	uint64_t page, pages[PAGES];
	struct kvcache_event ev;

	ASSERT_EQ(0, publish(w, self->red, 5, &page));
	ASSERT_EQ(0, dev_free(self->red, w->pool, &page, 1));
	drop_all(self->red);
	ASSERT_EQ(0, dev_alloc(self->blue, w->pool, PAGES, pages));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_EVICTED, ev.type);
	EXPECT_EQ(w->tenant[0], ev.tenant);
	EXPECT_TRUE(is_key(ev.key, 5));
}

TEST_F(event, reclaim_asks_those_above_their_low)
{
	struct world *w = &self->w;
	uint64_t pages[PAGES];
	struct kvcache_event ev;

	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, 0, 4,
				KVCACHE_LIMIT_MAX, NEVER));
	ASSERT_EQ(0, dev_alloc(self->red, w->pool, 12, pages));
	ASSERT_EQ(0, dev_alloc(self->blue, w->pool, 4, pages));
	EXPECT_EQ(-ENOSPC, dev_alloc(self->blue, w->pool, 3, pages));
	ASSERT_EQ(0, get_type(self->red, KVCACHE_EV_RECLAIM, &ev));
	EXPECT_EQ(3, ev.value);
	EXPECT_EQ(w->pool, ev.pool);
	EXPECT_EQ(w->tenant[0], ev.tenant);
	/* Nobody is told twice of the same. */
	EXPECT_EQ(-ENOSPC, dev_alloc(self->blue, w->pool, 3, pages));
	EXPECT_EQ(-ENOENT, get_type(self->red, KVCACHE_EV_RECLAIM, &ev));
	EXPECT_EQ(-ENOENT, get_type(self->blue, KVCACHE_EV_RECLAIM, &ev));
}

TEST_F(event, shrink_and_revoked_at_the_deadline)
{
	struct world *w = &self->w;
	uint64_t pages[4], now = dev_now();
	struct kvcache_event ev;

	ASSERT_EQ(0, dev_alloc(self->red, w->pool, 4, pages));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 3,
				now + 200000000));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_SHRINK, ev.type);
	EXPECT_EQ(3, ev.value);
	EXPECT_EQ(-EAGAIN, get(self->red, &ev));
	ASSERT_EQ(1, ready(self->red, 10000));
	EXPECT_LE(now + 200000000, dev_now());
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_REVOKED, ev.type);
	EXPECT_EQ(pages[3], ev.value);
}

TEST_F(event, limit_hit)
{
	struct world *w = &self->w;
	uint64_t pages[3];
	struct kvcache_event ev;

	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 3,
				NEVER));
	ASSERT_EQ(0, dev_alloc(self->red, w->pool, 2, pages));
	EXPECT_EQ(-EDQUOT, dev_alloc(self->red, w->pool, 2, pages));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_LIMIT_HIT, ev.type);
	EXPECT_EQ(2, ev.value);
	EXPECT_EQ(w->tenant[0], ev.tenant);
	EXPECT_EQ(-EAGAIN, get(self->red, &ev));
}

static int waits_for_a_page(void *arg)
{
	int fd = dev_client("red");
	uint64_t page;

	MUST(fd >= 0);
	MUST(!dev_alloc_until(fd, *(uint32_t *)arg, 1, NEVER, &page));
	return 0;
}

TEST_F(event, granted_to_who_waited)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	uint64_t pages[PAGES];
	pid_t pid;
	struct kvcache_event ev;

	ASSERT_EQ(0, dev_alloc(self->blue, w->pool, PAGES, pages));
	pid = child_start(waits_for_a_page, &w->pool);
	ASSERT_TRUE(SOON(!dev_pool_info(w->admin, w->pool, &p) && p.waiters));
	EXPECT_EQ(-ENOENT, get_type(self->red, KVCACHE_EV_GRANTED, &ev));
	ASSERT_EQ(0, dev_free(self->blue, w->pool, pages, 1));
	ASSERT_EQ(0, child_end(pid));
	ASSERT_EQ(0, get_type(self->red, KVCACHE_EV_GRANTED, &ev));
	EXPECT_EQ(1, ev.value);
	EXPECT_EQ(w->tenant[0], ev.tenant);
}

TEST_F(event, a_tenant_that_had_let_it_in_is_gone)
{
	struct world *w = &self->w;
	int green = dev_tenant(w->admin, "green", w->pool, 0,
			       KVCACHE_LIMIT_MAX);
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .tenant = green, .to = w->tenant[0],
		.rights = KVCACHE_GRANT_LOOKUP, .max_held = 1,
	};
	struct kvcache_tenant_ref ref = { .size = sizeof(ref), .tenant = green };
	struct kvcache_event ev;

	ASSERT_LT(0, green);
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	ASSERT_EQ(1, ready(self->red, 1000));
	ASSERT_EQ(sizeof(ev), get(self->red, &ev));
	EXPECT_EQ(KVCACHE_EV_TENANT_GONE, ev.type);
	EXPECT_EQ(green, ev.tenant);
	EXPECT_EQ(-EAGAIN, get(self->blue, &ev));
}

TEST_HARNESS_MAIN
