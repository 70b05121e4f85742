// SPDX-License-Identifier: MIT
/*
 * test_run_errors.c - kvcache-run given what it cannot use: one line that
 * names the thing and the remedy, and the exit status that goes with it.
 */
#include "gguf_writer.h"
#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"
#define QUICK "-n 4 --ignore-end --page-size 64K"

/* One line, of the program, with both words; nothing is not a word. */
static void expect_error(const struct ran *r, int status, const char *what,
			 const char *remedy)
{
	ASSERT_TRUE(what[0] && remedy[0]);
	if (r->status != status || !strstr(r->err, what) ||
	    !strstr(r->err, remedy) ||
	    strncmp(r->err, "kvcache-run: ", 13) ||
	    strchr(r->err, '\n') != r->err + strlen(r->err) - 1)
		ht_log("status %d, expected %d, \"%s\" and \"%s\": %s",
		       r->status, status, what, remedy, r->err);
	EXPECT_EQ(status, r->status);
	EXPECT_TRUE(strstr(r->err, what) != NULL);
	EXPECT_TRUE(strstr(r->err, remedy) != NULL);
	EXPECT_EQ(0, strncmp(r->err, "kvcache-run: ", 13));
	EXPECT_TRUE(strchr(r->err, '\n') == r->err + strlen(r->err) - 1);
	EXPECT_STREQ("", r->out);
}

#define USAGE(args, what, remedy)					\
	do {								\
		struct ran r_ = kit_run(NULL, "%s", args);		\
									\
		expect_error(&r_, 2, what, remedy);			\
	} while (0)
#define BAD(in, args, what, remedy)					\
	do {								\
		struct ran r_ = kit_run(in, "-m " MHA " " QUICK " %s",	\
					args);				\
									\
		expect_error(&r_, 1, what, remedy);			\
	} while (0)

TEST(options)
{
	struct ran r;

	USAGE("-p x", "no model", "-m FILE");
	USAGE("-m x", "no prompt", "-p TEXT");
	USAGE("-m x -p y stray", "stray", "-p TEXT");
	USAGE("-m x -p y -n many", "-n many", "whole number");
	USAGE("-m x -p y -n -1", "-n -1", "whole number");
	USAGE("-m x -p y --temp hot", "--temp hot", "number from 0");
	USAGE("-m x -p y --top-p 1.5", "--top-p 1.5", "1e-06 to 1");
	USAGE("-m x -p y --pool 0", "--pool 0", "size such as");
	USAGE("-m x -p y --pool 12Q", "--pool 12Q", "size such as");
	USAGE("-m x -p y --page-size 3000", "--page-size 3000", "power of two");
	USAGE("-m x -p y --kv f8", "--kv f8", "int4 or int4h");
	USAGE("-m x -p y --weights q4", "--weights q4", "auto, f32 or bf16");
	USAGE("-m x -p y --on-full panic", "--on-full panic", "preempt or stop");
	USAGE("-m x -p y --threads 0", "--threads 0", "from 1 to 1024");
	USAGE("-m x -p y --threads 1025", "--threads 1025", "from 1 to 1024");
	USAGE("-m x -p y --page-size 32", "--page-size 32", "64 to 64M");
	USAGE("-m x -p y --page-size 128M", "--page-size 134217728",
	      "64 to 64M");
	USAGE("-m x -p y --isa mmx", "--isa mmx: no such kernels",
	      "scalar, ref");
	setenv("KVATTN_ISA", "mmx", 1);
	USAGE("-m x -p y", "KVATTN_ISA mmx: no such kernels", "scalar, ref");
	unsetenv("KVATTN_ISA");
	USAGE("-m x -p y --kv int8,q4", "--kv int8,q4", "as K,V");
	USAGE("-m x -p y --kv ,", "--kv ,", "as K,V");
	USAGE("-m x -p y --kv-k q4", "--kv-k q4", "int4h");
	USAGE("-m x -p y --kv e4m3t", "no scales of its own", "--kv-scales FILE");
	USAGE("-m x -p y --kld --kv f16,e4m3t --kv f16", "no scales of its own",
	      "--kv-scales FILE");
	USAGE("-m x -p y --kv-scales z", "no type wants them", "leave it out");
	USAGE("-m x -p y --calibrate z --kv f16", "measures f32", "leave out");
	USAGE("-m x -p y --calibrate z --kld", "--kld and", "one of them");
	USAGE("-m x -p y --calibrate z --json", "no conversations", "--json");
	USAGE("-m x -p y --kld=0", "--kld 0", "from 1 to");
	USAGE("-m x -p y --kld --verify", "generates nothing", "--verify");
	USAGE("-m x -p y --kld --jsonl", "no conversations", "--jsonl");
	USAGE("-m x -p y --kld --system z", "as they are", "--system");
	USAGE("-m x -p y --score --verify", "--score", "leave out");
	USAGE("-m x -p y --no-cache --verify", "--verify", "leave out");
	USAGE("-m x -p y --verify --weights auto", "--weights auto",
	      "leave it out");
	USAGE("-m x -f y --chat", "--chat", "leave out");
	USAGE("-m x -p y --system a --system-file b", "--system", "one of them");
	USAGE("-m x -f - -p y -f -", "named twice, by -f - and by -f -",
	      "give a file");
	USAGE("-m x --requests - --system-file -",
	      "named twice, by --system-file - and by --requests -",
	      "give a file");
	USAGE("-m x -f - --requests -", "by -f - and by --requests -",
	      "give a file");
	USAGE("-m x --chat --system-file -",
	      "by --system-file - and by --chat", "give a file");
	r = kit_run(NULL, "--bogus");
	EXPECT_EQ(2, r.status);
	EXPECT_TRUE(strstr(r.err, "bogus") != NULL);
	r = kit_run(NULL, "--help");
	EXPECT_EQ(0, r.status);
	EXPECT_TRUE(strstr(r.out, "--requests") != NULL);
	EXPECT_STREQ("", r.err);
}

