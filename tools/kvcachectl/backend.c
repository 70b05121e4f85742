// SPDX-License-Identifier: MIT
/*
 * backend.c - the device or the broker, and why it said no.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin.h"
#include "ctl.h"
#include "util.h"

/* Why nothing can be opened: the library knows what it found where it looked. */
static int not_open(int err, const char *where, const char *why)
{
	if (err == -ENODEV && !where)
		return complain("no kvcache here: the module is not loaded and no broker runs: modprobe kvcache, start kvcache-broker, or name one with --device");
	if (!*why)
		why = strerror(-err);
	return complain("%s", why);
}

int ctl_open(struct ctl *c)
{
	const char *where = c->value[OPT_DEVICE];
	const char *named = where ? where : getenv("KVCACHE");
	char why[256] = "";
	const struct kvc_open_opts open = {
		.sz = sizeof(open),
		.flags = KVC_OPEN_UNATTACHED,
		.msg = why,
		.msg_len = sizeof(why),
	};
	int ret;

	if (c->kvc)
		return 0;
	if (named && !*named)
		named = NULL;
	if (named && !strncmp(named, "local", 5))
		return complain("%s \"%s\": the pages of one process are seen by it alone: name a device or a broker's socket",
				where ? "--device" : "KVCACHE", named);
	ret = kvc_open(where, &open, &c->kvc);
	return ret ? not_open(ret, named, why) : 0;
}

/* ---- refusals --------------------------------------------------------- */

static const char *who_may(const struct ctl *c)
{
	return strcmp(kvc_backend(c->kvc), "device") ?
	       "only root and the broker's own user may do this: run as one of these" :
	       "only who has CAP_SYS_ADMIN may do this: run as root, for example with sudo";
}

static const char *remedy_of(const struct ctl *c, int err,
			     const struct ctl_remedy *r)
{
	for (; r && r->text; r++)
		if (r->err == err)
			return r->text;
	switch (err) {
	case -EPERM:
		return who_may(c);
	case -ENOTCONN:
		return "the backend is gone: start it and try again";
	case -ENOMEM:
		return "no memory: free some and try again";
	case -ENOTTY:
	case -EOPNOTSUPP:
	case -E2BIG:
		return "the backend does not know this: use a module or a broker of the same release";
	case -EINTR:
		return "interrupted: try again";
	}
	return NULL;
}

int ctl_refused(const struct ctl *c, int err, const struct ctl_remedy *remedies,
		const char *what, ...)
{
	const char *remedy = remedy_of(c, err, remedies);
	char buf[256];
	va_list ap;

	va_start(ap, what);
	vsnprintf(buf, sizeof(buf), what, ap);
	va_end(ap);
	if (remedy)
		return complain("%s: %s", buf, remedy);
	return complain("%s: %s: %s --help may tell more", buf, strerror(-err),
			program_invocation_short_name);
}

/* ---- readers ---------------------------------------------------------- */

static int no_tenant(const struct ctl *c, int err, const char *tenant)
{
	if (err == -ENOENT && tenant)
		return complain("tenant %s: there is none of this name: name another, or have it made (kvcachectl tenant create %s)",
				tenant, tenant);
	if (err == -ENOENT)
		return complain("user %u is of no tenant: name one with --tenant, have one made (kvcachectl tenant create), or run as root",
				geteuid());
	if (err == -EPERM)
		return complain("tenant %s: user %u is no member: its owner, group and mode say who is: join its group, or run as one of these",
				tenant ? tenant : "of this user", geteuid());
	return ctl_refused(c, err, NULL, "attach");
}

int ctl_attach(struct ctl *c)
{
	const char *tenant = c->value[OPT_TENANT];
	struct kvcache_attach a = { .by = KVCACHE_ATTACH_AUTO };
	int err;

	if (tenant) {
		a.by = KVCACHE_ATTACH_NAME;
		strcpy(a.name, tenant);
	}
	err = kvc_call(c->kvc, KVCACHE_NR_ATTACH, &a);
	return err ? no_tenant(c, err, tenant) : 0;
}

int ctl_read(struct ctl *c, unsigned int nr, void *arg, const char *what)
{
	static const struct ctl_remedy remedies[] = {
		{ -ENOENT, "it is gone: look again" },
		{ 0, NULL }
	};
	int err = kvc_call(c->kvc, nr, arg);

	/* Who is not privileged sees what its tenant does. */
	if (err == -ENOTCONN) {
		if (ctl_attach(c))
			return -1;
		err = kvc_call(c->kvc, nr, arg);
	}
	return err ? ctl_refused(c, err, remedies, "%s", what) : 0;
}

int ctl_ask(void *arg, unsigned int nr, void *cmd)
{
	return kvc_call(arg, nr, cmd);
}

int ctl_admin(struct ctl *c)
{
	int err;

	if (ctl_open(c))
		return -1;
	err = admin_probe(ctl_ask, c->kvc);
	if (!err)
		return 0;
	return ctl_refused(c, err, NULL, "%s", command_name(c->command));
}

/* ---- pools ------------------------------------------------------------ */

int ctl_pools(struct ctl *c)
{
	int err;

	if (ctl_open(c))
		return -1;
	c->query = (struct kvcache_query){ .flags = 0 };
	err = kvc_call(c->kvc, KVCACHE_NR_QUERY, &c->query);
	return err ? ctl_refused(c, err, NULL, "pools") : 0;
}

/* What there is, for a complaint. */
static const char *pool_names(const struct ctl *c, char *buf, size_t len)
{
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < c->query.out_nr_pools && n < len; i++)
		n += snprintf(buf + n, len - n, "%s%s", i ? ", " : "",
			      c->query.out_pools[i].name);
	return buf;
}

static const struct kvcache_pool_info *no_pools(void)
{
	complain("there is no pool: make one (kvcachectl pool create NAME --size SIZE)");
	return NULL;
}

const struct kvcache_pool_info *ctl_pool_named(struct ctl *c, const char *name)
{
	char names[512];
	uint32_t i;

	if (ctl_pools(c))
		return NULL;
	for (i = 0; i < c->query.out_nr_pools; i++)
		if (!strcmp(c->query.out_pools[i].name, name))
			return &c->query.out_pools[i];
	if (!c->query.out_nr_pools)
		return no_pools();
	complain("pool \"%s\": there is none of this name: name one of %s", name,
		 pool_names(c, names, sizeof(names)));
	return NULL;
}

const struct kvcache_pool_info *ctl_pool(struct ctl *c)
{
	char names[512];

	if (c->value[OPT_POOL])
		return ctl_pool_named(c, c->value[OPT_POOL]);
	if (ctl_pools(c))
		return NULL;
	if (!c->query.out_nr_pools)
		return no_pools();
	if (c->query.out_nr_pools == 1)
		return &c->query.out_pools[0];
	complain("there are %u pools: name one of %s with --pool",
		 c->query.out_nr_pools,
		 pool_names(c, names, sizeof(names)));
	return NULL;
}

int ctl_some_pools(struct ctl *c, const struct kvcache_pool_info **only)
{
	*only = NULL;
	if (c->value[OPT_POOL]) {
		*only = ctl_pool_named(c, c->value[OPT_POOL]);
		return *only ? 0 : -1;
	}
	if (ctl_pools(c))
		return -1;
	return c->query.out_nr_pools || no_pools() ? 0 : -1;
}
