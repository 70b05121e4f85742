// SPDX-License-Identifier: MIT
/*
 * test_save.c - sequences that are saved and restored: their rows, whatever the
 * types, page sizes, orders and pages; who may find them; files.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "save_kit.h"

#define NT 700

static uint32_t tokens[NT];

static struct kvc_seq *grown(struct kit *k, uint32_t n)
{
	struct kvc_seq *s = kit_seq(k, NULL);

	kit_count(tokens, NT, 100);
	if (n)
		ASSERT_EQ(0, kit_add(k, s, tokens, n));
	return s;
}

/* There and back in one cache, and as long as it was said to be. */
static void there_and_back(struct kit *k, uint32_t n)
{
	struct kvc_seq *s = grown(k, n), *q;
	struct mem m;
	uint64_t bytes;

	ASSERT_EQ(0, kvc_save_size(s, NULL, &bytes));
	mem_save(&m, s);
	EXPECT_EQ(bytes, m.len);
	ASSERT_EQ(0, mem_restore(k, &m, 0, &q));
	EXPECT_EQ(m.len, m.at);
	same_rows(s, q);
	/* It goes on as the other does. */
	ASSERT_EQ(0, kit_add(k, q, tokens + n, 3));
	ASSERT_EQ(0, kit_add(k, s, tokens + n, 3));
	same_rows(s, q);
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	mem_free(&m);
}

static void all_lengths(const struct kit_spec *spec)
{
	static const uint32_t lens[] = {
		0, 1, 3, 4, 5, 16, 17, 255, 256, 257, 512, 600,
	};
	struct kit k;

	kit_open(&k, spec);
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		there_and_back(&k, lens[i]);
	kit_end(&k);
}

/* Does the library keep rows of this type? */
static bool is_kept(uint32_t type)
{
	struct kvc_group g = {
		.kv_heads = 1, .k_dim = KIT_DIM, .v_dim = KIT_DIM,
		.k_type = type, .v_type = type,
	};
	struct kvc_model m = {
		.sz = sizeof(m), .nlayers = 1, .ngroups = 1, .groups = &g,
		.q_heads = 1,
	};
	struct kvc_footprint fp;

	return !kvc_footprint(&m, 1 << 16, 1, 1, &fp);
}

TEST(every_type)
{
	uint32_t type;

	for (type = 0; kva_row_size(type, KIT_DIM); type++) {
		const struct kit_spec spec = { .type = type, .pages = 320 };

		/* A type whose scale is to be given has none here. */
		if (is_kept(type) && strcmp(kva_type_name(type), "e4m3t"))
			all_lengths(&spec);
	}
}

TEST(every_division)
{
	static const struct kit_spec specs[] = {
		{ .page_tokens = 1, .pages = 1300 },
		{ .page_tokens = 5, .type = KVC_BF16, .pages = 300 },
		{ .page_tokens = 16, .type = KVC_F16, .row_major = 1,
		  .pages = 100 },
		{ .page_tokens = 24, .kv_heads = 3 },
		{ .ngroups = 2, .pages = 400 },
	};

	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		all_lengths(&specs[i]);
}

/* From one cache into another, which differs in what does not matter. */
static void into_another(const struct kit_spec *from, const struct kit_spec *to,
			 uint32_t n)
{
	struct kvc_seq *s, *q;
	struct kit k;
	struct mem m;

	kit_open(&k, from);
	s = grown(&k, n);
	mem_save(&m, s);
	kvc_seq_free(s, 0);
	kit_end(&k);
	kit_open(&k, to);
	m.step = 7;
	ASSERT_EQ(0, mem_restore(&k, &m, 0, &q));
	kit_check(&k, q);
	ASSERT_EQ(0, kit_add(&k, q, tokens + n, 20));
	kit_check(&k, q);
	/* All that a sequence can do it can do. */
	ASSERT_EQ(0, kvc_seq_fork(q, &s));
	ASSERT_EQ(0, kit_add(&k, s, tokens + n, 1));
	ASSERT_EQ(0, kvc_seq_idle(q));
	ASSERT_EQ(n + 20, kvc_seq_wake(q));
	ASSERT_EQ(0, kvc_seq_truncate(q, n / 2));
	ASSERT_EQ(0, kit_add(&k, q, tokens + n / 2, 2));
	kit_check(&k, q);
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	kit_end(&k);
	mem_free(&m);
}

