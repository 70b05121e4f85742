// SPDX-License-Identifier: MIT
/*
 * events.c - what happens to a tenant, a line an event.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl.h"
#include "json_out.h"
#include "util.h"

#define BATCH 64

static const struct {
	const char *name;
	const char *value;	/* what @value is, or NULL */
} types[] = {
	[KVCACHE_EV_RECLAIM] = { "reclaim", "wanted" },
	[KVCACHE_EV_SHRINK] = { "shrink", "max" },
	[KVCACHE_EV_GRANTED] = { "granted", "pages" },
	[KVCACHE_EV_EVICTED] = { "evicted", NULL },
	[KVCACHE_EV_PUBLISHED] = { "published", NULL },
	[KVCACHE_EV_UPDATED] = { "updated", "ttl_ns" },
	[KVCACHE_EV_CLEARED] = { "cleared", NULL },
	[KVCACHE_EV_LIMIT_HIT] = { "limit_hit", "pages" },
	[KVCACHE_EV_REVOKED] = { "revoked", "handle" },
	[KVCACHE_EV_TENANT_GONE] = { "tenant_gone", NULL },
};
#define TYPES (sizeof(types) / sizeof(types[0]))

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	stopped = 1;
}

static const char *type_name(const struct kvcache_event *e)
{
	return e->type && e->type < TYPES ? types[e->type].name : "unknown";
}

static const char *value_name(const struct kvcache_event *e)
{
	return e->type < TYPES ? types[e->type].value : NULL;
}

static bool has_key(const uint8_t *key)
{
	static const uint8_t none[KVCACHE_KEY_LEN];

	return memcmp(key, none, sizeof(none)) != 0;
}

static const char *hex(const uint8_t *key, unsigned int len, char *buf)
{
	for (unsigned int i = 0; i < len; i++)
		sprintf(buf + 2 * i, "%02x", key[i]);
	return buf;
}

static const char *pool_name(const struct ctl *c, unsigned int pool, char *buf)
{
	uint32_t i;

	for (i = 0; i < c->query.out_nr_pools; i++)
		if (c->query.out_pools[i].id == pool)
			return c->query.out_pools[i].name;
	sprintf(buf, "#%u", pool);
	return buf;
}

static bool has_priority(const struct kvcache_event *e)
{
	return e->type == KVCACHE_EV_UPDATED || e->type == KVCACHE_EV_PUBLISHED;
}

static int print_json(const struct ctl *c, const struct kvcache_event *e)
{
	char buf[2 * KVCACHE_KEY_LEN + 1];
	json_t *o;

	o = json_pack("{s:I, s:s, s:s, s:i, s:I}", "seq", (json_int_t)e->seq,
		      "type", type_name(e), "pool", pool_name(c, e->pool, buf),
		      "tenant", e->tenant, "dropped", (json_int_t)e->dropped);
	if (e->type == KVCACHE_EV_REVOKED)
		json_object_set_new(o, "handle", json_hex(e->value));
	else if (value_name(e))
		json_object_set_new(o, value_name(e), json_limit(e->value));
	if (has_priority(e))
		json_object_set_new(o, "priority", json_integer(e->priority));
	if (has_key(e->key))
		json_object_set_new(o, "key", json_string(hex(e->key, 32, buf)));
	if (has_key(e->parent))
		json_object_set_new(o, "parent",
				    json_string(hex(e->parent, 32, buf)));
	return json_print(o, stdout);
}

static int print(const struct ctl *c, const struct kvcache_event *e)
{
	char buf[2 * KVCACHE_KEY_LEN + 1];

	if (c->value[OPT_JSON])
		return print_json(c, e);
	if (e->dropped)
		printf("%u events were lost here: the queue was full\n",
		       e->dropped);
	printf("%10llu  %-11s  %s", (unsigned long long)e->seq, type_name(e),
	       pool_name(c, e->pool, buf));
	if (e->type == KVCACHE_EV_REVOKED)
		printf("  handle 0x%llx", (unsigned long long)e->value);
	else if (value_name(e) && e->value == UINT64_MAX)
		printf("  %s %s", value_name(e), "max");
	else if (value_name(e))
		printf("  %s %llu", value_name(e), (unsigned long long)e->value);
	if (has_priority(e))
		printf("  priority %u", e->priority);
	/* Enough to tell keys apart; --json has all of it. */
	if (has_key(e->key))
		printf("  key %s", hex(e->key, 8, buf));
	if (has_key(e->parent))
		printf("  after %s", hex(e->parent, 8, buf));
	putchar('\n');
	return fflush(stdout) ? complain("standard output: %s: make room, or write elsewhere",
					 strerror(errno)) : 0;
}

/* Those that there are: their number, or -1 after a complaint. */
static int take(struct ctl *c)
{
	struct kvcache_event ev[BATCH];
	int n, i;

	n = kvc_events(c->kvc, ev, BATCH);
	if (n < 0)
		return ctl_refused(c, n, NULL, "events");
	for (i = 0; i < n; i++)
		if (print(c, &ev[i]))
			return -1;
	return n;
}

static int wait_for(struct ctl *c, uint64_t deadline, bool follow)
{
	int n, any = 0;

	for (;;) {
		n = kvc_events_wait(c->kvc, deadline);
		if (stopped || n == -EINTR || !n)
			break;
		if (n < 0)
			return ctl_refused(c, n, NULL, "events");
		n = take(c);
		if (n < 0)
			return -1;
		any += n;
		if (any && !follow)
			return 0;
	}
	if (follow || any)
		return 0;
	return complain(stopped ? "events: interrupted before there was one" :
			"events: there was none in --timeout %s: wait longer",
			c->value[OPT_TIMEOUT]);
}

int cmd_events(struct ctl *c)
{
	struct sigaction act = { .sa_handler = stop };
	uint64_t timeout = UINT64_MAX, deadline = KVCACHE_TIME_NEVER;
	struct timespec ts;

	if (args_time(c, OPT_TIMEOUT, &timeout))
		return CTL_USAGE;
	if (ctl_open(c) || ctl_attach(c) || ctl_pools(c))
		return -1;
	if (timeout != UINT64_MAX) {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		deadline = ts.tv_sec * 1000000000ULL + ts.tv_nsec + timeout;
	}
	/* No SA_RESTART: a wait is to end. */
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	return wait_for(c, deadline, c->value[OPT_FOLLOW]);
}
