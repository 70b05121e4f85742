// SPDX-License-Identifier: MIT
/*
 * test_languages.c - the programs of Documentation/userspace-api/examples/,
 * which speak to the device without any library of ours.
 *
 * languages.sh brings them, and their interpreters, into the machine.
 */
#include "dev_kit.h"

/* A line that the program printed; NULL if it failed or is not there. */
static const char *run(const char *command)
{
	static char line[256];
	FILE *f = popen(command, "r");
	char *got;

	if (!f)
		return NULL;
	got = fgets(line, sizeof(line), f);
	line[strcspn(line, "\n")] = 0;
	return pclose(f) || !got ? NULL : line;
}

/* Beside the tar file, which is where tests run. */
static bool unpacked(void)
{
	if (access("languages.tar", R_OK))
		return false;
	return !access("languages", F_OK) ||
	       !system("mkdir languages && tar -x -C languages -f languages.tar");
}

#define PYTHON \
	"cd languages && PYTHONHOME=$PWD/usr ./python3 -S "

#define NEEDS_LANGUAGES()						\
	if (!unpacked())						\
		SKIP(return, "no languages.tar: languages.sh makes it")

TEST_F(dev, python)
{
	struct kvcache_pool_info p;

	NEEDS_LANGUAGES();
	EXPECT_STREQ("page 1: 'hello', 16 tokens",
		     run(PYTHON "page.py red hello"));
	/* What it published outlives it. */
	ASSERT_EQ(0, dev_pool_info(self->w.admin, self->w.pool, &p));
	EXPECT_EQ(1, p.nr_cached);
}

TEST_F(dev, perl)
{
	NEEDS_LANGUAGES();
	EXPECT_STREQ("page 1 of 16: found, 16 tokens",
		     run("cd languages && ./perl -Imodules page.pl red"));
}

TEST_F(dev, go)
{
	NEEDS_LANGUAGES();
	EXPECT_STREQ("page 1: \"hello\", 16 tokens",
		     run("languages/page-go red hello"));
}

/* Pools and tenants, too: here in a second pool's name and number. */
TEST_F(dev, administration)
{
	struct world *w = &self->w;
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct kvcache_tenant_info t;
	struct kvcache_pool_info p;
	uint32_t pool, tenant;
	const char *said;

	NEEDS_LANGUAGES();
	said = run(PYTHON "admin.py pool second 131072 3");
	ASSERT_NE(NULL, said);
	ASSERT_EQ(1, sscanf(said, "pool %u", &pool));
	ASSERT_EQ(0, dev_pool_info(w->admin, pool, &p));
	EXPECT_EQ(131072, p.page_size);
	EXPECT_EQ(3, p.nr_pages);
	EXPECT_STREQ("second", p.name);
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));

	said = run(PYTHON "admin.py tenant green 1234 5");
	ASSERT_NE(NULL, said);
	ASSERT_EQ(1, sscanf(said, "tenant %u", &tenant));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, tenant, &t));
	EXPECT_EQ(1234, t.uid);
	EXPECT_EQ(0400, t.mode);
	EXPECT_EQ(5, t.max);
	EXPECT_STREQ("green", t.name);
	ref.tenant = tenant;
	EXPECT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
}

/* What they say when it cannot be done. */
TEST_F(dev, refusals)
{
	NEEDS_LANGUAGES();
	EXPECT_STREQ("command 1: No such file or directory",
		     run("cd languages && { ./perl -Imodules page.pl green 2>&1; true; }"));
	EXPECT_STREQ("command 0x1: no such file or directory",
		     run("{ languages/page-go green x 2>&1; true; }"));
}

TEST_HARNESS_MAIN
