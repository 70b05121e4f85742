// SPDX-License-Identifier: MIT
/*
 * tiers.c - folders and servers under the pool, from the command line.
 *
 * A password is read from a file or from the environment: whoever may list
 * processes sees their arguments.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <kvcache/kvcache.h>

#include "engine.h"
#include "tiers.h"
#include "util.h"

#define SETTLE_NS 10000000000ULL

/**
 * struct spec - KIND:PLACE[,KEY=VALUE]..., taken apart
 * @redis: a server, not a folder
 * @place: a folder, a host or a socket
 * @text: where it all is
 * @file: of a folder
 * @server: of a server
 * @opts: of both
 * @policy: enum kvc_tier_policy
 * @password_file: or NULL
 */
struct spec {
	bool redis;
	char *place;
	char *text;
	struct kvc_tier_file file;
	struct kvc_tier_redis server;
	struct kvc_tier_opts opts;
	uint32_t policy;
	const char *password_file;
};

static const char *const policies[] = {
	[KVC_TIER_BACK] = "back",
	[KVC_TIER_THROUGH] = "through",
	[KVC_TIER_SELECTIVE] = "selective",
};

static int bad(const char *spec, const char *key, const char *want)
{
	return complain("--tier %s: %s: give %s", spec, key, want);
}

static int set_policy(struct spec *s, const char *spec, const char *v)
{
	unsigned int i;

	for (i = 0; i < sizeof(policies) / sizeof(*policies); i++) {
		if (!strcmp(v, policies[i])) {
			s->policy = i;
			return 0;
		}
	}
	return bad(spec, "policy", "back, through or selective");
}

static int set_ms(const char *spec, const char *v, uint32_t *out)
{
	uint64_t ns;

	if (!parse_time(v, &ns) || ns < 1000000 ||
	    ns / 1000000 > 3600000)
		return bad(spec, "timeout", "a time such as 500ms or 2s");
	*out = ns / 1000000;
	return 0;
}

/* What both kinds have. 1: it is none of these. */
static int set_common(struct spec *s, const char *spec, const char *key,
		      const char *v)
{
	if (!strcmp(key, "policy"))
		return set_policy(s, spec, v);
	if (!strcmp(key, "timeout"))
		return set_ms(spec, v, &s->opts.timeout_ms);
	if (strcmp(key, "memory"))
		return 1;
	if (!parse_size(v, &s->opts.memory) || !s->opts.memory)
		return bad(spec, key, "a size such as 64M");
	return 0;
}

static int set_file(struct spec *s, const char *spec, const char *key,
		    const char *v)
{
	if (!strcmp(key, "size")) {
		if (!parse_size(v, &s->file.size) || s->file.size < 1 << 20)
			return bad(spec, key, "a size from 1M on");
	} else if (!strcmp(key, "sync")) {
		if (strcmp(v, "none") && strcmp(v, "data"))
			return bad(spec, key, "none or data");
		s->file.sync = *v == 'd' ? KVC_TIER_SYNC_DATA :
					   KVC_TIER_SYNC_NONE;
	} else if (!strcmp(key, "io")) {
		if (strcmp(v, "uring") && strcmp(v, "threads"))
			return bad(spec, key, "uring or threads");
		s->file.threads = *v == 't';
	} else if (!strcmp(key, "cache")) {
		if (strcmp(v, "page") && strcmp(v, "none"))
			return bad(spec, key, "page or none");
		s->file.buffered = *v == 'p';
	} else {
		return bad(spec, key,
			   "size, sync, io, cache, policy, timeout or memory");
	}
	return 0;
}

static int set_server(struct spec *s, const char *spec, const char *key,
		      const char *v)
{
	uint64_t ns;

	if (!strcmp(key, "namespace")) {
		s->server.ns = v;
	} else if (!strcmp(key, "user")) {
		s->server.user = v;
	} else if (!strcmp(key, "password-file")) {
		s->password_file = v;
	} else if (!strcmp(key, "ttl")) {
		if (!parse_time(v, &ns) || ns < 1000000000 ||
		    ns / 1000000000 > INT32_MAX)
			return bad(spec, key, "a time such as 90s, 2h or 7d");
		s->server.ttl_s = ns / 1000000000;
	} else {
		return bad(spec, key,
			   "namespace, ttl, user, password-file, policy, timeout or memory");
	}
	return 0;
}

