// SPDX-License-Identifier: MIT
/*
 * test_tier_fault.c - a tier of files that fails, waits or is killed at each
 * point of its protocol, and files that are not what was written.
 */
#include <sys/mount.h>
#include <sched.h>

#include "tier_kit.h"

#define NT 40

FIXTURE(fault)
{
	struct tier_kit w;
	uint32_t t[NT];
};

FIXTURE_SETUP(fault)
{
	tier_folder(&self->w);
	kit_count(self->t, NT, 100);
}

FIXTURE_TEARDOWN(fault)
{
	if (self->w.t)
		tier_end(&self->w);
	tier_remove(&self->w);
}

static const struct kit_spec spec = { .pages = 12 };
static const struct kvc_tier_file by_threads = { .threads = 1 };
static const struct kvc_tier_file buffered = { .buffered = 1, .sync = 1 };

/* What happens at a point, from its @after'th time on. */
struct plan {
	enum kvc_tier_point at;
	uint32_t after;
	int rc;
	bool end;
	uint64_t sleep_ns;
	uint32_t seen;
};

static int act(void *arg, enum kvc_tier_point at)
{
	struct plan *p = arg;
	struct timespec ts = { .tv_nsec = p->sleep_ns % TIER_SEC,
			       .tv_sec = p->sleep_ns / TIER_SEC };

	if (at != p->at || p->seen++ < p->after)
		return 0;
	if (p->end)
		_exit(0);
	if (p->sleep_ns)
		nanosleep(&ts, NULL);
	return p->rc;
}

static void set_plan(struct tier_kit *w, struct plan *p)
{
	pthread_mutex_lock(&w->t->lock);
	w->t->fault = p ? act : NULL;
	w->t->fault_arg = p;
	pthread_mutex_unlock(&w->t->lock);
}

static struct kvc_seq *grown(struct tier_kit *w, const uint32_t *t, uint32_t n)
{
	struct kvc_seq *s = kit_seq(&w->k, NULL);

	ASSERT_EQ(0, kit_add(&w->k, s, t, n));
	return s;
}

