// SPDX-License-Identifier: MIT
/*
 * test_gguf.c - the GGUF reader on sound and on hostile files.
 *
 * Files are in memory of exactly their size, so that the address sanitizer
 * sees one byte read too many.
 */
#include <sys/stat.h>

#include "gguf.h"
#include "gguf_writer.h"
#include "harness.h"

#define REFS "selftests/data/refs/"
#define HUGE ((uint64_t)-16)

static char err[512];

/* The bytes of @w in a block of their size, which replaces them. */
static void exact(struct gw *w)
{
	uint8_t *p = malloc(w->n ? w->n : 1);

	if (!p)
		abort();
	if (w->n)
		memcpy(p, w->p, w->n);
	free(w->p);
	w->p = p;
	w->cap = w->n;
}

static int open_exact(struct gw *w, struct gguf **g)
{
	exact(w);
	*g = NULL;
	strcpy(err, "");
	return gguf_open_mem(w->p, w->n, g, err, sizeof(err));
}

/* The file is refused with @code, in one line that has @text and a remedy. */
static void refuse(struct gw *w, int code, const char *text)
{
	struct gguf *g;
	int ret;

	ret = open_exact(w, &g);
	if (ret != code || !strstr(err, text))
		ht_log("wanted %d \"%s\", got %d \"%s\"", code, text, ret,
		       err);
	EXPECT_EQ(ret, code);
	EXPECT_TRUE(strstr(err, text));
	EXPECT_EQ(strncmp(err, "(memory): ", 10), 0);
	EXPECT_FALSE(strchr(err, '\n'));
	EXPECT_TRUE(strchr(err, ';'));
	EXPECT_FALSE(g);
	gw_free(w);
}

/* One key of each type and three tensors. */
static void sound(struct gw *w, uint32_t version)
{
	const uint64_t three[] = { 32, 2, 3 }, one[] = { 5 }, four[] = {
		256, 1, 1, 2 };
	uint32_t i;

	gw_header(w, version, 3, 17);
	gw_key(w, "u8", GGUF_V_U8), gw_u8(w, 200);
	gw_key(w, "i8", GGUF_V_I8), gw_u8(w, (uint8_t)-3);
	gw_key(w, "u16", GGUF_V_U16), gw_bytes(w, "\xff\xff", 2);
	gw_key(w, "i16", GGUF_V_I16), gw_bytes(w, "\xfe\xff", 2);
	gw_key_u32(w, "u32", UINT32_MAX);
	gw_key(w, "i32", GGUF_V_I32), gw_u32(w, 7);
	gw_key(w, "u64", GGUF_V_U64), gw_u64(w, UINT64_MAX);
	gw_key(w, "i64", GGUF_V_I64), gw_u64(w, INT64_MAX);
	gw_key(w, "f32", GGUF_V_F32), gw_bytes(w, &(float){ 1.5f }, 4);
	gw_key(w, "f64", GGUF_V_F64), gw_bytes(w, &(double){ 0.1 }, 8);
	gw_key_bool(w, "yes", 1);
	gw_key_bool(w, "odd", 2);
	gw_key_str(w, "string", "caf\xc3\xa9");
	gw_key_array(w, "strings", GGUF_V_STRING, 3);
	gw_str(w, "a");
	gw_str(w, "");
	gw_strn(w, "x\0y", 3);
	gw_key_array(w, "i16s", GGUF_V_I16, 2);
	gw_bytes(w, "\x01\x00\xff\xff", 4);
	gw_key_array(w, "f32s", GGUF_V_F32, 2);
	gw_bytes(w, (float[]){ 0.5f, -2 }, 8);
	gw_key_array(w, "none", GGUF_V_U32, 0);
	gw_tensor(w, "quant", GGUF_Q8_0, 3, three, 64);
	gw_tensor(w, "vector", GGUF_F32, 1, one, 0);
	gw_tensor(w, "four", GGUF_Q6_K, 4, four, 288);
	gw_align(w, 32);
	for (i = 0; i < 64 + 224 + 420; i++)
		gw_u8(w, i);
}

