// SPDX-License-Identifier: MIT
/*
 * test_ctl_map.c - kvcachectl map: what a cell of several pages shows, and what
 * a picture has of each size of pool.
 */
#include "harness.h"

#include "../../tools/kvcachectl/map_draw.c"

#define PAGES 100000

FIXTURE(map)
{
	struct map m;
};

FIXTURE_SETUP(map)
{
	static const struct map_kind kinds[] = {
		{ '.', 0, 0xeeeeee, "free", 0 }, { 'A', 43, 0x111111, "a", 0 },
		{ 'B', 46, 0x222222, "b", 0 },
	};

	self->m = (struct map){ .by = "tenant", .nkinds = 3 };
	memcpy(self->m.kind, kinds, sizeof(kinds));
	strcpy(self->m.pool.name, "main");
	self->m.pool.page_size = 65536;
	self->m.pool.nr_pages = PAGES;
	self->m.of = calloc(PAGES, 1);
	ASSERT_TRUE(self->m.of);
}

FIXTURE_TEARDOWN(map)
{
	free(self->m.of);
}

static char *text_of(const struct map *m, unsigned int columns, bool colour)
{
	char *buf;
	size_t len;
	FILE *f = open_memstream(&buf, &len);

	if (columns)
		map_text(m, columns, colour, f);
	else
		map_svg(m, f);
	fclose(f);
	return buf;
}

TEST_F(map, a_cell_is_what_most_of_its_pages_are)
{
	memcpy(self->m.of, "\1\1\1\2" "\0\0\0\1" "\0\0\2\2" "\0\1\2\2"
	       "\1\1\2\2" "\0\0\0\0", 24);
	EXPECT_EQ(1, map_cell(&self->m, 0, 4));
	EXPECT_EQ(0, map_cell(&self->m, 1, 4));
	/* As many free ones: rather what is in use. */
	EXPECT_EQ(2, map_cell(&self->m, 2, 4));
	EXPECT_EQ(2, map_cell(&self->m, 3, 4));
	EXPECT_EQ(1, map_cell(&self->m, 4, 4));
	EXPECT_EQ(0, map_cell(&self->m, 5, 4));
	for (int i = 0; i < 24; i++)
		EXPECT_EQ(self->m.of[i], map_cell(&self->m, i, 1));
}

/* The last cell has fewer pages than the others. */
TEST_F(map, groups_of_every_size_of_pool)
{
	uint64_t group, cells;

	for (uint64_t n = 1; n < PAGES; n += 1 + n / 7) {
		self->m.pool.nr_pages = n;
		group = map_group(&self->m, 2048);
		cells = map_cells(&self->m, group);
		EXPECT_LE(cells, 2048ULL);
		EXPECT_GE(cells * group, n);
		EXPECT_LT((cells - 1) * group, n);
		self->m.of[n - 1] = 1;
		if (n % group == 1 || group == 1)
			EXPECT_EQ(1, map_cell(&self->m, cells - 1, group));
		self->m.of[n - 1] = 0;
	}
}

TEST_F(map, text)
{
	char *s;

	memset(self->m.of, 1, 2 * 64 * 64);
	self->m.kind[1].pages = 2 * 64 * 64;
	s = text_of(&self->m, 80, false);
	EXPECT_TRUE(strstr(s, "a cell is 64 pages"));
	/* Two rows of 64 cells of 64 pages. */
	EXPECT_TRUE(strstr(s, "        1 AAAAAAAA"));
	EXPECT_TRUE(strstr(s, "A\n     4097 AAAA"));
	EXPECT_TRUE(strstr(s, "A\n     8193 ...."));
	EXPECT_TRUE(strstr(s, "  A a: 8192 pages, 512 MiB\n"));
	EXPECT_FALSE(strchr(s, '\033'));
	free(s);
	s = text_of(&self->m, 80, true);
	EXPECT_TRUE(strstr(s, "\033[30;43mA\033[0m"));
	/* What is free has no colour. */
	EXPECT_TRUE(strstr(s, "     8193 ...."));
	free(s);
}

TEST_F(map, svg_has_runs)
{
	int n = 0;
	char *s;

	self->m.pool.nr_pages = 256;
	memset(self->m.of + 100, 2, 60);
	s = text_of(&self->m, 0, false);
	/* A run ends at the end of a row of 128. */
	EXPECT_TRUE(strstr(s, "<title>free: pages 1 to 100</title>"));
	EXPECT_TRUE(strstr(s, "<title>b: pages 101 to 128</title>"));
	EXPECT_TRUE(strstr(s, "<title>b: pages 129 to 160</title>"));
	EXPECT_TRUE(strstr(s, "<title>free: pages 161 to 256</title>"));
	for (const char *at = s; (at = strstr(at, "<title>")); at++)
		n++;
	EXPECT_EQ(4, n);
	free(s);
}

TEST_HARNESS_MAIN
