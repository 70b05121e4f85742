// SPDX-License-Identifier: MIT
/*
 * test_top.c - kvcachetop without a terminal: what a frame has, at which size,
 * and what keys do.
 */
#include "harness.h"

#include "../../tools/kvcachetop/canvas.c"
#include "../../tools/kvcachetop/view.c"
#include "../../tools/kvcachetop/layout.c"
#include "../../tools/kvcachetop/keys.c"
#include "../../tools/kvcachetop/sample.c"

#define PAGE_BYTES 65536

FIXTURE(top)
{
	struct sample now;
	struct sample before;
	struct view v;
	struct frame f;
	struct canvas cv;
};

static void tenant(struct sample *s, uint32_t id, const char *name,
		   uint64_t cur, uint64_t cached, uint64_t max)
{
	struct kvcache_tenant_info *t;

	s->tenant = xrealloc(s->tenant, s->ntenants + 1, sizeof(*t));
	t = &s->tenant[s->ntenants++];
	*t = (struct kvcache_tenant_info){
		.id = id, .pool = 3, .cur = cur, .nr_cached = cached,
		.max = max,
	};
	snprintf(t->name, sizeof(t->name), "%s", name);
}

static void client(struct sample *s, uint32_t id, uint32_t of, const char *comm,
		   uint64_t private)
{
	s->client = xrealloc(s->client, s->nclients + 1, sizeof(*s->client));
	s->cpool = xrealloc(s->cpool, s->nclients + 1, sizeof(*s->cpool));
	s->client[s->nclients] = (struct kvcache_client_info){
		.id = id, .tenant = of, .pid = 1000 + id,
		.nr_private = private,
	};
	snprintf(s->client[s->nclients].comm, 16, "%s", comm);
	s->cpool[s->nclients++] = 3;
}

/* 100 pages: 30 private, 20 shared, 10 cached, 1 retiring. */
static void sample(struct sample *s, double at)
{
	*s = (struct sample){
		.at = at, .backend = "broker", .seq = 7, .last = 7, .npools = 1,
	};
	s->pool[0] = (struct kvcache_pool_info){
		.id = 3, .page_size = PAGE_BYTES, .nr_pages = 100,
		.nr_free = 39, .nr_private = 30, .nr_shared = 20,
		.nr_cached = 10, .nr_retiring = 1, .name = "main",
	};
	tenant(s, 1, "alice", 40, 10, 50);
	tenant(s, 2, "bob", 21, 0, UINT64_MAX);
	s->tenant[0].min = 10;
	s->tenant[0].low = 20;
	client(s, 11, 1, "engine", 20);
	client(s, 12, 2, "en\033gine", 10);
}

FIXTURE_SETUP(top)
{
	sample(&self->now, 10);
	sample(&self->before, 8);
	view_init(&self->v);
	frame_build(&self->f, &self->v, &self->now, &self->before);
}

FIXTURE_TEARDOWN(top)
{
	frame_free(&self->f);
	sample_free(&self->now);
	sample_free(&self->before);
	canvas_free(&self->cv);
}

#define FRAME(rows, cols)						\
	do {								\
		frame_free(&self->f);					\
		frame_build(&self->f, &self->v, &self->now,		\
			    &self->before);				\
		canvas_clear(&self->cv, rows, cols);			\
		layout_frame(&self->cv, &self->v, &self->f, "then");	\
	} while (0)

/* The row that begins so, as a text; "" if there is none. */
static const char *row_of(const struct canvas *cv, const char *begin)
{
	static char buf[512];
	int n = strlen(begin), row;

	buf[0] = 0;
	for (row = 0; row < cv->rows && n <= cv->cols; row++) {
		if (strncmp(cv->ch + row * cv->cols, begin, n))
			continue;
		snprintf(buf, sizeof(buf), "%.*s", cv->cols,
			 cv->ch + row * cv->cols);
		break;
	}
	return buf;
}

static int count(const char *s, char c)
{
	int n = 0;

	for (; *s; s++)
		n += *s == c;
	return n;
}

static enum action type(struct view *v, const struct frame *f, const char *s)
{
	enum action act = ACT_NONE;

	for (; *s; s++)
		act = key_press(v, f, *s);
	return act;
}

TEST_F(top, a_pools_bar_has_its_parts)
{
	const char *bar;

	/* 122 columns: a bar of 12 + 1 + 22 less, and two brackets: 85. */
	FRAME(24, 122);
	bar = strchr(row_of(&self->cv, "main "), '[');
	ASSERT_TRUE(bar);
	EXPECT_EQ(87 - 2, strcspn(bar + 1, "]"));
	EXPECT_LE(25, count(bar, 'p'));
	EXPECT_GE(26, count(bar, 'p'));
	EXPECT_EQ(17, count(bar, 's'));
	EXPECT_LE(8, count(bar, 'c'));
	EXPECT_GE(9, count(bar, 'c'));
	EXPECT_EQ(1, count(bar, 'r'));
}

