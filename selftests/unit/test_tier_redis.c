// SPDX-License-Identifier: MIT
/*
 * test_tier_redis.c - a tier on a Redis server that this test starts, stops and
 * ends, on a socket in a folder of its own.
 */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tier_kit.h"

#define NT 40
#define PASSWORD "correct horse"

FIXTURE(redis)
{
	struct tier_kit w;
	uint32_t t[NT];
	char sock[100];
	pid_t server;
};

static const struct kit_spec spec = { .pages = 12 };

#define ARGS 16

static bool listens(const char *sock)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	bool ok;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", sock);
	ok = !connect(fd, (struct sockaddr *)&a, sizeof(a));
	close(fd);
	return ok;
}

static pid_t start_server(const char *dir, const char *sock,
			  const char *const *more)
{
	const char *argv[ARGS + 8] = {
		"redis-server", "--port", "0", "--unixsocket", sock, "--save",
		"", "--dir", dir,
	};
	unsigned int n = 9, i;
	pid_t pid;
	int null;

	while (more && *more)
		argv[n++] = *more++;
	unlink(sock);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* It does not outlive a test that is ended. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execvp(argv[0], (char **)argv);
		_exit(127);
	}
	for (i = 0; i < 3000 && !listens(sock); i++) {
		usleep(10000);
		if (waitpid(pid, NULL, WNOHANG) == pid)
			SKIP(return 0, "needs redis-server");
	}
	return pid;
}

static void end_server(pid_t *pid)
{
	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	*pid = 0;
}

FIXTURE_SETUP(redis)
{
	struct kvc_tier_redis none = { .sz = sizeof(none), .host = "/none" };
	struct kvc_tier *t = NULL;

	if (kvc_tier_redis_open(&none, NULL, &t) == -EOPNOTSUPP)
		SKIP(return, "the library was built without hiredis");
	kvc_tier_close(t);
	tier_folder(&self->w);
	kit_count(self->t, NT, 100);
	snprintf(self->sock, sizeof(self->sock), "%s/s", self->w.dir);
	self->server = start_server(self->w.dir, self->sock, NULL);
}

FIXTURE_TEARDOWN(redis)
{
	if (self->w.t)
		tier_end(&self->w);
	end_server(&self->server);
	tier_remove(&self->w);
}

static void begin(struct tier_kit *w, struct kvc_tier_redis r,
		  uint32_t timeout_ms)
{
	const struct kvc_tier_opts o = {
		.sz = sizeof(o), .timeout_ms = timeout_ms,
	};

	r.sz = sizeof(r);
	kit_open(&w->k, &spec);
	ASSERT_EQ(0, kvc_tier_redis_open(&r, &o, &w->t));
	ASSERT_EQ(0, kvc_cache_tier(w->k.c, w->t, KVC_TIER_BACK));
}

/* One that is stored, and what is asked of the server by hand. */
static struct kvc_seq *stored(struct tier_kit *w, const uint32_t *t)
{
	struct kvc_seq *s = kit_seq(&w->k, NULL);

	ASSERT_EQ(0, kit_add(&w->k, s, t, 38));
	EXPECT_EQ(0, kvc_seq_idle(s));
	tier_stats(w);
	tier_empty_pool(w);
	return s;
}