TEST(values_of_every_type)
{
	struct gguf_str s;
	struct gw w = { 0 };
	struct gguf *g;
	uint64_t u = 0;
	double d = 0;
	bool b;

	sound(&w, 3);
	ASSERT_EQ(open_exact(&w, &g), 0);
	EXPECT_EQ(gguf_version(g), 3);
	EXPECT_EQ(gguf_file_size(g), w.n);
	EXPECT_EQ(gguf_u64(g, "u8", &u), 0);
	EXPECT_EQ(u, 200);
	EXPECT_EQ(gguf_u64(g, "u16", &u), 0);
	EXPECT_EQ(u, 65535);
	EXPECT_EQ(gguf_u64(g, "u32", &u), 0);
	EXPECT_EQ(u, UINT32_MAX);
	EXPECT_EQ(gguf_u64(g, "i32", &u), 0);
	EXPECT_EQ(u, 7);
	EXPECT_EQ(gguf_u64(g, "u64", &u), 0);
	EXPECT_EQ(u, UINT64_MAX);
	EXPECT_EQ(gguf_u64(g, "i64", &u), 0);
	EXPECT_EQ(u, INT64_MAX);
	/* Out of range, of another type, not there: nothing is written. */
	u = 99;
	EXPECT_EQ(gguf_u64(g, "i8", &u), -EINVAL);
	EXPECT_EQ(gguf_u64(g, "i16", &u), -EINVAL);
	EXPECT_EQ(gguf_u64(g, "f32", &u), -EINVAL);
	EXPECT_EQ(gguf_u64(g, "yes", &u), -EINVAL);
	EXPECT_EQ(gguf_u64(g, "i16s", &u), -EINVAL);
	EXPECT_EQ(gguf_u64(g, "u", &u), -ENOENT);
	EXPECT_EQ(gguf_u64(g, "", &u), -ENOENT);
	EXPECT_EQ(u, 99);
	EXPECT_EQ(gguf_f64(g, "f32", &d), 0);
	EXPECT_EQ(d, 1.5);
	EXPECT_EQ(gguf_f64(g, "f64", &d), 0);
	EXPECT_EQ(d, 0.1);
	EXPECT_EQ(gguf_f64(g, "u32", &d), -EINVAL);
	EXPECT_EQ(gguf_f64(g, "f32s", &d), -EINVAL);
	EXPECT_EQ(gguf_f64(g, "f", &d), -ENOENT);
	EXPECT_EQ(gguf_bool(g, "yes", &b), 0);
	EXPECT_TRUE(b);
	EXPECT_EQ(gguf_bool(g, "odd", &b), -EINVAL);
	EXPECT_EQ(gguf_bool(g, "u8", &b), -EINVAL);
	EXPECT_EQ(gguf_string(g, "string", &s), 0);
	EXPECT_EQ(s.len, 5);
	EXPECT_EQ(memcmp(s.s, "caf\xc3\xa9", 5), 0);
	EXPECT_EQ(gguf_string(g, "u8", &s), -EINVAL);
	EXPECT_EQ(gguf_string(g, "strings", &s), -EINVAL);
	EXPECT_EQ(gguf_string(g, "strin", &s), -ENOENT);
	gguf_close(g);
	gw_free(&w);
}

