// SPDX-License-Identifier: MIT
/*
 * test_run_live.c - kvcache-run: requests that are answered as they come, and
 * conversations that are idle in between.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"
/* 8 tokens in a page. */
#define SMALL "-m " MHA " --kv f32 --weights f32 --ignore-end --page-size 16K"

/* A program that reads and answers. */
struct live {
	pid_t pid;
	FILE *in;
	FILE *out;
	char err[128];
};

static struct live start(const char *args)
{
	struct live l;
	int in[2], out[2];
	char *cmd;

	snprintf(l.err, sizeof(l.err), "%s/live.err", kit_dir());
	ASSERT_GT(asprintf(&cmd, "exec %s %s --jsonl --requests - 2>%s",
			   kit_program(), args, l.err), 0);
	ASSERT_EQ(0, pipe2(in, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(out, O_CLOEXEC));
	l.pid = fork();
	ASSERT_GE(l.pid, 0);
	if (!l.pid) {
		alarm(300);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", cmd, NULL);
		_exit(127);
	}
	free(cmd);
	close(in[0]);
	close(out[1]);
	l.in = fdopen(in[1], "w");
	l.out = fdopen(out[0], "r");
	ASSERT_TRUE(l.in && l.out);
	return l;
}

__attribute__((format(printf, 2, 3)))
static void say(struct live *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(l->in, fmt, ap);
	va_end(ap);
	fflush(l->in);
}

/* The next answer. */
static json_t *hear(struct live *l)
{
	char *line = NULL;
	size_t cap = 0;
	json_t *j;

	if (getline(&line, &cap, l->out) < 0)
		ht_log("no answer: %s", kit_read(l->err));
	j = json_loads(line ? line : "", JSON_ALLOW_NUL, NULL);
	free(line);
	ASSERT_TRUE(j != NULL);
	return kit_keep(j);
}

/* The end of its input, or of itself; its exit status, or -1. */
static int stop(struct live *l, int sig)
{
	int status;

	if (sig)
		kill(l->pid, sig);
	fclose(l->in);
	ASSERT_EQ(l->pid, waitpid(l->pid, &status, 0));
	fclose(l->out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static long long num(const json_t *j, const char *key)
{
	ASSERT_TRUE(json_is_integer(json_object_get(j, key)));
	return json_integer_value(json_object_get(j, key));
}

static const char *str(const json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

TEST(answers_before_the_next_request)
{
	struct live l = start(SMALL " -n 4");
	json_t *a, *b;

	say(&l, "{\"id\": \"a\", \"prompt\": \"1bcdefghijklmnopqrst\"}\n");
	a = hear(&l);
	EXPECT_STREQ("a", str(a, "id"));
	EXPECT_STREQ("length", str(a, "finish"));
	EXPECT_EQ(20, num(a, "prompt_tokens"));
	EXPECT_EQ(0, num(a, "reused_tokens"));
	EXPECT_EQ(20, num(a, "prefilled_tokens"));
	EXPECT_GT(json_real_value(json_object_get(a, "first_token_ms")), 0);
	say(&l, "\n{\"prompt\": \"1bcdefghijklmnopqrst\"}\n");
	b = hear(&l);
	EXPECT_STREQ("2", str(b, "id"));
	EXPECT_EQ(19, num(b, "reused_tokens"));
	EXPECT_EQ(1, num(b, "prefilled_tokens"));
	EXPECT_TRUE(json_equal(json_object_get(a, "ids"),
			       json_object_get(b, "ids")));
	/* The last line may be without its end. */
	say(&l, "{\"prompt\": \"xyz\"}");
	EXPECT_EQ(0, stop(&l, 0));
}

TEST(a_bad_line_takes_nothing_from_others)
{
	struct live l = start(SMALL " -n 4 --max-pages 4");

	say(&l, "{\"prompt\": \"abc\"}\n{\"prompt\": 5}\n{\"id\": \"c\", \"prompt\": \"def\"}\n");
	EXPECT_STREQ("1", str(hear(&l), "id"));
	EXPECT_STREQ("c", str(hear(&l), "id"));
	EXPECT_TRUE(strstr(kit_read(l.err), "-:2: prompt") != NULL);
	/* What can never fit is refused at once. */
	say(&l, "{\"id\": \"d\", \"prompt\": \"abc\", \"max_tokens\": 40}\n");
	EXPECT_STREQ("refused", str(hear(&l), "finish"));
	say(&l, "{\"prompt\": \"ghi\"}\n");
	EXPECT_STREQ("length", str(hear(&l), "finish"));
	EXPECT_EQ(1, stop(&l, 0));
}

TEST(killed_or_interrupted)
{
	struct live l = start(SMALL " -n 4");

	say(&l, "{\"prompt\": \"abc\"}\n");
	hear(&l);
	EXPECT_EQ(-1, stop(&l, SIGKILL));
	l = start(SMALL " -n 4");
	say(&l, "{\"prompt\": \"abc\"}\n");
	hear(&l);
	EXPECT_EQ(130, stop(&l, SIGINT));
}

TEST(continue_is_refused)
{
	struct live l = start(SMALL " -n 4");
	char *err;

	say(&l, "{\"id\": \"a\", \"prompt\": \"abc\"}\n");
	hear(&l);
	say(&l, "{\"continue\": \"a\", \"prompt\": \"abc\"}\n");
	say(&l, "{\"id\": \"b\", \"prompt\": \"abc\", \"keep\": true}\n");
	hear(&l);
	say(&l, "{\"continue\": \"b\"}\n");
	say(&l, "{\"continue\": \"b\", \"prompt\": \"\"}\n");
	say(&l, "{\"continue\": \"b\", \"prompt\": \"a\", \"seed\": 1}\n");
	say(&l, "{\"continue\": \"b\", \"prompt\": \"d\", \"keep\": false}\n");
	/* The answer before it and the prompt. */
	EXPECT_EQ(3 + 4 + 1, num(hear(&l), "prompt_tokens"));
	say(&l, "{\"continue\": \"b\", \"prompt\": \"d\"}\n");
	EXPECT_EQ(1, stop(&l, 0));
	err = kit_read(l.err);
	EXPECT_TRUE(strstr(err, "-:2: continue: no conversation a is kept") != NULL);
	EXPECT_TRUE(strstr(err, "-:4: give one of prompt") != NULL);
	EXPECT_TRUE(strstr(err, "the prompt is empty") != NULL);
	EXPECT_TRUE(strstr(err, "-:6: \"seed\" is not known") != NULL);
	EXPECT_TRUE(strstr(err, "-:8: continue: no conversation b") != NULL);
}

#define CONVS 8
#define TURNS 3

/*
 * Conversations that are idle but for one, each in its turn: 56 pages at the
 * end. Returns the ids of each turn, and how many tokens of those that there
 * were had survived.
 */
static json_t *turns(const char *args, long long *reused)
{
	json_t *all = kit_keep(json_array()), *a;
	struct live l = start(args);
	int t, i;

	*reused = 0;
	for (t = 0; t < TURNS; t++) {
		for (i = 0; i < CONVS; i++) {
			if (t)
				say(&l, "{\"continue\": \"c%d\", \"prompt\": \"turn%d\"}\n",
				    i, t);
			else
				say(&l, "{\"id\": \"c%d\", \"keep\": true, \"prompt\": \"%dbcdefghijklmnop\"}\n",
				    i, i);
			a = hear(&l);
			EXPECT_EQ(t + 1, num(a, "turn"));
			EXPECT_STREQ("length", str(a, "finish"));
			*reused += num(a, "reused_tokens");
			json_array_append(all, json_object_get(a, "ids"));
		}
	}
	EXPECT_EQ(0, stop(&l, 0));
	return all;
}

TEST(idle_conversations_make_room_and_go_on)
{
	long long much, little, some, none;
	json_t *a, *b, *c, *d;

	a = turns(SMALL " -n 9", &much);
	b = turns(SMALL " -n 9 --max-pages 36", &little);
	c = turns(SMALL " -n 9 --max-pages 36 --no-reuse", &some);
	d = turns(SMALL " -n 9 --max-pages 10", &none);
	EXPECT_TRUE(json_equal(a, b));
	EXPECT_TRUE(json_equal(a, c));
	EXPECT_TRUE(json_equal(a, d));
	/* All but the last token of a turn, and what it had not seen. */
	EXPECT_EQ(CONVS * ((16 + 8) + (16 + 9 + 5 + 8)), much);
	EXPECT_LT(little, much);
	EXPECT_GT(little, 0);
	EXPECT_GT(some, 0);
	printf("# figure idle: of %lld tokens %lld survived in 36 pages, %lld where nothing is published, %lld in 10\n",
	       much, little, some, none);
}

TEST(verified_after_it_slept)
{
	struct ran r = kit_run("{\"id\": \"a\", \"keep\": true, \"prompt\": \"abcdefghijkl\"}\n",
			       SMALL " -n 9 --verify --json --requests -");

	KIT_OK(r);
	EXPECT_TRUE(kit_verified(&r, 0));
	EXPECT_TRUE(kit_counted(&r));
}

TEST_HARNESS_MAIN
