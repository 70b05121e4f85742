// SPDX-License-Identifier: MIT
/*
 * test_ctl_footprint.c - kvcachectl footprint: what it says fits is admitted,
 * and one more, or one token more, is not.
 */
#include <kvcache/kvcache.h>

#include "gguf.h"
#include "model.h"
#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"
#define GQA REFS "tiny-gqa7-q4_0-d128.gguf"

/* The program stands beside kvcache-run. */
__attribute__((format(printf, 2, 3)))
static int ctl(struct ran *r, const char *fmt, ...)
{
	char program[4096], path[128], *args, *cmd;
	json_error_t err;
	va_list ap;
	int status;

	strcpy(program, kit_program());
	strcpy(strrchr(program, '/'), "/kvcachectl");
	va_start(ap, fmt);
	ASSERT_GT(vasprintf(&args, fmt, ap), -1);
	va_end(ap);
	ASSERT_GT(asprintf(&cmd, "%s footprint %s >%s/out 2>%s/err </dev/null",
			   program, args, kit_dir(), kit_dir()), 0);
	status = system(cmd);
	free(args);
	free(cmd);
	r->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	snprintf(path, sizeof(path), "%s/out", kit_dir());
	r->out = kit_read(path);
	snprintf(path, sizeof(path), "%s/err", kit_dir());
	r->err = kit_read(path);
	r->json = json_loads(r->out, 0, &err);
	if (r->json)
		kit_keep(r->json);
	return r->status;
}

static uint64_t number(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_integer(v))
		ht_log("no %s", key);
	ASSERT_TRUE(json_is_integer(v));
	return json_integer_value(v);
}

/**
 * struct want - one question
 * @model: file
 * @type: of keys and values
 * @page: bytes
 * @pool: bytes
 * @context: tokens
 * @n: conversations
 */
struct want {
	const char *model;
	uint32_t type;
	uint64_t page;
	uint64_t pool;
	uint32_t context;
	uint32_t n;
};

static const char *type_name(uint32_t type)
{
	return type == KVC_F32 ? "f32" : type == KVC_F16 ? "f16" : "bf16";
}

/* ---- what is admitted ----------------------------------------------------- */

/* A pool of a process's own, with a cache for the model. */
struct world {
	struct kvc *kvc;
	struct kvc_cache *cache;
};

static void world_open(struct world *w, const struct want *q)
{
	const struct kvc_open_opts open = {
		.sz = sizeof(open),
		.local_bytes = q->pool,
		.local_page_size = q->page,
	};
	struct model_info info;
	struct model_groups group;
	struct kvc_model shape;
	struct gguf *g;

	ASSERT_EQ(0, gguf_open(q->model, &g, NULL, 0));
	ASSERT_EQ(0, model_probe(g, &info, NULL, 0));
	gguf_close(g);
	model_cache(&info, q->type, q->type, NULL, &group, &shape);
	ASSERT_EQ(0, kvc_open("local", &open, &w->kvc));
	ASSERT_EQ(0, kvc_cache_create(w->kvc, &shape, NULL, &w->cache));
}

static void world_close(struct world *w)
{
	kvc_cache_destroy(w->cache);
	kvc_close(w->kvc);
}

/* How many conversations of so many tokens there is room for, up to @max. */
static uint32_t admitted(const struct want *q, uint32_t tokens, uint32_t max)
{
	struct kvc_seq **s = calloc(max, sizeof(*s));
	struct kvc_room room;
	struct world w;
	uint32_t n, i;
	int ret;

	ASSERT_TRUE(s != NULL);
	world_open(&w, q);
	for (n = 0; n < max; n++) {
		ASSERT_EQ(0, kvc_predict(w.cache, NULL, NULL, tokens, 0, &room));
		ASSERT_EQ(0, kvc_seq_create(w.cache, NULL, &s[n]));
		ret = kvc_seq_reserve(s[n], tokens, 0);
		EXPECT_EQ(room.fits, !ret);
		if (ret)
			break;
	}
	for (i = 0; i < max && s[i]; i++)
		kvc_seq_free(s[i], KVC_SEQ_DISCARD);
	world_close(&w);
	free(s);
	return n;
}