TEST(prompts)
{
	static char args[256], text[3000];

	memset(text, 'x', sizeof(text));
	BAD(NULL, "-p ''", "prompt is empty", "give it some text");
	BAD(NULL, "-p \"$(printf 'ab\\377c')\"", "byte 3 is not UTF-8",
	    "convert");
	BAD(NULL, "-f nowhere", "nowhere: No such file", "can be read");
	BAD(NULL, "-f selftests", "selftests: Is a directory", "can be read");
	BAD(NULL, "--system-file nowhere -p x", "nowhere", "can be read");
	BAD("", "-f -", "prompt is empty", "give it some text");
	BAD(NULL, "--tokens 1,2,x", "\"x\" is not a token id", "1,5,9");
	BAD(NULL, "--tokens ' -18446744073709551615'",
	    "\"-1844674407370955161\" is not a token id", "1,5,9");
	BAD(NULL, "--tokens 1,+2", "\"+2\" is not a token id", "1,5,9");
	BAD(NULL, "--tokens 1,", "\"\" is not a token id", "1,5,9");
	BAD(NULL, "--tokens 18446744073709551617", "is not a token id",
	    "1,5,9");
	BAD(NULL, "--tokens 1,272", "no token 272", "has 272");
	BAD(NULL, "--tokens '1;2'", "\";2\" is not a comma", "1,5,9");
	BAD(NULL, "--system s --tokens 1,2",
	    "--tokens: ids are taken as they are, without --system:",
	    "leave that out");
	BAD(NULL, "--tokens 1,2 --system ''", "without --system:",
	    "begin the ids with its tokens");
	snprintf(args, sizeof(args), "-p a --tokens 1,2 --system-file %s",
		 kit_file("system", "s", 1));
	BAD(NULL, args, "without --system-file:", "leave that out");
	BAD("{\"tokens\": [1, 2]}\n", "--system s --requests -",
	    "-:1: ids are taken as they are, without --system:",
	    "leave that out");
	BAD(NULL, "-p abcdefgh --ctx 8", "8 tokens does not fit a context of 8",
	    "raise --ctx");
	BAD(NULL, "-p x --ctx 4096", "--ctx 4096", "2048");
	snprintf(args, sizeof(args), "-f %s",
		 kit_file("long", text, sizeof(text)));
	BAD(NULL, args, "3000 tokens does not fit a context of 2048",
	    "shorten it");
}