TEST(arrays)
{
	enum gguf_value type;
	struct gw w = { 0 };
	struct gguf_str s;
	struct gguf *g;
	int64_t i = 0;
	double d = 0;
	uint64_t n;

	sound(&w, 2);
	ASSERT_EQ(open_exact(&w, &g), 0);
	EXPECT_EQ(gguf_version(g), 2);
	EXPECT_EQ(gguf_array(g, "strings", &type, &n), 0);
	EXPECT_EQ(type, GGUF_V_STRING);
	EXPECT_EQ(n, 3);
	EXPECT_EQ(gguf_array(g, "none", &type, &n), 0);
	EXPECT_EQ(type, GGUF_V_U32);
	EXPECT_EQ(n, 0);
	EXPECT_EQ(gguf_array(g, "u32", &type, &n), -EINVAL);
	EXPECT_EQ(gguf_array(g, "x", &type, &n), -ENOENT);
	EXPECT_EQ(gguf_array_string(g, "strings", 0, &s), 0);
	EXPECT_EQ(s.len, 1);
	EXPECT_EQ(s.s[0], 'a');
	EXPECT_EQ(gguf_array_string(g, "strings", 1, &s), 0);
	EXPECT_EQ(s.len, 0);
	EXPECT_EQ(gguf_array_string(g, "strings", 2, &s), 0);
	EXPECT_EQ(s.len, 3);
	EXPECT_EQ(memcmp(s.s, "x\0y", 3), 0);
	EXPECT_EQ(gguf_array_string(g, "strings", 3, &s), -EINVAL);
	EXPECT_EQ(gguf_array_string(g, "strings", UINT64_MAX, &s), -EINVAL);
	EXPECT_EQ(gguf_array_string(g, "i16s", 0, &s), -EINVAL);
	EXPECT_EQ(gguf_array_string(g, "string", 0, &s), -EINVAL);
	EXPECT_EQ(gguf_array_string(g, "x", 0, &s), -ENOENT);
	EXPECT_EQ(gguf_array_i64(g, "i16s", 0, &i), 0);
	EXPECT_EQ(i, 1);
	EXPECT_EQ(gguf_array_i64(g, "i16s", 1, &i), 0);
	EXPECT_EQ(i, -1);
	EXPECT_EQ(gguf_array_i64(g, "i16s", 2, &i), -EINVAL);
	EXPECT_EQ(gguf_array_i64(g, "strings", 0, &i), -EINVAL);
	EXPECT_EQ(gguf_array_i64(g, "f32s", 0, &i), -EINVAL);
	EXPECT_EQ(gguf_array_i64(g, "none", 0, &i), -EINVAL);
	EXPECT_EQ(gguf_array_f64(g, "f32s", 0, &d), 0);
	EXPECT_EQ(d, 0.5);
	EXPECT_EQ(gguf_array_f64(g, "f32s", 1, &d), 0);
	EXPECT_EQ(d, -2.0);
	EXPECT_EQ(gguf_array_f64(g, "f32s", 2, &d), -EINVAL);
	EXPECT_EQ(gguf_array_f64(g, "i16s", 0, &d), -EINVAL);
	gguf_close(g);
	gw_free(&w);
}

TEST(tensors)
{
	const struct gguf_tensor *t;
	struct gw w = { 0 };
	struct gguf *g;

	sound(&w, 3);
	ASSERT_EQ(open_exact(&w, &g), 0);
	ASSERT_EQ(gguf_ntensors(g), 3);
	t = gguf_tensor_at(g, 0);
	EXPECT_STREQ(t->name, "quant");
	EXPECT_TRUE(gguf_tensor(g, "quant") == t);
	EXPECT_EQ(t->type, GGUF_Q8_0);
	EXPECT_EQ(t->ndim, 3);
	EXPECT_EQ(t->ne[0], 32);
	EXPECT_EQ(t->ne[1], 2);
	EXPECT_EQ(t->ne[2], 3);
	EXPECT_EQ(t->ne[3], 1);
	EXPECT_EQ(t->nelem, 192);
	EXPECT_EQ(t->nbytes, 204);
	/* Each byte of the data holds its offset. */
	EXPECT_EQ(*(uint8_t *)t->data, 64);
	t = gguf_tensor(g, "vector");
	ASSERT_TRUE(t);
	EXPECT_EQ(t->nbytes, 20);
	EXPECT_EQ(*(uint8_t *)t->data, 0);
	t = gguf_tensor(g, "four");
	ASSERT_TRUE(t);
	EXPECT_EQ(t->nelem, 512);
	EXPECT_EQ(t->nbytes, 420);
	EXPECT_EQ(*(uint8_t *)t->data, 288 % 256);
	EXPECT_FALSE(gguf_tensor(g, "fou"));
	EXPECT_FALSE(gguf_tensor(g, ""));
	EXPECT_FALSE(gguf_tensor_at(g, 3));
	gguf_close(g);
	gw_free(&w);
}