/* Away and back: what did not come back is computed. Returns what did. */
static uint32_t round_trip(struct tier_kit *w, const uint32_t *t)
{
	struct kvc_seq *s = grown(w, t, 38);
	uint32_t len;

	EXPECT_EQ(0, kvc_seq_idle(s));
	tier_stats(w);
	tier_empty_pool(w);
	len = kvc_seq_wake(s);
	kit_check(&w->k, s);
	if (len < 38)
		EXPECT_EQ(0, kit_add(&w->k, s, t + len, 38 - len));
	kit_check(&w->k, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	tier_empty_pool(w);
	return len;
}

static uint64_t failures(const struct kvc_tier_stats *st, int rc)
{
	return rc == -ENOSPC ? st->no_space : st->io_errors;
}

/* Each error at each point, from the first page on or from a later one. */
TEST_F(fault, an_error_at_each_point)
{
	static const int errors[] = { -ENOSPC, -EIO };
	struct kvc_tier_stats st;
	uint64_t bytes;
	uint32_t len;

	for (struct plan p = { .at = 0 }; p.at < KVC_AT_POINTS; p.at++) {
		/* It takes a folder that is full to get there. */
		if (p.at == KVC_AT_EVICT)
			continue;
		for (uint32_t i = 0; i < 4; i++) {
			p.rc = errors[i % 2];
			p.after = i / 2 * 3;
			p.seen = 0;
			tier_begin(&self->w, &spec, i ? NULL : &by_threads,
				   NULL, KVC_TIER_BACK);
			set_plan(&self->w, &p);
			len = round_trip(&self->w, self->t);
			st = tier_stats(&self->w);
			EXPECT_NE(0, failures(&st, p.rc));
			EXPECT_EQ(0, failures(&st, errors[!(i % 2)]));
			/* Past its commit a page is there whatever is said. */
			if (p.at == KVC_AT_COMMITTED)
				EXPECT_LE(4, len);
			else
				EXPECT_LT(len, 38);
			EXPECT_EQ(1, st.down);
			EXPECT_EQ(0, tier_files(&self->w, true, NULL));
			/* Files have the bytes that are accounted for. */
			tier_files(&self->w, false, &bytes);
			EXPECT_LE(st.put_bytes, bytes);
			set_plan(&self->w, NULL);
			tier_end(&self->w);
			tier_remove(&self->w);
			tier_folder(&self->w);
		}
	}
}

/* While it is left out nothing is asked of it; then one request decides. */
TEST_F(fault, it_is_left_out_and_comes_back)
{
	struct plan p = { .at = KVC_AT_READ, .rc = -EIO };
	struct kvc_tier_stats st, was;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	EXPECT_EQ(38, round_trip(&self->w, self->t));
	set_plan(&self->w, &p);
	EXPECT_EQ(0, round_trip(&self->w, self->t));
	was = tier_stats(&self->w);
	EXPECT_LE(1, was.io_errors);
	EXPECT_EQ(10, was.io_errors + was.skipped);
	EXPECT_EQ(1, was.down);
	EXPECT_EQ(0, round_trip(&self->w, self->t));
	st = tier_stats(&self->w);
	EXPECT_EQ(was.io_errors, st.io_errors);
	EXPECT_EQ(was.skipped + 10, st.skipped);
	/* The pause is over: one asks, and nine are left out. */
	self->w.t->side[KVC_TIER_GET].until_ns = 1;
	EXPECT_EQ(0, round_trip(&self->w, self->t));
	st = tier_stats(&self->w);
	EXPECT_EQ(was.io_errors + 1, st.io_errors);
	EXPECT_EQ(was.skipped + 19, st.skipped);
	EXPECT_EQ(2 * TIER_SEC, self->w.t->side[KVC_TIER_GET].pause_ns);
	/* It is well again: after the one, all. */
	set_plan(&self->w, NULL);
	self->w.t->side[KVC_TIER_GET].until_ns = 1;
	round_trip(&self->w, self->t);
	EXPECT_EQ(0, tier_stats(&self->w).down);
	EXPECT_EQ(38, round_trip(&self->w, self->t));
}

/* A disk that takes ten times as long as anybody waits. */
TEST_F(fault, a_slow_disk_is_not_waited_for)
{
	struct kvc_tier_opts o = { .sz = sizeof(o), .timeout_ms = 100 };
	static struct plan p = { .at = KVC_AT_OPEN, .sleep_ns = TIER_SEC };
	struct kvc_tier_stats st;
	struct kvc_seq *s;
	uint64_t begin;

	tier_begin(&self->w, &spec, NULL, &o, KVC_TIER_BACK);
	s = grown(&self->w, self->t, 38);
	EXPECT_EQ(0, kvc_seq_idle(s));
	tier_stats(&self->w);
	tier_empty_pool(&self->w);
	set_plan(&self->w, &p);
	begin = kvc_now_ns();
	EXPECT_EQ(0, kvc_seq_wake(s));
	EXPECT_LT(kvc_now_ns() - begin, 5 * TIER_SEC);
	kvc_tier_stats(self->w.t, &st);
	EXPECT_EQ(10, st.timeouts);
	EXPECT_EQ(1, st.down);
	EXPECT_EQ(0, kit_add(&self->w.k, s, self->t, 38));
	kit_check(&self->w.k, s);
	/* Nor for its memory, which is the thread's until it returns. */
	EXPECT_EQ(0, kvc_seq_idle(s));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	/* One page was being read, and is given back; the others were not. */
	pthread_mutex_lock(&self->w.t->lock);
	self->w.t->fault = NULL;
	pthread_mutex_unlock(&self->w.t->lock);
}

/* Writes that do not end: each call waits for memory once, then is left out. */
TEST_F(fault, a_disk_that_does_not_take_writes)
{
	struct kvc_tier_opts o = { .sz = sizeof(o), .timeout_ms = 100 };
	static struct plan p = { .at = KVC_AT_CREATE, .sleep_ns = TIER_SEC };
	struct kvc_seq *s;
	uint64_t begin;

	o.memory = 2 * kvc_record_len(3 * 2 * 2 * 4 * 64);
	tier_begin(&self->w, &spec, NULL, &o, KVC_TIER_BACK);
	set_plan(&self->w, &p);
	s = grown(&self->w, self->t, 38);
	begin = kvc_now_ns();
	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_LT(kvc_now_ns() - begin, 5 * TIER_SEC);
	EXPECT_LE(1, self->w.t->st.timeouts);
	EXPECT_LE(7, self->w.t->st.skipped);
	EXPECT_LE(self->w.t->st.peak_memory, o.memory);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	set_plan(&self->w, NULL);
}

/* A process that ends at each point, with a reader after it. */
TEST_F(fault, killed_at_each_point)
{
	struct plan p = { .end = true };
	int status;
	pid_t pid;

	for (p.at = 0; p.at < KVC_AT_POINTS; p.at++) {
		for (p.after = 0; p.after < 9; p.after += 4) {
			pid = fork();
			ASSERT_LE(0, pid);
			if (!pid) {
				tier_begin(&self->w, &spec, &buffered, NULL,
					   KVC_TIER_BACK);
				set_plan(&self->w, &p);
				round_trip(&self->w, self->t);
				_exit(1);
			}
			ASSERT_EQ(pid, waitpid(pid, &status, 0));
			/* EVICT needs a folder that is full: not here. */
			if (p.at != KVC_AT_EVICT)
				EXPECT_EQ(0, status);
			/* What it left is right, or nobody finds it. */
			tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
			EXPECT_EQ(38, round_trip(&self->w, self->t));
			EXPECT_EQ(0, tier_stats(&self->w).bad);
			EXPECT_GE(10, tier_files(&self->w, true, NULL));
			tier_end(&self->w);
			tier_remove(&self->w);
			ASSERT_EQ(0, mkdir(self->w.dir, 0700));
		}
	}
}

/* What a process that was killed has left behind goes, when it is old. */
TEST_F(fault, what_is_left_behind_goes)
{
	const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	struct plan p = { .at = KVC_AT_COMMIT, .end = true };
	char path[400];
	struct dirent *e;
	int status;
	pid_t pid;
	DIR *d;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
		set_plan(&self->w, &p);
		round_trip(&self->w, self->t);
		_exit(1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_NE(0, tier_files(&self->w, true, NULL));
	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	EXPECT_NE(0, tier_files(&self->w, true, NULL));
	tier_end(&self->w);
	d = opendir(self->w.dir);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", self->w.dir, e->d_name);
		if (!strncmp(e->d_name, "tmp.", 4))
			ASSERT_EQ(0, utimensat(AT_FDCWD, path, old, 0));
	}
	closedir(d);
	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	EXPECT_EQ(0, tier_files(&self->w, true, NULL));
}

static void cut(const char *path, uint32_t i)
{
	if (i % 5 < 2)
		ASSERT_EQ(0, truncate(path, 4096 * (i % 2)));
}

static void flip(const char *path, uint32_t i)
{
	int fd = open(path, O_RDWR);
	struct stat st;
	uint8_t b;
	off_t at;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fstat(fd, &st));
	/* In the head, in the image, and in what follows it. */
	at = i % 3 == 0 ? 5 * (i + 1) : i % 3 == 1 ? st.st_size / 2 :
						   st.st_size - 1;
	ASSERT_EQ(1, pread(fd, &b, 1, at));
	b ^= 1 << i % 8;
	ASSERT_EQ(1, pwrite(fd, &b, 1, at));
	close(fd);
}

