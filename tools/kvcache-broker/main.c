// SPDX-License-Identifier: MIT
/*
 * main.c - kvcache-broker: from the command line to the loop, and out of it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keep.h"
#include "listener.h"
#include "options.h"
#include "server.h"
#include "service.h"
#include "store.h"
#include "util.h"

/* ---- pools and tenants of the command line ------------------------------- */

static int pool_by_name(struct broker *b, const char *name,
			struct kvcache_pool_info *info)
{
	for (int id = 0; id < KVCACHE_MAX_POOLS; id++)
		if (!kvl_pool_info(b->ledger, id, info) &&
		    (!name || !strcmp(info->name, name)))
			return id;
	return -1;
}

/* @again: the last broker may have left it, as it was then. */
static int make_pool(struct broker *b, const struct pool_option *p, bool again)
{
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = KVCACHE_POOL_CREATE,
		.page_size = p->page_size,
		.nr_pages = p->bytes / p->page_size,
	};
	struct kvcache_pool_info info;
	char size[32];
	int rc;

	strcpy(set.name, p->name);
	if (again && pool_by_name(b, p->name, &info) >= 0)
		return 0;
	if (b->nr_pages + set.nr_pages > b->max_pages)
		return complain("--pool %s: %llu pages need a file each, and there may be %llu: give larger pages (page=), a smaller size than %s, or raise LimitNOFILE=, ulimit -Hn",
				p->name, (unsigned long long)set.nr_pages,
				(unsigned long long)(b->max_pages - b->nr_pages),
				human_size(p->bytes, size));
	rc = broker_admin(b, KVCACHE_NR_POOL_SET, &set);
	switch (rc) {
	case 0:
		return 0;
	case -EEXIST:
		return complain("--pool %s: given twice", p->name);
	case -ENOSPC:
		return complain("--pool %s: there can be %u pools", p->name,
				KVCACHE_MAX_POOLS);
	}
	return complain("--pool %s: %s", p->name, strerror(-rc));
}

/* The pool of a tenant's limits: its number, or -1 after a complaint. */
static int find_pool(struct broker *b, const struct tenant_option *t,
		     struct kvcache_pool_info *info)
{
	int id = pool_by_name(b, t->pool, info);

	if (id >= 0)
		return id;
	if (t->pool)
		return complain("--tenant %s: pool=%s: no such pool: give --pool %s=SIZE",
				t->name, t->pool, t->pool);
	return complain("--tenant %s: limits are in a pool: give --pool NAME=SIZE",
			t->name);
}

static int pages_of(const struct tenant_option *t, const char *key,
		    const struct limit *l, const struct kvcache_pool_info *p,
		    __u64 *out)
{
	uint64_t pages;

	if (l->kind == LIMIT_NONE)
		return 0;
	if (!limit_pages(l, p->page_size, p->nr_pages, &pages))
		return complain("--tenant %s: %s: less than a page of pool %s",
				t->name, key, p->name);
	*out = pages;
	return 0;
}

static int set_limits(struct broker *b, const struct tenant_option *t,
		      struct kvcache_tenant_set *set)
{
	struct kvcache_pool_info info;
	int pool;

	set->max = KVCACHE_LIMIT_MAX;
	if (!t->pool && t->min.kind == LIMIT_NONE &&
	    t->low.kind == LIMIT_NONE && t->max.kind == LIMIT_NONE)
		return 0;
	pool = find_pool(b, t, &info);
	if (pool < 0)
		return -1;
	set->pool = pool;
	set->set |= KVCACHE_SET_LIMITS;
	if (pages_of(t, "min", &t->min, &info, &set->min) ||
	    pages_of(t, "low", &t->low, &info, &set->low))
		return -1;
	return pages_of(t, "max", &t->max, &info, &set->max);
}

static int make_tenant(struct broker *b, const struct tenant_option *t,
		       bool again)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set),
		.set = KVCACHE_SET_OWNER | KVCACHE_SET_TTL,
		.uid = t->uid, .gid = t->gid, .mode = t->mode,
		.deadline_ns = KVCACHE_TIME_NEVER, .ttl_ns = t->ttl_ns,
	};
	int rc;

	strcpy(set.name, t->name);
	if (again && kvl_tenant_by_name(b->ledger, t->name) >= 0)
		return 0;
	if (set_limits(b, t, &set))
		return -1;
	rc = broker_admin(b, KVCACHE_NR_TENANT_CREATE, &set);
	switch (rc) {
	case 0:
		return 0;
	case -EEXIST:
		return complain("--tenant %s: given twice", t->name);
	case -EINVAL:
		return complain("--tenant %s: give a min and low that are not above max",
				t->name);
	case -ENOSPC:
		return complain("--tenant %s: all min together are more than the pool: give less",
				t->name);
	}
	return complain("--tenant %s: %s", t->name, strerror(-rc));
}