static void compare(const struct want *q)
{
	uint64_t fit, longest, token, weights, outgrown;
	struct ran r;
	json_t *pool;

	ASSERT_EQ(0, ctl(&r, "%s --context %u --conversations %u --kv %s --page %llu --pool %llu --json",
			 q->model, q->context, q->n, type_name(q->type),
			 (unsigned long long)q->page,
			 (unsigned long long)q->pool));
	ASSERT_TRUE(r.json != NULL);
	pool = json_object_get(r.json, "pool");
	fit = number(pool, "conversations");
	longest = number(pool, "longest_context");
	ht_log("%s %s, pages of %llu: %llu of %u tokens, %u of %llu",
	       strrchr(q->model, '/') + 1, type_name(q->type),
	       (unsigned long long)q->page, (unsigned long long)fit,
	       q->context, q->n, (unsigned long long)longest);
	EXPECT_EQ(fit, admitted(q, q->context, fit + 1));
	EXPECT_EQ(q->n, admitted(q, longest, q->n));
	EXPECT_LT(admitted(q, longest + 1, q->n), q->n);

	token = 2 * number(r.json, "layers") * number(r.json, "kv_heads") *
		number(r.json, "head_dim") * (q->type == KVC_F32 ? 4 : 2);
	EXPECT_EQ(token, number(r.json, "bytes_per_token"));
	EXPECT_EQ(token * q->context * q->n, number(r.json, "used_bytes"));
	EXPECT_EQ(number(r.json, "pages") * q->page,
		  number(r.json, "used_bytes") + number(r.json, "unused_bytes") +
		  number(r.json, "layout_bytes"));
	weights = number(r.json, "weight_bytes");
	outgrown = number(r.json, "outgrows_weights_at");
	EXPECT_GT(outgrown * token * q->n, weights);
	EXPECT_LE((outgrown - 1) * token * q->n, weights);
}

