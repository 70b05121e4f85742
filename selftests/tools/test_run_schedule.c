// SPDX-License-Identifier: MIT
/*
 * test_run_schedule.c - kvcache-run: whatever happens to its pages, every
 * conversation ends, with the text that it has alone.
 *
 * The scheduler runs in this process, on its pool, and between its steps limits
 * change, pages are revoked, conversations lose theirs and come anew, at
 * random. It is bounded by steps, not by time: each computes at least one
 * position of some conversation, so between two events, and after the last, all
 * must have ended after as many steps as there are positions.
 */
#include <time.h>

#include "harness.h"

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
#include "../../tools/kvcache-run/pressure.c"
#include "../../tools/kvcache-run/room.c"
#include "../../tools/kvcache-run/sched.c"
#include "../../tools/kvcache-run/timing.c"
#include "../../tools/kvcache-run/verify.c"
#include "../../tools/kvcache-run/wait.c"

#define MHA "selftests/data/refs/tiny-mha-f16.gguf"
#define CONVS 32
#define MOST 120		/* tokens of a conversation */
#define EVENTS 250
#define POOL 48			/* pages of 8 tokens; one takes 15 at most */
#define LEAST 15

static const struct options opts = {
	.model = MHA, .weights = MODEL_WEIGHTS_F32, .k_type = KVA_F32,
	.v_type = KVA_F32, .pool = POOL * 16384, .page_size = 16384,
	.threads = 1, .parallel = 6, .chunk = 16, .wait_s = -1,
	.ignore_end = true, .sampling = { .top_p = 1 },
};

/* A conversation's prompt and what it generates alone. */
struct text_of {
	uint32_t ids[MOST];
	uint32_t nprompt;
	uint32_t n;
};

struct world {
	struct engine e;
	struct sched s;
	struct emit emit;
	struct text_of want[CONVS];
	struct conv *conv[CONVS];
	unsigned int started;
	unsigned int ended;
	unsigned int events;
	unsigned int lowered;
	unsigned int revoked;
	unsigned int preempted;
	unsigned int gave_way;
	uint64_t positions;
	uint64_t calls;
	uint64_t last;
	uint64_t longest;
	uint64_t rng;
};

static uint32_t pick(struct world *w, uint32_t n)
{
	w->rng = w->rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (w->rng >> 33) % n;
}

static void set_max(struct world *w, uint64_t max, bool revoke)
{
	struct kvcache_query q = { .flags = 0 };
	struct kvcache_tenant_set t = {
		.set = KVCACHE_SET_LIMITS,
		.max = max,
		.deadline_ns = revoke ? 1 : KVCACHE_TIME_NEVER,
	};

	ASSERT_EQ(0, kvc_call(w->e.kvc, KVCACHE_NR_QUERY, &q));
	t.tenant = q.out_tenant;
	ASSERT_EQ(0, kvc_call(w->e.kvc, KVCACHE_NR_TENANT_SET, &t));
}

static struct conv *conv_of(struct world *w, unsigned int i)
{
	const struct text_of *t = &w->want[i];
	struct sampling sampling = { .top_p = 1 };
	struct conv *c;
	uint32_t k;

	sampling.max_new = t->n - t->nprompt;
	c = conv_create(xasprintf("%u", i), &sampling, &w->e);
	for (k = 0; k < t->nprompt; k++)
		ids_push(&c->ids, t->ids[k]);
	conv_begin(c);
	c->arrival = w->started;
	return c;
}

/* Half of the prompts begin alike. */
static void make_prompts(struct world *w)
{
	unsigned int i, k;

	for (i = 0; i < CONVS; i++) {
		struct text_of *t = &w->want[i];

		t->nprompt = 20 + pick(w, 40);
		t->n = t->nprompt + 2 + pick(w, MOST - 2 - t->nprompt);
		w->positions += t->n;
		for (k = 0; k < t->nprompt; k++)
			t->ids[k] = i % 2 && k < 30 ? 5 + k :
				    3 + pick(w, w->e.info.vocab - 3);
	}
}

static void keep_text(void *arg, struct conv *c)
{
	struct world *w = arg;

	ASSERT_EQ(FINISH_LENGTH, c->finish);
	ASSERT_EQ(w->want[w->ended].n, c->ids.n);
	memcpy(w->want[w->ended].ids, c->ids.v, c->ids.n * sizeof(*c->ids.v));
}

