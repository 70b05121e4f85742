// SPDX-License-Identifier: MIT
/*
 * test_run_scales.c - kvcache-run: scales of keys and values are measured,
 * written, read and used; what is missing or another model's is refused.
 */
#include "harness.h"
#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"
#define GQA REFS "tiny-gqa-q8_0-untied.gguf"
#define QUICK "--quiet --threads 1 --pool 8M --page-size 64K "
#define TEXT "-f selftests/harness.h "

/* A file of scales for @model. */
static const char *calibrated(const char *model)
{
	const char *path = kit_file("scales", "", 0);
	struct ran r = kit_run(NULL, "-m %s " QUICK TEXT "--ctx 200 --calibrate %s",
			       model, path);

	ASSERT_EQ(0, r.status);
	return path;
}

/* The same with a change. */
static const char *changed(const char *path, void (*change)(json_t *root))
{
	json_t *root = json_loads(kit_read(path), 0, NULL);
	const char *to;
	char *text;

	ASSERT_TRUE(root != NULL);
	change(root);
	text = kit_keep(json_dumps(root, 0));
	to = kit_file("changed", text, strlen(text));
	json_decref(root);
	return to;
}

static json_t *layer(json_t *root, size_t i)
{
	return json_array_get(json_object_get(root, "layers"), i);
}

static void no_layer(json_t *root)
{
	json_array_remove(json_object_get(root, "layers"), 1);
}

static void one_layer_more(json_t *root)
{
	json_t *list = json_object_get(root, "layers");

	json_array_append(list, json_array_get(list, 0));
}

static void no_k(json_t *root)
{
	json_object_del(layer(root, 1), "k");
}

static void no_v(json_t *root)
{
	json_object_del(layer(root, 0), "v");
}

static void zero_k(json_t *root)
{
	json_object_set_new(layer(root, 0), "k", json_integer(0));
}

static void words_for_v(json_t *root)
{
	json_object_set_new(layer(root, 1), "v", json_string("1"));
}

static void next_version(json_t *root)
{
	json_object_set_new(root, "version", json_integer(2));
}

static void another_thing(json_t *root)
{
	json_object_set_new(root, "format", json_string("scales"));
}

static void huge_v(json_t *root)
{
	json_t *l = layer(root, 1);

	json_object_set_new(l, "v", json_real(1e7 * json_number_value(
		json_object_get(l, "v"))));
}

static struct ran with(const char *kv, const char *scales)
{
	return kit_run(NULL, "-m " MHA " " QUICK "--kv %s --kv-scales %s --json -n 8 -p 'What owns a page?'",
		       kv, scales);
}

static void refused(const char *kv, const char *scales, const char *what)
{
	struct ran r = with(kv, scales);

	EXPECT_EQ(1, r.status);
	if (!strstr(r.err, what) || !strstr(r.err, scales))
		ht_log("%s", r.err);
	EXPECT_TRUE(strstr(r.err, what) != NULL);
	EXPECT_TRUE(strstr(r.err, scales) != NULL);
	EXPECT_TRUE(strchr(r.err, '\n') == r.err + strlen(r.err) - 1);
}

TEST(measured_and_used)
{
	const char *path = calibrated(MHA);
	json_t *root = kit_keep(json_loads(kit_read(path), 0, NULL));
	struct ran r;

	EXPECT_EQ(2, json_array_size(json_object_get(root, "layers")));
	EXPECT_LT(0, json_number_value(json_object_get(layer(root, 0), "k")));
	r = with("e4m3t", path);
	KIT_OK(r);
	EXPECT_STREQ("e4m3t", json_string_value(json_object_get(
		json_object_get(r.json, "model"), "k_type")));
	EXPECT_EQ(8, kit_num(&r, 0, "generated_tokens"));
}

/* So large that codes are those of numbers near 0: little is left of V. */
TEST(scales_do_what_they_say)
{
	const char *path = calibrated(MHA);
	const char *with_kld = "-m " MHA " " QUICK TEXT "--ctx 200 --kld=2 --json --kv f16,e4m3t --kv-scales %s";
	struct ran a = kit_run(NULL, with_kld, path);
	struct ran b = kit_run(NULL, with_kld, changed(path, huge_v));
	const char *key = "kld_mean";
	double x, y;

	ASSERT_EQ(0, a.status);
	ASSERT_EQ(0, b.status);
	x = json_number_value(json_object_get(json_array_get(
		json_object_get(a.json, "types"), 0), key));
	y = json_number_value(json_object_get(json_array_get(
		json_object_get(b.json, "types"), 0), key));
	ht_log("figure divergence %g, and with another scale %g", x, y);
	EXPECT_GT(x, 0);
	EXPECT_GT(y, 2 * x);
}

TEST(what_is_missing_is_named)
{
	const char *path = calibrated(MHA);
	struct ran r;

	refused("e4m3t", changed(path, no_layer), "layer 1 is missing");
	refused("e4m3t", changed(path, one_layer_more), "3 layers");
	refused("e4m3t", changed(path, no_k), "layer 1: K is e4m3t and has no");
	refused("e4m3t", changed(path, no_v), "layer 0: V is e4m3t and has no");
	refused("e4m3t", changed(path, zero_k), "layer 0: \"k\" is not");
	refused("e4m3t", changed(path, words_for_v), "layer 1: \"v\" is not");
	refused("e4m3t", changed(path, next_version), "version 2");
	refused("e4m3t", changed(path, another_thing), "not a file of scales");
	refused("e4m3t", MHA, "--calibrate");
	refused("e4m3t", "nowhere", "No such file");
	/* Keys are int8: that they have no scale does not matter. */
	r = with("int8,e4m3t", changed(path, no_k));
	KIT_OK(r);
}

TEST(another_models)
{
	refused("e4m3t", calibrated(GQA), "scales of another model");
}

TEST(a_text_of_one_token)
{
	const char *path = kit_file("scales", "kept", 4);
	struct ran r = kit_run(NULL, "-m " MHA " " QUICK "-p a --calibrate %s",
			       path);

	EXPECT_EQ(1, r.status);
	EXPECT_TRUE(strstr(r.err, "one token: give a longer") != NULL);
	EXPECT_STREQ("kept", kit_read(path));
}

TEST_HARNESS_MAIN
