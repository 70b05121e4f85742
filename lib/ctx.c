// SPDX-License-Identifier: MIT
/*
 * ctx.c - a context: one client of one backend.
 *
 * Every command goes through kvc_call(), which is where sizes are filled in,
 * interrupted calls restarted and refusals put into words.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "ledger.h"

#define DEVICE_PATH "/dev/kvcache"
#define BROKER_DIR "/kvcache/broker"
#define BROKER_PATH "/run" BROKER_DIR

static const struct {
	const char *name;
	uint32_t size;
} commands[] = {
#define CMD(nr, s) [KVCACHE_NR_##nr] = { #nr, sizeof(struct kvcache_##s) }
	CMD(QUERY, query),
	CMD(ATTACH, attach),
	CMD(ALLOC, alloc),
	CMD(FREE, free),
	CMD(PUBLISH, publish),
	CMD(LOOKUP, lookup),
	CMD(ADVISE, advise),
	CMD(EXPORT, export),
	CMD(PROVIDE, provide),
	CMD(TAKE, take),
	CMD(RETIRE, retire),
	CMD(TENANT_CREATE, tenant_set),
	CMD(TENANT_SET, tenant_set),
	CMD(TENANT_REMOVE, tenant_ref),
	CMD(TENANT_FLUSH, tenant_ref),
	CMD(TENANT_GRANT, tenant_grant),
	CMD(TENANT_GET, tenant_get),
	CMD(CLIENT_GET, client_get),
	CMD(PAGE_GET, page_get),
	CMD(GRANT_GET, grant_get),
	CMD(POOL_SET, pool_set),
	CMD(POOL_GET, pool_get),
#undef CMD
};

int kvc_fail(struct kvc *ctx, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ctx->msg, sizeof(ctx->msg), fmt, ap);
	va_end(ap);
	return err;
}

int kvc_gone(struct kvc *ctx, int err, const char *what)
{
	const char *hint = ctx->sys->hint;

	if (err != -ENOTCONN)
		return kvc_fail(ctx, err, "%s: %s%s%s", what,
				strerrordesc_np(-err), hint ? "; " : "",
				hint ? hint : "");
	if (ctx->tenant)
		return kvc_fail(ctx, err,
				"%s: the %s is gone: close this context and open another",
				what, kvc_backend(ctx));
	return kvc_fail(ctx, err,
			"%s: no tenant was attached to (or the %s is gone)",
			what, kvc_backend(ctx));
}

int kvc_opts_copy(void *dst, size_t dst_size, const void *src)
{
	const unsigned char *p = src;
	size_t sz, i;

	memset(dst, 0, dst_size);
	if (!src)
		return 0;
	memcpy(&sz, src, sizeof(sz));
	if (sz < sizeof(sz))
		return -EINVAL;
	for (i = dst_size; i < sz; i++)
		if (p[i])
			return -EINVAL;
	memcpy(dst, src, KVC_MIN(sz, dst_size));
	return 0;
}

void *kvc_regrow(void *p, uint32_t *cap, uint32_t want, size_t elem)
{
	uint32_t n = KVC_MAX(want, 16u);

	if (p && want <= *cap)
		return p;
	if (*cap <= UINT32_MAX / 2)
		n = KVC_MAX(n, *cap * 2);
	p = reallocarray(p, n, elem);
	if (p)
		*cap = n;
	return p;
}

int kvc_call(struct kvc *ctx, unsigned int nr, void *arg)
{
	bool waits;
	int rc;

	if (nr >= sizeof(commands) / sizeof(commands[0]) || !commands[nr].size)
		return kvc_fail(ctx, -ENOTTY, "no command %#x", nr);
	/* The first member of each struct is its size. */
	memcpy(arg, &commands[nr].size, sizeof(commands[nr].size));
	waits = nr == KVCACHE_NR_ALLOC &&
		((struct kvcache_alloc *)arg)->deadline_ns;
	do {
		rc = ctx->sys->ops->call(ctx->sys, nr, arg);
	} while (rc == -EINTR && !waits);
	return rc < 0 ? kvc_gone(ctx, rc, commands[nr].name) : rc;
}

const char *kvc_errmsg(const struct kvc *ctx)
{
	return ctx->msg;
}