/* What was scored before is reported, and nothing of the one that is not. */
TEST(score_of_one_token)
{
	struct ran r;

	BAD(NULL, "--score --tokens 5", "one token has no score",
	    "give a longer text");
	r = kit_run(NULL, "-m " MHA " --score --json -p abc --tokens 5");
	EXPECT_EQ(1, r.status);
	EXPECT_TRUE(strstr(r.err, "conversation 2: one token") != NULL);
	ASSERT_TRUE(r.json != NULL);
	EXPECT_EQ(1, kit_nconv(&r));
}

TEST(requests)
{
	static const char two[] = "{\"prompt\": \"a\"}\n{\"prompt\": \n";
	static char args[256];

	/* Of a file all are read before any is answered. */
	snprintf(args, sizeof(args), "--requests %s",
		 kit_file("two", two, strlen(two)));
	BAD(NULL, args, "two:2: ", "one JSON object a line");
	BAD("", "--requests -", "no request", "one JSON object a line");
	BAD("{\"prompt\": \n", "--requests -", "-:1: ",
	    "one JSON object a line");
	BAD("{\"prompt\": \"a\", \"keep\": 1}\n", "--requests -",
	    "-:1: keep: ", "true or false");
	BAD("{\"prompt\": \"a\", \"continue\": \"b\"}\n", "--requests -",
	    "no conversation b is kept", "give keep");
	BAD("[1]\n", "--requests -", "-:1: not an object", "one JSON object");
	BAD("{\"prompt\": 5}\n", "--requests -", "-:1: prompt", "a string");
	BAD("{\"prompt\": \"\"}\n", "--requests -", "-:1: the prompt is empty",
	    "give it some text");
	BAD("{\"n\": 5}\n", "--requests -", "-:1: ",
	    "one of prompt, messages and tokens");
	BAD("{\"prompt\": \"a\", \"tokens\": [1]}\n", "--requests -", "-:1: ",
	    "one of prompt, messages and tokens");
	BAD("{\"prompt\": \"a\", \"n\": -1}\n", "--requests -", "-:1: n: ",
	    "whole number");
	BAD("{\"prompt\": \"a\", \"temperature\": \"hot\"}\n", "--requests -",
	    "-:1: temperature: ", "a number");
	BAD("{\"prompt\": \"a\", \"stop\": \"b\"}\n", "--requests -",
	    "\"stop\" is not known", "give prompt");
	BAD("{\"tokens\": [1, 272]}\n", "--requests -", "element 1",
	    "0 to 271");
	BAD("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n",
	    "--requests -", "no chat template", "give a prompt");
	BAD("{\"prompt\": \"a\xff\"}\n", "--requests -", "byte 14 is not UTF-8",
	    "convert");
}

TEST(outputs)
{
	BAD(NULL, "-p x --json=/nowhere/x", "/nowhere/x: No such file",
	    "can be written");
	BAD(NULL, "-p x --timing /nowhere/x", "/nowhere/x: No such file",
	    "can be written");
}

TEST(full_disk)
{
	struct ran r;

	if (access("/dev/full", W_OK))
		SKIP(return, "no /dev/full");
	r = kit_run(NULL, "-m " MHA " " QUICK " -q -p x --json=/dev/full");
	EXPECT_EQ(1, r.status);
	EXPECT_TRUE(strstr(r.err, "JSON cannot be written") != NULL);
	r = kit_run(NULL, "-m " MHA " " QUICK " -q -p x --timing /dev/full");
	EXPECT_EQ(1, r.status);
	EXPECT_TRUE(strstr(r.err, "/dev/full: No space left") != NULL);
}

