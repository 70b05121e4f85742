// SPDX-License-Identifier: MIT
/*
 * test_run_output.c - what kvcache-run writes, and where: files that it must
 * not touch, names that it must not print, places that are full.
 */
#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"
#define QUICK "-m " MHA " -n 4 --ignore-end --page-size 64K"

static const char columns[] = "conversation,token,position,forwarded,rows,ms\n";

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}

TEST(timing_has_one_header)
{
	static const char *const modes[] = {
		"-p ab -p cd", "--no-cache -p ab -p cd",
		"--no-cache --chat -p ab -p cd", "--chat -p ab -p cd",
	};
	const char *path = kit_file("timing.csv", "", 0), *text;
	struct ran r;
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		r = kit_run(NULL, QUICK " -q %s --timing %s", modes[i], path);
		ASSERT_EQ(0, r.status);
		text = kit_read(path);
		EXPECT_EQ(0, strncmp(text, columns, strlen(columns)));
		EXPECT_EQ(1, count(text, columns));
		EXPECT_EQ(1 + 2 * 4, count(text, "\n"));
	}
}

TEST(names_are_quoted_in_csv)
{
	const char *path = kit_file("timing.csv", "", 0), *text;
	struct ran r;

	r = kit_run("{\"id\": \"a,b \\\"c\\\"\", \"prompt\": \"x\"}\n"
		    "{\"id\": \"plain\", \"prompt\": \"y\"}\n",
		    QUICK " --json --requests - --timing %s", path);
	KIT_OK(r);
	EXPECT_STREQ("a,b \"c\"", kit_str(&r, 0, "id"));
	text = kit_read(path);
	EXPECT_EQ(4, count(text, "\n\"a,b \"\"c\"\"\","));
	EXPECT_EQ(4, count(text, "\nplain,"));
}

TEST_HARNESS_MAIN