static int set_place(struct spec *s, const char *spec)
{
	char *colon = strchr(s->text, ':');
	uint64_t port;

	if (colon)
		*colon = 0;
	s->place = colon ? colon + 1 : NULL;
	s->redis = !strcmp(s->text, "redis") || !strcmp(s->text, "unix");
	if (!colon || (!s->redis && strcmp(s->text, "file")) || !*s->place)
		return complain("--tier %s: give file:FOLDER, redis:HOST:PORT or unix:SOCKET",
				spec);
	s->file.path = s->place;
	s->server.host = s->place;
	if (!strcmp(s->text, "unix") && *s->place != '/')
		return bad(spec, "unix", "a path that begins with a slash");
	if (strcmp(s->text, "redis"))
		return 0;
	colon = strrchr(s->place, ':');
	if (!colon || *s->place == '/' || colon == s->place ||
	    !parse_u64(colon + 1, 1, 65535, &port))
		return bad(spec, "redis", "HOST:PORT");
	*colon = 0;
	s->server.port = port;
	return 0;
}

static void forget(struct spec *s)
{
	free(s->text);
}

/* 0, or -1 after a complaint. forget() in any case. */
static int parse(const char *spec, struct spec *s)
{
	char *key, *v, *save = NULL;
	int ret;

	*s = (struct spec){
		.file = { .sz = sizeof(s->file) },
		.server = { .sz = sizeof(s->server) },
		.opts = { .sz = sizeof(s->opts) },
		.text = xasprintf("%s", spec),
	};
	key = strchr(s->text, ',');
	if (key)
		*key++ = 0;
	if (set_place(s, spec))
		return -1;
	for (key = key ? strtok_r(key, ",", &save) : NULL; key;
	     key = strtok_r(NULL, ",", &save)) {
		v = strchr(key, '=');
		if (v)
			*v++ = 0;
		if (!v || !*v)
			return bad(spec, key, "KEY=VALUE");
		ret = set_common(s, spec, key, v);
		if (ret > 0)
			ret = s->redis ? set_server(s, spec, key, v) :
					 set_file(s, spec, key, v);
		if (ret)
			return -1;
	}
	return 0;
}

int tiers_check(const char *spec)
{
	struct spec s;
	int ret = parse(spec, &s);

	forget(&s);
	return ret;
}

/* NULL: none; "" after a complaint. To be freed. */
static char *password(const struct spec *s)
{
	const char *env = getenv("KVCACHE_REDIS_PASSWORD");
	struct stat st;
	char *text;
	size_t len;

	if (!s->password_file)
		return env && *env ? xasprintf("%s", env) : NULL;
	if (!stat(s->password_file, &st) && (st.st_mode & 0007)) {
		complain("%s: all can read it: make its mode 0600",
			 s->password_file);
		return xasprintf("%s", "");
	}
	text = read_file(s->password_file, &len);
	if (!text)
		return xasprintf("%s", "");
	text[strcspn(text, "\r\n")] = 0;
	if (!*text)
		complain("%s: no password in its first line", s->password_file);
	return text;
}

static int open_one(struct engine *e, const char *spec)
{
	struct tiers *ts = &e->tiers;
	char why[256] = "", *pass = NULL;
	struct spec s;
	int ret = -1;

	if (parse(spec, &s))
		goto out;
	s.opts.msg = why;
	s.opts.msg_len = sizeof(why);
	if (s.redis) {
		pass = password(&s);
		if (pass && !*pass)
			goto out;
		s.server.password = pass;
		ret = kvc_tier_redis_open(&s.server, &s.opts, &ts->t[ts->n]);
	} else {
		ret = kvc_tier_file_open(&s.file, &s.opts, &ts->t[ts->n]);
	}
	if (ret) {
		ret = complain("--tier %s: %s", spec,
			       why[0] ? why : strerror(-ret));
		goto out;
	}
	ts->name[ts->n] = xasprintf("%s %s", s.redis ? "redis" : "file",
				    s.place);
	if (kvc_cache_tier(e->cache, ts->t[ts->n++], s.policy))
		ret = complain("--tier %s: %s", spec, kvc_errmsg(e->kvc));
out:
	if (pass)
		explicit_bzero(pass, strlen(pass));
	free(pass);
	forget(&s);
	return ret;
}

