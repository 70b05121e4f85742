// SPDX-License-Identifier: MIT
/*
 * test_units.c - numbers as people write and read them: what is not wholly
 * understood is refused, and writes nothing.
 */
#include "harness.h"
#include "name.h"
#include "units.h"

#define UNTOUCHED 0x5a5a5a5a5a5a5a5aULL

#define SIZE(s, want)							\
	do {								\
		uint64_t v_ = UNTOUCHED;				\
									\
		EXPECT_TRUE(parse_size(s, &v_));			\
		EXPECT_EQ(want, v_);					\
	} while (0)
#define NO_SIZE(s)							\
	do {								\
		uint64_t v_ = UNTOUCHED;				\
									\
		if (parse_size(s, &v_))					\
			ht_log("\"%s\" was taken", s);			\
		EXPECT_EQ(UNTOUCHED, v_);				\
	} while (0)

TEST(sizes)
{
	SIZE("0", 0ULL);
	SIZE("65536", 65536ULL);
	SIZE("64K", 65536ULL);
	SIZE("64k", 65536ULL);
	SIZE("2MiB", 2ULL << 20);
	SIZE("2MB", 2ULL << 20);
	SIZE("1.5G", 3ULL << 29);
	SIZE("0.5K", 512ULL);
	SIZE("1T", 1ULL << 40);
	SIZE("9223372036854775807", 9223372036854775807ULL);
	SIZE("9007199254740993", 9007199254740993ULL);	/* no double */
}

TEST(what_is_no_size)
{
	static const char *const bad[] = {
		"", "-1", "+1", " 1", "1 ", "K", "10X", "1e3", "0x10", "1.5",
		"1.", ".5K", "1..5K", "1KK", "1Kib2", "1,5G", "max", "inf",
		"nan", "9223372036854775808", "18446744073709551616",
		"8388608T", "1K\n", "\xff",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		NO_SIZE(bad[i]);
}

TEST(times)
{
	static const struct {
		const char *s;
		uint64_t ns;
	} good[] = {
		{ "500ms", 500000000 }, { "30s", 30000000000 },
		{ "10m", 600000000000 }, { "10min", 600000000000 },
		{ "1.5h", 5400000000000 }, { "7d", 604800000000000 },
		{ "never", UINT64_MAX }, { "0s", 0 },
	};
	static const char *const bad[] = {
		"", "5", "-1s", "s", "1y", "1 s", "1s ", "forever", "1e3s",
		"106752d", "18446744073709551616s",
	};
	uint64_t v;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		v = UNTOUCHED;
		EXPECT_TRUE(parse_time(good[i].s, &v));
		EXPECT_EQ(good[i].ns, v);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		v = UNTOUCHED;
		if (parse_time(bad[i], &v))
			ht_log("\"%s\" was taken", bad[i]);
		EXPECT_EQ(UNTOUCHED, v);
	}
}

/* Of a pool of 100 pages of 64K. */
static uint64_t pages(const char *s)
{
	struct limit l = { .kind = LIMIT_NONE };
	uint64_t n = UNTOUCHED;

	if (!parse_limit(s, &l))
		return UNTOUCHED - 1;
	return limit_pages(&l, 65536, 100, &n) ? n : UNTOUCHED - 2;
}

TEST(limits)
{
	static const char *const bad[] = {
		"", "-1", "101%", "100.1%", "-1%", "%", "5 %", "5%%", "Max",
		"maximum", "18446744073709551616", "10X",
	};

	EXPECT_EQ(0, pages("0"));
	EXPECT_EQ(1, pages("64K"));
	EXPECT_EQ(1, pages("127K"));
	EXPECT_EQ(16, pages("1M"));
	EXPECT_EQ(UINT64_MAX, pages("max"));
	EXPECT_EQ(0, pages("0%"));
	EXPECT_EQ(7, pages("7%"));
	EXPECT_EQ(29, pages("29%"));
	EXPECT_EQ(12, pages("12.5%"));
	EXPECT_EQ(100, pages("100%"));
	/* Less than a page is not nothing. */
	EXPECT_EQ(UNTOUCHED - 2, pages("63K"));
	EXPECT_EQ(UNTOUCHED - 2, pages("1"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_EQ(UNTOUCHED - 1, pages(bad[i]));
}

TEST(shown)
{
	char buf[32];

	EXPECT_STREQ("17 B", human_size(17, buf));
	EXPECT_STREQ("1.5 KiB", human_size(1536, buf));
	EXPECT_STREQ("64 MiB", human_size(64 << 20, buf));
	EXPECT_STREQ("max", human_limit(UINT64_MAX, 65536, buf));
	EXPECT_STREQ("1 MiB", human_limit(16, 65536, buf));
	EXPECT_STREQ("0", human_count(0, buf));
	EXPECT_STREQ("999", human_count(999, buf));
	EXPECT_STREQ("23,040", human_count(23040, buf));
	EXPECT_STREQ("18,446,744,073,709,551,615",
		     human_count(UINT64_MAX, buf));
	EXPECT_STREQ("500 ms", human_time(500000000, buf));
	EXPECT_STREQ("10 min", human_time(600000000000, buf));
	EXPECT_STREQ("never", human_time(UINT64_MAX, buf));
}

TEST(names)
{
	const char *const bad[] = { "", ".", ".a", "a b", "a/b", "a\n", "\xff",
		"a*", "#2" };
	char longest[65];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_FALSE(name_ok(bad[i]));
	EXPECT_TRUE(name_ok("a"));
	EXPECT_TRUE(name_ok("-Az09._-"));
	memset(longest, 'a', 64);
	longest[64] = 0;
	EXPECT_FALSE(name_ok(longest));
	longest[63] = 0;
	EXPECT_TRUE(name_ok(longest));
	/* Inode numbers that outlive a kvcachefs are made of it. */
	EXPECT_EQ(name_hash("a"), 0xe40c292cU ^ 0xe40cU);
	EXPECT_NE(name_hash("a"), name_hash("b"));
}

TEST_HARNESS_MAIN
