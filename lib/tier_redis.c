// SPDX-License-Identifier: MIT
/*
 * tier_redis.c - pages on a Redis server.
 *
 * A page is the value of kvcache:NAMESPACE:HEX, the record as every tier has it.
 * What is read is one MGET; what is written an EXPIRE each, which says whether
 * the page is there and keeps it, then a SET for each that is not.
 * A connection on which something went wrong is given up, as a reply that comes
 * late would be taken for another one's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tier.h"

#ifdef KVC_HAVE_HIREDIS
#include <hiredis/hiredis.h>

#define PORT 6379
#define TTL_S 86400
#define NS_MAX 64
#define KEY_MAX (16 + NS_MAX + 2 * KVCACHE_KEY_LEN)
#define EXCHANGE (8U << 20)	/* bytes of pages: replies are held twice */
#define VALUE_MAX (512U << 20)	/* the server's own limit */

/**
 * struct redis_tier - the server
 * @t: what all tiers are
 * @c: the connection, or NULL
 * @host: where
 * @port: of it
 * @ns: namespace
 * @ttl_s: seconds that a page stays
 * @user: who to be, or NULL
 * @password: or NULL
 */
struct redis_tier {
	struct kvc_tier t;
	redisContext *c;
	char *host;
	uint32_t port;
	char ns[NS_MAX + 1];
	uint32_t ttl_s;
	char *user;
	char *password;
};

static void hang_up(struct redis_tier *r)
{
	if (r->c)
		redisFree(r->c);
	r->c = NULL;
}

/*
 * The next reply, to be freed; or NULL and *@rc, and the connection is given
 * up. Errors of the server are replies.
 */
static redisReply *reply(struct redis_tier *r, int *rc)
{
	redisReply *out = NULL;

	if (redisGetReply(r->c, (void **)&out) == REDIS_OK && out)
		return out;
	*rc = r->c->err == REDIS_ERR_IO &&
	      (errno == EAGAIN || errno == ETIMEDOUT) ? -ETIMEDOUT : -ENOTCONN;
	hang_up(r);
	return NULL;
}

/* What the server says to a command that is not obeyed. */
static int error_of(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ERROR)
		return -EPROTO;
	/* Its memory is full and it may forget nothing. */
	if (!strncmp(reply->str, "OOM ", 4))
		return -ENOSPC;
	return -EACCES;
}

static int authenticate(struct redis_tier *r)
{
	redisReply *got;
	int rc = 0;

	if (!r->password)
		return 0;
	if (r->user)
		redisAppendCommand(r->c, "AUTH %s %s", r->user, r->password);
	else
		redisAppendCommand(r->c, "AUTH %s", r->password);
	got = reply(r, &rc);
	if (!got)
		return rc;
	if (got->type != REDIS_REPLY_STATUS)
		rc = -EACCES;
	freeReplyObject(got);
	if (rc)
		hang_up(r);
	return rc;
}

static int dial(struct redis_tier *r)
{
	struct timeval tv = {
		.tv_sec = r->t.timeout_ns / 1000000000,
		.tv_usec = r->t.timeout_ns / 1000 % 1000000,
	};

	if (r->c)
		return 0;
	if (r->host[0] == '/')
		r->c = redisConnectUnixWithTimeout(r->host, tv);
	else
		r->c = redisConnectWithTimeout(r->host, r->port, tv);
	if (!r->c)
		return -ENOMEM;
	if (r->c->err || redisSetTimeout(r->c, tv)) {
		hang_up(r);
		return -ENOTCONN;
	}
	return authenticate(r);
}

static void name(const struct redis_tier *r, const uint8_t *key,
		 char out[KEY_MAX])
{
	int at = snprintf(out, KEY_MAX, "kvcache:%s:", r->ns);

	for (uint32_t i = 0; i < KVCACHE_KEY_LEN; i++)
		at += sprintf(out + at, "%02x", key[i]);
}

static void fail(struct kvc_req *const *q, unsigned int n, int rc)
{
	for (unsigned int i = 0; i < n; i++)
		q[i]->rc = rc;
}

static int value(const redisReply *got, struct kvc_req *q)
{
	if (got->type == REDIS_REPLY_NIL)
		return -ENOENT;
	if (got->type != REDIS_REPLY_STRING || (size_t)got->len != q->len)
		return -EBADMSG;
	memcpy(q->buf, got->str, q->len);
	return 0;
}

static void get(struct redis_tier *r, struct kvc_req *const *q, unsigned int n)
{
	const char *argv[KVC_TIER_BATCH + 1] = { "MGET" };
	char names[KVC_TIER_BATCH][KEY_MAX];
	redisReply *got;
	int rc = 0;

	for (unsigned int i = 0; i < n; i++) {
		name(r, q[i]->key, names[i]);
		argv[i + 1] = names[i];
	}
	redisAppendCommandArgv(r->c, n + 1, argv, NULL);
	/* What is used stays; nobody waits for the answers. */
	for (unsigned int i = 0; i < n; i++)
		redisAppendCommand(r->c, "EXPIRE %s %u", names[i], r->ttl_s);
	got = reply(r, &rc);
	if (!got) {
		fail(q, n, rc);
		return;
	}
	if (got->type != REDIS_REPLY_ARRAY || got->elements != n)
		fail(q, n, error_of(got));
	else
		for (unsigned int i = 0; i < n; i++)
			q[i]->rc = value(got->element[i], q[i]);
	freeReplyObject(got);
	for (unsigned int i = 0; i < n && r->c; i++) {
		got = reply(r, &rc);
		if (got)
			freeReplyObject(got);
	}
}

