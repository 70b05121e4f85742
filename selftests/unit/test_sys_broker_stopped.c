// SPDX-License-Identifier: MIT
/*
 * test_sys_broker_stopped.c - a broker that does not answer: who has a deadline,
 * or only wants to open something, is not held up for ever.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "fake_broker.h"

static uint64_t in_ms(uint64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec + ms * 1000000;
}

/* ---- late ------------------------------------------------------------------ */

/* One page is had when it is taken back, more are not. */
static bool forgets(int fd, struct fake_msg *m)
{
	static struct fake_msg held;

	if (m->h.nr == KVCACHE_NR_ALLOC) {
		held = *m;
		return true;
	}
	if (m->h.nr != KVCB_NR_CANCEL || m->cancel.cookie != held.h.cookie)
		return false;
	if (held.alloc.nr == 1)
		fake_grant(fd, &held, 50);
	else
		fake_reply(fd, &held, -EINTR);
	return true;
}

TEST_F_TIMEOUT(broker, it_forgot_a_deadline, 60)
{
	uint64_t h[2] = { 0 };

	start(self, forgets);
	EXPECT_EQ(-ETIMEDOUT, alloc_until(self->s, 2, in_ms(10), h));
	EXPECT_EQ(1, fake_seen(KVCB_NR_CANCEL));
	EXPECT_EQ(NULL, self->s->hint);
	EXPECT_EQ(0, query(self->s));
	EXPECT_EQ(0, alloc_until(self->s, 1, in_ms(10), h));
	EXPECT_EQ(2, fake_seen(KVCB_NR_CANCEL));
	EXPECT_EQ(50, *at(self->s, h[0]));
}

/* ---- stopped --------------------------------------------------------------- */

/* More than the socket has room for, and than may wait at a broker. */
#define WAITERS	300

struct waiter {
	pthread_t thread;
	struct kvc_sys *s;
	uint64_t deadline;
	int rc;
};

static void *wait_for_page(void *arg)
{
	struct waiter *w = arg;
	uint64_t h;

	w->rc = alloc_until(w->s, 1, w->deadline, &h);
	return NULL;
}

static void *wait_for_event(void *arg)
{
	struct waiter *w = arg;
	struct kvcache_event ev;

	w->rc = w->s->ops->events(w->s, &ev, 1, w->deadline);
	return NULL;
}

static bool says_nothing(int fd, struct fake_msg *m)
{
	return m->h.nr == KVCACHE_NR_ALLOC || m->h.nr == KVCACHE_NR_ATTACH;
}

static void begin(struct waiter *w, struct kvc_sys *s, uint64_t deadline,
		  void *(*fn)(void *arg))
{
	*w = (struct waiter){ .s = s, .deadline = deadline };
	ASSERT_EQ(0, pthread_create(&w->thread, NULL, fn, w));
}

TEST_F_TIMEOUT(broker, it_is_stopped, 60)
{
	static struct waiter w[WAITERS], never, events;
	struct kvcache_event ev;
	uint64_t h;

	start(self, says_nothing);
	at(self->s, 0);
	/* So that a request for events is there. */
	EXPECT_EQ(0, self->s->ops->events(self->s, &ev, 1, 0));
	begin(&never, self->s, NEVER, wait_for_page);
	while (!fake_seen(KVCACHE_NR_ALLOC))
		pause_ms(1);
	ASSERT_EQ(0, kill(self->fake.pid, SIGSTOP));
	begin(&events, self->s, in_ms(10), wait_for_event);
	for (int k = 0; k < WAITERS; k++)
		begin(&w[k], self->s, in_ms(10), wait_for_page);
	for (int k = 0; k < WAITERS; k++) {
		pthread_join(w[k].thread, NULL);
		EXPECT_TRUE(w[k].rc == -ETIMEDOUT || w[k].rc == -ENOTCONN);
	}
	pthread_join(events.thread, NULL);
	EXPECT_TRUE(events.rc == 0 || events.rc == -ENOTCONN);
	pthread_join(never.thread, NULL);
	EXPECT_EQ(-ENOTCONN, never.rc);
	EXPECT_EQ(-ENOTCONN, query(self->s));
	EXPECT_EQ(-ENOTCONN, alloc_until(self->s, 1, in_ms(10), &h));
}