TEST(room)
{
	BAD(NULL, "-p x --parallel 8 --max-pages 3", "--parallel 8: 3 pages",
	    "--parallel 3");
	BAD(NULL, "-p x --parallel 8 --max-pages 3", "--parallel 8",
	    "or a higher --max-pages");
	BAD(NULL, "-p x --parallel 8 --pool 192K", "--parallel 8: 3 pages",
	    "or a bigger --pool");
	BAD(NULL, "-p x --page-size 64", "in a page of 64 bytes",
	    "take larger pages");
	BAD(NULL, "-p x --pool 1K", "a pool of 1K has not one page of 64K",
	    "make it larger, or its pages smaller");
	BAD(NULL, "-p x --pool 100T",
	    "a pool of 102400G has more than 268435456 pages of 64K",
	    "make it smaller, or its pages larger");
	/* More than addresses reach. */
	BAD(NULL, "-p x --page-size 64M --pool 200T",
	    "no memory for a pool of 204800G", "make it smaller");
	BAD(NULL, "-p x --tenant 'no name'", "tenant \"no name\"",
	    "63 letters, digits");
}

/* A model file cut short, or that is none, or of another kind. */
TEST(model_files)
{
	static const uint32_t magic_only[] = { 0x46554747, 9, 0, 0, 0, 0 };
	const char *path;
	struct ran r;

	r = kit_run(NULL, "-m nowhere.gguf -p x");
	expect_error(&r, 1, "nowhere.gguf: cannot open: No such file",
		     "name a GGUF file");
	r = kit_run(NULL, "-m selftests/harness.h -p x");
	expect_error(&r, 1, "selftests/harness.h", "GGUF");
	path = kit_file("version.gguf", magic_only, sizeof(magic_only));
	r = kit_run(NULL, "-m %s -p x", path);
	expect_error(&r, 1, path, "version 9");
	path = kit_file("cut.gguf", kit_read(MHA), 20000);
	r = kit_run(NULL, "-m %s -p x", path);
	expect_error(&r, 1, path, "download it again");
}

/* What another kind of model begins with. */
TEST(bert_has_no_decode_loop)
{
	struct gw w = { 0 };
	struct ran r;

	gw_header(&w, 3, 0, 3);
	gw_key_str(&w, "general.architecture", "bert");
	gw_key_u32(&w, "bert.block_count", 12);
	gw_key_u32(&w, "bert.embedding_length", 384);
	r = kit_run(NULL, "-m %s -p x", kit_file("bert.gguf", w.p, w.n));
	expect_error(&r, 1, "bert.gguf", "decode loop");
	gw_free(&w);
}

/* A key of a sound model gets another name. */
TEST(tokenizer_without_merges)
{
	static const char key[] = "tokenizer.ggml.merges";
	static char file[1 << 22];
	FILE *f = fopen(MHA, "r");
	const char *path;
	struct ran r;
	size_t n;
	char *at;

	ASSERT_TRUE(f != NULL);
	n = fread(file, 1, sizeof(file), f);
	fclose(f);
	ASSERT_LT(n, sizeof(file));
	at = memmem(file, n, key, strlen(key));
	ASSERT_TRUE(at != NULL);
	at[strlen(key) - 1] = 'z';
	path = kit_file("merges.gguf", file, n);
	r = kit_run(NULL, "-m %s -p x", path);
	expect_error(&r, 1, "merges", "--tokens");
	r = kit_run(NULL, "-m %s " QUICK " -q --json --tokens 1,5", path);
	KIT_OK(r);
	EXPECT_EQ(4, json_array_size(kit_ids(&r, 0)));
}

TEST_HARNESS_MAIN