TEST(other_page_sizes_and_orders)
{
	static const struct kit_spec specs[] = {
		{ .page_tokens = 4, .pages = 256 },
		{ .page_tokens = 7, .pages = 256 },
		{ .page_tokens = 64, .row_major = 1 },
		{ .page_tokens = 24, .o.isa = "scalar" },
	};
	unsigned int i, j;

	for (i = 0; i < 4; i++)
		for (j = 0; j < 4; j++)
			into_another(&specs[i], &specs[j], 61 + 100 * i);
}

TEST(scattered_pages)
{
	const struct kit_spec spec = { .pages = 40 };
	struct kvc_seq *s[12], *q;
	uint64_t h[8];
	uint32_t i, apart = 0;
	struct kit k;
	struct mem m;

	kit_open(&k, &spec);
	s[0] = grown(&k, 30);
	mem_save(&m, s[0]);
	kvc_seq_free(s[0], KVC_SEQ_DISCARD);
	kvc_call(k.ctx, KVCACHE_NR_TENANT_FLUSH,
		 &(struct kvcache_tenant_ref) { 0 });
	/* Every third of the pages is somebody's. */
	for (i = 0; i < 12; i++) {
		s[i] = kit_seq(&k, NULL);
		ASSERT_EQ(0, kvc_seq_reserve(s[i], 4 * (i % 3 + 1), 0));
	}
	for (i = 0; i < 12; i += 3) {
		kvc_seq_free(s[i], 0);
		kvc_seq_free(s[i + 1], 0);
	}
	ASSERT_EQ(0, mem_restore(&k, &m, 0, &q));
	kit_check(&k, q);
	ASSERT_EQ(8, kvc_seq_handles(q, 0, h, 8));
	for (i = 1; i < 8; i++)
		apart += (uint32_t)h[i] != (uint32_t)h[i - 1] + 1;
	EXPECT_GT(apart, 0);
	kvc_seq_free(q, 0);
	for (i = 2; i < 12; i += 3)
		kvc_seq_free(s[i], 0);
	kit_end(&k);
	mem_free(&m);
}

/* Layers with a window, and such without: what left it is not saved. */
static void windowed(const struct kit_spec *from, const struct kit_spec *to,
		     uint32_t n)
{
	uint32_t P = from->page_tokens, sinks;
	struct kvc_seq *s, *q;
	uint64_t before;
	struct kit k;
	struct mem m;

	kit_open(&k, from);
	s = grown(&k, n);
	mem_save(&m, s);
	kvc_seq_free(s, 0);
	kit_end(&k);
	kit_open(&k, to);
	sinks = P ? (from->sinks + P - 1) / P : 0;
	if (!from->o.keep_all && to->o.keep_all && n >= from->window &&
	    (n - from->window + 1) / P > sinks) {
		EXPECT_EQ(-EXDEV, mem_restore(&k, &m, 0, &q));
		kit_end(&k);
		mem_free(&m);
		return;
	}
	ASSERT_EQ(0, mem_restore(&k, &m, KVC_RESTORE_PUBLISH, &q));
	kit_check(&k, q);
	/* It holds what it would hold if it had grown up here. */
	s = grown(&k, n);
	EXPECT_EQ(kvc_seq_pages(s), kvc_seq_pages(q));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	/* Saved once more there is no row in it that there was not. */
	before = m.len;
	mem_free(&m);
	mem_save(&m, q);
	EXPECT_LE(m.len, before);
	kvc_seq_free(q, KVC_SEQ_DISCARD);
	ASSERT_EQ(0, mem_restore(&k, &m, 0, &q));
	kit_check(&k, q);
	ASSERT_EQ(0, kit_add(&k, q, tokens + n, 1));
	kit_check(&k, q);
	ASSERT_EQ(0, kit_add(&k, q, tokens + n + 1, 30));
	kit_check(&k, q);
	ASSERT_EQ(0, kvc_seq_truncate(q, 0));
	ASSERT_EQ(0, kit_add(&k, q, tokens, 30));
	kit_check(&k, q);
	kvc_seq_free(q, 0);
	kit_end(&k);
	mem_free(&m);
}

