// SPDX-License-Identifier: MIT
/*
 * tenant_set.c - make tenants and change them.
 *
 * A change is made of what is given and what is in force, with the revision
 * after the one that was read: if somebody else was faster, it is made anew.
 */
#include <errno.h>
#include <grp.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "json_out.h"
#include "table.h"
#include "tenant.h"
#include "util.h"

#define TRIES 16	/* others may change it meanwhile, but not for ever */

/**
 * struct change - what is asked for
 * @set: KVCACHE_SET_* that are given
 * @min: with KVCACHE_SET_LIMITS, each may be LIMIT_NONE
 * @low: likewise
 * @max: likewise
 * @deadline_ns: from now, or UINT64_MAX
 * @has_uid: @uid is given
 * @has_gid: @gid is given
 * @has_mode: @mode is given
 */
struct change {
	uint32_t set;
	struct limit min;
	struct limit low;
	struct limit max;
	uint64_t deadline_ns;
	uint64_t ttl_ns;
	uint64_t cgroup;
	uint32_t trust;
	bool has_uid;
	bool has_gid;
	bool has_mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t mode;
};

static bool user_id(const char *s, uint32_t *out)
{
	const struct passwd *pw = getpwnam(s);
	uint64_t v;

	if (pw)
		v = pw->pw_uid;
	else if (!parse_u64(s, 0, UINT32_MAX - 1, &v))
		return false;
	*out = v;
	return true;
}

static bool group_id(const char *s, uint32_t *out)
{
	const struct group *gr = getgrnam(s);
	uint64_t v;

	if (gr)
		v = gr->gr_gid;
	else if (!parse_u64(s, 0, UINT32_MAX - 1, &v))
		return false;
	*out = v;
	return true;
}

/* "user", "user:group", ":group". */
static int parse_owner(const char *s, struct change *ch)
{
	char user[64];
	const char *colon = strchrnul(s, ':');
	size_t n = colon - s;

	if (n >= sizeof(user) || (!n && !*colon))
		goto bad;
	memcpy(user, s, n);
	user[n] = 0;
	if (n && !user_id(user, &ch->uid))
		goto bad;
	if (*colon && !group_id(colon + 1, &ch->gid))
		goto bad;
	ch->has_uid = n;
	ch->has_gid = *colon;
	return 0;
bad:
	complain("--owner \"%s\": no such user or group: give USER, USER:GROUP or :GROUP, by name or number",
		 s);
	return CTL_USAGE;
}

static int parse_mode(const char *s, struct change *ch)
{
	size_t n = strspn(s, "04");

	if (!n || s[n] || n > 4 || (n == 4 && s[0] != '0')) {
		complain("--mode \"%s\": give 0400 (the owner), 0040 (the group), 0004 (everybody) or a sum of these",
			 s);
		return CTL_USAGE;
	}
	for (ch->mode = 0; *s; s++)
		ch->mode = 8 * ch->mode + *s - '0';
	ch->has_mode = true;
	return 0;
}

/* The number of a cgroup is that of its folder. */
static int parse_cgroup(const char *s, uint64_t *out)
{
	struct statfs fs;
	struct stat st;

	*out = 0;
	if (!strcmp(s, "none"))
		return 0;
	if (statfs(s, &fs) || stat(s, &st)) {
		complain("--cgroup \"%s\": %s: give the folder of a cgroup v2, such as /sys/fs/cgroup/NAME, or none",
			 s, strerror(errno));
		return CTL_USAGE;
	}
	if (fs.f_type != CGROUP2_SUPER_MAGIC || !S_ISDIR(st.st_mode)) {
		complain("--cgroup \"%s\": no folder of a cgroup v2: give one, such as /sys/fs/cgroup/NAME, or none",
			 s);
		return CTL_USAGE;
	}
	*out = st.st_ino;
	return 0;
}

static int parse_trust(const char *s, uint32_t *out)
{
	*out = !strcmp(s, "yes");
	if (*out || !strcmp(s, "no"))
		return 0;
	complain("--trust \"%s\": give yes or no", s);
	return CTL_USAGE;
}

