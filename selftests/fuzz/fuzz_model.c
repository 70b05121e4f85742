// SPDX-License-Identifier: MIT
/*
 * fuzz_model.c - any bytes as what is before the weights of a GGUF file, and
 * what kvcache-run does with one: open it, encode a text, score it, two steps
 * on pages, and the passes that --verify compares them with.
 *
 * Weights are this file's: an input of a few kilobytes is a model then, and
 * what is changed in it is seldom a weight. The seeds are of
 * selftests/tools/tiny_model.h, by tiny_header(): sound ones with and without a
 * tokenizer, one of a single token, one whose tokenizer is larger than it.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "util.h"

/* Complaints are looked at, not printed. */
#define complain util_complain
int complain(const char *fmt, ...);
#include "../../tools/common/util.c"
#undef complain
#include "../../tools/kvcache-run/admit.c"
#include "../../tools/kvcache-run/chat.c"
#include "../../tools/kvcache-run/conv.c"
#include "../../tools/kvcache-run/emit.c"
#include "../../tools/kvcache-run/engine.c"
#include "../../tools/kvcache-run/fanout.c"
#include "../../tools/kvcache-run/forget.c"
#include "../../tools/kvcache-run/guess.c"
#include "../../tools/kvcache-run/ids.c"
#include "../../tools/kvcache-run/interrupt.c"
#include "../../tools/kvcache-run/options.c"
#include "../../tools/kvcache-run/options_check.c"
#include "../../tools/kvcache-run/scales.c"
#include "../../tools/kvcache-run/tiers.c"
#include "../../tools/kvcache-run/order.c"
#include "../../tools/kvcache-run/plain.c"
#include "../../tools/kvcache-run/pressure.c"
#include "../../tools/kvcache-run/room.c"
#include "../../tools/kvcache-run/sched.c"
#include "../../tools/kvcache-run/timing.c"
#include "../../tools/kvcache-run/verify.c"
#include "../../tools/kvcache-run/wait.c"

#define WEIGHTS	(16 << 10)	/* floats behind the input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static float weights_of_all[WEIGHTS];
static int file = -1;

static void require(int ok)
{
	if (!ok)
		abort();
}

/* A line that ends with a remedy, not with an errno that names nothing. */
int complain(const char *fmt, ...)
{
	static const char nothing[] = "Invalid argument";
	char said[1024], *at;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	at = strstr(said, nothing);
	if (!said[0] || (at && !at[strlen(nothing)])) {
		fprintf(stderr, "%s\n", said);
		abort();
	}
	return -1;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	uint32_t state = 1, i;

	for (i = 0; i < WEIGHTS; i++) {
		state = state * 1664525 + 1013904223;
		weights_of_all[i] = (int)(state >> 16) / 65536.0f - 0.5f;
	}
	file = memfd_create("model", MFD_CLOEXEC);
	require(file >= 0);
	return setenv("KVCACHE", "local:bytes=1M,page=64K", 1);
}

static void put(const void *p, size_t n, size_t at)
{
	require(pwrite(file, p, n, at) == n);
}

/* The input and the weights, where data may begin. */
static void make_file(const uint8_t *data, size_t size)
{
	size_t at = (size + 31) / 32 * 32;

	require(!ftruncate(file, 0) &&
		!ftruncate(file, at + sizeof(weights_of_all)));
	if (size)
		put(data, size, 0);
	put(weights_of_all, sizeof(weights_of_all), at);
}

/* A text if there is a tokenizer that has its bytes, or ids. */
static void prompt(const struct engine *e, struct conv *c)
{
	static const char text[] = "he hell<|im_end|>AAA~~~";
	uint32_t i;

	if (e->tok && !ids_text(&c->ids, e->tok, text, sizeof(text) - 1, true,
				"text") && c->ids.n)
		return;
	c->ids.n = 0;
	for (i = 0; i < 12; i++)
		ids_push(&c->ids, i % e->info.vocab);
}

static void two_steps(struct engine *e, struct conv *c)
{
	static const struct sched_hooks none;
	struct emit emit = { .quiet = true };
	struct verdict verdict = { 0 };
	struct sched s;

	if (c->ids.n + 2 > e->ctx_len || !room_possible(e, c) ||
	    sched_init(&s, e, &emit, NULL))
		return;
	c->check = check_create(e);
	sched_add(&s, c);
	if (!sched_run(&s, &none) && c->finish != FINISH_FAILED)
		require(!check_conv(c->check, c, &verdict));
	free(verdict.diffs);
	sched_free(&s);
}

static void use(struct engine *e)
{
	struct score score;
	struct conv *c;

	c = conv_create(xasprintf("1"), &e->opts->sampling, e);
	prompt(e, c);
	if (c->ids.n <= e->ctx_len && !plain_score(e, c, &score))
		free(score.logprob);
	conv_begin(c);
	two_steps(e, c);
	conv_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	struct options o = {
		.model = path,
		.sampling = { .max_new = 2, .top_p = 1 },
		.weights = MODEL_WEIGHTS_F32,
		.k_type = KVA_F16,
		.v_type = KVA_F16,
		.chunk = 16,
		.parallel = 1,
		.threads = 1,
		.ignore_end = true,
	};
	struct engine e;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	make_file(data, size);
	if (!engine_open(&e, &o) && !engine_pool(&e)) {
		/* engine_open() has looked at everything. */
		require(!engine_load(&e));
		use(&e);
	}
	engine_close(&e);
	return 0;
}