/* However few pages there are of a kind, and however short the bar. */
TEST(whatever_there_is_has_a_cell)
{
	static const uint64_t of[][PARTS] = {
		{ 1, 1, 1, 1, 999996 }, { 0, 0, 0, 1, 0 }, { 1, 0, 0, 0, 2 },
		{ 500000, 1, 1, 1, 499997 }, { 999999, 0, 0, 0, 1 },
		{ 3, 3, 3, 3, 3 }, { 0, 0, 0, 0, 7 },
	};
	int out[PARTS], width, k, sum;
	uint64_t all;
	size_t i;

	for (i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		for (all = 0, k = 0; k < PARTS; k++)
			all += of[i][k];
		for (width = PARTS; width < 200; width++) {
			share_out(of[i], all, width, out);
			for (sum = 0, k = 0; k < PARTS; k++) {
				sum += out[k];
				EXPECT_EQ(!!of[i][k], out[k] > 0);
			}
			EXPECT_EQ(width, sum);
		}
	}
	share_out((uint64_t[PARTS]){ 0 }, 0, 50, out);
}

TEST_F(top, a_pools_numbers)
{
	self->v.pages = true;
	FRAME(24, 80);
	EXPECT_TRUE(strstr(row_of(&self->cv, "  private"),
			       "private 30  shared 20  cached 10  retiring 1  free 39  wait 0"));
	/* 6 had to wait in 2 seconds, as those see who may. */
	EXPECT_FALSE(strstr(row_of(&self->cv, "  private"), "/s"));
	EXPECT_EQ(-1, frame_waits(&self->f, 3));
	self->now.has_waits = self->before.has_waits = true;
	self->before.waits[0] = 1;
	self->now.waits[0] = 7;
	FRAME(24, 80);
	EXPECT_TRUE(strstr(row_of(&self->cv, "  private"), "wait 0  3/s"));
	EXPECT_EQ(-1, frame_waits(&self->f, 4));
	self->v.pages = false;
	FRAME(24, 80);
	EXPECT_TRUE(strstr(row_of(&self->cv, "  private"),
			       "private 1.9M  shared 1.2M  cached 640K  retiring 64K  free 2.4M"));
}

TEST_F(top, sizes)
{
	static const struct {
		uint64_t pages;
		uint64_t page;
		const char *want;
	} of[] = {
		{ 0, PAGE_BYTES, "0" }, { 1, PAGE_BYTES, "64K" },
		{ 24, PAGE_BYTES, "1.5M" }, { UINT64_MAX, PAGE_BYTES, "max" },
		{ 1023, 1 << 20, "1023M" }, { 1024, 1 << 20, "1G" },
		{ 1 << 24, 1ULL << 26, "1P" }, { 1599, PAGE_BYTES, "99.9M" },
	};
	char buf[32];

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		EXPECT_EQ(0, strcmp(of[i].want,
				    layout_size(&self->v, of[i].pages,
						of[i].page, buf)));
}

TEST_F(top, a_tenants_bar_has_its_limits)
{
	const char *bar;

	/* The scale is the pool: bob has no limit. */
	self->v.pages = true;
	FRAME(24, 200);
	bar = strrchr(row_of(&self->cv, "alice "), ' ') + 1;
	EXPECT_EQ(1, count(bar, 'm'));
	EXPECT_EQ(1, count(bar, 'l'));
	EXPECT_EQ(1, count(bar, 'M'));
	EXPECT_TRUE(strchr(bar, 'm') < strchr(bar, 'l'));
	EXPECT_TRUE(strchr(bar, 'l') < strchr(bar, 'M'));
	/* Half of the pool is half of the bar. */
	EXPECT_GE(1, abs((int)(strlen(bar) / 2 - (strchr(bar, 'M') - bar))));
	bar = strrchr(row_of(&self->cv, "bob "), ' ') + 1;
	EXPECT_EQ(0, count(bar, 'M') + count(bar, 'm') + count(bar, 'l'));
	/* With limits for all, it is the largest of these. */
	self->now.tenant[1].max = 25;
	FRAME(24, 200);
	bar = strrchr(row_of(&self->cv, "alice "), ' ') + 1;
	EXPECT_EQ('M', bar[strlen(bar) - 1]);
}

