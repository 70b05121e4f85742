// SPDX-License-Identifier: MIT
/*
 * test_run_output.c - what kvcache-run writes, and where: files that it must
 * not touch, names that it must not print, places that are full.
 */
#include <sys/stat.h>

#include "gguf_writer.h"
#include "real_model.h"
#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"
#define FFFD "\xef\xbf\xbd"
#define QUICK "-m " MHA " -n 4 --ignore-end --page-size 64K"

static const char columns[] = "conversation,token,position,forwarded,rows,ms\n";

/* A refusal: nothing on standard output, and both words in the one line. */
static void refused(const struct ran *r, const char *what, const char *remedy)
{
	if (!strstr(r->err, what) || !strstr(r->err, remedy))
		ht_log("not \"%s\" and \"%s\": %s", what, remedy, r->err);
	EXPECT_EQ(1, r->status);
	EXPECT_STREQ("", r->out);
	EXPECT_TRUE(strstr(r->err, what) != NULL);
	EXPECT_TRUE(strstr(r->err, remedy) != NULL);
	EXPECT_TRUE(strchr(r->err, '\n') == r->err + strlen(r->err) - 1);
}

static void request_refused(const char *request, const char *what,
			    const char *remedy)
{
	struct ran r = kit_run(request, QUICK " --requests -");

	refused(&r, what, remedy);
}

static const char *model_bytes(size_t *len)
{
	struct stat st;

	ASSERT_EQ(0, stat(MHA, &st));
	*len = st.st_size;
	return kit_read(MHA);
}

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

TEST(names_do_not_steer_the_terminal)
{
	request_refused("{\"id\": \"a\\n[2] x\", \"prompt\": \"x\"}",
			"-:1: id: ", "control character");
	request_refused("{\"id\": \"a\\u001b[2J\", \"prompt\": \"x\"}",
			"-:1: id: ", "control character");
	request_refused("{\"id\": \"\\u007f\", \"prompt\": \"x\"}",
			"-:1: id: ", "control character");
	request_refused("{\"id\": \"\\u009b2J\", \"prompt\": \"x\"}",
			"-:1: id: ", "control character");
}

/* A file of unknown origin names itself. */
TEST(a_model_name_does_not_steer_the_terminal)
{
	static const char name[] = "tiny-mha-f16";
	static const char bad[] = "\x1b[2J\n\xff\x7f\xc2\x9b" "2\xc3\xa9";
	size_t len;
	char *model = (char *)model_bytes(&len), *at;
	const char *path;
	struct ran r;

	at = memmem(model, len, name, strlen(name));
	ASSERT_TRUE(at != NULL);
	ASSERT_EQ(strlen(name), strlen(bad));
	memcpy(at, bad, strlen(bad));
	path = kit_file("named.gguf", model, len);
	r = kit_run(NULL, "-m %s -n 4 --page-size 64K -q -p x", path);
	ASSERT_EQ(0, r.status);
	EXPECT_TRUE(strstr(r.err, "\n" FFFD "[2J" FFFD FFFD FFFD FFFD FFFD
			   "2\xc3\xa9: ") != NULL);
}

/* Nor does what a complaint takes from a file. */
TEST(complaints_do_not_steer_the_terminal)
{
	struct gw w = { 0 };
	struct ran r;

	request_refused("{\"\\u001b[2J\": 1}", "\"" FFFD "[2J\" is not known",
			"give prompt");
	gw_header(&w, 3, 0, 1);
	gw_key_str(&w, "general.architecture", "bert\n\x1b[2J");
	r = kit_run(NULL, "-m %s -p x", kit_file("arch.gguf", w.p, w.n));
	refused(&r, "'bert" FFFD FFFD "[2J'", "take a model of llama");
	gw_free(&w);
}

/* A name of the file system is bytes; JSON is UTF-8. */
TEST(json_of_a_path_that_is_no_text)
{
	static const char replaced[] = "m" FFFD ".gguf";
	size_t len;
	const char *model = model_bytes(&len), *file;
	struct ran r;

	r = kit_run(NULL, "-m %s -n 4 --page-size 64K --json -p x",
		    kit_file("m\xe9.gguf", model, len));
	KIT_OK(r);
	file = json_string_value(json_object_get(json_object_get(r.json,
						 "model"), "file"));
	ASSERT_TRUE(file != NULL);
	EXPECT_STREQ(replaced, strrchr(file, '/') + 1);
}