/* Is each of them there? It stays for another while, then. */
static int renew(struct redis_tier *r, struct kvc_req *const *q, unsigned int n)
{
	char key[KEY_MAX];
	redisReply *got;
	unsigned int i;
	int rc = 0;

	for (i = 0; i < n; i++) {
		name(r, q[i]->key, key);
		redisAppendCommand(r->c, "EXPIRE %s %u", key, r->ttl_s);
	}
	for (i = 0; i < n; i++) {
		got = reply(r, &rc);
		if (!got)
			return rc;
		if (got->type == REDIS_REPLY_INTEGER)
			q[i]->rc = got->integer ? -EEXIST : 0;
		else
			q[i]->rc = error_of(got);
		freeReplyObject(got);
	}
	return 0;
}

static void put(struct redis_tier *r, struct kvc_req *const *q, unsigned int n)
{
	char key[KEY_MAX];
	redisReply *got;
	unsigned int i;
	int rc;

	rc = renew(r, q, n);
	if (rc) {
		fail(q, n, rc);
		return;
	}
	for (i = 0; i < n; i++) {
		if (!q[i]->rc && q[i]->len > VALUE_MAX)
			q[i]->rc = -EFBIG;
		if (q[i]->rc)
			continue;
		name(r, q[i]->key, key);
		redisAppendCommand(r->c, "SET %s %b EX %u", key, q[i]->buf,
				   q[i]->len, r->ttl_s);
	}
	for (i = 0; i < n; i++) {
		if (q[i]->rc)
			continue;
		got = r->c ? reply(r, &rc) : NULL;
		if (!got)
			q[i]->rc = rc;
		else if (got->type != REDIS_REPLY_STATUS)
			q[i]->rc = error_of(got);
		if (got)
			freeReplyObject(got);
	}
}

static void redis_serve(struct kvc_tier *t, struct kvc_req *const *q,
			unsigned int n)
{
	struct redis_tier *r = (struct redis_tier *)t;
	unsigned int k;
	size_t bytes;
	int rc = 0;

	for (; n; q += k, n -= k) {
		bytes = q[0]->len;
		for (k = 1; k < n && bytes + q[k]->len <= EXCHANGE; k++)
			bytes += q[k]->len;
		/* Who did not answer once is not asked for the rest. */
		if (!rc)
			rc = dial(r);
		if (rc)
			fail(q, k, rc);
		else if (q[0]->op == KVC_TIER_PUT)
			put(r, q, k);
		else
			get(r, q, k);
		if (!rc && !r->c)
			rc = q[k - 1]->rc;
	}
}

static void redis_forget(struct kvc_tier *t, const uint8_t *key)
{
	struct redis_tier *r = (struct redis_tier *)t;
	char text[KEY_MAX];
	redisReply *got;
	int rc;

	if (!r->c)
		return;
	name(r, key, text);
	redisAppendCommand(r->c, "DEL %s", text);
	got = reply(r, &rc);
	if (got)
		freeReplyObject(got);
}

static void redis_close(struct kvc_tier *t)
{
	struct redis_tier *r = (struct redis_tier *)t;

	hang_up(r);
	free(r->host);
	free(r->user);
	if (r->password)
		explicit_bzero(r->password, strlen(r->password));
	free(r->password);
	free(r);
}

static const struct kvc_tier_ops redis_ops = {
	.name = "redis",
	.serve = redis_serve,
	.forget = redis_forget,
	.close = redis_close,
};

static bool is_namespace(const char *s)
{
	size_t n = strlen(s);

	return n && n <= NS_MAX &&
	       n == strspn(s, "abcdefghijklmnopqrstuvwxyz"
			      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
}

int kvc_tier_redis_open(const struct kvc_tier_redis *redis,
			const struct kvc_tier_opts *opts,
			struct kvc_tier **out)
{
	struct kvc_tier_redis o;
	struct redis_tier *r;
	int rc;

	if (kvc_opts_copy(&o, sizeof(o), redis) || !o.host || !*o.host)
		return kvc_tier_refuse(opts, -EINVAL,
				       "struct kvc_tier_redis: bad sz, members that this library does not know, or no host");
	if (o.ns && !is_namespace(o.ns))
		return kvc_tier_refuse(opts, -EINVAL,
				       "namespace \"%s\": give 1 to %u letters, digits, dots, dashes and underscores",
				       o.ns, NS_MAX);
	if (o.port > 65535)
		return kvc_tier_refuse(opts, -EINVAL,
				       "port %u: give 1 to 65535", o.port);
	if (o.user && !o.password)
		return kvc_tier_refuse(opts, -EINVAL,
				       "a user without a password: give both");
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->t.ops = &redis_ops;
	r->host = strdup(o.host);
	r->port = o.port ? o.port : PORT;
	strcpy(r->ns, o.ns ? o.ns : "default");
	r->ttl_s = o.ttl_s ? o.ttl_s : TTL_S;
	r->user = o.user ? strdup(o.user) : NULL;
	r->password = o.password ? strdup(o.password) : NULL;
	rc = kvc_tier_init(&r->t, opts);
	if (!r->host || (o.user && !r->user) || (o.password && !r->password))
		rc = -ENOMEM;
	if (!rc)
		rc = kvc_tier_start(&r->t);
	if (rc) {
		redis_close(&r->t);
		return rc;
	}
	*out = &r->t;
	return 0;
}
#else
int kvc_tier_redis_open(const struct kvc_tier_redis *redis,
			const struct kvc_tier_opts *opts,
			struct kvc_tier **out)
{
	return kvc_tier_refuse(opts, -EOPNOTSUPP,
			       "this library was built without hiredis: install libhiredis-dev and build it again");
}
#endif
