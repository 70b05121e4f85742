// SPDX-License-Identifier: MIT
/*
 * test_tier_file.c - records, and a folder: its bounds, what goes first, who may
 * use it, and several processes at once.
 */
#include <sys/file.h>

#include "tier_kit.h"

#define IMAGE 6000
#define LEN kvc_record_len(IMAGE)

FIXTURE(folder)
{
	struct tier_kit w;
};

FIXTURE_SETUP(folder)
{
	tier_folder(&self->w);
}

FIXTURE_TEARDOWN(folder)
{
	tier_remove(&self->w);
}

static struct kvc_tier *open_dir(struct tier_kit *w, struct kvc_tier_file f)
{
	struct kvc_tier *t = NULL;

	f.sz = sizeof(f);
	f.path = w->dir;
	ASSERT_EQ(0, kvc_tier_file_open(&f, NULL, &t));
	return t;
}

static void record_of(uint32_t n, struct kvc_record *rec)
{
	memset(rec, 0, sizeof(*rec));
	rec->bytes = IMAGE;
	rec->nr_keys = 2;
	memcpy(rec->keys[0].key, &n, sizeof(n));
	rec->keys[0].fill = 16;
	memset(rec->keys[1].key, 0x5a, KVCACHE_KEY_LEN);
	memcpy(rec->keys[1].key, &n, sizeof(n));
	rec->keys[1].fill = 20 + n % 7;
}

static void image_of(uint32_t n, char *at)
{
	for (uint32_t i = 0; i < IMAGE; i++)
		at[i] = kit_mix(n, i);
}

static void put(struct kvc_tier *t, uint32_t n)
{
	struct kvc_req *r = kvc_req_new(t, KVC_TIER_PUT, LEN, UINT64_MAX);

	ASSERT_NE(NULL, r);
	record_of(n, &r->rec);
	memcpy(r->key, kvc_record_key(&r->rec), KVCACHE_KEY_LEN);
	image_of(n, r->buf + KVC_RECORD_HEAD);
	kvc_req_submit(t, r);
}

static void settle(struct kvc_tier *t)
{
	ASSERT_EQ(0, kvc_tier_flush(t, kvc_now_ns() + 60 * TIER_SEC));
}

/* 0 and right, or -ENOENT. */
static int get(struct kvc_tier *t, uint32_t n)
{
	struct kvc_req *r = kvc_req_new(t, KVC_TIER_GET, LEN, UINT64_MAX);
	struct kvc_record rec;
	static char want[IMAGE];
	int rc;

	ASSERT_NE(NULL, r);
	record_of(n, &rec);
	memcpy(r->key, kvc_record_key(&rec), KVCACHE_KEY_LEN);
	kvc_req_submit(t, r);
	ASSERT_EQ(0, kvc_req_wait(t, r, kvc_now_ns() + 60 * TIER_SEC));
	rc = r->rc;
	if (!rc) {
		image_of(n, want);
		EXPECT_EQ(0, memcmp(want, r->buf + KVC_RECORD_HEAD, IMAGE));
	}
	kvc_req_free(t, r);
	return rc;
}

/* Each bit of the head and of the image matters. */
TEST(every_bit_of_a_record)
{
	char *buf = malloc(LEN);
	struct kvc_record in, out;
	size_t i;

	record_of(7, &in);
	image_of(7, buf + KVC_RECORD_HEAD);
	kvc_record_seal(&in, buf);
	ASSERT_EQ(0, kvc_record_open(buf, LEN, &out));
	EXPECT_EQ(0, memcmp(&in, &out, offsetof(struct kvc_record, keys)));
	EXPECT_EQ(0, memcmp(in.keys, out.keys, 2 * sizeof(in.keys[0])));
	EXPECT_EQ(2, out.nr_keys);
	EXPECT_EQ(IMAGE, out.bytes);
	for (i = 0; i < LEN; i++) {
		buf[i] ^= 1 << i % 8;
		EXPECT_EQ(-EBADMSG, kvc_record_open(buf, LEN, &out));
		buf[i] ^= 1 << i % 8;
	}
	for (i = 0; i < LEN; i += 512)
		EXPECT_EQ(-EBADMSG, kvc_record_open(buf, i, &out));
	ASSERT_EQ(0, kvc_record_open(buf, LEN, &out));
	free(buf);
}