/* Each by itself, in a pool of nobody else's. */
static void alone(struct world *w)
{
	const struct sched_hooks hooks = { .ended = keep_text, .arg = w };
	struct conv *c;

	for (w->ended = 0; w->ended < CONVS; w->ended++) {
		c = conv_of(w, w->ended);
		sched_add(&w->s, c);
		ASSERT_EQ(0, sched_run(&w->s, &hooks));
		conv_free(c);
	}
	w->ended = 0;
}

static void one_event(struct world *w)
{
	w->events++;
	w->last = w->calls;
	switch (pick(w, 4)) {
	case 0:
		set_max(w, LEAST + pick(w, POOL - LEAST), false);
		w->lowered++;
		break;
	case 1:
		set_max(w, LEAST + pick(w, POOL - LEAST), true);
		w->revoked++;
		break;
	case 2:
		if (!w->s.nrun)
			break;
		sched_preempt(&w->s, w->s.run[pick(w, w->s.nrun)]);
		w->preempted++;
		break;
	default:
		set_max(w, KVCACHE_LIMIT_MAX, false);
	}
}

static int happens(void *arg, bool wait)
{
	struct world *w = arg;

	/* One for the step in which the last one ended. */
	ASSERT_LE(w->calls++ - w->last, w->positions + 1);
	if (w->calls - w->last > w->longest)
		w->longest = w->calls - w->last;
	while (w->started < CONVS && (wait || !pick(w, 8))) {
		w->conv[w->started] = conv_of(w, w->started);
		sched_add(&w->s, w->conv[w->started]);
		w->started++;
		wait = false;
	}
	if (w->events < EVENTS && !pick(w, 3))
		one_event(w);
	return w->started < CONVS;
}

static void compare_text(void *arg, struct conv *c)
{
	struct world *w = arg;
	const struct text_of *t = &w->want[c->arrival];

	EXPECT_EQ(FINISH_LENGTH, c->finish);
	EXPECT_EQ(t->n, c->ids.n);
	EXPECT_EQ(0, memcmp(t->ids, c->ids.v, t->n * sizeof(*t->ids)));
	w->gave_way += c->preempted;
	w->ended++;
}

static void open_world(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->rng = seed;
	w->emit.quiet = true;
	setenv("KVCACHE", "local", 1);
	ASSERT_EQ(0, engine_open(&w->e, &opts));
	ASSERT_EQ(0, engine_pool(&w->e));
	ASSERT_EQ(0, engine_load(&w->e));
	ASSERT_EQ(0, sched_init(&w->s, &w->e, &w->emit, NULL));
	make_prompts(w);
}

static void close_world(struct world *w)
{
	sched_free(&w->s);
	engine_close(&w->e);
}

/* So many gave way, asked or not, in all schedules. */
static uint64_t gave_asked, gave_others;

static void one_schedule(uint64_t seed)
{
	static struct world w;
	const struct sched_hooks hooks = {
		.feed = happens, .ended = compare_text, .arg = &w,
	};
	uint64_t held, cached, allocs;
	unsigned int i;

	printf("# seed %llu\n", (unsigned long long)seed);
	open_world(&w, seed);
	alone(&w);
	ASSERT_EQ(0, sched_run(&w.s, &hooks));
	EXPECT_EQ(CONVS, w.ended);
	for (i = 0; i < CONVS; i++)
		conv_free(w.conv[i]);
	engine_pages(&w.e, &held, &cached, &allocs);
	EXPECT_EQ(0, held);
	printf("# figure schedule: %llu steps, at most %llu without an event (bound %llu); max lowered %u times and %u with revocation; gave way %u times: %u by chance, %llu asked to, others for want of pages or as theirs were revoked\n",
	       (unsigned long long)w.calls, (unsigned long long)w.longest,
	       (unsigned long long)w.positions, w.lowered, w.revoked,
	       w.gave_way, w.preempted, (unsigned long long)w.s.gave);
	gave_asked += w.s.gave;
	gave_others += w.gave_way - w.preempted - w.s.gave;
	close_world(&w);
}

TEST(every_conversation_ends_with_its_own_text)
{
	const char *given = getenv("KVCACHE_SEED");
	uint64_t seed = time(NULL);
	unsigned int i;

	if (given) {
		one_schedule(strtoull(given, NULL, 0));
		return;
	}
	for (i = 1; i <= 4; i++)
		one_schedule(i);
	one_schedule(seed);
	EXPECT_GT(gave_asked, 0);
	EXPECT_GT(gave_others, 0);
}

TEST_HARNESS_MAIN