/* The text goes on behind a NUL, and the document has all of it. */
TEST(json_of_a_text_with_nul)
{
	json_t *text;
	struct ran r;

	r = kit_run(NULL, "-m " MHA " --ignore-end --page-size 64K -q --temp 50 --seed 1 -n 1000 --json -p x");
	KIT_OK(r);
	text = json_object_get(kit_conv(&r, 0), "text");
	ASSERT_TRUE(json_is_string(text));
	EXPECT_TRUE(strstr(r.out, "\\u0000") != NULL);
	EXPECT_GT(json_string_length(text), 500);
	EXPECT_LT(strlen(json_string_value(text)), 500);
}

/* A full disk, met while text is streamed and by the last write. */
TEST(full_standard_output)
{
	static const char *const modes[] = { "-p x", "-p x --json" };
	struct ran r;
	size_t i;

	if (access("/dev/full", W_OK))
		SKIP(return, "no /dev/full");
	for (i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
		kit_file("out", "", 0);
		/* The comment hides where the kit would send the output. */
		r = kit_run(NULL, QUICK " %s >/dev/full 2>%s/err #", modes[i],
			    kit_dir());
		EXPECT_EQ(1, r.status);
		EXPECT_TRUE(strstr(r.err, "standard output: ") != NULL);
		EXPECT_TRUE(strstr(r.err, "make room") != NULL);
	}
}

/* What is there is lost only to a run that can begin. */
TEST(outputs_outlive_a_refusal)
{
	static const char *const bad[] = {
		"-m nowhere.gguf -p x", "-m " MHA " -p ''",
		"-m " MHA " -p x --parallel 9 --max-pages 3 --page-size 64K",
		"-m " MHA " -p x --page-size 64",
	};
	const char *json = kit_file("old.json", "old", 3);
	const char *csv = kit_file("old.csv", "old", 3);
	struct ran r;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		r = kit_run(NULL, "%s --json=%s --timing %s", bad[i], json,
			    csv);
		EXPECT_EQ(1, r.status);
		EXPECT_STREQ("old", kit_read(json));
		EXPECT_STREQ("old", kit_read(csv));
	}
}

TEST(inputs_are_not_written_to)
{
	size_t len;
	const char *model = model_bytes(&len);
	const char *path = kit_file("model.gguf", model, len), *text, *csv;
	struct ran r;

	text = kit_file("prompt", "some text", 9);
	csv = kit_file("both", "old", 3);
	r = kit_run(NULL, "-m %s -p x --json=%s", path, path);
	refused(&r, "model.gguf: is read from", "another file");
	r = kit_run(NULL, "-m %s -p x --timing %s/./model.gguf", path,
		    kit_dir());
	refused(&r, "model.gguf: is read from", "another file");
	EXPECT_EQ(0, memcmp(model, kit_read(path), len));
	r = kit_run(NULL, "-m %s -f %s --json=%s", path, text, text);
	refused(&r, "prompt: is read from", "another file");
	r = kit_run(NULL, "-m %s --system-file %s -p x --json=%s", path, text,
		    text);
	refused(&r, "prompt: is read from", "another file");
	EXPECT_STREQ("some text", kit_read(text));
	r = kit_run(NULL, QUICK " -p x --json=%s --timing %s", csv, csv);
	refused(&r, "both: given to --json and --timing", "two files");
}

TEST(input_without_an_end)
{
	struct ran r = kit_run(NULL, QUICK " -f /dev/zero");

	refused(&r, "/dev/zero: has 256 MiB or more", "a smaller file");
}

TEST(requests_that_say_two_things)
{
	request_refused("{\"id\": [1], \"prompt\": \"x\"}", "-:1: id: ",
			"a string or a whole number");
	request_refused("{\"id\": 1.5, \"prompt\": \"x\"}", "-:1: id: ",
			"a string or a whole number");
	request_refused("{\"n\": 3, \"max_tokens\": 3, \"prompt\": \"x\"}",
			"-:1: n and max_tokens", "one of them");
	request_refused("{\"system\": \"s\", \"tokens\": [1, 2]}",
			"-:1: system: ", "leave it out");
}

TEST(requests_with_two_system_messages)
{
	struct ran r;

	r = kit_run("{\"system\": \"s\", \"messages\": [{\"role\": \"system\","
		    " \"content\": \"t\"}]}", "-m %s --requests -", real_model());
	refused(&r, "-:1: system: ", "one of them");
}

TEST_HARNESS_MAIN