TEST(real_files)
{
	static const char * const names[] = {
		"tiny-mha-f16", "tiny-gqa-q8_0-untied", "tiny-mqa-bf16-d80",
		"tiny-gqa7-q4_0-d128", "tiny-f32-linear-rope",
		"tiny-q5_1-llama3-rope",
	};
	struct gguf_str s;
	char path[256];
	struct gguf *g;
	struct stat st;
	uint64_t ctx;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), REFS "%s.gguf", names[i]);
		ASSERT_EQ(gguf_open(path, &g, err, sizeof(err)), 0);
		ASSERT_EQ(stat(path, &st), 0);
		EXPECT_EQ(gguf_file_size(g), st.st_size);
		ASSERT_EQ(gguf_string(g, "general.name", &s), 0);
		EXPECT_EQ(s.len, strlen(names[i]));
		EXPECT_EQ(memcmp(s.s, names[i], s.len), 0);
		EXPECT_EQ(gguf_u64(g, "llama.context_length", &ctx), 0);
		EXPECT_EQ(ctx, 2048);
		EXPECT_TRUE(gguf_tensor(g, "token_embd.weight"));
		gguf_close(g);
	}
}

TEST(a_file_cut_anywhere_is_refused)
{
	struct gw whole = { 0 }, part;
	struct gguf *g;
	size_t n;

	sound(&whole, 3);
	for (n = 0; n < whole.n; n++) {
		part = (struct gw){ 0 };
		gw_bytes(&part, whole.p, n);
		refuse(&part, -EBADMSG, "download it again");
		if (ht_failed)
			ht_log("cut to %zu of %zu bytes", n, whole.n);
		ASSERT_FALSE(ht_failed);
	}
	ASSERT_EQ(open_exact(&whole, &g), 0);
	gguf_close(g);
	gw_free(&whole);
}

TEST(any_byte_changed_does_not_crash)
{
	struct gw w = { 0 }, c;
	struct gguf *g;
	size_t i;
	int b;

	sound(&w, 3);
	for (i = 0; i < w.n; i++) {
		for (b = 0; b < 256; b += 51) {
			c = (struct gw){ 0 };
			gw_bytes(&c, w.p, w.n);
			c.p[i] = b;
			if (!open_exact(&c, &g)) {
				EXPECT_LE(gguf_ntensors(g), 3);
				gguf_close(g);
			}
			gw_free(&c);
		}
	}
	gw_free(&w);
}

TEST(magic_and_version)
{
	static const uint32_t versions[] = { 0, 1, 4, UINT32_MAX };
	struct gw w = { 0 };
	size_t i;

	gw_bytes(&w, "GGML....................", 24);
	refuse(&w, -EBADMSG, "not a GGUF file");
	for (i = 0; i < 4; i++) {
		gw_header(&w, versions[i], 0, 0);
		refuse(&w, -EOPNOTSUPP, "versions 2 and 3 are read");
	}
	gw_header(&w, 0x03000000, 0, 0);
	refuse(&w, -EOPNOTSUPP, "big-endian");
}

TEST(an_empty_model_is_a_file)
{
	struct gw w = { 0 };
	struct gguf *g;

	gw_header(&w, 3, 0, 0);
	ASSERT_EQ(open_exact(&w, &g), 0);
	EXPECT_EQ(gguf_ntensors(g), 0);
	EXPECT_FALSE(gguf_tensor_at(g, 0));
	gguf_close(g);
	gw_free(&w);
}