TEST(windows)
{
	static const struct kit_spec specs[] = {
		{ .page_tokens = 4, .window = 10 },
		{ .page_tokens = 7, .window = 10 },
		{ .page_tokens = 24, .window = 10 },
		{ .page_tokens = 5, .window = 10, .o.keep_all = 1 },
		{ .page_tokens = 4, .window = 10, .sinks = 3 },
		{ .page_tokens = 1, .window = 10, .sinks = 3, .pages = 128 },
		{ .page_tokens = 7, .window = 10, .sinks = 3 },
		{ .ngroups = 2, .window = 20, .sinks = 1, .pages = 128 },
		{ .ngroups = 2, .window = 20, .sinks = 1, .row_major = 1,
		  .pages = 128, .kv_heads = 2, .page_tokens = 40 },
	};
	unsigned int i, j, n;

	for (i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		for (j = 0; j < sizeof(specs) / sizeof(specs[0]); j++)
			if (specs[i].ngroups == specs[j].ngroups &&
			    specs[i].sinks == specs[j].sinks)
				for (n = 1; n < 60; n += 3)
					windowed(&specs[i], &specs[j], n);
}

/* Where pages have another size, the first ones may lack rows. */
TEST(a_window_that_begins_within_a_page)
{
	const struct kit_spec four = { .page_tokens = 4, .window = 10 };
	const struct kit_spec many = { .page_tokens = 24, .window = 10 };
	struct kvc_seq *s, *q;
	struct kit k;
	struct mem m;
	char row[64];

	kit_open(&k, &four);
	s = grown(&k, 40);
	mem_save(&m, s);
	kvc_seq_free(s, 0);
	kit_end(&k);
	kit_open(&k, &many);
	ASSERT_EQ(0, mem_restore(&k, &m, KVC_RESTORE_PUBLISH, &q));
	EXPECT_EQ(-ENODATA, kvc_seq_read(q, 0, 0, 0, 27, 1, row));
	EXPECT_EQ(0, kvc_seq_read(q, 0, 0, 0, 28, 1, row));
	/* 28 rows are missing: who comes after 37 tokens sees the 29th on. */
	EXPECT_EQ(-ENODATA, kvc_seq_truncate(q, 36));
	ASSERT_EQ(0, kvc_seq_fork(q, &s));
	EXPECT_EQ(-ENODATA, kvc_seq_truncate(s, 36));
	EXPECT_EQ(0, kvc_seq_truncate(s, 37));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	/* Nobody finds a page that lacks rows. */
	ASSERT_EQ(0, kit_add(&k, q, tokens + 40, 20));
	kvc_seq_free(q, 0);
	EXPECT_EQ(0, kit_pool(&k).nr_cached);
	kit_end(&k);
	mem_free(&m);
}

/* How much of the tokens another context of the tenant finds. */
static int found(struct kit *k)
{
	struct kvc_seq *s;
	struct kit twin;
	int n;

	kit_twin(k, &twin);
	s = kit_seq(&twin, NULL);
	n = kvc_seq_prefix(s, tokens, 41);
	kvc_seq_free(s, 0);
	kit_twin_close(&twin);
	return n;
}

TEST(who_finds_it)
{
	const struct kit_spec spec = { .pages = 40 };
	struct kvc_seq_opts so = { .sz = sizeof(so), .no_reuse = 1 };
	struct kvc_seq *s, *q;
	struct mem m, shy;
	struct kit k;

	kit_open(&k, &spec);
	s = grown(&k, 40);
	mem_save(&m, s);
	kvc_seq_free(s, 0);
	ASSERT_EQ(0, kvc_seq_create(k.c, &so, &s));
	ASSERT_EQ(0, kit_add(&k, s, tokens, 40));
	mem_save(&shy, s);
	kvc_seq_free(s, 0);
	kit_end(&k);

	kit_open(&k, &spec);
	/* Nobody, neither now nor when it has gone on and ended. */
	ASSERT_EQ(0, mem_restore(&k, &m, 0, &q));
	EXPECT_EQ(0, found(&k));
	ASSERT_EQ(0, kit_add(&k, q, tokens + 40, 9));
	EXPECT_EQ(0, found(&k));
	kvc_seq_free(q, 0);
	EXPECT_EQ(0, found(&k));
	/* What published nothing never does. */
	ASSERT_EQ(0, mem_restore(&k, &shy, KVC_RESTORE_PUBLISH, &q));
	EXPECT_EQ(0, found(&k));
	kvc_seq_free(q, 0);
	EXPECT_EQ(0, found(&k));
	/* Saved again, neither does one that was not trusted. */
	ASSERT_EQ(0, mem_restore(&k, &m, 0, &q));
	mem_free(&shy);
	mem_save(&shy, q);
	kvc_seq_free(q, 0);
	ASSERT_EQ(0, mem_restore(&k, &shy, KVC_RESTORE_PUBLISH, &q));
	EXPECT_EQ(0, found(&k));
	kvc_seq_free(q, 0);
	/* One that is trusted is found, and is one with what there is. */
	ASSERT_EQ(0, mem_restore(&k, &m, KVC_RESTORE_PUBLISH, &q));
	EXPECT_EQ(40, found(&k));
	ASSERT_EQ(0, mem_restore(&k, &m, KVC_RESTORE_PUBLISH, &s));
	EXPECT_EQ(10, kit_used(&k));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	EXPECT_EQ(40, found(&k));
	kit_end(&k);
	mem_free(&m);
	mem_free(&shy);
}

/* What was computed behind tokens that are gone stays out of reach. */
TEST(shortened_in_the_middle)
{
	const struct kit_spec spec = { .pages = 40 };
	struct kvc_seq *s, *q;
	struct kit k;
	struct mem m;

	kit_open(&k, &spec);
	s = grown(&k, 44);
	ASSERT_EQ(0, kvc_seq_remove(s, 21, 4, NULL));
	mem_save(&m, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	kit_end(&k);
	kit_open(&k, &spec);
	ASSERT_EQ(0, mem_restore(&k, &m, KVC_RESTORE_PUBLISH, &q));
	EXPECT_EQ(40, kvc_seq_len(q));
	EXPECT_EQ(20, found(&k));
	/* From its beginning again it may be found. */
	ASSERT_EQ(0, kvc_seq_truncate(q, 21));
	ASSERT_EQ(0, kit_add(&k, q, tokens + 21, 20));
	EXPECT_EQ(40, found(&k));
	kit_check(&k, q);
	kvc_seq_free(q, 0);
	kit_end(&k);
	mem_free(&m);
}

TEST(static_sequences)
{
	const struct kit_spec spec = { .pages = 64, .window = 10 };
	struct kvc_seq_opts so = { .sz = sizeof(so), .fixed = 50 };
	struct kvc_restore_opts ro = { .sz = sizeof(ro), .seq = &so };
	struct kvc_seq *s, *q;
	struct kvc_stream st;
	struct kit k;
	struct mem m;

	kit_open(&k, &spec);
	ASSERT_EQ(0, kvc_seq_create(k.c, &so, &s));
	kit_count(tokens, NT, 100);
	ASSERT_EQ(0, kit_add(&k, s, tokens, 40));
	mem_save(&m, s);
	kvc_seq_free(s, 0);
	/* All of it into one, what a window needs into the other. */
	st = mem_stream(&m);
	ASSERT_EQ(0, kvc_seq_restore(k.c, &st, &ro, &q));
	EXPECT_EQ(13, kvc_seq_pages(q));
	kit_check(&k, q);
	ASSERT_EQ(0, mem_restore(&k, &m, 0, &s));
	EXPECT_EQ(3, kvc_seq_pages(s));
	kit_check(&k, s);
	kvc_seq_free(q, 0);
	mem_free(&m);
	mem_save(&m, s);
	kvc_seq_free(s, 0);
	/* It has the pages, and not the rows. */
	st = mem_stream(&m);
	ASSERT_EQ(0, kvc_seq_restore(k.c, &st, &ro, &q));
	kit_check(&k, q);
	EXPECT_EQ(-ENODATA, kvc_seq_truncate(q, 30));
	ASSERT_EQ(0, kit_add(&k, q, tokens + 40, 10));
	kit_check(&k, q);
	ASSERT_EQ(0, kvc_seq_truncate(q, 0));
	ASSERT_EQ(0, kit_add(&k, q, tokens, 50));
	kit_check(&k, q);
	kvc_seq_free(q, 0);
	so.fixed = 39;
	st = mem_stream(&m);
	EXPECT_EQ(-ERANGE, kvc_seq_restore(k.c, &st, &ro, &q));
	EXPECT_EQ(0, kit_used(&k));
	kit_end(&k);
	mem_free(&m);
}

TEST(what_a_program_adds)
{
	const struct kit_spec spec = { 0 };
	const struct kvc_save_opts so = {
		.sz = sizeof(so), .app = "a sampler", .app_len = 9,
	};
	const struct kvc_save_opts large = {
		.sz = sizeof(large), .app = "", .app_len = KVC_SAVE_APP_MAX + 1,
	};
	struct kvc_saved saved;
	char app[16] = "";
	struct kvc_restore_opts ro = {
		.sz = sizeof(ro), .app = app, .app_room = sizeof(app),
		.saved = &saved,
	};
	struct mem m = { 0 };
	struct kvc_stream st = mem_stream(&m);
	struct kvc_seq *s, *q;
	uint64_t bytes;
	struct kit k;

	kit_open(&k, &spec);
	s = grown(&k, 6);
	EXPECT_EQ(-EINVAL, kvc_seq_save(s, &st, &large));
	EXPECT_EQ(0, m.len);
	ASSERT_EQ(0, kvc_seq_save(s, &st, &so));
	ASSERT_EQ(0, kvc_save_size(s, &so, &bytes));
	EXPECT_EQ(bytes, m.len);
	ASSERT_EQ(0, kvc_seq_restore(k.c, &st, &ro, &q));
	EXPECT_STREQ("a sampler", app);
	EXPECT_EQ(1, saved.version);
	EXPECT_EQ(6, saved.tokens);
	EXPECT_EQ(9, saved.app_len);
	EXPECT_EQ(m.len, saved.bytes);
	EXPECT_EQ(1, saved.publishes);
	EXPECT_EQ(KIT_LAYERS, saved.nlayers);
	EXPECT_EQ(1, saved.ngroups);
	EXPECT_EQ(0, memcmp(&saved.groups[0], &k.g[0], sizeof(k.g[0])));
	kvc_seq_free(q, 0);
	/* With less room, or none, the rest is passed over. */
	st = mem_stream(&m);
	memset(app, 0, sizeof(app));
	ro.app_room = 3;
	ASSERT_EQ(0, kvc_seq_restore(k.c, &st, &ro, &q));
	EXPECT_STREQ("a s", app);
	kvc_seq_free(q, 0);
	st = mem_stream(&m);
	ASSERT_EQ(0, kvc_seq_restore(k.c, &st, NULL, &q));
	kit_check(&k, q);
	kvc_seq_free(q, 0);
	kvc_seq_free(s, 0);
	kit_end(&k);
	mem_free(&m);
}

TEST(not_now)
{
	const struct kit_spec spec = { 0 };
	struct kvc_seq *s;
	struct kvc_item item;
	struct mem m = { 0 };
	struct kvc_stream st = mem_stream(&m);
	struct kit k;

	kit_open(&k, &spec);
	s = grown(&k, 6);
	ASSERT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(-EBUSY, kvc_seq_save(s, &st, NULL));
	ASSERT_EQ(6, kvc_seq_wake(s));
	item = (struct kvc_item) { s, tokens + 6, 1 };
	ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
	EXPECT_EQ(-EBUSY, kvc_seq_save(s, &st, NULL));
	kvc_batch_abort(k.b);
	st.sz = 0;
	EXPECT_EQ(-EINVAL, kvc_seq_save(s, &st, NULL));
	EXPECT_EQ(0, m.len);
	/* It ends where the stream does. */
	st = mem_stream(&m);
	m.fail = -ENOSPC;
	EXPECT_EQ(-ENOSPC, kvc_seq_save(s, &st, NULL));
	EXPECT_TRUE(strstr(kvc_errmsg(k.ctx), "No space left"));
	kvc_seq_free(s, 0);
	kit_end(&k);
	mem_free(&m);
}

/* ---- files ------------------------------------------------------------ */

static char dir[64];

static const char *path_of(const char *name)
{
	static char path[128];

	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "%s/save-XXXXXX",
			 getenv("TMPDIR") ? getenv("TMPDIR") : "/var/tmp");
		ASSERT_TRUE(mkdtemp(dir));
	}
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void remove_dir(void)
{
	/* Fails if anything was left there. */
	EXPECT_EQ(0, rmdir(dir));
	dir[0] = 0;
}

TEST(a_file)
{
	const struct kit_spec spec = { .pages = 200 };
	struct kvc_seq *s, *q;
	struct stat st;
	struct kit k;
	FILE *f;

	kit_open(&k, &spec);
	s = grown(&k, 300);
	umask(0);
	ASSERT_EQ(0, kvc_seq_save_file(s, path_of("a"), NULL));
	ASSERT_EQ(0, stat(path_of("a"), &st));
	EXPECT_EQ(0600, st.st_mode & 07777);
	/* In place of what was there, however open that was. */
	ASSERT_EQ(0, chmod(path_of("a"), 0666));
	ASSERT_EQ(0, kvc_seq_save_file(s, path_of("a"), NULL));
	ASSERT_EQ(0, stat(path_of("a"), &st));
	EXPECT_EQ(0600, st.st_mode & 07777);
	ASSERT_EQ(0, kvc_seq_restore_file(k.c, path_of("a"), NULL, &q));
	same_rows(s, q);
	kvc_seq_free(q, 0);
	f = fopen(path_of("a"), "a");
	fputc('x', f);
	fclose(f);
	EXPECT_EQ(-EBADMSG, kvc_seq_restore_file(k.c, path_of("a"), NULL, &q));
	EXPECT_EQ(-ENOENT, kvc_seq_restore_file(k.c, path_of("b"), NULL, &q));
	EXPECT_EQ(-ENOENT, kvc_seq_save_file(s, path_of("c/d"), NULL));
	EXPECT_EQ(-EINVAL, kvc_seq_save_file(s, "/dev/full", NULL));
	EXPECT_EQ(-EINVAL, kvc_seq_save_file(s, dir, NULL));
	ASSERT_EQ(0, unlink(path_of("a")));
	kvc_seq_free(s, 0);
	kit_end(&k);
	remove_dir();
}

/* What is not written in full takes no name, and leaves what had it alone. */
TEST(a_full_disk)
{
	const struct kit_spec spec = { .pages = 200 };
	struct kvc_stream full = { .sz = sizeof(full) };
	struct rlimit had, small;
	struct kvc_seq *s, *q;
	uint64_t bytes;
	struct kit k;
	int rc;

	kit_open(&k, &spec);
	s = grown(&k, 9);
	ASSERT_EQ(0, kvc_seq_save_file(s, path_of("a"), NULL));
	ASSERT_EQ(0, kit_add(&k, s, tokens + 9, 400));
	ASSERT_EQ(0, kvc_save_size(s, NULL, &bytes));
	signal(SIGXFSZ, SIG_IGN);
	ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &had));
	small = had;
	for (small.rlim_cur = 0; small.rlim_cur < bytes;
	     small.rlim_cur += bytes / 7) {
		ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &small));
		rc = kvc_seq_save_file(s, path_of("a"), NULL);
		ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &had));
		EXPECT_EQ(-EFBIG, rc);
		ASSERT_EQ(0, kvc_seq_restore_file(k.c, path_of("a"), NULL,
						  &q));
		EXPECT_EQ(9, kvc_seq_len(q));
		kvc_seq_free(q, 0);
	}
	full.fd = open("/dev/full", O_WRONLY);
	EXPECT_EQ(-ENOSPC, kvc_seq_save(s, &full, NULL));
	close(full.fd);
	ASSERT_EQ(0, unlink(path_of("a")));
	kvc_seq_free(s, 0);
	kit_end(&k);
	remove_dir();
}

/* From one process to another, by a pipe; what follows it is not touched. */
TEST(a_pipe)
{
	const struct kit_spec spec = { .pages = 200 };
	struct kvc_stream st = { .sz = sizeof(st) };
	struct kvc_seq *s, *q;
	int fds[2], status;
	struct kit k;
	char next[4];
	pid_t pid;

	NOT_ON_DEVICE("a child of fork() owns no page of its parent's");
	kit_open(&k, &spec);
	s = grown(&k, 300);
	ASSERT_EQ(0, pipe(fds));
	pid = fork();
	if (!pid) {
		st.fd = fds[1];
		_exit(kvc_seq_save(s, &st, NULL) ||
		      write(fds[1], "next", 4) != 4);
	}
	close(fds[1]);
	st.fd = fds[0];
	ASSERT_EQ(0, kvc_seq_restore(k.c, &st, NULL, &q));
	same_rows(s, q);
	EXPECT_EQ(4, read(fds[0], next, 4));
	EXPECT_EQ(0, memcmp(next, "next", 4));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(fds[0]);
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	kit_end(&k);
}

TEST_HARNESS_MAIN