int tiers_open(struct engine *e)
{
	for (unsigned int i = 0; i < e->opts->ntiers; i++)
		if (open_one(e, e->opts->tiers[i]))
			return -1;
	return 0;
}

void tiers_close(struct engine *e)
{
	for (unsigned int i = 0; i < e->tiers.n; i++) {
		kvc_tier_close(e->tiers.t[i]);
		free(e->tiers.name[i]);
	}
	e->tiers.n = 0;
}

void tiers_settle(const struct engine *e)
{
	struct timespec ts;
	uint64_t until;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	until = ts.tv_sec * 1000000000ULL + ts.tv_nsec + SETTLE_NS;
	for (unsigned int i = 0; i < e->tiers.n; i++)
		kvc_tier_flush(e->tiers.t[i], until);
}

/* What went wrong, if anything did. */
static void failures(const struct kvc_tier_stats *st, FILE *f)
{
	const struct {
		uint64_t n;
		const char *what;
	} v[] = {
		{ st->bad, "records that were wrong" },
		{ st->no_space, "without room" },
		{ st->io_errors, "failed" },
		{ st->timeouts, "too late" },
		{ st->gone, "without a server" },
		{ st->skipped, "not tried after that" },
		{ st->full, "without memory" },
	};

	for (unsigned int i = 0; i < sizeof(v) / sizeof(*v); i++)
		if (v[i].n)
			fprintf(f, "; %" PRIu64 " %s", v[i].n, v[i].what);
}

void tiers_print(const struct engine *e, FILE *f)
{
	struct kvc_tier_stats st;
	char in[32], out[32];

	for (unsigned int i = 0; i < e->tiers.n; i++) {
		kvc_tier_stats(e->tiers.t[i], &st);
		fputs("tier ", f);
		put_shown(e->tiers.name[i], f);
		fprintf(f, ": %" PRIu64 " pages found (%s), %" PRIu64
			" of them used, %" PRIu64 " not there; %" PRIu64
			" written (%s), %" PRIu64 " it had, %" PRIu64
			" evicted; waited %.0f ms", st.hits,
			human_size(st.hit_bytes, in), st.used, st.misses,
			st.puts, human_size(st.put_bytes, out), st.had,
			st.evicted, st.wait_ns / 1e6);
		failures(&st, f);
		fputs(st.down ? "; left out at the end\n" : "\n", f);
	}
}

static json_t *one(const struct engine *e, unsigned int i)
{
	struct kvc_tier_stats st;

	kvc_tier_stats(e->tiers.t[i], &st);
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:b, s:b, s:b}",
			 "tier", e->tiers.name[i],
			 "hits", (json_int_t)st.hits,
			 "misses", (json_int_t)st.misses,
			 "hit_bytes", (json_int_t)st.hit_bytes,
			 "used", (json_int_t)st.used,
			 "puts", (json_int_t)st.puts,
			 "put_bytes", (json_int_t)st.put_bytes,
			 "had", (json_int_t)st.had,
			 "evicted", (json_int_t)st.evicted,
			 "bad", (json_int_t)st.bad,
			 "no_space", (json_int_t)st.no_space,
			 "io_errors", (json_int_t)st.io_errors,
			 "timeouts", (json_int_t)st.timeouts,
			 "gone", (json_int_t)st.gone,
			 "skipped", (json_int_t)st.skipped,
			 "full", (json_int_t)st.full,
			 "get_s", st.get_ns / 1e9,
			 "put_s", st.put_ns / 1e9,
			 "wait_s", st.wait_ns / 1e9,
			 "peak_memory", (json_int_t)st.peak_memory,
			 "down", st.down, "direct", st.direct,
			 "uring", st.uring);
}

json_t *tiers_json(const struct engine *e)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < e->tiers.n; i++)
		json_array_append_new(list, one(e, i));
	return list;
}