TEST(huge_counts_allocate_nothing)
{
	struct gw w = { 0 };

	gw_header(&w, 3, 0, HUGE);
	refuse(&w, -EBADMSG, "18446744073709551600 keys");
	gw_header(&w, 3, HUGE, 0);
	refuse(&w, -EBADMSG, "18446744073709551600 tensors");
	/* One more than its bytes can hold. */
	gw_header(&w, 3, 0, 2);
	gw_key_u32(&w, "a.name.of.some.length", 1);
	refuse(&w, -EBADMSG, "key 2 of 2");
	gw_header(&w, 3, 0, 2);
	gw_zeros(&w, 27);
	refuse(&w, -EBADMSG, "2 keys");
	gw_header(&w, 3, 1, 0);
	gw_zeros(&w, 32);
	refuse(&w, -EBADMSG, "1 tensors");

	gw_header(&w, 3, 0, 1);
	gw_key_array(&w, "many", GGUF_V_U32, HUGE);
	gw_zeros(&w, 64);
	refuse(&w, -EBADMSG, "key many: 18446744073709551600 elements");
	/* Times four this is 8: products must not wrap. */
	gw_header(&w, 3, 0, 1);
	gw_key_array(&w, "many", GGUF_V_U32, 0x4000000000000002);
	gw_zeros(&w, 64);
	refuse(&w, -EBADMSG, "key many: 4611686018427387906 elements");
	gw_header(&w, 3, 0, 1);
	gw_key_array(&w, "many", GGUF_V_STRING, HUGE);
	gw_zeros(&w, 64);
	refuse(&w, -EBADMSG, "key many: 18446744073709551600 elements");
}

TEST(huge_lengths)
{
	static const uint64_t lengths[] = {
		UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 64, 1ull << 63,
		INT64_MAX, 100,
	};
	struct gw w = { 0 };
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		gw_header(&w, 3, 0, 1);
		gw_u64(&w, lengths[i]);
		gw_zeros(&w, 64);
		refuse(&w, -EBADMSG, "key 1 of 1 ends early");

		gw_header(&w, 3, 0, 1);
		gw_key(&w, "s", GGUF_V_STRING);
		gw_u64(&w, lengths[i]);
		gw_zeros(&w, 64);
		refuse(&w, -EBADMSG, "key s ends early");

		gw_header(&w, 3, 0, 1);
		gw_key_array(&w, "s", GGUF_V_STRING, 2);
		gw_str(&w, "x");
		gw_u64(&w, lengths[i]);
		gw_zeros(&w, 64);
		refuse(&w, -EBADMSG, "key s: 2 elements do not fit");

		gw_header(&w, 3, 1, 0);
		gw_u64(&w, lengths[i]);
		gw_zeros(&w, 64);
		refuse(&w, -EBADMSG, "tensor 1 of 1 ends early");
	}
}

TEST(names)
{
	static const char * const bad[] = {
		"", "a\nb", "a\x7f", "\xff", "\xc0\x80", "a\xed\xa0\x80",
	};
	const uint64_t ne = 8;
	char name[70000];
	struct gw w = { 0 };
	struct gguf *g;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		gw_header(&w, 3, 0, 1);
		gw_key_u32(&w, bad[i], 1);
		gw_zeros(&w, 16);
		refuse(&w, -EBADMSG, "key 1 of 1 has no proper name");
		gw_header(&w, 3, 1, 0);
		gw_tensor(&w, bad[i], GGUF_F32, 1, &ne, 0);
		gw_zeros(&w, 64);
		refuse(&w, -EBADMSG, "tensor 1 of 1 has no proper name");
	}
	gw_header(&w, 3, 0, 1);
	gw_strn(&w, "a\0b", 3);
	gw_u32(&w, GGUF_V_U32);
	gw_zeros(&w, 16);
	refuse(&w, -EBADMSG, "key 1 of 1 has no proper name");

	memset(name, 'n', sizeof(name));
	gw_header(&w, 3, 0, 1);
	gw_strn(&w, name, 65535);
	gw_u32(&w, GGUF_V_U32);
	gw_u32(&w, 1);
	ASSERT_EQ(open_exact(&w, &g), 0);
	gguf_close(g);
	gw_free(&w);
	gw_header(&w, 3, 0, 1);
	gw_strn(&w, name, 65536);
	gw_u32(&w, GGUF_V_U32);
	gw_u32(&w, 1);
	refuse(&w, -EBADMSG, "no proper name");
	/* A long name does not push the remedy out of the line. */
	gw_header(&w, 3, 0, 1);
	gw_strn(&w, name, 65535);
	gw_u32(&w, GGUF_V_F64);
	gw_u32(&w, 1);
	refuse(&w, -EBADMSG, "download it again");
	gw_header(&w, 3, 1, 0);
	gw_strn(&w, name, 256);
	gw_zeros(&w, 64);
	refuse(&w, -EBADMSG, "no proper name");
}

