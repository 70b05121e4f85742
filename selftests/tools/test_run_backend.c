// SPDX-License-Identifier: MIT
/*
 * test_run_backend.c - kvcache-run and $KVCACHE: where the pool is, and whose
 * word counts.
 */
#include "run_kit.h"

#define QUICK "-m " REFS "tiny-mha-f16.gguf -n 4 --ignore-end"

/* What the last run's model says. */
static long long page_bytes(const struct ran *r)
{
	json_t *m = json_object_get(r->json, "model");

	return json_integer_value(json_object_get(m, "page_bytes"));
}

TEST(sizes_of_the_environment)
{
	struct ran r;

	setenv("KVCACHE", "local:page=128K,bytes=1M", 1);
	r = kit_run(NULL, QUICK " --json -p x");
	KIT_OK(r);
	EXPECT_EQ(128 << 10, page_bytes(&r));
	setenv("KVCACHE", "", 1);
	r = kit_run(NULL, QUICK " --json --pool 8M --page-size 1M -p x");
	KIT_OK(r);
	EXPECT_EQ(1 << 20, page_bytes(&r));
}

/* What is asked for on the command line is what happens. */
TEST(options_win)
{
	struct ran r;

	setenv("KVCACHE", "local:page=128K,bytes=256K,max=1", 1);
	r = kit_run(NULL, QUICK " --json --page-size 256K -p x");
	KIT_OK(r);
	EXPECT_EQ(256 << 10, page_bytes(&r));
	r = kit_run(NULL, QUICK " --page-size 256K --parallel 2 -p x");
	EXPECT_EQ(1, r.status);
	EXPECT_NE(NULL, strstr(r.err, "1 pages are allowed"));
	r = kit_run(NULL, QUICK " --json --max-pages 2 --parallel 2 -p x -p y");
	KIT_OK(r);
	r = kit_run(NULL,
		    QUICK " --json --max-pages 3 --pool 1M --parallel 3 -p x");
	KIT_OK(r);
	unsetenv("KVCACHE");
}

/* Nobody gave --max-pages: it helps all the same, and is what is said. */
TEST(remedies_of_limits_in_the_environment)
{
	struct ran r;

	setenv("KVCACHE", "local:page=16K,bytes=1M,max=1", 1);
	r = kit_run(NULL, QUICK " --kv f32 --parallel 2 -p x");
	EXPECT_EQ(1, r.status);
	EXPECT_NE(NULL, strstr(r.err, "or a higher --max-pages"));
	r = kit_run(NULL, QUICK " --kv f32 -p abcdefghijkl");
	EXPECT_EQ(1, r.status);
	EXPECT_NE(NULL, strstr(r.err, ", --max-pages 2\n"));
	EXPECT_EQ(NULL, strstr(r.err, "--pool"));
	r = kit_run(NULL, QUICK " --kv f32 -p abcdefghijkl --max-pages 2");
	EXPECT_EQ(0, r.status);
	setenv("KVCACHE", "local:page=16K,bytes=16K", 1);
	r = kit_run(NULL, QUICK " --kv f32 -p abcdefghijkl");
	EXPECT_EQ(1, r.status);
	EXPECT_NE(NULL, strstr(r.err, ", --pool 32K\n"));
	EXPECT_EQ(NULL, strstr(r.err, "--max-pages"));
	r = kit_run(NULL, QUICK " --kv f32 -p abcdefghijkl --pool 32K");
	EXPECT_EQ(0, r.status);
	unsetenv("KVCACHE");
}

/* Each says what it was, and in one line. */
TEST(what_cannot_be_opened)
{
	static const struct {
		const char *where;
		const char *what;
		const char *remedy;
	} bad[] = {
		{ "remote", "\"remote\"", "the path of a device or a socket" },
		{ "local:pages=3", "not understood from \"pages=3\"",
		  "local:bytes=1G,page=2M,max=100" },
		{ "local:page=48", "a page of 48", "a power of two from 64" },
		{ "local:bytes=4K", "has not one page of 2M", "larger" },
		{ "/dev/no-such", "/dev/no-such: No such file", "\"local\"" },
		{ "/dev/null", "/dev/null", "not a device of kvcache" },
	};
	struct ran r;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("KVCACHE", bad[i].where, 1);
		r = kit_run(NULL, QUICK " -p x");
		EXPECT_EQ(1, r.status);
		if (!strstr(r.err, bad[i].what) ||
		    !strstr(r.err, bad[i].remedy))
			ht_log("%s", r.err);
		EXPECT_NE(NULL, strstr(r.err, bad[i].what));
		EXPECT_NE(NULL, strstr(r.err, bad[i].remedy));
		EXPECT_TRUE(strchr(r.err, '\n') ==
			    r.err + strlen(r.err) - 1);
	}
	unsetenv("KVCACHE");
}

TEST(tenants)
{
	struct ran r;

	setenv("KVCACHE", "local", 1);
	r = kit_run(NULL, QUICK " --json --tenant mine -p x");
	KIT_OK(r);
	unsetenv("KVCACHE");
}

TEST_HARNESS_MAIN