TEST_F(folder, its_size_is_kept)
{
	struct kvc_tier *t = open_dir(&self->w, (struct kvc_tier_file){
				      .size = 1 << 20 });
	uint32_t n, most = (1 << 20) / LEN;
	struct kvc_tier_stats st;
	uint64_t bytes;

	for (n = 0; n < 4 * most; n++) {
		put(t, n);
		if (n % 16 == 0)
			settle(t);
		tier_files(&self->w, false, &bytes);
		EXPECT_LE(bytes, 1 << 20);
	}
	settle(t);
	kvc_tier_stats(t, &st);
	EXPECT_EQ(4 * most, st.puts);
	EXPECT_EQ(4 * most, st.evicted + tier_files(&self->w, false, &bytes));
	/* 15/16 at least, and the last ones. */
	EXPECT_GE(bytes, (1 << 20) * 7 / 8);
	for (n = 4 * most - 64; n < 4 * most; n++)
		EXPECT_EQ(0, get(t, n));
	EXPECT_EQ(-ENOENT, get(t, 0));
	kvc_tier_close(t);
}

TEST_F(folder, the_least_recently_used_goes_first)
{
	struct kvc_tier *t = open_dir(&self->w, (struct kvc_tier_file){
				      .size = 1 << 20 });
	uint32_t n, most = (1 << 20) / LEN;

	for (n = 0; n < most; n++) {
		put(t, n);
		settle(t);
	}
	/* Used again: one is read, one is written that is there. */
	EXPECT_EQ(0, get(t, 0));
	put(t, 1);
	put(t, n++);
	settle(t);
	EXPECT_EQ(1, t->st.had);
	EXPECT_EQ(0, get(t, 0));
	EXPECT_EQ(0, get(t, 1));
	EXPECT_EQ(-ENOENT, get(t, 2));
	EXPECT_EQ(-ENOENT, get(t, 3));
	EXPECT_EQ(0, get(t, n - 1));
	kvc_tier_close(t);
	/* Another process knows the order too. */
	t = open_dir(&self->w, (struct kvc_tier_file){ .size = 1 << 20 });
	for (; n < most + 12; n++)
		put(t, n);
	settle(t);
	EXPECT_EQ(0, get(t, 0));
	EXPECT_EQ(0, get(t, 1));
	kvc_tier_close(t);
}

/* A smaller size than before takes effect at the next write. */
TEST_F(folder, a_smaller_size)
{
	struct kvc_tier *t = open_dir(&self->w, (struct kvc_tier_file){
				      .size = 4 << 20 });
	uint64_t bytes;
	uint32_t n;

	for (n = 0; n < (3 << 20) / LEN; n++)
		put(t, n);
	kvc_tier_close(t);
	tier_files(&self->w, false, &bytes);
	EXPECT_GT(bytes, 2 << 20);
	t = open_dir(&self->w, (struct kvc_tier_file){ .size = 1 << 20 });
	put(t, n);
	settle(t);
	tier_files(&self->w, false, &bytes);
	EXPECT_LE(bytes, 1 << 20);
	EXPECT_EQ(0, get(t, n));
	kvc_tier_close(t);
}

static int refused(struct kvc_tier_file f, char *msg, size_t len)
{
	const struct kvc_tier_opts o = {
		.sz = sizeof(o), .msg = msg, .msg_len = len,
	};
	struct kvc_tier *t = NULL;
	int rc;

	msg[0] = 0;
	f.sz = f.sz ? f.sz : sizeof(f);
	rc = kvc_tier_file_open(&f, &o, &t);
	if (!rc)
		kvc_tier_close(t);
	return rc;
}