TEST(twice)
{
	const uint64_t ne = 8;
	struct gw w = { 0 };

	gw_header(&w, 3, 0, 3);
	gw_key_u32(&w, "again", 1);
	gw_key_u32(&w, "other", 1);
	gw_key_str(&w, "again", "x");
	refuse(&w, -EBADMSG, "key again is there twice");
	gw_header(&w, 3, 2, 0);
	gw_tensor(&w, "again", GGUF_F32, 1, &ne, 0);
	gw_tensor(&w, "again", GGUF_F32, 1, &ne, 32);
	gw_align(&w, 32);
	gw_zeros(&w, 64);
	refuse(&w, -EBADMSG, "tensor again is there twice");
}

TEST(value_types)
{
	static const uint32_t types[] = { 13, 255, UINT32_MAX };
	struct gw w = { 0 };
	size_t i;

	for (i = 0; i < 3; i++) {
		gw_header(&w, 3, 0, 1);
		gw_key(&w, "odd", types[i]);
		gw_zeros(&w, 64);
		refuse(&w, -EBADMSG, "key odd: value of type");
		gw_header(&w, 3, 0, 1);
		gw_key_array(&w, "odd", types[i], 1);
		gw_zeros(&w, 64);
		refuse(&w, -EBADMSG, "key odd: elements of type");
	}
	gw_header(&w, 3, 0, 1);
	gw_key_array(&w, "deep", GGUF_V_ARRAY, 1);
	for (i = 0; i < 100000; i++) {
		gw_u32(&w, GGUF_V_ARRAY);
		gw_u64(&w, 1);
	}
	refuse(&w, -EOPNOTSUPP, "key deep is an array of arrays");
}

/* A file of one tensor with 4096 bytes of data. */
static void one_tensor(struct gw *w, uint32_t type, uint32_t ndim,
		       const uint64_t *ne, uint64_t offset)
{
	gw_header(w, 3, 1, 0);
	gw_tensor(w, "blk.3.ffn_up.weight", type, ndim, ne, offset);
	gw_align(w, 32);
	gw_zeros(w, 4096);
}

#define NE(...) ((const uint64_t[]){ __VA_ARGS__ })

