// SPDX-License-Identifier: MIT
/*
 * tenant_set.c - make tenants and change them.
 */
#include <errno.h>
#include <grp.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "change.h"
#include "ctl.h"
#include "json_out.h"
#include "table.h"
#include "tenant.h"
#include "util.h"

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

/* A limit of what is asked for. */
static int less_than_a_page(const struct ctl *c, const struct change *ch,
			    const struct limit *l,
			    const struct kvcache_pool_info *p)
{
	enum ctl_opt opt = l == &ch->min ? OPT_MIN :
			   l == &ch->low ? OPT_LOW : OPT_MAX;
	char buf[32];

	option_size(p->page_size, buf);
	complain("%s: less than a page of %s, which is %s: give 0, or %s and more",
		 c->value[opt], p->name, buf, buf);
	return CTL_USAGE;
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
	const struct limit *small;
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
	small = change_fill(&ch, &fresh, p, &s);
	if (small)
		return less_than_a_page(c, &ch, small, p);
	strcpy(s.name, c->arg[0]);
	err = kvc_call(c->kvc, KVCACHE_NR_TENANT_CREATE, &s);
	return err ? refused(c, err, p, &s) : say(c, p, &s);
}

/* Where the tenant to be changed is found. */
struct where {
	struct ctl *c;
	uint32_t pool;
};

/* 1 after a complaint, which is no errno. */
static int find(void *arg, struct kvcache_tenant_info *t)
{
	const struct where *w = arg;

	return find_tenant(w->c, w->c->arg[0], w->pool, t) ? 1 : 0;
}

int cmd_tenant_set(struct ctl *c)
{
	const struct kvcache_pool_info *p;
	const struct kvcache_tenant_info none = { .id = 0 };
	struct kvcache_tenant_set s;
	struct where where;
	struct change ch;
	int err;

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
	where = (struct where){ c, p->id };
	err = change_make(ctl_ask, c->kvc, &ch, p, find, &where, &s);
	if (err == -ERANGE)
		return less_than_a_page(c, &ch, change_fill(&ch, &none, p, &s),
					p);
	if (err > 0)
		return -1;
	return err ? refused(c, err, p, &s) : say(c, p, &s);
}