const char *kvc_backend(const struct kvc *ctx)
{
	return ctx->sys->ops->name;
}

/* A number with an optional K, M or G. */
static int parse_size(const char *s, const char **end, uint64_t *out)
{
	unsigned int shift = 0;
	char *e;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(s, &e, 0);
	if (errno)
		return -EINVAL;
	if (*e == 'K')
		shift = 10;
	else if (*e == 'M')
		shift = 20;
	else if (*e == 'G')
		shift = 30;
	if (shift && (*out << shift) >> shift != *out)
		return -EINVAL;
	*out <<= shift;
	*end = e + !!shift;
	return 0;
}

/* A size as parse_size() reads it; @buf has room for 24 bytes. */
static const char *size_text(uint64_t n, char *buf)
{
	static const char units[] = "KMG";
	unsigned int i = 0;

	for (; i < 3 && n && n % 1024 == 0; i++)
		n /= 1024;
	snprintf(buf, 24, i ? "%llu%c" : "%llu", (unsigned long long)n,
		 units[i - !!i]);
	return buf;
}

/*
 * What follows "local:". What the environment says goes behind what the
 * program asks for: a person has told it more than everything else.
 */
static int parse_local(struct kvc *ctx, const char *s, bool env,
		       struct kvc_open_opts *o)
{
	const struct kvc_open_opts asked = *o;
	const struct {
		const char *name;
		uint64_t *to;
	} keys[] = {
		{ "bytes=", &o->local_bytes },
		{ "page=", &o->local_page_size },
		{ "max=", &o->local_max },
	};
	const size_t nkeys = sizeof(keys) / sizeof(keys[0]);
	const char *at = s;
	size_t i;

	for (;;) {
		for (i = 0; i < nkeys; i++)
			if (!strncmp(at, keys[i].name, strlen(keys[i].name)))
				break;
		if (i == nkeys || parse_size(at + strlen(keys[i].name), &at,
					     keys[i].to))
			break;
		if (!*at)
			goto done;
		if (*at++ != ',')
			break;
	}
	return kvc_fail(ctx, -EINVAL,
			"\"local:%s\": not understood from \"%s\" on; local:bytes=1G,page=2M,max=100 is the form",
			s, at);

done:
	if (env && asked.local_bytes)
		o->local_bytes = asked.local_bytes;
	if (env && asked.local_page_size)
		o->local_page_size = asked.local_page_size;
	if (env && asked.local_max)
		o->local_max = asked.local_max;
	return 0;
}

/* Why this process has no such pool. */
static int no_local(struct kvc *ctx, int err, const struct kvc_open_opts *o)
{
	uint64_t page = o->local_page_size, bytes = o->local_bytes;
	char p[24], b[24];

	/* The defaults that kvcache.h promises. */
	page = page ? page : 2 << 20;
	bytes = bytes ? bytes : 1 << 30;
	size_text(page, p);
	size_text(bytes, b);
	if (err == -ENOMEM)
		return kvc_fail(ctx, err,
				"no memory for a pool of %s: make it smaller",
				b);
	if (err != -EINVAL)
		return kvc_fail(ctx, err, "the in-process backend: %s",
				strerrordesc_np(-err));
	if (page < 64 || page > KVCACHE_PAGE_SIZE_MAX || page & (page - 1))
		return kvc_fail(ctx, err,
				"a page of %s: make it a power of two from 64 to %lluM",
				p, KVCACHE_PAGE_SIZE_MAX >> 20);
	if (bytes < page)
		return kvc_fail(ctx, err,
				"a pool of %s has not one page of %s: make it larger, or its pages smaller",
				b, p);
	if (bytes / page > KVL_MAX_PAGES)
		return kvc_fail(ctx, err,
				"a pool of %s has more than %u pages of %s: make it smaller, or its pages larger",
				b, KVL_MAX_PAGES, p);
	return kvc_fail(ctx, err,
			"tenant \"%s\": a name is up to %d letters, digits, \".\", \"-\" and \"_\", the first no \".\"",
			o->tenant ? o->tenant : "", KVCACHE_NAME_LEN - 1);
}

