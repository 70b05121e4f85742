/* SPDX-License-Identifier: MIT */
/*
 * run_kit.h - kvcache-run as a program under test: its exit status, what it
 * says, and its JSON.
 */
#ifndef RUN_KIT_H
#define RUN_KIT_H

#include <stdbool.h>

#include <jansson.h>

#include "harness.h"

#define REFS "selftests/data/refs/"

/* What a run left. */
struct ran {
	int status;
	char *out;
	char *err;
	json_t *json;		/* of standard output, or NULL */
};

/*
 * What a test allocates is reachable to its end, so that a leak checker is
 * silent, and never freed.
 */
static void **kit_kept;
static size_t kit_nkept;

__attribute__((unused)) static void *kit_keep(void *p)
{
	kit_kept = realloc(kit_kept, (kit_nkept + 1) * sizeof(*kit_kept));
	ASSERT_TRUE(kit_kept && p);
	kit_kept[kit_nkept++] = p;
	return p;
}

/* The program stands beside the folder of all tests. */
__attribute__((unused)) static const char *kit_program(void)
{
	static char path[4096];
	char *at;
	ssize_t n;

	n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	ASSERT_GT(n, 0);
	path[n] = 0;
	at = strstr(path, "/selftests/");
	ASSERT_TRUE(at != NULL);
	strcpy(at, "/kvcache-run");
	return path;
}

/* A folder that is removed when the test ends. */
static char kit_tmp[64];

__attribute__((unused)) static const char *kit_dir(void)
{
	if (!kit_tmp[0]) {
		strcpy(kit_tmp, "/tmp/run-test.XXXXXX");
		ASSERT_TRUE(mkdtemp(kit_tmp) != NULL);
	}
	return kit_tmp;
}

__attribute__((destructor)) static void kit_clean(void)
{
	char cmd[128];

	if (!kit_tmp[0])
		return;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", kit_tmp);
	if (system(cmd))
		printf("# cannot remove %s\n", kit_tmp);
}

__attribute__((unused)) static char *kit_read(const char *path)
{
	FILE *f = fopen(path, "r");
	char *s = NULL;
	size_t n;

	ASSERT_TRUE(f != NULL);
	ASSERT_EQ(0, fseek(f, 0, SEEK_END));
	n = ftell(f);
	rewind(f);
	s = kit_keep(malloc(n + 1));
	ASSERT_EQ(n, fread(s, 1, n, f));
	s[n] = 0;
	fclose(f);
	return s;
}

/* A file of the test's folder; returns its path. */
__attribute__((unused))
static const char *kit_file(const char *name, const void *data, size_t len)
{
	char *path;
	FILE *f;

	ASSERT_GT(asprintf(&path, "%s/%s", kit_dir(), name), 0);
	kit_keep(path);
	f = fopen(path, "w");
	ASSERT_TRUE(f != NULL);
	ASSERT_EQ(len, fwrite(data, 1, len, f));
	ASSERT_EQ(0, fclose(f));
	return path;
}

/**
 * kit_run() - run the program
 * @in: its standard input, or NULL
 * @fmt: its arguments, as a shell takes them
 */
__attribute__((format(printf, 2, 3), unused))
static struct ran kit_run(const char *in, const char *fmt, ...)
{
	const char *dir = kit_dir();
	struct ran r = { 0 };
	char *args, *cmd, path[128];
	json_error_t err;
	va_list ap;
	int status;

	kit_file("in", in ? in : "", in ? strlen(in) : 0);
	va_start(ap, fmt);
	ASSERT_GT(vasprintf(&args, fmt, ap), -1);
	va_end(ap);
	ASSERT_GT(asprintf(&cmd, "timeout ${KVCACHE_RUN_SECONDS:-600} %s %s <%s/in >%s/out 2>%s/err",
			   kit_program(), args, dir, dir, dir), 0);
	status = system(cmd);
	r.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	snprintf(path, sizeof(path), "%s/out", dir);
	r.out = kit_read(path);
	snprintf(path, sizeof(path), "%s/err", dir);
	r.err = kit_read(path);
	/* A generated text may hold a NUL. */
	r.json = json_loads(r.out, JSON_ALLOW_NUL, &err);
	if (r.json)
		kit_keep(r.json);
	free(args);
	free(cmd);
	return r;
}

/* The same, and it must succeed and print JSON. */
#define KIT_OK(r)							\
	do {								\
		if ((r).status || !(r).json) {				\
			ht_log("status %d: %s", (r).status, (r).err);	\
			ASSERT_EQ(0, (r).status);			\
			ASSERT_TRUE((r).json != NULL);			\
		}							\
	} while (0)

__attribute__((unused)) static json_t *kit_conv(const struct ran *r, size_t i)
{
	return json_array_get(json_object_get(r->json, "conversations"), i);
}

__attribute__((unused)) static size_t kit_nconv(const struct ran *r)
{
	return json_array_size(json_object_get(r->json, "conversations"));
}

/* A number of a conversation, or of the totals. */
__attribute__((unused))
static long long kit_num(const struct ran *r, size_t i, const char *key)
{
	json_t *v = json_object_get(kit_conv(r, i), key);

	if (!json_is_integer(v))
		ht_log("conversation %zu has no %s", i, key);
	return json_is_integer(v) ? json_integer_value(v) : -1;
}

__attribute__((unused))
static long long kit_total(const struct ran *r, const char *key)
{
	json_t *v = json_object_get(json_object_get(r->json, "totals"), key);

	if (!json_is_integer(v))
		ht_log("the totals have no %s", key);
	return json_is_integer(v) ? json_integer_value(v) : -1;
}

__attribute__((unused))
static const char *kit_str(const struct ran *r, size_t i, const char *key)
{
	const char *s = json_string_value(json_object_get(kit_conv(r, i), key));

	return s ? s : "";
}

__attribute__((unused))
static json_t *kit_ids(const struct ran *r, size_t i)
{
	return json_object_get(kit_conv(r, i), "ids");
}

/* The first ids of @a are all those of @b. */
__attribute__((unused))
static bool kit_begins(json_t *a, json_t *b)
{
	size_t i;

	if (json_array_size(b) > json_array_size(a))
		return false;
	for (i = 0; i < json_array_size(b); i++)
		if (!json_equal(json_array_get(a, i), json_array_get(b, i)))
			return false;
	return true;
}

__attribute__((unused)) static bool kit_verified(const struct ran *r, size_t i)
{
	json_t *v = json_object_get(kit_conv(r, i), "verify");

	return json_is_true(json_object_get(v, "ok"));
}

__attribute__((unused)) static bool kit_counted(const struct ran *r)
{
	return json_is_true(json_object_get(json_object_get(r->json, "totals"),
					    "counters_ok"));
}

#endif /* RUN_KIT_H */