TEST(shapes)
{
	struct gw w = { 0 };
	struct gguf *g;

	one_tensor(&w, GGUF_F32, 2, NE(512, 2), 0);
	ASSERT_EQ(open_exact(&w, &g), 0);
	gguf_close(g);
	gw_free(&w);
	one_tensor(&w, GGUF_F32, 1, NE(1025), 0);
	refuse(&w, -EBADMSG,
	       "tensor blk.3.ffn_up.weight lacks 4 of its 4100 bytes");
	one_tensor(&w, GGUF_F32, 0, NE(0), 0);
	refuse(&w, -EBADMSG, "0 dimensions");
	one_tensor(&w, GGUF_F32, 5, NE(1, 1, 1, 1, 1), 0);
	refuse(&w, -EBADMSG, "5 dimensions");
	gw_header(&w, 3, 1, 0);
	gw_str(&w, "x");
	gw_u32(&w, UINT32_MAX);
	gw_zeros(&w, 64);
	refuse(&w, -EBADMSG, "4294967295 dimensions");
	one_tensor(&w, GGUF_F32, 1, NE(0), 0);
	refuse(&w, -EBADMSG, "dimension 0 is 0");
	one_tensor(&w, GGUF_F32, 3, NE(4, 4, 0), 0);
	refuse(&w, -EBADMSG, "dimension 2 is 0");
	/* Products that wrap to something small. */
	one_tensor(&w, GGUF_F32, 2, NE(1ull << 32, 1ull << 32), 0);
	refuse(&w, -EBADMSG, "over 2^63 elements");
	one_tensor(&w, GGUF_F32, 4, NE(1 << 16, 1 << 16, 1 << 16, 1 << 16), 0);
	refuse(&w, -EBADMSG, "over 2^63 elements");
	one_tensor(&w, GGUF_F32, 1, NE(1ull << 63), 0);
	refuse(&w, -EBADMSG, "over 2^63 elements");
	one_tensor(&w, GGUF_F32, 1, NE(1ull << 62), 0);
	refuse(&w, -EBADMSG, "over 2^64 bytes");
	one_tensor(&w, GGUF_Q8_0, 2, NE(33, 32), 0);
	refuse(&w, -EBADMSG, "not whole Q8_0 blocks of 32");
	one_tensor(&w, GGUF_Q6_K, 1, NE(128), 0);
	refuse(&w, -EBADMSG, "not whole Q6_K blocks of 256");
}

TEST(tensor_types)
{
	struct gw w = { 0 };

	one_tensor(&w, 23, 1, NE(256), 0);
	refuse(&w, -EOPNOTSUPP,
	       "tensor blk.3.ffn_up.weight has type 23 (IQ4_XS)");
	one_tensor(&w, 4, 1, NE(256), 0);
	refuse(&w, -EOPNOTSUPP, "has type 4 (unknown)");
	one_tensor(&w, UINT32_MAX, 1, NE(256), 0);
	refuse(&w, -EOPNOTSUPP, "has type 4294967295 (unknown)");
}

TEST(offsets)
{
	struct gw w = { 0 };

	one_tensor(&w, GGUF_F32, 1, NE(8), 4);
	refuse(&w, -EBADMSG, "is at offset 4, not a multiple of 32");
	one_tensor(&w, GGUF_F32, 1, NE(8), 4096);
	refuse(&w, -EBADMSG, "lacks 32 of its 32 bytes");
	one_tensor(&w, GGUF_F32, 1, NE(8), 4128);
	refuse(&w, -EBADMSG, "begins 32 bytes past the end");
	one_tensor(&w, GGUF_F32, 1, NE(8), UINT64_MAX - 31);
	refuse(&w, -EBADMSG, "past the end");
	one_tensor(&w, GGUF_F32, 1, NE(8), 1ull << 63);
	refuse(&w, -EBADMSG, "past the end");
	/* The names fill the file: there is no data at all. */
	gw_header(&w, 3, 1, 0);
	gw_tensor(&w, "x", GGUF_F32, 1, NE(8), 0);
	refuse(&w, -EBADMSG, "tensor x lacks 32 of its 32 bytes");
}

TEST(overlap)
{
	struct gw w = { 0 };
	struct gguf *g;

	gw_header(&w, 3, 3, 0);
	gw_tensor(&w, "last", GGUF_F32, 1, NE(8), 128);
	gw_tensor(&w, "first", GGUF_F32, 1, NE(16), 0);
	gw_tensor(&w, "second", GGUF_F32, 1, NE(16), 64);
	gw_align(&w, 32);
	gw_zeros(&w, 160);
	ASSERT_EQ(open_exact(&w, &g), 0);
	gguf_close(g);
	gw_free(&w);

	gw_header(&w, 3, 3, 0);
	gw_tensor(&w, "last", GGUF_F32, 1, NE(8), 128);
	gw_tensor(&w, "first", GGUF_F32, 1, NE(17), 0);
	gw_tensor(&w, "second", GGUF_F32, 1, NE(16), 64);
	gw_align(&w, 32);
	gw_zeros(&w, 160);
	refuse(&w, -EBADMSG, "tensors first and second overlap");

	gw_header(&w, 3, 2, 0);
	gw_tensor(&w, "a", GGUF_F32, 1, NE(8), 0);
	gw_tensor(&w, "b", GGUF_F32, 1, NE(8), 0);
	gw_align(&w, 32);
	gw_zeros(&w, 32);
	refuse(&w, -EBADMSG, "overlap");
}