static int open_local(struct kvc *ctx, const struct kvc_open_opts *o)
{
	int err = kvc_sys_local_open(o, &ctx->sys);

	return err ? no_local(ctx, err, o) : 0;
}

/* The other remedy, for who wants pages and not to look at those of others. */
static const char *or_local(const struct kvc_open_opts *o)
{
	return o->flags & KVC_OPEN_UNATTACHED ? "" : ", or open \"local\"";
}

static int open_device(struct kvc *ctx, const char *path,
		       const struct kvc_open_opts *o)
{
	int rc = kvc_sys_dev_open(path, &ctx->sys);

	switch (rc) {
	case 0:
		return 0;
	case -EACCES:
	case -EPERM:
		return kvc_fail(ctx, rc,
				"%s: %s; its group may open it: join that%s",
				path, strerrordesc_np(-rc), or_local(o));
	case -ENXIO:
	case -ENODEV:
		/* A node that somebody made by hand. */
		return kvc_fail(ctx, -ENXIO,
				"%s: there is no such device: load the module (modprobe kvcache), or have udev make the node anew%s",
				path, or_local(o));
	case -ENOTTY:
	case -EINVAL:
		return kvc_fail(ctx, -EINVAL,
				"%s: not a device of kvcache: name /dev/kvcache%s",
				path, or_local(o));
	case -EPROTO:
		return kvc_fail(ctx, rc,
				"%s: another version of the ABI than this library's %u; use the module and the library of one release",
				path, KVCACHE_ABI_VERSION);
	}
	return kvc_fail(ctx, rc, "%s: %s", path, strerrordesc_np(-rc));
}

static int open_broker(struct kvc *ctx, const char *path,
		       const struct kvc_open_opts *o)
{
	int rc = kvc_sys_broker_open(path, &ctx->sys);

	switch (rc) {
	case 0:
		return 0;
	case -EACCES:
	case -EPERM:
		return kvc_fail(ctx, rc,
				"%s: %s; its group may connect: join that, or start a broker of your own (kvcache-broker --user)%s",
				path, strerrordesc_np(-rc), or_local(o));
	case -ECONNREFUSED:
		return kvc_fail(ctx, rc,
				"%s: nobody listens: its broker has ended; start kvcache-broker%s",
				path, or_local(o));
	case -EPROTOTYPE:
	case -ENOTTY:
		return kvc_fail(ctx, -EINVAL,
				"%s: not a socket of kvcache-broker: name the one that it made%s",
				path, or_local(o));
	case -EPROTO:
		return kvc_fail(ctx, rc,
				"%s: another version of the ABI than this library's %u; use the broker and the library of one release",
				path, KVCACHE_ABI_VERSION);
	case -ETIMEDOUT:
		return kvc_fail(ctx, rc,
				"%s: the broker does not answer: if it is stopped let it go on, else start it anew%s",
				path, or_local(o));
	case -ENOTCONN:
		return kvc_fail(ctx, rc,
				"%s: the broker hung up: it has too many clients, or is about to end; its log says which",
				path);
	}
	return kvc_fail(ctx, rc, "%s: %s", path, strerrordesc_np(-rc));
}

/* A path is a device or a broker's socket: say what is the matter with it. */
static int open_path(struct kvc *ctx, const char *path,
		     const struct kvc_open_opts *o)
{
	struct stat st;

	if (stat(path, &st) && errno == EACCES)
		return kvc_fail(ctx, -EACCES,
				"%s: %s on the folders above it: have them opened, or name another%s",
				path, strerrordesc_np(EACCES), or_local(o));
	if (stat(path, &st))
		return kvc_fail(ctx, -ENODEV,
				"%s: %s; load the module (modprobe kvcache), or start kvcache-broker%s",
				path, strerrordesc_np(errno), or_local(o));
	if (S_ISCHR(st.st_mode))
		return open_device(ctx, path, o);
	if (S_ISSOCK(st.st_mode))
		return open_broker(ctx, path, o);
	return kvc_fail(ctx, -EINVAL, "%s: neither a device nor a socket: name /dev/kvcache, or the socket of a broker%s",
			path, or_local(o));
}

