// SPDX-License-Identifier: MIT
/*
 * test_model.c - shapes that are read or refused, and steps that must give the
 * same logits however a text is divided among them.
 */
#include <math.h>
#include <kvattn.h>
#include <kvcache/kvcache.h>
#include <kvcache/threads.h>
#include "gguf.h"
#include "gguf_writer.h"
#include "harness.h"
#include "model.h"

#define REFS "selftests/data/refs/"

static char err[512];

/* ---- made-up files ---------------------------------------------------- */

/* What to leave out of, change in, or add to a sound file; NULL for nothing. */
struct flaw {
	const char *arch;
	const char *no_key;
	const char *key;	/* set to @value */
	uint32_t value;
	const char *no_tensor;
	const char *bad_tensor;	/* one row short */
	const char *extra;	/* a tensor more */
	const char *scaling;	/* rope.scaling.type */
};

enum { DIM = 64, FF = 96, HEADS = 2, VOCAB = 50, LAYERS = 2 };

static uint32_t key_value(const struct flaw *f, const char *key, uint32_t v)
{
	return f->key && !strcmp(f->key, key) ? f->value : v;
}

static const char *arch_of(const struct flaw *f)
{
	return f->arch ? f->arch : "llama";
}

static void add_key(struct gw *w, uint64_t *n, const struct flaw *f,
		    const char *part, uint32_t v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", arch_of(f), part);
	if (f->no_key && !strcmp(f->no_key, key))
		return;
	gw_key_u32(w, key, key_value(f, key, v));
	++*n;
}

static void add_float(struct gw *w, uint64_t *n, const struct flaw *f,
		      const char *part, float v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.%s", arch_of(f), part);
	if (f->no_key && !strcmp(f->no_key, key))
		return;
	gw_key(w, key, 6);
	gw_bytes(w, &v, sizeof(v));
	++*n;
}

static void add_tensor(struct gw *w, uint64_t *n, uint64_t *at,
		       const struct flaw *f, const char *name, uint32_t cols,
		       uint32_t rows)
{
	uint64_t ne[2] = { cols, rows ? rows : 1 };

	if (f->no_tensor && !strcmp(f->no_tensor, name))
		return;
	if (f->bad_tensor && !strcmp(f->bad_tensor, name))
		ne[rows ? 1 : 0]--;
	gw_tensor(w, name, GGUF_F32, rows ? 2 : 1, ne, *at);
	*at += (ne[0] * ne[1] * sizeof(float) + 31) / 32 * 32;
	++*n;
}

static void write_keys(struct gw *w, uint64_t *n, const struct flaw *f)
{
	gw_key_str(w, "general.architecture", arch_of(f));
	++*n;
	if (f->scaling) {
		gw_key_str(w, "llama.rope.scaling.type", f->scaling);
		++*n;
	}
	add_key(w, n, f, "block_count", LAYERS);
	add_key(w, n, f, "embedding_length", DIM);
	add_key(w, n, f, "feed_forward_length", FF);
	add_key(w, n, f, "context_length", 100);
	add_key(w, n, f, "attention.head_count", HEADS);
	add_key(w, n, f, "attention.head_count_kv", 1);
	add_key(w, n, f, "expert_count", 0);
	add_float(w, n, f, "attention.layer_norm_rms_epsilon", 1e-5f);
	add_float(w, n, f, "rope.scaling.factor", 4);
}