TEST_F(folder, who_may_use_it)
{
	const struct kvc_tier_file f = { .path = self->w.dir };
	char msg[256], path[200];
	struct stat st;

	ASSERT_EQ(0, chmod(self->w.dir, 0770));
	EXPECT_EQ(-EPERM, refused(f, msg, sizeof(msg)));
	EXPECT_NE(NULL, strstr(msg, "0700"));
	ASSERT_EQ(0, chmod(self->w.dir, 0702));
	EXPECT_EQ(-EPERM, refused(f, msg, sizeof(msg)));
	ASSERT_EQ(0, chmod(self->w.dir, 0755));
	EXPECT_EQ(0, refused(f, msg, sizeof(msg)));
	if (!geteuid()) {
		ASSERT_EQ(0, chown(self->w.dir, 12345, -1));
		EXPECT_EQ(-EPERM, refused(f, msg, sizeof(msg)));
		EXPECT_NE(NULL, strstr(msg, "12345"));
		ASSERT_EQ(0, chown(self->w.dir, 0, -1));
	}
	/* What it makes is its owner's alone. */
	umask(0);
	snprintf(path, sizeof(path), "%s/made", self->w.dir);
	EXPECT_EQ(0, refused((struct kvc_tier_file){ .path = path }, msg,
			     sizeof(msg)));
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(0700, st.st_mode & 07777);
	strcat(path, "/lock");
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(0600, st.st_mode & 07777);
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
}

TEST_F(folder, what_cannot_be)
{
	const struct kvc_tier_file f = { .path = self->w.dir };
	struct kvc_tier_file g;
	char msg[256];

	EXPECT_EQ(-EINVAL, refused((struct kvc_tier_file){ 0 }, msg,
				   sizeof(msg)));
	g = f;
	g.sync = 2;
	EXPECT_EQ(-EINVAL, refused(g, msg, sizeof(msg)));
	EXPECT_NE(NULL, strstr(msg, "sync"));
	g = f;
	g.size = 4096;
	EXPECT_EQ(-EINVAL, refused(g, msg, sizeof(msg)));
	EXPECT_NE(NULL, strstr(msg, "1048576"));
	g = f;
	g.sz = 3;
	EXPECT_EQ(-EINVAL, refused(g, msg, sizeof(msg)));
	g = f;
	g.path = "/proc/nowhere/at/all";
	EXPECT_EQ(-ENOENT, refused(g, msg, sizeof(msg)));
	EXPECT_NE(NULL, strstr(msg, g.path));
}

/* A link that somebody put under a page's name is not followed. */
TEST_F(folder, no_links)
{
	struct kvc_tier *t = open_dir(&self->w, (struct kvc_tier_file){ 0 });
	char name[200];
	struct kvc_record rec;
	int at, i;

	record_of(3, &rec);
	at = snprintf(name, sizeof(name), "%s/", self->w.dir);
	for (i = 0; i < KVCACHE_KEY_LEN; i++)
		at += sprintf(name + at, "%02x", kvc_record_key(&rec)[i]);
	ASSERT_EQ(0, symlink("/dev/zero", name));
	EXPECT_EQ(-ELOOP, get(t, 3));
	kvc_tier_close(t);
}

/* Writers and readers in four processes; a small folder, so they also evict. */
TEST_F(folder, processes_at_once)
{
	const uint32_t most = 300;
	uint32_t i, k, n, hits;
	struct kvc_tier *t;
	uint64_t bytes, tmp;
	char path[200];
	pid_t pid[4];
	int status, lock;

	snprintf(path, sizeof(path), "%s/lock", self->w.dir);

	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (pid[i])
			continue;
		t = open_dir(&self->w, (struct kvc_tier_file){
			     .size = 1 << 20, .threads = i % 2 });
		lock = open(path, O_RDWR);
		ASSERT_LE(0, lock);
		for (k = 0, hits = 0; k < most; k++) {
			n = kit_mix(i, k) % most;
			put(t, n);
			if (k % 5)
				continue;
			settle(t);
			/* Others stand still while they are counted. */
			flock(lock, LOCK_EX);
			tier_files(&self->w, false, &bytes);
			tier_files(&self->w, true, &tmp);
			flock(lock, LOCK_UN);
			EXPECT_LE(bytes + tmp, 1 << 20);
			hits += !get(t, kit_mix(k, i) % most);
		}
		settle(t);
		EXPECT_EQ(0, t->st.bad);
		EXPECT_EQ(0, t->st.io_errors);
		EXPECT_NE(0, hits);
		kvc_tier_close(t);
		_exit(ht_failed);
	}
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	tier_files(&self->w, false, &bytes);
	EXPECT_LE(bytes, 1 << 20);
	EXPECT_EQ(0, tier_files(&self->w, true, NULL));
}

TEST_HARNESS_MAIN