TEST_F(top, rates_are_of_the_time_between)
{
	self->now.tenant[0].lookups = 100;
	self->now.tenant[0].hits = 50;
	self->before.tenant[0].lookups = 60;
	self->before.tenant[0].hits = 40;
	self->now.pool[0].lookups = 100;
	self->before.pool[0].lookups = 60;
	self->now.pool[0].hits = 50;
	self->before.pool[0].hits = 40;
	self->now.pool[0].allocs = 14;
	self->before.pool[0].allocs = 4;
	FRAME(24, 80);
	EXPECT_TRUE(strstr(row_of(&self->cv, "tenants"),
			       "lookups 20/s  hits 25.0 %  allocs 5/s"));
	EXPECT_EQ(20, self->f.row[TENANTS][0].lookups);
	EXPECT_EQ(0.25, self->f.row[TENANTS][0].hits);
	/* A broker that began anew counts from 0. */
	self->before.tenant[0].lookups = 1000;
	FRAME(24, 80);
	EXPECT_TRUE(self->f.row[TENANTS][0].lookups < 0);
	/* The first frame has none. */
	frame_free(&self->f);
	frame_build(&self->f, &self->v, &self->now, NULL);
	canvas_clear(&self->cv, 24, 80);
	layout_frame(&self->cv, &self->v, &self->f, "then");
	EXPECT_TRUE(strstr(row_of(&self->cv, "tenants"),
			       "lookups -/s  hits - %"));
}

TEST_F(top, what_processes_are_called_draws_nothing)
{
	FRAME(24, 80);
	for (int i = 0; i < self->cv.rows * self->cv.cols; i++)
		EXPECT_TRUE(self->cv.ch[i] >= ' ' && self->cv.ch[i] <= '~');
	EXPECT_TRUE(strstr(row_of(&self->cv, "    12"), "en?gine"));
}

/* Each size has its frame, and nothing is written beside it. */
TEST_F(top, every_size)
{
	int rows, cols;

	for (int i = 0; i < 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "more-%d", i);
		tenant(&self->now, 100 + i, name, i, 0, 2 * i + 1);
		client(&self->now, 100 + i, 100 + i, name, i);
	}
	self->now.npools = 1;
	for (rows = 1; rows < 60; rows++) {
		for (cols = 1; cols < 220; cols += 3) {
			self->v.index[TENANTS] = rows;
			self->v.key[TENANTS] = 0;
			FRAME(rows, cols);
			if (rows >= MIN_ROWS && cols >= MIN_COLS)
				EXPECT_STRNE("", row_of(&self->cv, "TENANT"));
		}
	}
	/* All rows of a log. */
	self->v.batch = true;
	FRAME(layout_rows(&self->v, &self->f), 80);
	EXPECT_STRNE("", row_of(&self->cv, "more-0 "));
	EXPECT_STRNE("", row_of(&self->cv, "   199"));
}

TEST_F(top, sixteen_pools_leave_room)
{
	for (int i = 1; i < 16; i++) {
		self->now.pool[i] = self->now.pool[0];
		self->now.pool[i].id = 10 + i;
	}
	self->now.npools = 16;
	FRAME(24, 80);
	EXPECT_TRUE(strstr(row_of(&self->cv, "POOL"), "/16"));
	EXPECT_STRNE("", row_of(&self->cv, "alice "));
	EXPECT_STRNE("", row_of(&self->cv, "CLIENT"));
}

TEST_F(top, sorted_and_filtered)
{
	EXPECT_STREQ("alice", self->f.row[TENANTS][0].name);
	EXPECT_TRUE(view_sort(&self->v, "-used"));
	FRAME(24, 80);
	EXPECT_STREQ("bob", self->f.row[TENANTS][0].name);
	EXPECT_TRUE(view_sort(&self->v, "-pid"));
	FRAME(24, 80);
	EXPECT_EQ(12, self->f.row[CLIENTS][0].client->id);
	EXPECT_FALSE(view_sort(&self->v, "colour"));
	strcpy(self->v.filter, "bob");
	FRAME(24, 80);
	EXPECT_EQ(1, self->f.n[TENANTS]);
	EXPECT_EQ(1, self->f.n[CLIENTS]);
	strcpy(self->v.filter, "1011");
	FRAME(24, 80);
	EXPECT_EQ(0, self->f.n[TENANTS]);
	EXPECT_EQ(1, self->f.n[CLIENTS]);
	EXPECT_TRUE(strstr(row_of(&self->cv, "kvcachetop"), "\"1011\""));
}