TEST(alignment)
{
	static const uint32_t bad[] = { 0, 1, 4, 24, 33, UINT32_MAX,
					1u << 31 };
	struct gw w = { 0 };
	struct gguf *g;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		gw_header(&w, 3, 1, 1);
		gw_key_u32(&w, "general.alignment", bad[i]);
		gw_tensor(&w, "x", GGUF_F32, 1, NE(8), 0);
		gw_zeros(&w, 256);
		refuse(&w, -EBADMSG, "general.alignment");
	}
	gw_header(&w, 3, 1, 1);
	gw_key_str(&w, "general.alignment", "32");
	gw_tensor(&w, "x", GGUF_F32, 1, NE(8), 0);
	gw_zeros(&w, 256);
	refuse(&w, -EBADMSG, "general.alignment");

	gw_header(&w, 3, 1, 1);
	gw_key_u32(&w, "general.alignment", 64);
	gw_tensor(&w, "x", GGUF_F32, 1, NE(1), 64);
	gw_align(&w, 64);
	gw_zeros(&w, 64);
	gw_u32(&w, 0x01020304);
	ASSERT_EQ(open_exact(&w, &g), 0);
	EXPECT_EQ(*(uint32_t *)gguf_tensor_at(g, 0)->data, 0x01020304);
	gguf_close(g);
	gw_free(&w);
}

TEST(paths)
{
	char path[] = "/tmp/kvcache-gguf-XXXXXX";
	struct gguf *g = NULL;
	int fd;

	EXPECT_EQ(gguf_open("/nonexistent.gguf", &g, err, sizeof(err)),
		  -ENOENT);
	EXPECT_TRUE(strstr(err, "/nonexistent.gguf: cannot open"));
	EXPECT_EQ(gguf_open("/", &g, err, sizeof(err)), -EINVAL);
	EXPECT_STREQ(err, "/: not a regular file; name a GGUF file");
	EXPECT_EQ(gguf_open("/dev/null", &g, err, sizeof(err)), -EINVAL);
	fd = mkstemp(path);
	ASSERT_NE(fd, -1);
	EXPECT_EQ(gguf_open(path, &g, err, sizeof(err)), -EINVAL);
	EXPECT_TRUE(strstr(err, ": empty; "));
	ASSERT_EQ(write(fd, "GGUF\3\0\0\0", 8), 8);
	EXPECT_EQ(gguf_open(path, &g, err, sizeof(err)), -EBADMSG);
	EXPECT_TRUE(strstr(err, path) == err);
	EXPECT_TRUE(strstr(err, "has 8 bytes; "));
	EXPECT_FALSE(g);
	/* Any buffer for the message will do. */
	EXPECT_EQ(gguf_open(path, &g, err, 1), -EBADMSG);
	EXPECT_STREQ(err, "");
	EXPECT_EQ(gguf_open(path, &g, NULL, 0), -EBADMSG);
	close(fd);
	unlink(path);
	/* Nobody writes to it: whoever waits for that waits for ever. */
	ASSERT_EQ(0, mkfifo(path, 0600));
	EXPECT_EQ(gguf_open(path, &g, err, sizeof(err)), -EINVAL);
	EXPECT_TRUE(strstr(err, ": not a regular file; "));
	unlink(path);
}

TEST_HARNESS_MAIN