/* As after a loss of power: the size is right, and the second half is zeros. */
static void tear(const char *path, uint32_t i)
{
	struct stat st;
	off_t half;

	ASSERT_EQ(0, stat(path, &st));
	half = i ? st.st_size / 2 : 0;
	ASSERT_EQ(0, truncate(path, half));
	ASSERT_EQ(0, truncate(path, st.st_size));
}

static char first_path[400];

/* Another page's record under this one's name. */
static void swap_names(const char *path, uint32_t i)
{
	char cmd[1000];

	if (!i) {
		strcpy(first_path, path);
		return;
	}
	snprintf(cmd, sizeof(cmd), "cp '%s' '%s'", first_path, path);
	ASSERT_EQ(0, system(cmd));
}

/* Damaged while nobody looked: computed, counted, removed, and stored anew. */
TEST_F(fault, damaged_files)
{
	static void (*const damage[])(const char *path, uint32_t i) = {
		cut, flip, tear, swap_names,
	};
	/* Of ten: four; all; all; all but one. */
	static const uint32_t bad[] = { 4, 10, 10, 9 };
	struct kvc_tier_stats st;
	struct kvc_seq *s;

	for (unsigned int i = 0; i < 4; i++) {
		tier_begin(&self->w, &spec, i % 2 ? &buffered : NULL, NULL,
			   KVC_TIER_BACK);
		s = grown(&self->w, self->t, 38);
		EXPECT_EQ(0, kvc_seq_idle(s));
		tier_stats(&self->w);
		EXPECT_EQ(10, tier_files(&self->w, false, NULL));
		tier_empty_pool(&self->w);
		tier_each(&self->w, damage[i]);
		EXPECT_GT(38, kvc_seq_wake(s));
		kit_check(&self->w.k, s);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
		tier_empty_pool(&self->w);
		st = tier_stats(&self->w);
		EXPECT_EQ(bad[i], st.bad);
		EXPECT_EQ(10 - bad[i], st.hits);
		EXPECT_EQ(0, st.down);
		EXPECT_EQ(10 - bad[i], tier_files(&self->w, false, NULL));
		EXPECT_EQ(38, round_trip(&self->w, self->t));
		EXPECT_EQ(bad[i], tier_stats(&self->w).bad);
		tier_end(&self->w);
		tier_remove(&self->w);
		tier_folder(&self->w);
	}
}

/* A file system with room for five pages, though the tier may have more. */
TEST_F(fault, a_full_disk)
{
	struct kvc_tier_stats st;
	uint32_t len;

	if (geteuid() || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		SKIP(return, "a file system of its own: needs root");
	ASSERT_EQ(0, mount("none", self->w.dir, "tmpfs", 0,
			   "size=48k,mode=0700"));
	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	len = round_trip(&self->w, self->t);
	st = tier_stats(&self->w);
	EXPECT_NE(0, st.no_space);
	EXPECT_NE(0, st.puts);
	EXPECT_EQ(10, st.puts + st.no_space + st.skipped);
	EXPECT_EQ(1, st.down);
	EXPECT_EQ(4 * st.puts, len);
	EXPECT_EQ(0, tier_files(&self->w, true, NULL));
	tier_end(&self->w);
	ASSERT_EQ(0, umount(self->w.dir));
}

TEST_HARNESS_MAIN