TEST_F(top, keys_sort_each_column)
{
	FRAME(24, 80);
	for (int i = 0; i < 2 * T_NR; i++) {
		key_press(&self->v, &self->f, '>');
		EXPECT_NE(T_POOL, self->v.sort[TENANTS]);
		/* What the order is by can be seen. */
		EXPECT_TRUE(strstr(row_of(&self->cv, "TENANT"),
				   tenant_columns[self->v.sort[TENANTS]].name));
		FRAME(24, 80);
	}
	key_press(&self->v, &self->f, '\t');
	for (int i = 0; i < 2 * C_NR; i++) {
		key_press(&self->v, &self->f, '<');
		EXPECT_NE(C_POOL, self->v.sort[CLIENTS]);
		FRAME(24, 80);
	}
}

TEST_F(top, keys_filter)
{
	type(&self->v, &self->f, "/alx");
	key_press(&self->v, &self->f, K_BACKSPACE);
	EXPECT_STREQ("", self->v.filter);
	type(&self->v, &self->f, "i\n");
	EXPECT_STREQ("ali", self->v.filter);
	type(&self->v, &self->f, "/q");
	EXPECT_EQ(ACT_NONE, key_press(&self->v, &self->f, K_ESCAPE));
	EXPECT_STREQ("ali", self->v.filter);
	for (int i = 0; i < 200; i++)
		type(&self->v, &self->f, i ? "x" : "/");
	type(&self->v, &self->f, "\n");
	EXPECT_EQ(63, strlen(self->v.filter));
}

TEST_F(top, keys_change_a_limit_after_a_question)
{
	key_press(&self->v, &self->f, K_DOWN);
	EXPECT_EQ(ACT_NONE, type(&self->v, &self->f, "M2M\n"));
	EXPECT_EQ(MODE_ASK, self->v.mode);
	FRAME(24, 80);
	EXPECT_STRNE("", row_of(&self->cv, "set max of bob from max to 2M? y or n"));
	EXPECT_EQ(ACT_SET, type(&self->v, &self->f, "y"));
	EXPECT_EQ(2, self->v.change.tenant);
	EXPECT_STREQ("bob", self->v.change.name);
	EXPECT_EQ(3, self->v.change.pool);
	EXPECT_EQ('M', self->v.change.which);
	EXPECT_EQ(32, self->v.change.pages);
	/* No is no, and so is every other key. */
	EXPECT_EQ(ACT_NONE, type(&self->v, &self->f, "m10%\nn"));
	EXPECT_EQ(ACT_NONE, type(&self->v, &self->f, "l10%\n\n"));
	EXPECT_EQ(ACT_NONE, type(&self->v, &self->f, "l10%\nq"));
	EXPECT_EQ(ACT_QUIT, type(&self->v, &self->f, "q"));
}

TEST_F(top, limits_that_are_none)
{
	static const char *const bad[] = {
		"10X", "-1", "101%", "18446744073709551616", "1K", "%", "1e3",
	};
	char keys[64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(keys, sizeof(keys), "M%s\n", bad[i]);
		EXPECT_EQ(ACT_NONE, type(&self->v, &self->f, keys));
		EXPECT_EQ(MODE_LIST, self->v.mode);
		EXPECT_TRUE(strstr(self->v.message, bad[i]));
		EXPECT_TRUE(strstr(self->v.message, "give "));
	}
	type(&self->v, &self->f, "mmax\n");
	EXPECT_TRUE(strstr(self->v.message, "nobody"));
	EXPECT_EQ(ACT_NONE, type(&self->v, &self->f, "M\n"));
	EXPECT_EQ(MODE_LIST, self->v.mode);
	/* A client has no limits. */
	type(&self->v, &self->f, "\tM");
	EXPECT_EQ(MODE_LIST, self->v.mode);
}

/* Who was selected stays so, wherever the row goes. */
TEST_F(top, selection_follows_its_tenant)
{
	key_press(&self->v, &self->f, K_DOWN);
	self->now.tenant[1].cur = 99;
	FRAME(24, 80);
	EXPECT_EQ(0, self->v.index[TENANTS]);
	type(&self->v, &self->f, "M1M\ny");
	EXPECT_EQ(2, self->v.change.tenant);
	/* Gone: the row that is there now. */
	self->now.ntenants = 1;
	FRAME(24, 80);
	EXPECT_EQ(0, self->v.index[TENANTS]);
	type(&self->v, &self->f, "M1M\ny");
	EXPECT_EQ(1, self->v.change.tenant);
	self->now.ntenants = 0;
	FRAME(24, 80);
	type(&self->v, &self->f, "M");
	EXPECT_EQ(MODE_LIST, self->v.mode);
}

TEST_F(top, nothing_at_all)
{
	sample_free(&self->now);
	FRAME(24, 80);
	key_press(&self->v, &self->f, K_END);
	key_press(&self->v, &self->f, K_UP);
	EXPECT_STRNE("", row_of(&self->cv, "tenants 0  clients 0"));
}

TEST_HARNESS_MAIN
