// SPDX-License-Identifier: MIT
/*
 * options.c - the command line.
 */
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kvcache/broker.h>

#include "options.h"
#include "util.h"

static const char help[] =
"Usage: kvcache-broker [OPTION]...\n"
"\n"
"Keep pages for the key/value caches of many processes, where the kernel module\n"
"cannot be loaded. Programs that use libkvcache find it by its socket.\n"
"\n"
"      --user             for one user: the socket is below $XDG_RUNTIME_DIR; if\n"
"                         none is given, a pool of a quarter of the memory, and\n"
"                         a tenant \"user\"\n"
"      --socket PATH      listen there (/run/kvcache/broker)\n"
"      --pool NAME=SIZE[,page=SIZE]\n"
"                         a pool of so many bytes, such as main=8G, in pages of\n"
"                         2M or as given; may be repeated\n"
"      --tenant NAME[,KEY=VALUE]...\n"
"                         a tenant; may be repeated. Keys: uid and gid, by name\n"
"                         or number; mode, such as 0440: who may attach; min,\n"
"                         low, max: sizes, percents or \"max\"; pool: the pool of\n"
"                         these, if not the first; ttl, such as 10m\n"
"\n"
"      --stall TIME       cut off a client that takes no reply for so long (30s)\n"
"\n"
"  -h, --help    -V, --version\n"
"\n"
"Pools and tenants can also be made and changed while it runs, by kvcachectl.\n"
"SIGUSR1: check the books and say so.\n"
"\n"
"Exit status: 0 after SIGTERM or SIGINT; 1 cannot start; 2 usage.\n";

enum { OPT_USER = 256, OPT_SOCKET, OPT_POOL, OPT_TENANT, OPT_STALL };

static const struct option longopts[] = {
	{ "user", no_argument, NULL, OPT_USER },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "pool", required_argument, NULL, OPT_POOL },
	{ "tenant", required_argument, NULL, OPT_TENANT },
	{ "stall", required_argument, NULL, OPT_STALL },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 }
};

/* ---- NAME[=VALUE],KEY=VALUE,... ------------------------------------------ */

/* Cuts off what follows a comma; NULL if nothing does. */
static char *cut(char *s)
{
	char *comma = strchr(s, ',');

	if (!comma)
		return NULL;
	*comma = 0;
	return comma + 1;
}

/* Cuts off the value; NULL if there is none. */
static char *value_of(char *s)
{
	char *equals = strchr(s, '=');

	if (!equals)
		return NULL;
	*equals = 0;
	return equals + 1;
}

static bool is_name(const char *s)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789._-";

	return *s && *s != '.' && strlen(s) < KVCACHE_NAME_LEN &&
	       !s[strspn(s, allowed)];
}

static int bad_name(const char *opt, const char *name)
{
	return complain("%s %s: give a name of 1 to %u letters, digits, dots, dashes or underscores, not beginning with a dot",
			opt, name, KVCACHE_NAME_LEN - 1);
}

/* ---- pools --------------------------------------------------------------- */

static int page_size(const char *s, uint64_t *out)
{
	if (parse_size(s, out) && *out >= KVCACHE_PAGE_SIZE_MIN &&
	    *out <= KVCACHE_PAGE_SIZE_MAX && !(*out & (*out - 1)))
		return 0;
	return complain("--pool: page=%s: give a power of two from 64K to 64M",
			s);
}

static int add_pool(struct options *o, char *arg)
{
	struct pool_option p = { .name = arg, .page_size = 2 << 20 };
	char *next = cut(arg), *value = value_of(arg), *key;

	if (!is_name(arg))
		return bad_name("--pool", arg);
	if (!value || !parse_size(value, &p.bytes) || !p.bytes)
		return complain("--pool %s: give its size, such as %s=8G", arg,
				arg);
	while ((key = next)) {
		next = cut(key);
		value = value_of(key);
		if (!value || strcmp(key, "page"))
			return complain("--pool %s: %s: the only key is page, such as page=2M",
					arg, key);
		if (page_size(value, &p.page_size))
			return -1;
	}
	if (p.bytes < p.page_size)
		return complain("--pool %s: less than a page: give a larger size, or smaller pages with page=",
				arg);
	o->pools = xrealloc(o->pools, o->nr_pools + 1, sizeof(*o->pools));
	o->pools[o->nr_pools++] = p;
	return 0;
}

/* ---- tenants ------------------------------------------------------------- */