/* What a user has who asked for nothing in particular. */
static int make_defaults(struct broker *b, const struct options *o, bool again)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			  sysconf(_SC_PAGESIZE);
	struct pool_option p = { .name = "main", .page_size = 2 << 20 };
	struct tenant_option t = {
		.name = "user", .uid = geteuid(), .gid = getegid(),
		.mode = 0400, .ttl_ns = KVCACHE_TIME_NEVER,
	};

	p.bytes = memory / 4;
	if (p.bytes / p.page_size > b->max_pages)
		p.bytes = b->max_pages * p.page_size;
	if (!o->nr_pools && make_pool(b, &p, again))
		return -1;
	return o->nr_tenants ? 0 : make_tenant(b, &t, again);
}

static int make_all(struct broker *b, const struct options *o, bool again)
{
	unsigned int k;

	for (k = 0; k < o->nr_pools; k++)
		if (make_pool(b, &o->pools[k], again))
			return -1;
	for (k = 0; k < o->nr_tenants; k++)
		if (make_tenant(b, &o->tenants[k], again))
			return -1;
	return o->user ? make_defaults(b, o, again) : 0;
}

/* ---- sockets ------------------------------------------------------------- */

static int take_passed(struct broker *b, const struct store *s)
{
	int err;

	for (uint32_t k = 0; k < s->nr_listen; k++) {
		if (!listener_is(s->listen[k], AF_UNIX, SOCK_SEQPACKET))
			return complain("descriptor %d: no listening Unix socket of type SOCK_SEQPACKET: say ListenSequentialPacket=",
					s->listen[k]);
		err = broker_listen(b, s->listen[k]);
		if (err)
			return complain("descriptor %d: %s", s->listen[k],
					strerror(-err));
	}
	return 0;
}

/* Where it is without --socket, to be freed; NULL after a complaint. */
static char *default_path(bool user)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");

	if (!user)
		return xasprintf("/run/kvcache/broker");
	if (dir && *dir == '/')
		return xasprintf("%s/kvcache/broker", dir);
	complain("--user: XDG_RUNTIME_DIR is not set: set it, or give --socket PATH");
	return NULL;
}

static int take_path(struct broker *b, const struct options *o,
		     struct listener *l)
{
	const struct listener_how how = {
		.who = "broker",
		.option = "--socket PATH",
		.type = SOCK_SEQPACKET,
		.mode = o->user ? 0600 : 0666,
		.folder_mode = o->user ? 0700 : 0755,
	};
	char *path = o->socket ? xasprintf("%s", o->socket) :
		     default_path(o->user);
	int fd = path ? listener_make(l, path, &how) : -1;
	int err = fd < 0 ? 0 : broker_listen(b, fd);

	free(path);
	if (err)
		complain("%s: %s", l->path, strerror(-err));
	return fd < 0 || err ? -1 : 0;
}

static int begin(struct broker *b, const struct options *o, struct listener *l,
		 struct store *s)
{
	int again;

	if (store_receive(s))
		return complain("cannot start: %s", strerror(ENOMEM));
	if (s->nr_listen && o->socket)
		return complain("--socket %s: sockets were passed (LISTEN_FDS): leave it out",
				o->socket);
	again = keep_load(b, s);
	if (again < 0 || make_all(b, o, again))
		return -1;
	return s->nr_listen ? take_passed(b, s) : take_path(b, o, l);
}

static int run(struct broker *b, const struct options *o, struct listener *l)
{
	struct store s;
	int err;

	b->stall_ns = o->stall_ns;
	err = begin(b, o, l, &s);
	/* Whoever could not begin leaves it to another. */
	if (!err)
		store_done(&s);
	free(s.listen);
	free(s.page);
	if (err)
		return -1;
	complain("started: %llu pages in all, %u connections at most, %s",
		 (unsigned long long)b->nr_pages, b->max_clients,
		 l->path ? l->path : "sockets that were passed");
	service_notify("READY=1");
	while (!b->stop)
		broker_turn(b);
	service_notify("STOPPING=1");
	keep_save(b);
	return 0;
}

int main(int argc, char **argv)
{
	struct listener l = { .lock = -1 };
	struct options o;
	struct broker *b;
	int err = options_parse(argc, argv, &o);

	if (err) {
		options_free(&o);
		return err < 0 ? 2 : 0;
	}
	/* Whoever reads what we say may have gone. */
	signal(SIGPIPE, SIG_IGN);
	b = broker_new();
	err = b ? run(b, &o, &l) : -1;
	/* Nobody new comes while the old ones are cut off. */
	listener_remove(&l);
	if (b)
		broker_free(b);
	if (!err)
		complain("stopped");
	options_free(&o);
	return err ? 1 : 0;
}
