// SPDX-License-Identifier: MIT
/*
 * ask.c - the backend is asked by a thread of its own.
 *
 * One that says nothing, such as a broker that was stopped, holds up a request
 * for ASK_MS, and those that follow not at all: until the thread comes back they
 * are -ETIMEDOUT at once. What it works with is its own, so that nothing of a
 * request that was given up is written to later. Signals come while it is
 * waited for, and the mount can be ended.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fs.h"

#define ASK_MS	2000

enum ask_what { ASK_OPEN, ASK_CALL, ASK_END };

/**
 * struct asker - the thread and what it was asked
 * @thread: which
 * @running: it is there
 * @stuck: it has not come back from what was given up
 * @go: it reads from here before each job
 * @done: and writes here after it
 * @what: ASK_*
 * @device: ASK_OPEN, of what
 * @kvc: ASK_CALL, whom; ASK_OPEN, what was opened
 * @nr: ASK_CALL, the command
 * @arg: and its argument
 * @why: ASK_OPEN, why it failed
 * @rc: what came of it
 */
struct asker {
	pthread_t thread;
	bool running;
	bool stuck;
	int go;
	int done;
	enum ask_what what;
	const char *device;
	struct kvc *kvc;
	unsigned int nr;
	union {
		struct kvcache_query query;
		struct kvcache_attach attach;
		struct kvcache_tenant_set set;
		struct kvcache_tenant_ref ref;
		struct kvcache_tenant_get tenants;
		struct kvcache_client_get clients;
		struct kvcache_page_get pages;
		struct kvcache_grant_get grants;
		struct kvcache_pool_get pool;
	} arg;
	char why[256];
	int rc;
};

static struct asker the_asker;

static size_t size_of(unsigned int nr)
{
	const struct asker *a = &the_asker;

	switch (nr) {
	case KVCACHE_NR_QUERY:
		return sizeof(a->arg.query);
	case KVCACHE_NR_ATTACH:
		return sizeof(a->arg.attach);
	case KVCACHE_NR_TENANT_CREATE:
	case KVCACHE_NR_TENANT_SET:
		return sizeof(a->arg.set);
	case KVCACHE_NR_TENANT_REMOVE:
	case KVCACHE_NR_TENANT_FLUSH:
		return sizeof(a->arg.ref);
	case KVCACHE_NR_TENANT_GET:
		return sizeof(a->arg.tenants);
	case KVCACHE_NR_CLIENT_GET:
		return sizeof(a->arg.clients);
	case KVCACHE_NR_PAGE_GET:
		return sizeof(a->arg.pages);
	case KVCACHE_NR_GRANT_GET:
		return sizeof(a->arg.grants);
	case KVCACHE_NR_POOL_GET:
		return sizeof(a->arg.pool);
	}
	return 0;
}

/* ---- the thread ------------------------------------------------------- */

static void do_open(struct asker *a)
{
	const struct kvc_open_opts opts = {
		.sz = sizeof(opts),
		.flags = KVC_OPEN_UNATTACHED,
		.msg = a->why,
		.msg_len = sizeof(a->why),
	};

	*a->why = 0;
	a->kvc = NULL;
	a->rc = kvc_open(a->device, &opts, &a->kvc);
	if (a->rc)
		a->kvc = NULL;
}

static void *serve(void *arg)
{
	struct asker *a = arg;
	eventfd_t n;

	while (!eventfd_read(a->go, &n) && a->what != ASK_END) {
		if (a->what == ASK_OPEN)
			do_open(a);
		else
			a->rc = kvc_call(a->kvc, a->nr, &a->arg);
		eventfd_write(a->done, 1);
	}
	return NULL;
}

static int start(struct asker *a)
{
	sigset_t all, old;
	int err;

	if (a->running)
		return 0;
	a->go = eventfd(0, EFD_CLOEXEC);
	a->done = eventfd(0, EFD_CLOEXEC);
	/* Signals are for who waits. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = a->go < 0 || a->done < 0 ? EMFILE :
	      pthread_create(&a->thread, NULL, serve, a);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	a->running = !err;
	if (err) {
		close(a->go);
		close(a->done);
	}
	return -err;
}

/* ---- who asks --------------------------------------------------------- */

/* 0 it is done; -ETIMEDOUT; -EINTR the mount is to end. */
static int await(const struct fs *fs, struct asker *a, uint64_t until)
{
	struct pollfd p = { .fd = a->done, .events = POLLIN };
	struct timespec ts;
	eventfd_t n;
	uint64_t now;

	for (;;) {
		now = fs_now();
		now = now < until ? until - now : 0;
		ts.tv_sec = now / 1000000000;
		ts.tv_nsec = now % 1000000000;
		switch (ppoll(&p, 1, &ts, fs->se ? &fs->signals : NULL)) {
		case 1:
			return eventfd_read(a->done, &n) ? -EIO : 0;
		case 0:
			return -ETIMEDOUT;
		}
		if (fs->se && fuse_session_exited(fs->se))
			return -EINTR;
	}
}

/* It came back from what nobody waits for any more. */
static int unstick(const struct fs *fs, struct asker *a)
{
	if (!a->stuck)
		return 0;
	if (await(fs, a, 0))
		return -ETIMEDOUT;
	a->stuck = false;
	if (a->kvc)
		kvc_close(a->kvc);
	a->kvc = NULL;
	return 0;
}

/* 0: the thread has nothing to do, and can be given something. */
static int ready(const struct fs *fs, struct asker *a)
{
	int err = start(a);

	return err ? err : unstick(fs, a);
}

/* What was asked is in *@a. */
static int ask(struct fs *fs, struct asker *a)
{
	int err;

	if (eventfd_write(a->go, 1))
		return -EIO;
	err = await(fs, a, fs_now() + ASK_MS * 1000000ULL);
	if (!err)
		return a->rc;
	/* The connection is the thread's alone from now on. */
	a->stuck = true;
	fs->kvc = NULL;
	return -ETIMEDOUT;
}

int ask_open(struct fs *fs, char *why, size_t len)
{
	struct asker *a = &the_asker;
	int err = ready(fs, a);

	if (err)
		return err;
	a->what = ASK_OPEN;
	a->device = fs->device;
	err = ask(fs, a);
	if (why && !a->stuck)
		snprintf(why, len, "%s", a->why);
	if (!err)
		fs->kvc = a->kvc;
	return err;
}

int ask_call(struct fs *fs, unsigned int nr, void *arg)
{
	struct asker *a = &the_asker;
	int err = ready(fs, a);

	if (err)
		return err;
	if (!size_of(nr))
		return -ENOTTY;
	a->what = ASK_CALL;
	a->kvc = fs->kvc;
	a->nr = nr;
	memcpy(&a->arg, arg, size_of(nr));
	err = ask(fs, a);
	if (!a->stuck)
		memcpy(arg, &a->arg, size_of(nr));
	return err;
}

void ask_close(struct fs *fs)
{
	if (fs->kvc)
		kvc_close(fs->kvc);
	fs->kvc = NULL;
	if (!the_asker.stuck)
		the_asker.kvc = NULL;
}

void ask_end(struct fs *fs)
{
	struct asker *a = &the_asker;

	ask_close(fs);
	if (!a->running || unstick(fs, a))
		return;
	a->what = ASK_END;
	eventfd_write(a->go, 1);
	pthread_join(a->thread, NULL);
	close(a->go);
	close(a->done);
	a->running = false;
}