static uint64_t write_tensors(struct gw *w, uint64_t *n, const struct flaw *f)
{
	static const struct {
		const char *part;
		uint32_t cols;
		uint32_t rows;
	} parts[] = {
		{ "attn_norm", DIM, 0 }, { "attn_q", DIM, DIM },
		{ "attn_k", DIM, DIM / HEADS }, { "attn_v", DIM, DIM / HEADS },
		{ "attn_output", DIM, DIM }, { "ffn_norm", DIM, 0 },
		{ "ffn_gate", DIM, FF }, { "ffn_up", DIM, FF },
		{ "ffn_down", FF, DIM },
	};
	uint64_t at = 0;
	char name[64];
	int l, p;

	add_tensor(w, n, &at, f, "token_embd.weight", DIM, VOCAB);
	add_tensor(w, n, &at, f, "output_norm.weight", DIM, 0);
	for (l = 0; l < LAYERS; l++) {
		for (p = 0; p < 9; p++) {
			snprintf(name, sizeof(name), "blk.%d.%s.weight", l,
				 parts[p].part);
			add_tensor(w, n, &at, f, name, parts[p].cols,
				   parts[p].rows);
		}
	}
	if (f->extra)
		add_tensor(w, n, &at, f, f->extra, DIM, 0);
	return at;
}

static void write_file(struct gw *w, const struct flaw *f)
{
	struct gw keys = { 0 }, tensors = { 0 };
	uint64_t nkeys = 0, ntensors = 0, bytes;

	write_keys(&keys, &nkeys, f);
	bytes = write_tensors(&tensors, &ntensors, f);
	memset(w, 0, sizeof(*w));
	gw_header(w, 3, ntensors, nkeys);
	gw_bytes(w, keys.p, keys.n);
	gw_bytes(w, tensors.p, tensors.n);
	gw_align(w, 32);
	gw_zeros(w, bytes);
	gw_free(&keys);
	gw_free(&tensors);
}

/* What model_load() says to a file with a flaw; its message is in err. */
static int try_load(const struct flaw *f)
{
	struct model *m = NULL;
	struct gguf *g;
	struct gw w;
	int ret;

	write_file(&w, f);
	err[0] = '\0';
	ASSERT_EQ(0, gguf_open_mem(w.p, w.n, &g, err, sizeof(err)));
	ret = model_load(g, NULL, NULL, &m, err, sizeof(err));
	EXPECT_EQ(ret == 0, m != NULL);
	model_free(m);
	gguf_close(g);
	gw_free(&w);
	return ret;
}

static void refuse(struct flaw f, int want, const char *name)
{
	int ret = try_load(&f);

	EXPECT_EQ(want, ret);
	if (!strstr(err, name) || strchr(err, '\n')) {
		ht_log("the message does not name '%s': %s", name, err);
		ht_failed = 1;
	}
}

TEST(shape_of_a_made_up_file)
{
	struct flaw none = { 0 };
	struct model_info info;
	struct gguf *g;
	struct gw w;

	write_file(&w, &none);
	ASSERT_EQ(0, gguf_open_mem(w.p, w.n, &g, err, sizeof(err)));
	ASSERT_EQ(0, model_probe(g, &info, err, sizeof(err)));
	EXPECT_STREQ("llama", info.arch);
	EXPECT_STREQ("", info.name);
	EXPECT_EQ(LAYERS, info.nlayers);
	EXPECT_EQ(DIM, info.dim);
	EXPECT_EQ(FF, info.ff_dim);
	EXPECT_EQ(HEADS, info.q_heads);
	EXPECT_EQ(1, info.kv_heads);
	EXPECT_EQ(DIM / HEADS, info.head_dim);
	EXPECT_EQ(VOCAB, info.vocab);
	EXPECT_EQ(100, info.context);
	EXPECT_TRUE(info.rope_base == 10000);
	/* a factor without a type is an old file's linear scaling */
	EXPECT_TRUE(info.rope_scale == 0.25);
	EXPECT_TRUE(info.tied);
	EXPECT_EQ(w.n, info.file_bytes);
	gguf_close(g);
	gw_free(&w);
	EXPECT_EQ(0, try_load(&none));
}