/* What is given: 0, or CTL_USAGE after a complaint. */
static int parse_change(const struct ctl *c, struct change *ch)
{
	*ch = (struct change){ .deadline_ns = UINT64_MAX };
	if (args_limit(c, OPT_MIN, &ch->min) ||
	    args_limit(c, OPT_LOW, &ch->low) ||
	    args_limit(c, OPT_MAX, &ch->max) ||
	    args_time(c, OPT_DEADLINE, &ch->deadline_ns) ||
	    args_time(c, OPT_TTL, &ch->ttl_ns))
		return CTL_USAGE;
	if ((c->value[OPT_OWNER] && parse_owner(c->value[OPT_OWNER], ch)) ||
	    (c->value[OPT_MODE] && parse_mode(c->value[OPT_MODE], ch)) ||
	    (c->value[OPT_CGROUP] &&
	     parse_cgroup(c->value[OPT_CGROUP], &ch->cgroup)) ||
	    (c->value[OPT_TRUST] &&
	     parse_trust(c->value[OPT_TRUST], &ch->trust)))
		return CTL_USAGE;
	if (ch->min.kind == LIMIT_MAX) {
		complain("--min \"max\": nobody can be promised everything: give a size, or a share such as 25%%");
		return CTL_USAGE;
	}
	if (ch->min.kind || ch->low.kind || ch->max.kind)
		ch->set |= KVCACHE_SET_LIMITS;
	if (ch->has_uid || ch->has_gid || ch->has_mode)
		ch->set |= KVCACHE_SET_OWNER;
	if (c->value[OPT_TTL])
		ch->set |= KVCACHE_SET_TTL;
	if (c->value[OPT_CGROUP])
		ch->set |= KVCACHE_SET_CGROUP;
	if (c->value[OPT_TRUST])
		ch->set |= KVCACHE_SET_TRUST;
	return 0;
}

/* A limit in pages of the pool, if it is given. */
static int resolve(const struct ctl *c, enum ctl_opt opt, const struct limit *l,
		   const struct kvcache_pool_info *p, uint64_t *pages)
{
	char buf[32];

	if (!l->kind || limit_pages(l, p->page_size, p->nr_pages, pages))
		return 0;
	option_size(p->page_size, buf);
	complain("%s: less than a page of %s, which is %s: give 0, or %s and more",
		 c->value[opt], p->name, buf, buf);
	return CTL_USAGE;
}

static uint64_t deadline(uint64_t ns)
{
	struct timespec ts;

	if (ns == UINT64_MAX)
		return KVCACHE_TIME_NEVER;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec + ns;
}

/* @t as it is, and what is given. */
static int fill(const struct ctl *c, const struct change *ch,
		const struct kvcache_tenant_info *t,
		const struct kvcache_pool_info *p, struct kvcache_tenant_set *s)
{
	uint64_t min = t->min, low = t->low, max = t->max;

	*s = (struct kvcache_tenant_set){
		.set = ch->set,
		.tenant = t->id,
		.deadline_ns = deadline(ch->deadline_ns),
		.ttl_ns = ch->ttl_ns,
		.cgroup = ch->cgroup,
		.trust = ch->trust,
		.uid = ch->has_uid ? ch->uid : t->uid,
		.gid = ch->has_gid ? ch->gid : t->gid,
		.mode = ch->has_mode ? ch->mode : t->mode,
	};
	if (!(ch->set & KVCACHE_SET_LIMITS))
		return 0;
	if (resolve(c, OPT_MIN, &ch->min, p, &min) ||
	    resolve(c, OPT_LOW, &ch->low, p, &low) ||
	    resolve(c, OPT_MAX, &ch->max, p, &max))
		return CTL_USAGE;
	s->pool = p->id;
	s->min = min;
	s->low = low;
	s->max = max;
	return 0;
}

static int refused(const struct ctl *c, int err, const struct kvcache_pool_info *p,
		   const struct kvcache_tenant_set *s)
{
	static const struct ctl_remedy remedies[] = {
		{ -EEXIST, "there is one of this name: take another, or change it with tenant set" },
		{ -ENOENT, "it is gone: kvcachectl tenant ls shows all" },
		{ -ESTALE, "others change it all the time: try again" },
		{ 0, NULL }
	};
	char min[32], low[32], max[32];
	const char *name = c->arg[0];

	if (err == -EINVAL && p)
		return complain("tenant %s: min %s, low %s, max %s: neither min nor low can be above max: lower these, or raise --max",
				name, human_limit(s->min, p->page_size, min),
				human_limit(s->low, p->page_size, low),
				human_limit(s->max, p->page_size, max));
	if (err == -ENOSPC && p && s->min)
		return complain("tenant %s: min %s: pool %s has %s, and what it promises in all would be more: lower a min, or grow the pool",
				name, human_limit(s->min, p->page_size, min),
				p->name,
				human_size(p->nr_pages * p->page_size, max));
	if (err == -ENOSPC)
		return complain("tenant %s: there are as many tenants as can be: remove one",
				name);
	return ctl_refused(c, err, remedies, "tenant %s", name);
}