static uint32_t back(struct tier_kit *w, struct kvc_seq *s, const uint32_t *t)
{
	uint32_t len = kvc_seq_wake(s);

	kit_check(&w->k, s);
	if (len < 38)
		EXPECT_EQ(0, kit_add(&w->k, s, t + len, 38 - len));
	kit_check(&w->k, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	tier_empty_pool(w);
	return len;
}

/* The output of redis-cli, a line a result. */
static void cli(const char *sock, const char *cmd, char *out, size_t len)
{
	char line[400];
	FILE *f;
	size_t n;

	snprintf(line, sizeof(line), "redis-cli -s '%s' %s", sock, cmd);
	f = popen(line, "r");
	ASSERT_NE(NULL, f);
	n = fread(out, 1, len - 1, f);
	out[n] = 0;
	pclose(f);
}

TEST_F(redis, a_conversation_comes_back)
{
	struct kvc_tier_redis r = { .host = self->sock, .ns = "models.a-1_b",
				    .ttl_s = 100 };
	struct kvc_tier_stats st;
	char out[4000], cmd[300];
	struct kvc_seq *s;

	begin(&self->w, r, 0);
	s = stored(&self->w, self->t);
	EXPECT_EQ(10, tier_stats(&self->w).puts);
	EXPECT_EQ(38, back(&self->w, s, self->t));
	st = tier_stats(&self->w);
	EXPECT_EQ(10, st.hits);
	EXPECT_EQ(10, st.used);
	s = stored(&self->w, self->t);
	EXPECT_EQ(10, tier_stats(&self->w).had);
	EXPECT_EQ(38, back(&self->w, s, self->t));
	/* Keys have their names, and an end. */
	cli(self->sock, "--scan --pattern 'kvcache:models.a-1_b:*' | wc -l",
	    out, sizeof(out));
	EXPECT_EQ(10, atoi(out));
	cli(self->sock, "dbsize", out, sizeof(out));
	EXPECT_EQ(10, atoi(out));
	snprintf(cmd, sizeof(cmd),
		 "--scan | while read -r k; do redis-cli -s '%s' ttl $k; done",
		 self->sock);
	cli(self->sock, cmd, out, sizeof(out));
	EXPECT_LE(1, atoi(out));
	EXPECT_GE(100, atoi(out));
	tier_end(&self->w);
	/* Another namespace has nothing. */
	r.ns = NULL;
	begin(&self->w, r, 0);
	s = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(0, kit_prompt(&self->w.k, s, self->t, NT));
	EXPECT_EQ(0, tier_stats(&self->w).hits);
	kvc_seq_free(s, 0);
}

TEST_F(redis, another_process_finds_a_prefix)
{
	struct kvc_tier_redis r = { .host = self->sock };
	struct kvc_seq *s;

	begin(&self->w, r, 0);
	s = stored(&self->w, self->t);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	tier_end(&self->w);
	begin(&self->w, r, 0);
	s = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(36, kit_prompt(&self->w.k, s, self->t, NT));
	kit_check(&self->w.k, s);
	kvc_seq_free(s, 0);
}

/* Without waiting for its pauses: is all of it served, after a while? */
static bool recovers(struct tier_kit *w, const uint32_t *t)
{
	struct kvc_seq *s;

	for (int i = 0; i < 100; i++) {
		w->t->side[KVC_TIER_GET].until_ns = 1;
		w->t->side[KVC_TIER_PUT].until_ns = 1;
		s = stored(w, t);
		w->t->side[KVC_TIER_GET].until_ns = 1;
		if (back(w, s, t) == 38)
			return true;
	}
	return false;
}

/* Stopped: late, and left out. Killed: gone. Started anew: back, and empty. */
TEST_F(redis, a_server_that_goes_away)
{
	struct kvc_tier_redis r = { .host = self->sock };
	struct kvc_tier_stats st;
	struct kvc_seq *s;
	uint64_t begin_ns;

	begin(&self->w, r, 200);
	s = stored(&self->w, self->t);
	ASSERT_EQ(0, kill(self->server, SIGSTOP));
	begin_ns = kvc_now_ns();
	EXPECT_EQ(0, back(&self->w, s, self->t));
	EXPECT_LT(kvc_now_ns() - begin_ns, 10 * TIER_SEC);
	st = tier_stats(&self->w);
	EXPECT_LE(1, st.timeouts);
	EXPECT_EQ(1, st.down);
	ASSERT_EQ(0, kill(self->server, SIGCONT));
	/* A reply that comes late now is nobody's. */
	EXPECT_TRUE(recovers(&self->w, self->t));
	EXPECT_EQ(0, tier_stats(&self->w).bad);

	s = stored(&self->w, self->t);
	end_server(&self->server);
	EXPECT_EQ(0, back(&self->w, s, self->t));
	st = tier_stats(&self->w);
	EXPECT_LE(1, st.gone);
	EXPECT_EQ(1, st.down);
	self->server = start_server(self->w.dir, self->sock, NULL);
	EXPECT_TRUE(recovers(&self->w, self->t));
}

TEST_F(redis, values_that_are_something_else)
{
	static const char *const damage[] = {
		"setrange $k 5000 x", "set $k short", "append $k more",
		"setrange $k 0 K", "del $k",
	};
	struct kvc_tier_redis r = { .host = self->sock };
	char cmd[300], out[100];
	struct kvc_seq *s;

	begin(&self->w, r, 0);
	for (unsigned int i = 0; i < 5; i++) {
		uint64_t bad = self->w.t->st.bad;

		s = stored(&self->w, self->t);
		snprintf(cmd, sizeof(cmd),
			 "--scan | while read -r k; do redis-cli -s '%s' %s; done",
			 self->sock, damage[i]);
		cli(self->sock, cmd, out, sizeof(out));
		EXPECT_EQ(i == 3 ? 38 : 0, back(&self->w, s, self->t));
		EXPECT_EQ(bad + (i == 3 || i == 4 ? 0 : 10),
			  tier_stats(&self->w).bad);
		EXPECT_EQ(0, tier_stats(&self->w).down);
		/* What was wrong is gone, and can be stored again. */
		s = stored(&self->w, self->t);
		EXPECT_EQ(38, back(&self->w, s, self->t));
	}
}

TEST_F(redis, who_may)
{
	static const char *const more[] = {
		"--requirepass", PASSWORD, NULL,
	};
	struct kvc_tier_redis r = { .host = self->sock };
	struct kvc_seq *s;

	end_server(&self->server);
	self->server = start_server(self->w.dir, self->sock, more);
	for (unsigned int i = 0; i < 4; i++) {
		r.password = i == 0 ? NULL : i == 1 ? "wrong" : PASSWORD;
		r.user = i == 3 ? "default" : NULL;
		begin(&self->w, r, 0);
		s = stored(&self->w, self->t);
		EXPECT_EQ(i < 2 ? 0 : 38, back(&self->w, s, self->t));
		EXPECT_EQ(i < 2, tier_stats(&self->w).io_errors > 0);
		EXPECT_EQ(i < 2, tier_stats(&self->w).down);
		tier_end(&self->w);
	}
	r.password = NULL;
	EXPECT_EQ(-EINVAL, kvc_tier_redis_open(&r, NULL, &self->w.t));
}

TEST_F(redis, a_server_that_is_full)
{
	static const char *const more[] = {
		"--maxmemory", "1", "--maxmemory-policy", "noeviction", NULL,
	};
	struct kvc_tier_redis r = { .host = self->sock };
	struct kvc_seq *s;

	end_server(&self->server);
	self->server = start_server(self->w.dir, self->sock, more);
	begin(&self->w, r, 0);
	s = stored(&self->w, self->t);
	EXPECT_EQ(0, back(&self->w, s, self->t));
	EXPECT_LE(1, tier_stats(&self->w).no_space);
	EXPECT_EQ(0, tier_stats(&self->w).puts);
}

TEST_F(redis, what_cannot_be)
{
	const struct kvc_tier_redis bad[] = {
		{ .sz = sizeof(bad[0]) },
		{ .sz = 3, .host = "h" },
		{ .sz = sizeof(bad[0]), .host = "h", .ns = "" },
		{ .sz = sizeof(bad[0]), .host = "h", .ns = "a:b" },
		{ .sz = sizeof(bad[0]), .host = "h", .ns = "a b" },
		{ .sz = sizeof(bad[0]), .host = "h", .port = 65536 },
		{ .sz = sizeof(bad[0]), .host = "h", .user = "u" },
	};
	char msg[200];
	const struct kvc_tier_opts o = {
		.sz = sizeof(o), .msg = msg, .msg_len = sizeof(msg),
	};
	struct kvc_tier *t = NULL;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		msg[0] = 0;
		EXPECT_EQ(-EINVAL, kvc_tier_redis_open(&bad[i], &o, &t));
		EXPECT_NE(0, msg[0]);
	}
	EXPECT_EQ(NULL, t);
}

TEST_HARNESS_MAIN