/* Nothing was named: the device, a broker, or this process if allowed. */
static int open_first(struct kvc *ctx, const struct kvc_open_opts *o)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char user[PATH_MAX] = "";
	const char *const paths[] = { DEVICE_PATH, user, BROKER_PATH };
	int rc;

	if (run && *run == '/' && strlen(run) < sizeof(user) - sizeof(BROKER_DIR))
		snprintf(user, sizeof(user), "%s" BROKER_DIR, run);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		rc = *paths[i] ? open_path(ctx, paths[i], o) : -ENODEV;
		if (rc != -ENODEV)
			return rc;
	}
	if (o->flags & KVC_OPEN_LOCAL)
		return open_local(ctx, o);
	return kvc_fail(ctx, -ENODEV,
			"no " DEVICE_PATH ": load the module (modprobe kvcache); no "
			BROKER_PATH "%s%s: or start kvcache-broker; or KVCACHE=local keeps the pages in this process",
			*user ? " and no " : "", user);
}

static int open_sys(struct kvc *ctx, const char *where,
		    struct kvc_open_opts *o)
{
	bool env = !where;
	int rc = 0;

	if (env)
		where = getenv("KVCACHE");
	if (!where || !*where)
		return open_first(ctx, o);
	if (!strncmp(where, "local:", 6))
		rc = parse_local(ctx, where + 6, env, o);
	else if (strchr(where, '/'))
		return open_path(ctx, where, o);
	else if (strcmp(where, "local"))
		rc = kvc_fail(ctx, -EINVAL,
			      "\"%s\": give the path of a device or a socket, with a \"/\" in it%s",
			      where, or_local(o));
	return rc ? rc : open_local(ctx, o);
}

static int attach(struct kvc *ctx, const char *tenant)
{
	struct kvcache_attach a = { .by = KVCACHE_ATTACH_AUTO };
	int rc;

	if (tenant) {
		if (strlen(tenant) >= sizeof(a.name))
			return kvc_fail(ctx, -EINVAL,
					"the tenant's name has more than %zu bytes",
					sizeof(a.name) - 1);
		a.by = KVCACHE_ATTACH_NAME;
		strcpy(a.name, tenant);
	}
	rc = kvc_call(ctx, KVCACHE_NR_ATTACH, &a);
	if (rc == -ENOENT && tenant)
		return kvc_fail(ctx, rc,
				"there is no tenant \"%s\": have it made, or name another",
				tenant);
	if (rc == -ENOENT)
		return kvc_fail(ctx, rc,
				"no tenant is for this user or cgroup: name one, or have one made");
	if (rc == -EPERM)
		return kvc_fail(ctx, rc,
				"tenant \"%s\" is for others: its uid, gid and mode say for whom",
				tenant ? tenant : "");
	ctx->tenant = a.out_tenant;
	return rc;
}

int kvc_open(const char *where, const struct kvc_open_opts *opts,
	     struct kvc **out)
{
	struct kvc_open_opts o;
	struct kvc *ctx;
	int rc;

	rc = kvc_opts_copy(&o, sizeof(o), opts);
	if (rc)
		return rc;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	if (o.flags & ~(KVC_OPEN_LOCAL | KVC_OPEN_UNATTACHED))
		rc = kvc_fail(ctx, -EINVAL, "unknown flags %#x", o.flags);
	else if (o.flags & KVC_OPEN_UNATTACHED && o.tenant)
		rc = kvc_fail(ctx, -EINVAL,
			      "tenant \"%s\": KVC_OPEN_UNATTACHED attaches to none",
			      o.tenant);
	else
		rc = open_sys(ctx, where, &o);
	if (rc)
		goto fail;
	if (!(o.flags & KVC_OPEN_UNATTACHED))
		rc = attach(ctx, o.tenant);
	if (rc)
		goto fail_sys;
	kvc_lost_poll(ctx);	/* its queue begins */
	ctx->msg[0] = '\0';
	*out = ctx;
	return 0;

fail_sys:
	ctx->sys->ops->close(ctx->sys);
fail:
	if (o.msg && o.msg_len)
		snprintf(o.msg, o.msg_len, "%s", ctx->msg);
	free(ctx);
	return rc;
}

void kvc_close(struct kvc *ctx)
{
	if (!ctx)
		return;
	ctx->sys->ops->close(ctx->sys);
	free(ctx);
}