/* The tenant as it is now. */
static int say(struct ctl *c, const struct kvcache_pool_info *p,
	       const struct kvcache_tenant_set *s)
{
	struct kvcache_tenant_info info;
	struct table t = { 0 };

	if (!p) {
		if (c->value[OPT_JSON])
			return json_print(json_pack("{s:s, s:i}", "name",
						    c->arg[0], "id",
						    s->out_tenant), stdout);
		printf("tenant %s: made\n", c->arg[0]);
		return 0;
	}
	if (find_tenant(c, c->arg[0], p->id, &info))
		return -1;
	if (c->value[OPT_JSON])
		return json_print(json_tenant(&info, p), stdout);
	tenant_columns(&t);
	tenant_row(&t, &info, p);
	table_print(&t, stdout);
	table_free(&t);
	return 0;
}

/* The pool of the limits; without limits any, and none is none. */
static int find_pool(struct ctl *c, const struct change *ch,
		     const struct kvcache_pool_info **out)
{
	*out = NULL;
	if (ctl_admin(c))
		return -1;
	if (ch->set & KVCACHE_SET_LIMITS || c->value[OPT_POOL]) {
		*out = ctl_pool(c);
		return *out ? 0 : -1;
	}
	if (ctl_pools(c))
		return -1;
	if (c->query.out_nr_pools)
		*out = &c->query.out_pools[0];
	return 0;
}

int cmd_tenant_create(struct ctl *c)
{
	struct kvcache_tenant_info fresh = {
		.uid = geteuid(),
		.gid = getegid(),
		.mode = 0400,
		.max = KVCACHE_LIMIT_MAX,
	};
	const struct kvcache_pool_info *p;
	struct kvcache_tenant_set s;
	const struct passwd *pw;
	struct change ch;
	int err;

	if (args_name("tenant", c->arg[0]) || parse_change(c, &ch))
		return CTL_USAGE;
	if (find_pool(c, &ch, &p))
		return -1;
	/* Whose it is is always said, and a user's group is that user's. */
	ch.set |= KVCACHE_SET_OWNER;
	pw = ch.has_uid ? getpwuid(ch.uid) : NULL;
	if (ch.has_uid)
		fresh.gid = pw ? pw->pw_gid : 0;
	if (fill(c, &ch, &fresh, p, &s))
		return CTL_USAGE;
	strcpy(s.name, c->arg[0]);
	err = kvc_call(c->kvc, KVCACHE_NR_TENANT_CREATE, &s);
	return err ? refused(c, err, p, &s) : say(c, p, &s);
}

int cmd_tenant_set(struct ctl *c)
{
	const struct kvcache_pool_info *p;
	struct kvcache_tenant_info t;
	struct kvcache_tenant_set s;
	struct change ch;
	int err, ret, i;

	if (args_name("tenant", c->arg[0]) || parse_change(c, &ch))
		return CTL_USAGE;
	if (!ch.set) {
		complain("tenant set: nothing to change: give --max, --owner or another of --help");
		return CTL_USAGE;
	}
	if (find_pool(c, &ch, &p))
		return -1;
	if (!p)
		return ctl_pool(c) ? 0 : -1;	/* says that there is none */
	for (i = 0; i < TRIES; i++) {
		if (find_tenant(c, c->arg[0], p->id, &t))
			return -1;
		ret = fill(c, &ch, &t, p, &s);
		if (ret)
			return ret;
		s.revision = t.revision + 1;
		err = kvc_call(c->kvc, KVCACHE_NR_TENANT_SET, &s);
		if (err != -ESTALE && err != -EEXIST)
			break;
		err = -ESTALE;
	}
	return err ? refused(c, err, p, &s) : say(c, p, &s);
}