TEST(what_fits_is_admitted_and_no_more)
{
	static const struct want questions[] = {
		{ MHA, KVC_F16, 64 << 10, 1 << 20, 100, 1 },
		{ MHA, KVC_F32, 64 << 10, 1 << 20, 100, 3 },
		{ MHA, KVC_BF16, 128 << 10, 1 << 20, 2048, 8 },
		/* The end of a page, and one behind it. */
		{ MHA, KVC_F32, 64 << 10, 1 << 20, 64, 5 },
		{ MHA, KVC_F32, 64 << 10, 1 << 20, 65, 5 },
		{ GQA, KVC_F16, 64 << 10, 3 << 20, 77, 2 },
		{ GQA, KVC_F32, 256 << 10, 3 << 20, 1, 7 },
	};
	size_t i;

	for (i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
		compare(&questions[i]);
}

TEST(a_real_model)
{
	struct want q = { getenv("KVCACHE_MODEL"), KVC_F16, 2 << 20, 1 << 30,
			  4096, 8 };
	struct ran r;

	if (!q.model || !*q.model)
		SKIP(return, "no KVCACHE_MODEL");
	compare(&q);
	ASSERT_EQ(0, ctl(&r, "%s --json", q.model));
	if (number(r.json, "layers") != 30 || number(r.json, "head_dim") != 64)
		SKIP(return, "KVCACHE_MODEL is not SmolLM2-135M");
	EXPECT_EQ(23040, number(r.json, "bytes_per_token"));
	EXPECT_EQ(8192, number(r.json, "context"));
	ASSERT_EQ(0, ctl(&r, "%s -c 4096 -n 8 --pool 1G", q.model));
	EXPECT_TRUE(strstr(r.out, "23,040 bytes = 2 x 30 layers x 3 KV heads x 64 elements x 2 bytes (f16)"));
}

/* ---- kvcache-run --------------------------------------------------------- */

/* @n conversations of 72 tokens, of which the last is not stored. */
static struct ran run_side_by_side(unsigned int n)
{
	char prompts[256] = "";

	for (unsigned int i = 0; i < n; i++)
		sprintf(prompts + strlen(prompts), " -p %cbcdefgh", '1' + i);
	return kit_run(NULL, "-m " MHA " --kv f32 --weights f32 --ignore-end --no-reuse --json -n 64 --pool 384K --page-size 64K%s",
		       prompts);
}

TEST(what_fits_runs_side_by_side_and_one_more_waits)
{
	struct ran r, all, more;
	uint64_t fit, pages;
	unsigned int i;

	ASSERT_EQ(0, ctl(&r, MHA " --kv f32 --context 71 --page 64K --pool 384K --json"));
	fit = number(json_object_get(r.json, "pool"), "conversations");
	pages = number(r.json, "pages_per_conversation");
	ASSERT_EQ(2, fit);
	all = run_side_by_side(fit);
	KIT_OK(all);
	for (i = 0; i < fit; i++) {
		EXPECT_STREQ("length", kit_str(&all, i, "finish"));
		EXPECT_EQ(pages, kit_num(&all, i, "pages"));
		EXPECT_EQ(0, kit_num(&all, i, "preempted"));
	}
	EXPECT_EQ(fit * pages, kit_total(&all, "pages_peak"));
	EXPECT_EQ(64, kit_total(&all, "steps"));
	/* It has to wait for one of the others, or gives way to them. */
	more = run_side_by_side(fit + 1);
	KIT_OK(more);
	EXPECT_EQ(fit * pages, kit_total(&more, "pages_peak"));
	EXPECT_GT(kit_total(&more, "steps"), 64);
}

/* ---- what is refused ------------------------------------------------------ */

static void refused(int status, const char *words, const char *remedy,
		    const char *args)
{
	struct ran r;

	ctl(&r, "%s", args);
	if (r.status != status || !strstr(r.err, words) ||
	    !strstr(r.err, remedy))
		ht_log("%s: status %d: %s", args, r.status, r.err);
	EXPECT_EQ(status, r.status);
	EXPECT_TRUE(strstr(r.err, words) != NULL);
	EXPECT_TRUE(strstr(r.err, remedy) != NULL);
	EXPECT_EQ(0, strncmp(r.err, "kvcachectl: ", 12));
	EXPECT_TRUE(strchr(r.err, '\n') == r.err + strlen(r.err) - 1);
	EXPECT_STREQ("", r.out);
}

/*
 * One layer of seven sees all: 256 bytes a token, 256 tokens in a page of
 * 64 KiB. The others see 32: 1,536 bytes a token, 40 tokens, of which two pages
 * are in the window before 2,048.
 */
TEST(a_window_counts_what_is_held)
{
	struct ran r;

	ctl(&r, REFS "tiny-gemma3-w32-f16.gguf --page 64K --context 2048 --pool 20M --json");
	ASSERT_EQ(0, r.status);
	EXPECT_EQ(1792, number(r.json, "bytes_per_token"));
	EXPECT_EQ(8 + 2, number(r.json, "pages_per_conversation"));
	EXPECT_EQ(2048 * 256 + 48 * 1536, number(r.json, "used_bytes"));
	EXPECT_EQ(32, number(json_object_get(r.json, "pool"),
			     "conversations"));
	/* 320 pages less one or two, all of the layer that sees all. */
	EXPECT_LE(318 * 256 - 256,
		  number(json_object_get(r.json, "pool"), "longest_context"));
	EXPECT_GE(319 * 256,
		  number(json_object_get(r.json, "pool"), "longest_context"));
}

/* What a row of the table says is what is said of that type alone. */
TEST(all_types_side_by_side)
{
	static const char *const question =
		GQA " --page 64K --context 300 -n 2 --pool 1M --json";
	uint64_t before = UINT64_MAX, bytes;
	json_t *types, *t;
	char args[256];
	struct ran r, one;
	size_t i;

	ASSERT_EQ(0, ctl(&r, "%s --kv all", question));
	types = json_object_get(r.json, "types");
	ASSERT_EQ(10, json_array_size(types));
	json_array_foreach(types, i, t) {
		snprintf(args, sizeof(args), "%s --kv %s,%s", question,
			 json_string_value(json_object_get(t, "k_type")),
			 json_string_value(json_object_get(t, "v_type")));
		ASSERT_EQ(0, ctl(&one, "%s", args));
		bytes = number(t, "bytes_per_token");
		EXPECT_EQ(bytes, number(one.json, "bytes_per_token"));
		EXPECT_EQ(number(t, "pages_per_conversation"),
			  number(one.json, "pages_per_conversation"));
		EXPECT_EQ(number(t, "pages_per_conversation"),
			  number(t, "pages_without_windows"));
		EXPECT_EQ(number(t, "conversations"),
			  number(json_object_get(one.json, "pool"),
				 "conversations"));
		EXPECT_LE(bytes, before);
		before = bytes;
	}
	ASSERT_EQ(0, ctl(&r, REFS "tiny-gemma3-w32-f16.gguf --kv all --page 64K --context 2048 --json"));
	t = json_array_get(json_object_get(r.json, "types"), 1);
	EXPECT_EQ(8 + 2, number(t, "pages_per_conversation"));
	EXPECT_EQ(8 + 52, number(t, "pages_without_windows"));
	ASSERT_EQ(0, ctl(&r, REFS "tiny-gemma3-w32-f16.gguf --kv all"));
	EXPECT_TRUE(strstr(r.out, "WITHOUT WINDOWS") != NULL);
	EXPECT_TRUE(strstr(r.out, "int8,int4h") != NULL);
}

TEST(what_a_token_is_made_of)
{
	struct ran r;

	ASSERT_EQ(0, ctl(&r, MHA " --kv int8,int4 --context 71"));
	EXPECT_TRUE(strstr(r.out, "of K as int8 +") != NULL);
	EXPECT_TRUE(strstr(r.out, "of V as int4)") != NULL);
}

TEST(bad_input)
{
	char path[256];

	refused(2, "something is missing", "MODEL.gguf", "");
	refused(2, "--context \"0\"", "from 1 to", MHA " --context 0");
	refused(2, "--context \"-1\"", "from 1 to", MHA " --context -1");
	refused(2, "--context \"4294967296\"", "from 1 to",
		MHA " --context 4294967296");
	refused(2, "--conversations \"\"", "from 1 to",
		MHA " --conversations ''");
	refused(2, "--conversations \"2x\"", "from 1 to",
		MHA " --conversations 2x");
	refused(2, "--kv \"q8\"", "as K,V, or all", MHA " --kv q8");
	refused(2, "--page \"3M\"", "power of two", MHA " --page 3M");
	refused(2, "--page \"32K\"", "from 64K to 64M", MHA " --page 32K");
	refused(2, "--page \"128M\"", "from 64K to 64M", MHA " --page 128M");
	refused(2, "--pool \"10X\"", "64M", MHA " --pool 10X");
	refused(2, "--pool \"1M\"", "a smaller --page", MHA " --pool 1M");
	refused(1, "more bytes than there are numbers for", "fewer",
		MHA " --context 4294967295 --conversations 4294967295");
	refused(1, "nowhere.gguf: cannot open: No such file", "name a GGUF",
		"nowhere.gguf");
	refused(1, "selftests/harness.h", "GGUF", "selftests/harness.h");
	snprintf(path, sizeof(path), "%s",
		 kit_file("cut.gguf", kit_read(MHA), 20000));
	refused(1, path, "download it again", path);
}

TEST_HARNESS_MAIN
