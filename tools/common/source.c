// SPDX-License-Identifier: MIT
/*
 * source.c - a device or a broker that is looked at again and again.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source.h"

int source_because(struct source *src, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(src->why, sizeof(src->why), fmt, ap);
	va_end(ap);
	return err;
}

void source_close(struct source *src)
{
	kvc_close(src->kvc);
	src->kvc = NULL;
}

int source_open(struct source *src)
{
	const char *named = src->where ? src->where : getenv("KVCACHE");
	const struct kvc_open_opts open = {
		.sz = sizeof(open),
		.flags = KVC_OPEN_UNATTACHED,
		.msg = src->why,
		.msg_len = sizeof(src->why),
	};
	int err;

	if (src->kvc)
		return 0;
	if (named && !strncmp(named, "local", 5))
		return source_because(src, -EINVAL,
				      "\"%s\": the pages of one process are seen by it alone: name a device or a broker's socket",
				      named);
	src->why[0] = 0;
	err = kvc_open(src->where, &open, &src->kvc);
	if (err && !src->why[0])
		return source_because(src, err, "%s", strerror(-err));
	return err;
}

static int attach(struct source *src)
{
	struct kvcache_attach a = { .by = KVCACHE_ATTACH_AUTO };
	int err;

	if (src->as) {
		a.by = KVCACHE_ATTACH_NAME;
		snprintf(a.name, sizeof(a.name), "%s", src->as);
	}
	err = kvc_call(src->kvc, KVCACHE_NR_ATTACH, &a);
	/* Not what is said of a user to whom nothing is shown. */
	if (err == -ENOENT && src->as)
		return source_because(src, -ESRCH,
				      "tenant %s: there is none of this name: name another",
				      src->as);
	if (err == -ENOENT)
		return source_because(src, err,
				      "user %u is of no tenant: name one with --tenant, or run as root",
				      geteuid());
	if (err == -EPERM)
		return source_because(src, err,
				      "tenant %s: user %u is no member: name another, or run as root",
				      src->as ? src->as : "of this user",
				      geteuid());
	return err ? source_because(src, err, "attach: %s", strerror(-err)) : 0;
}

int source_ask(void *arg, unsigned int nr, void *cmd)
{
	struct source *src = arg;
	struct kvcache_query q = { .flags = 0 };
	int err = kvc_call(src->kvc, nr, cmd);

	if (err == -ENOTCONN && nr != KVCACHE_NR_QUERY &&
	    !kvc_call(src->kvc, KVCACHE_NR_QUERY, &q) && !q.out_tenant) {
		err = attach(src);
		if (err)
			return err;
		err = kvc_call(src->kvc, nr, cmd);
	}
	if (err == -ENOTCONN || err == -EOWNERDEAD)
		return source_because(src, err, "the %s is gone",
				      kvc_backend(src->kvc));
	return err ? source_because(src, err, "%s", kvc_errmsg(src->kvc)) : 0;
}