/* With a word on it for who called. */
TEST_F_TIMEOUT(broker, it_says_nothing, 60)
{
	uint64_t h;

	start(self, says_nothing);
	EXPECT_EQ(-ETIMEDOUT, alloc_until(self->s, 1, in_ms(10), &h));
	EXPECT_EQ(1, fake_seen(KVCB_NR_CANCEL));
	ASSERT_TRUE(self->s->hint != NULL);
	EXPECT_NE(NULL, strstr(self->s->hint, "does not answer"));
	EXPECT_EQ(-ENOTCONN, query(self->s));
}

/* ---- to be opened ----------------------------------------------------------- */

struct opener {
	pthread_t thread;
	const char *where;
	char msg[512];
	int rc;
};

static void *open_it(void *arg)
{
	struct opener *o = arg;
	struct kvc_open_opts opts = {
		.sz = sizeof(opts), .flags = KVC_OPEN_LOCAL, .msg = o->msg,
		.msg_len = sizeof(o->msg), .local_bytes = 1 << 20,
		.local_page_size = 65536,
	};
	struct kvc *ctx;

	o->rc = kvc_open(o->where, &opts, &ctx);
	if (!o->rc)
		kvc_close(ctx);
	return NULL;
}

/* Nobody will accept. The socket, and one that is connected to it. */
static int listens(const char *path, int *client)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, path);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	ASSERT_EQ(0, listen(fd, 0));
	*client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(*client, (struct sockaddr *)&sun, sizeof(sun)))
		ASSERT_EQ(0, errno);
	return fd;
}

/*
 * One has no room for a connection, one accepts none, one knows nobody. Another
 * backend takes the place of none, also where that is allowed.
 */
TEST_F_TIMEOUT(broker, it_does_not_let_in, 60)
{
	static struct opener full, queued, unattached;
	char dir[] = "/tmp/kvc-stopped-XXXXXX", sub[40], a[64], b[64];
	int fd[2], client[2];

	fake_start(&self->fake, says_nothing);
	ASSERT_TRUE(mkdtemp(dir) != NULL);
	snprintf(sub, sizeof(sub), "%s/kvcache", dir);
	snprintf(a, sizeof(a), "%s/broker", sub);
	snprintf(b, sizeof(b), "%s/queued", sub);
	ASSERT_EQ(0, mkdir(sub, 0700));
	fd[0] = listens(a, &client[0]);
	fd[1] = listens(b, &client[1]);
	ASSERT_EQ(0, listen(fd[1], 8));

	full.where = a;
	if (access("/dev/kvcache", F_OK)) {
		unsetenv("KVCACHE");
		setenv("XDG_RUNTIME_DIR", dir, 1);
		full.where = NULL;
	}
	queued.where = b;
	unattached.where = self->fake.path;
	ASSERT_EQ(0, pthread_create(&full.thread, NULL, open_it, &full));
	ASSERT_EQ(0, pthread_create(&queued.thread, NULL, open_it, &queued));
	ASSERT_EQ(0, pthread_create(&unattached.thread, NULL, open_it,
				    &unattached));
	pthread_join(full.thread, NULL);
	pthread_join(queued.thread, NULL);
	pthread_join(unattached.thread, NULL);
	EXPECT_EQ(-ETIMEDOUT, full.rc);
	EXPECT_NE(NULL, strstr(full.msg, a));
	EXPECT_NE(NULL, strstr(full.msg, "does not answer"));
	EXPECT_NE(NULL, strstr(full.msg, "open \"local\""));
	EXPECT_EQ(-ETIMEDOUT, queued.rc);
	EXPECT_NE(NULL, strstr(queued.msg, "does not answer"));
	EXPECT_EQ(-ETIMEDOUT, unattached.rc);
	EXPECT_NE(NULL, strstr(unattached.msg, "does not answer"));
	for (int k = 0; k < 2; k++) {
		close(fd[k]);
		close(client[k]);
	}
	unlink(a);
	unlink(b);
	rmdir(sub);
	rmdir(dir);
}

TEST_HARNESS_MAIN