TEST(architectures_are_refused_by_name)
{
	refuse((struct flaw){ .arch = "bert" }, -EOPNOTSUPP, "no decode loop");
	refuse((struct flaw){ .arch = "nomic-bert" }, -EOPNOTSUPP,
	       "no decode loop");
	refuse((struct flaw){ .arch = "gemma2" }, -EOPNOTSUPP,
	       "'gemma2' is not supported yet");
	refuse((struct flaw){ .arch = "qwen" }, -EOPNOTSUPP,
	       "'qwen' is not supported yet");
}

/* Without them the text would be wrong, and nobody would know why. */
TEST(what_an_architecture_has_beside_the_rest)
{
	refuse((struct flaw){ .arch = "qwen2" }, -EINVAL, "blk.0.attn_q.bias");
	refuse((struct flaw){ .arch = "qwen3" }, -EINVAL,
	       "blk.0.attn_q_norm.weight");
	refuse((struct flaw){ .arch = "gemma3" }, -EINVAL,
	       "blk.0.attn_q_norm.weight");
	refuse((struct flaw){ .arch = "qwen3", .extra = "blk.0.attn_q.bias" },
	       -EOPNOTSUPP, "part of the qwen3 models");
	refuse((struct flaw){ .arch = "qwen2", .no_key = "qwen2.block_count" },
	       -EINVAL, "qwen2.block_count is missing");
}

/* One layer of six sees all; what the file leaves out is as it was made. */
TEST(windows_of_layers)
{
	static const char path[] = "selftests/data/refs/tiny-gemma3-w32-f16.gguf";
	struct model_groups groups;
	struct model_info info;
	struct kvc_model cm;
	struct gguf *g;
	uint32_t i;

	ASSERT_EQ(0, gguf_open(path, &g, err, sizeof(err)));
	ASSERT_EQ(0, model_probe(g, &info, err, sizeof(err)));
	gguf_close(g);
	EXPECT_EQ(32, info.window);
	EXPECT_TRUE(info.rope_base == 1e6);
	EXPECT_TRUE(info.window_base == 1e4);
	EXPECT_TRUE(info.attn_scale == 0.125);
	EXPECT_EQ(KVC_ROPE_HALF, info.rope_kind);
	ASSERT_EQ(7, info.nlayers);
	model_cache(&info, KVC_F16, KVC_F16, NULL, &groups, &cm);
	ASSERT_EQ(2, cm.ngroups);
	EXPECT_EQ(0, groups.group[0].window);
	EXPECT_EQ(32, groups.group[1].window);
	for (i = 0; i < 7; i++) {
		EXPECT_EQ(i != 5, model_is_local(&info, i));
		EXPECT_EQ(i != 5, cm.layer_group[i]);
	}
	info.period = 1;
	model_cache(&info, KVC_F16, KVC_F16, NULL, &groups, &cm);
	EXPECT_EQ(1, cm.ngroups);
	EXPECT_EQ(0, groups.group[0].window);
	info.period = 8;	/* of seven layers none */
	model_cache(&info, KVC_F16, KVC_F16, NULL, &groups, &cm);
	EXPECT_EQ(1, cm.ngroups);
	EXPECT_EQ(32, groups.group[0].window);
	EXPECT_EQ(0, cm.layer_group[6]);
}