static int user_id(const char *name, const char *s, uint32_t *out)
{
	struct passwd *pw = getpwnam(s);
	uint64_t id;

	if (!pw && !parse_u64(s, 0, UINT32_MAX - 1, &id))
		return complain("--tenant %s: uid=%s: no such user", name, s);
	*out = pw ? pw->pw_uid : id;
	return 0;
}

static int group_id(const char *name, const char *s, uint32_t *out)
{
	struct group *gr = getgrnam(s);
	uint64_t id;

	if (!gr && !parse_u64(s, 0, UINT32_MAX - 1, &id))
		return complain("--tenant %s: gid=%s: no such group", name, s);
	*out = gr ? gr->gr_gid : id;
	return 0;
}

static int mode(const char *name, const char *s, uint32_t *out)
{
	char *end;
	unsigned long v = strtoul(s, &end, 8);

	if (*s < '0' || *s > '7' || *end || (v & ~0444UL))
		return complain("--tenant %s: mode=%s: give 0400 for its user, 0040 for its group, 0004 for all, or a sum of these",
				name, s);
	*out = v;
	return 0;
}

static int limit(const char *name, const char *key, const char *s,
		 struct limit *out)
{
	if (parse_limit(s, out))
		return 0;
	return complain("--tenant %s: %s=%s: give a size such as 2G, a percent such as 25%%, or max",
			name, key, s);
}

static int tenant_key(struct tenant_option *t, const char *key,
		      const char *value)
{
	if (!strcmp(key, "uid"))
		return user_id(t->name, value, &t->uid);
	if (!strcmp(key, "gid"))
		return group_id(t->name, value, &t->gid);
	if (!strcmp(key, "mode"))
		return mode(t->name, value, &t->mode);
	if (!strcmp(key, "min"))
		return limit(t->name, key, value, &t->min);
	if (!strcmp(key, "low"))
		return limit(t->name, key, value, &t->low);
	if (!strcmp(key, "max"))
		return limit(t->name, key, value, &t->max);
	if (!strcmp(key, "ttl")) {
		if (parse_time(value, &t->ttl_ns) && t->ttl_ns)
			return 0;
		return complain("--tenant %s: ttl=%s: give a time such as 30s, 10m, 2h or never",
				t->name, value);
	}
	if (!strcmp(key, "pool")) {
		t->pool = value;
		return 0;
	}
	return complain("--tenant %s: %s: give uid, gid, mode, min, low, max, pool or ttl",
			t->name, key);
}

static int add_tenant(struct options *o, char *arg)
{
	struct tenant_option t = {
		.name = arg, .uid = geteuid(), .gid = getegid(), .mode = 0400,
		.ttl_ns = KVCACHE_TIME_NEVER,
	};
	char *next = cut(arg), *key, *value;

	if (!is_name(arg))
		return bad_name("--tenant", arg);
	while ((key = next)) {
		next = cut(key);
		value = value_of(key);
		if (!value)
			return complain("--tenant %s: %s: give KEY=VALUE, such as uid=1000",
					arg, key);
		if (tenant_key(&t, key, value))
			return -1;
	}
	o->tenants = xrealloc(o->tenants, o->nr_tenants + 1,
			      sizeof(*o->tenants));
	o->tenants[o->nr_tenants++] = t;
	return 0;
}

/* ---- all of them --------------------------------------------------------- */

static int set(struct options *o, int opt, char *arg)
{
	switch (opt) {
	case OPT_USER:
		o->user = true;
		return 0;
	case OPT_SOCKET:
		if (!*arg)
			return complain("--socket: give a path");
		o->socket = arg;
		return 0;
	case OPT_POOL:
		return add_pool(o, arg);
	case OPT_TENANT:
		return add_tenant(o, arg);
	case OPT_STALL:
		if (parse_time(arg, &o->stall_ns) && o->stall_ns)
			return 0;
		return complain("--stall %s: give a time such as 500ms, 30s, 10m or never",
				arg);
	}
	return -1;	/* getopt_long() has said why */
}

int options_parse(int argc, char **argv, struct options *o)
{
	int opt;

	*o = (struct options){ .stall_ns = KVCB_STALL_S * 1000000000ULL };
	while ((opt = getopt_long(argc, argv, "hV", longopts, NULL)) != -1) {
		if (opt == 'h') {
			fputs(help, stdout);
			return 1;
		}
		if (opt == 'V') {
			puts("kvcache-broker " KVC_VERSION);
			return 1;
		}
		if (set(o, opt, optarg))
			return -1;
	}
	if (optind < argc)
		return complain("%s: not an option: see --help", argv[optind]);
	return 0;
}

void options_free(struct options *o)
{
	free(o->pools);
	free(o->tenants);
}