TEST(missing_keys_are_named)
{
	static const char *const keys[] = {
		"llama.block_count", "llama.embedding_length",
		"llama.feed_forward_length", "llama.context_length",
		"llama.attention.head_count",
		"llama.attention.layer_norm_rms_epsilon",
	};
	unsigned int i;

	for (i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		refuse((struct flaw){ .no_key = keys[i] }, -EINVAL, keys[i]);
}

TEST(bad_keys_are_named)
{
	static const struct {
		const char *key;
		uint32_t value;
		int ret;
		const char *name;
	} bad[] = {
		{ "llama.block_count", 0, -EINVAL, "llama.block_count" },
		{ "llama.block_count", 5000, -EINVAL, "llama.block_count" },
		{ "llama.block_count", 3, -EINVAL, "blk.2.attn_norm" },
		{ "llama.embedding_length", 0xffffffff, -EINVAL,
		  "llama.embedding_length" },
		{ "llama.embedding_length", 32, -EINVAL, "token_embd" },
		{ "llama.feed_forward_length", 64, -EINVAL, "ffn_gate" },
		{ "llama.attention.head_count", 3, -EOPNOTSUPP,
		  "head dimension 21" },
		{ "llama.attention.head_count", 64, -EOPNOTSUPP,
		  "head dimension 1" },
		{ "llama.attention.head_count_kv", 3, -EINVAL,
		  "llama.attention.head_count_kv" },
		{ "llama.expert_count", 8, -EOPNOTSUPP, "llama.expert_count" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		refuse((struct flaw){ .key = bad[i].key,
				      .value = bad[i].value },
		       bad[i].ret, bad[i].name);
}

TEST(bad_tensors_are_named)
{
	static const char *const names[] = {
		"token_embd.weight", "output_norm.weight",
		"blk.0.attn_norm.weight", "blk.1.attn_q.weight",
		"blk.1.attn_k.weight", "blk.0.attn_v.weight",
		"blk.0.attn_output.weight", "blk.1.ffn_norm.weight",
		"blk.1.ffn_gate.weight", "blk.0.ffn_up.weight",
		"blk.1.ffn_down.weight",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		refuse((struct flaw){ .no_tensor = names[i] }, -EINVAL,
		       names[i]);
		/* a shorter embedding is a smaller vocabulary */
		if (i)
			refuse((struct flaw){ .bad_tensor = names[i] }, -EINVAL,
			       names[i]);
	}
}

/* It would change what the model says. */
TEST(tensors_that_nobody_would_use_are_refused)
{
	static const char *const names[] = {
		"blk.0.attn_q.bias", "blk.1.attn_q_norm.weight",
		"blk.2.attn_q.weight", "blk.01.attn_q.weight", "more.weight",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		refuse((struct flaw){ .extra = names[i] }, -EOPNOTSUPP,
		       names[i]);
	refuse((struct flaw){ .extra = "rope_freqs.weight" }, -EINVAL,
	       "rope_freqs.weight");
}

TEST(rope_scaling)
{
	struct flaw linear = { .scaling = "linear" };

	EXPECT_EQ(0, try_load(&linear));
	linear.scaling = "none";
	EXPECT_EQ(0, try_load(&linear));
	refuse((struct flaw){ .scaling = "yarn" }, -EOPNOTSUPP, "'yarn'");
}

TEST(a_message_that_nobody_wants)
{
	struct flaw f = { .arch = "bert" };
	struct model *m;
	struct gguf *g;
	struct gw w;

	write_file(&w, &f);
	ASSERT_EQ(0, gguf_open_mem(w.p, w.n, &g, err, sizeof(err)));
	EXPECT_EQ(-EOPNOTSUPP, model_load(g, NULL, NULL, &m, NULL, 0));
	gguf_close(g);
	gw_free(&w);
}

/* ---- steps ------------------------------------------------------------ */

enum { NTEXT = 90 };

FIXTURE(steps) {
	struct gguf *g;
	struct kvc *ctx;
	struct kvc_cache *cache;
	struct kvc_batch *batch;
	struct model *m;
	uint32_t vocab;
	uint32_t text[2][NTEXT];
	float *logits;		/* [4][vocab] */
};

FIXTURE_SETUP(steps)
{
	struct kvc_open_opts open = {
		.sz = sizeof(open),
		.local_bytes = 64 << 20,
		.local_page_size = 64 << 10,
	};
	struct kvc_cache_opts opts = { .sz = sizeof(opts), .no_reuse = 1 };
	struct model_opts mo = { .weights = MODEL_WEIGHTS_F32 };
	struct model_info info;
	struct model_groups group;
	struct kvc_model cm;
	uint32_t i;

	ASSERT_EQ(0, gguf_open(REFS "tiny-gqa-q8_0-untied.gguf", &self->g, err,
			       sizeof(err)));
	ASSERT_EQ(0, model_probe(self->g, &info, err, sizeof(err)));
	model_cache(&info, KVC_F32, KVC_F32, NULL, &group, &cm);
	ASSERT_EQ(0, kvc_open("local", &open, &self->ctx));
	ASSERT_EQ(0, kvc_cache_create(self->ctx, &cm, &opts, &self->cache));
	ASSERT_EQ(0, kvc_batch_create(self->cache, &self->batch));
	ASSERT_EQ(0, model_load(self->g, &mo, kvc_cache_threads(self->cache),
				&self->m, err, sizeof(err)));
	self->vocab = info.vocab;
	self->logits = malloc(4 * info.vocab * sizeof(float));
	ASSERT_TRUE(self->logits != NULL);
	for (i = 0; i < NTEXT; i++) {
		self->text[0][i] = 16 + i * 37 % 250;
		self->text[1][i] = 16 + i * 53 % 250;
	}
}

FIXTURE_TEARDOWN(steps)
{
	free(self->logits);
	model_free(self->m);
	kvc_batch_destroy(self->batch);
	kvc_cache_destroy(self->cache);
	kvc_close(self->ctx);
	gguf_close(self->g);
}

static struct kvc_seq *new_seq(struct ht_fix_steps *self)
{
	struct kvc_seq *s;

	ASSERT_EQ(0, kvc_seq_create(self->cache, NULL, &s));
	return s;
}

/* One sequence, in pieces of @chunk; the last row's logits. */
static void feed(struct ht_fix_steps *self, struct kvc_seq *s,
		 const uint32_t *tokens, uint32_t n, uint32_t chunk)
{
	uint32_t at, len, last;

	for (at = 0; at < n; at += len) {
		len = n - at < chunk ? n - at : chunk;
		last = len - 1;
		ASSERT_EQ(0, kvc_batch_plan(self->batch, &(struct kvc_item){
				s, tokens + at, len }, 1));
		ASSERT_EQ(0, model_forward(self->m, self->batch, tokens + at,
					   len, &last, at + len == n,
					   self->logits));
		ASSERT_EQ(0, kvc_batch_commit(self->batch));
	}
}

static double largest_difference(const float *a, const float *b, uint32_t n)
{
	double worst = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		worst = fmax(worst, fabs((double)a[i] - b[i]));
	return worst;
}

TEST_F(steps, any_division_of_a_text_gives_its_logits)
{
	static const uint32_t chunks[] = { 1, 3, 8, 12, 13, 40, NTEXT };
	float *want = malloc(self->vocab * sizeof(*want));
	uint32_t last = NTEXT - 1, i;
	struct kvc_seq *s;

	ASSERT_EQ(0, model_recompute(self->m, self->text[0], NTEXT, &last, 1,
				     want, NULL, NULL));
	for (i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
		s = new_seq(self);
		feed(self, s, self->text[0], NTEXT, chunks[i]);
		EXPECT_TRUE(largest_difference(want, self->logits,
					       self->vocab) < 1e-4);
		kvc_seq_free(s, 0);
	}
	free(want);
}

/* Bit for bit: a conversation does not notice who it is decoded with. */
TEST_F(steps, two_sequences_in_one_step)
{
	size_t bytes = self->vocab * sizeof(float);
	float *alone[2] = { malloc(bytes), malloc(bytes) };
	struct kvc_seq *s[2];
	uint32_t rows[2], want[2] = { 0, 1 };
	struct kvc_item items[2];
	int i;

	for (i = 0; i < 2; i++) {
		s[i] = new_seq(self);
		feed(self, s[i], self->text[i], 20 + 33 * i, NTEXT);
		feed(self, s[i], self->text[i] + 60, 1, 1);
		memcpy(alone[i], self->logits, bytes);
		ASSERT_EQ(0, kvc_seq_truncate(s[i], 20 + 33 * i));
		rows[i] = self->text[i][60];
		items[i] = (struct kvc_item){ s[i], &rows[i], 1 };
	}
	ASSERT_EQ(0, kvc_batch_plan(self->batch, items, 2));
	ASSERT_EQ(0, model_forward(self->m, self->batch, rows, 2, want, 2,
				   self->logits));
	ASSERT_EQ(0, kvc_batch_commit(self->batch));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, memcmp(alone[i], self->logits + i * self->vocab,
				    bytes));
		kvc_seq_free(s[i], 0);
		free(alone[i]);
	}
}

/* A prompt beside a decode, and logits of chosen rows of each. */
TEST_F(steps, rows_that_are_wanted)
{
	uint32_t tokens[31], want[4] = { 0, 1, 15, 30 }, pos[4] = { 0 }, i;
	float *all = malloc(40 * self->vocab * sizeof(*all));
	struct kvc_seq *a = new_seq(self), *b = new_seq(self);
	struct kvc_item items[2] = { { a, tokens, 1 }, { b, tokens + 1, 30 } };

	feed(self, a, self->text[0], 9, NTEXT);
	tokens[0] = self->text[0][9];
	memcpy(tokens + 1, self->text[1], 30 * sizeof(*tokens));
	ASSERT_EQ(0, kvc_batch_plan(self->batch, items, 2));
	ASSERT_EQ(0, model_forward(self->m, self->batch, tokens, 31, want, 4,
				   self->logits));
	ASSERT_EQ(0, kvc_batch_commit(self->batch));

	pos[0] = 9;
	ASSERT_EQ(0, model_recompute(self->m, self->text[0], 10, pos, 1, all,
				     NULL, NULL));
	pos[0] = 0;
	pos[1] = 14;
	pos[2] = 29;
	ASSERT_EQ(0, model_recompute(self->m, self->text[1], 30, pos, 3,
				     all + self->vocab, NULL, NULL));
	for (i = 0; i < 4; i++)
		EXPECT_TRUE(largest_difference(all + i * self->vocab,
					       self->logits + i * self->vocab,
					       self->vocab) < 1e-4);
	kvc_seq_free(a, 0);
	kvc_seq_free(b, 0);
	free(all);
}

TEST_F(steps, counters)
{
	struct kvc_seq *s = new_seq(self);
	struct model_counters c;
	uint32_t last = 29;

	feed(self, s, self->text[0], 50, 20);
	feed(self, s, self->text[0] + 50, 3, 1);
	model_counters(self->m, &c);
	EXPECT_EQ(53, c.forwarded);
	EXPECT_EQ(53, c.appended);
	EXPECT_EQ(2, c.logit_rows);
	/* no page is written without pages */
	ASSERT_EQ(0, model_recompute(self->m, self->text[0], 30, &last, 1,
				     self->logits, NULL, NULL));
	model_counters(self->m, &c);
	EXPECT_EQ(83, c.forwarded);
	EXPECT_EQ(53, c.appended);
	EXPECT_EQ(3, c.logit_rows);
	kvc_seq_free(s, 0);
}

TEST_F(steps, bad_steps_are_refused)
{
	uint32_t tokens[3] = { 20, 21, 22 }, want[2] = { 0, 2 };
	struct kvc_seq *s = new_seq(self);
	struct kvc_item item = { s, tokens, 3 };
	struct model_counters c;

	ASSERT_EQ(0, kvc_batch_plan(self->batch, &item, 1));
	tokens[1] = self->vocab;
	EXPECT_EQ(-EINVAL, model_forward(self->m, self->batch, tokens, 3, want,
					 2, self->logits));
	tokens[1] = 21;
	want[1] = 3;
	EXPECT_EQ(-EINVAL, model_forward(self->m, self->batch, tokens, 3, want,
					 2, self->logits));
	want[1] = 0;
	EXPECT_EQ(-EINVAL, model_forward(self->m, self->batch, tokens, 3, want,
					 2, self->logits));
	kvc_batch_abort(self->batch);
	model_counters(self->m, &c);
	EXPECT_EQ(0, c.forwarded);
	EXPECT_EQ(-EINVAL, model_recompute(self->m, tokens, 0, want, 0,
					   self->logits, NULL, NULL));
	kvc_seq_free(s, 0);
}

TEST_F(steps, a_text_longer_than_the_context)
{
	uint32_t n = model_info(self->m)->context, last = n - 1;
	uint32_t *text = calloc(n + 1, sizeof(*text));

	EXPECT_EQ(-EOVERFLOW, model_recompute(self->m, text, n + 1, &last, 1,
					      self->logits, NULL, NULL));
	EXPECT_EQ(0, model_recompute(self->m, text, n, &last, 1, self->logits,
				     NULL, NULL));
	free(text);
}

/* Rotations come in large pieces; the context need not end where one does. */
TEST_F(steps, a_context_that_is_no_round_number)
{
	static const char key[] = "llama.context_length";
	uint32_t text[101] = { 0 }, last = 0, context = 100;
	size_t len = gguf_file_size(self->g);
	struct model_opts mo = { .weights = MODEL_WEIGHTS_F32 };
	char *bytes = malloc(len), *at;
	struct gguf *g;
	struct model *m;
	FILE *f;

	f = fopen(REFS "tiny-gqa-q8_0-untied.gguf", "r");
	ASSERT_TRUE(bytes && f);
	ASSERT_EQ(len, fread(bytes, 1, len, f));
	fclose(f);
	at = memmem(bytes, len, key, sizeof(key) - 1);
	ASSERT_TRUE(at != NULL);
	/* the key's name, its type, its value */
	memcpy(at + sizeof(key) - 1 + 4, &context, sizeof(context));
	ASSERT_EQ(0, gguf_open_mem(bytes, len, &g, err, sizeof(err)));
	ASSERT_EQ(0, model_load(g, &mo, NULL, &m, err, sizeof(err)));
	ASSERT_EQ(100, model_info(m)->context);
	EXPECT_EQ(0, model_recompute(m, text, 1, &last, 1, self->logits, NULL,
				     NULL));
	EXPECT_EQ(-EOVERFLOW, model_recompute(m, text, 101, &last, 1,
					      self->logits, NULL, NULL));
	EXPECT_EQ(0, model_recompute(m, text, 100, &last, 1, self->logits,
				     NULL, NULL));
	model_free(m);
	gguf_close(g);
	free(bytes);
}

struct seen {
	float *logits;
	uint32_t vocab;
	uint32_t n;
};

static void see(void *arg, uint32_t pos, const float *logits)
{
	struct seen *s = arg;

	EXPECT_EQ(s->n, pos);
	memcpy(s->logits + (size_t)pos * s->vocab, logits,
	       s->vocab * sizeof(*logits));
	s->n++;
}

/* More rows than one block of logits has. */
TEST_F(steps, each_position_of_a_text)
{
	size_t all = (size_t)NTEXT * self->vocab;
	struct seen s = { malloc(all * sizeof(float)), self->vocab, 0 };
	float *want = malloc(all * sizeof(*want));
	uint32_t pos[NTEXT], i;

	for (i = 0; i < NTEXT; i++)
		pos[i] = i;
	ASSERT_EQ(0, model_recompute(self->m, self->text[0], NTEXT, pos, NTEXT,
				     want, NULL, NULL));
	ASSERT_EQ(0, model_recompute(self->m, self->text[0], NTEXT, pos, NTEXT,
				     NULL, see, &s));
	EXPECT_EQ(NTEXT, s.n);
	EXPECT_TRUE(largest_difference(want, s.logits, all) < 1e-5);
	free(s.logits);
	free(want);
}

TEST_HARNESS_MAIN
