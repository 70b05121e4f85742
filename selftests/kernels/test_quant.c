// SPDX-License-Identifier: MIT
/*
 * test_quant.c - the packed types by their definitions: each code of append
 * against one computed in double, errors against f32 bounded, rows that are
 * not finite, and given scales that are missing.
 */
#include "kit.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const unsigned int types[] = {
	KVA_INT8, KVA_E4M3, KVA_E4M3T, KVA_INT4, KVA_INT4H,
};
static const uint32_t dims[] = { 64, 80, 96, 128, 256, 576, 16, 48 };

/* What an E4M3 code means, from its fields; 127 is NaN. */
static double e4m3(unsigned int code)
{
	unsigned int e = code >> 3 & 15, m = code & 7;
	double x = e ? ldexp(8 + m, (int)e - 10) : ldexp(m, -9);

	if ((code & 0x7f) == 0x7f)
		return NAN;
	return code & 0x80 ? -x : x;
}

/* The nearest of all 254 finite codes; ties to the even one. */
static unsigned int e4m3_nearest(double x)
{
	unsigned int best = 0, c;

	if (isnan(x))
		return 0x7f;
	for (c = 1; c < 0x7f; c++) {
		double a = fabs(e4m3(c) - fabs(x));
		double b = fabs(e4m3(best) - fabs(x));

		if (a < b || (a == b && c % 2 == 0))
			best = c;
	}
	if (fabs(x) > 448)
		best = 0x7e;
	return best | (signbit(x) ? 0x80 : 0);
}

TEST(e4m3_codes)
{
	unsigned int code, i;
	uint8_t row[32];
	float in[32], out[32];

	for (code = 0; code < 256; code++) {
		double x = e4m3(code), y = e4m3((code & 0x7f) == 0x7e ? code :
						code + 1);

		memset(row, 0, sizeof(row));
		row[3] = code;
		kva_row_decode(KVA_E4M3T, 1, row, out, 16);
		ASSERT_TRUE(out[3] == (float)x || (isnan(out[3]) && isnan(x)));
		if (isnan(x))
			continue;
		/* it, its neighbourhood, and the tie between it and the next */
		in[0] = x;
		in[1] = nextafterf(x, 1000);
		in[2] = nextafterf(x, -1000);
		in[3] = (x + y) / 2;
		in[4] = nextafterf(in[3], 1000);
		in[5] = nextafterf(in[3], -1000);
		in[6] = x * 1.01;
		in[7] = x * 1e6;
		for (i = 8; i < 16; i++)
			in[i] = ldexp(kit_uniform(), (int)(kit_random() % 20) -
						     10);
		kva_row_encode(KVA_E4M3T, 1, in, row, 16);
		for (i = 0; i < 16; i++)
			ASSERT_EQ(e4m3_nearest(in[i]), row[i]);
	}
	in[0] = NAN;
	in[1] = INFINITY;
	in[2] = -INFINITY;
	in[3] = 1e-40f;
	kva_row_encode(KVA_E4M3T, 0.5f, in, row, 16);
	ASSERT_EQ(0x7f, row[0]);
	ASSERT_EQ(0x7e, row[1]);
	ASSERT_EQ(0xfe, row[2]);
	ASSERT_EQ(0, row[3]);
}

static float random_value(unsigned int how)
{
	switch (how % 4) {
	case 0:
		return kit_uniform();
	case 1:		/* outliers */
		return kit_uniform() * (kit_random() % 16 ? 1 : 50);
	case 2:		/* far from zero */
		return 7 + kit_uniform();
	default:
		return ldexpf(kit_uniform(), (int)(kit_random() % 30) - 15);
	}
}

static void check_int8(const float *in, const uint8_t *row, uint32_t D)
{
	float amax = 0, scale;

	for (uint32_t d = 0; d < D; d++)
		amax = fmaxf(amax, fabsf(in[d]));
	memcpy(&scale, row + D, 4);
	ASSERT_TRUE(scale == amax / 127);
	for (uint32_t d = 0; d < D; d++)
		ASSERT_EQ((int)rint((double)(float)(in[d] / scale)),
			  (int8_t)row[d]);
}

static void check_e4m3(const float *in, const uint8_t *row, uint32_t D)
{
	float amax = 0, scale;

	for (uint32_t d = 0; d < D; d++)
		amax = fmaxf(amax, fabsf(in[d]));
	memcpy(&scale, row + D, 4);
	ASSERT_TRUE(scale == amax / 448);
	for (uint32_t d = 0; d < D; d++)
		ASSERT_EQ(e4m3_nearest(in[d] / scale), row[d]);
}

static void check_int4(const float *in, const uint8_t *row, uint32_t D)
{
	uint32_t ng = (D + 31) / 32;
	const uint16_t *s = (const uint16_t *)(row + D / 2);

	for (uint32_t g = 0; g < ng; g++) {
		uint32_t n = D - 32 * g < 32 ? D - 32 * g : 32;
		float lo = in[32 * g], hi = lo, m, d;

		for (uint32_t i = 0; i < n; i++) {
			lo = fminf(lo, in[32 * g + i]);
			hi = fmaxf(hi, in[32 * g + i]);
		}
		m = kva_f16_to_f32(s[ng + g]);
		d = kva_f16_to_f32(s[g]);
		ASSERT_EQ(kva_f32_to_f16(lo), s[ng + g]);
		ASSERT_EQ(kva_f32_to_f16((hi - m) / 15), s[g]);
		for (uint32_t i = 0; i < n; i++) {
			uint8_t byte = row[16 * g + i % (n / 2)];
			double q = rint((double)(float)((in[32 * g + i] - m) /
							d));

			ASSERT_EQ(fmin(fmax(q, 0), 15),
				  i < n / 2 ? byte & 15 : byte >> 4);
		}
	}
}

TEST(codes)
{
	float in[KVA_DIM_MAX];
	uint32_t row[KVA_DIM_MAX];

	for (unsigned int i = 0; i < 64; i++) {
		uint32_t D = dims[i % N(dims)];

		for (uint32_t d = 0; d < D; d++)
			in[d] = random_value(i / N(dims));
		kva_row_encode(KVA_INT8, 0, in, row, D);
		check_int8(in, (uint8_t *)row, D);
		kva_row_encode(KVA_E4M3, 0, in, row, D);
		check_e4m3(in, (uint8_t *)row, D);
		kva_row_encode(KVA_INT4, 0, in, row, D);
		check_int4(in, (uint8_t *)row, D);
	}
}

TEST(sizes)
{
	ASSERT_EQ(68, kva_row_size(KVA_INT8, 64));
	ASSERT_EQ(68, kva_row_size(KVA_E4M3, 64));
	ASSERT_EQ(64, kva_row_size(KVA_E4M3T, 64));
	ASSERT_EQ(40, kva_row_size(KVA_INT4, 64));
	ASSERT_EQ(52, kva_row_size(KVA_INT4H, 80));
	for (unsigned int i = 0; i < N(types); i++)
		for (int is_v = 0; is_v <= 1; is_v++)
			for (int order = 0; order <= 1; order++)
				ASSERT_EQ(7 * kva_row_size(types[i], 80),
					  kva_slab_size(types[i], order, is_v,
							7, 80));
}

/* Where the table in kvattn.h says that byte @b of row @slot lies. */
static size_t place(unsigned int type, int is_v, size_t P, size_t D,
		    size_t slot, size_t b)
{
	size_t cells = type == KVA_INT4 || type == KVA_INT4H ? D / 2 : D;
	size_t word = cells == D ? 4 : 2;

	if (b >= cells)
		return P * cells + ((b - cells) / word * P + slot) * word +
		       (b - cells) % word;
	if (is_v)
		return slot * cells + b;
	return type == KVA_INT8 ? (b / 4 * P + slot) * 4 + b % 4 : b * P + slot;
}

/* Rows in any order: each byte where it belongs, and no other touched. */
TEST(places)
{
	static const uint32_t page_tokens[] = { 1, 5, 8, 40 };
	unsigned int i, j, order;

	for (i = 0; i < 2 * 4 * N(types); i++) {
		struct kit_shape s = {
			.k_type = types[i / 8], .v_type = types[i / 8],
			.order = KVA_CPU, .k_dim = 80, .v_dim = 80,
			.kv_heads = 2, .group = 1, .nseq = 1,
			.page_tokens = page_tokens[i / 2 % 4],
			.len = { 1 }, .rows = { 1 },
		};
		size_t P = s.page_tokens, row = kva_row_size(s.k_type, 80);
		size_t at, b, size;
		uint8_t *in, *out, *want;
		int is_v = i % 2;
		struct kit k;

		kit_init(&k, &s);
		size = k.view.page_stride;
		in = kit_alloc(P * row);
		out = kit_alloc(P * row);
		want = kit_alloc(size);
		for (b = 0; b < size; b++)
			want[b] = k.arena[b] = kit_random();
		at = is_v ? k.view.v_off + k.view.v_head_stride :
			    k.view.k_off + k.view.k_head_stride;
		for (b = 0; b < P * row; b++) {
			in[b] = kit_random();
			want[at + place(s.k_type, is_v, P, 80, b / row,
					b % row)] = in[b];
		}
		order = kit_random() % P;
		for (j = 0; j < P; j++) {
			size_t t = (j + order) % P;

			kva_rows_write(&k.view, k.arena, is_v, 1, t, 1,
				       in + t * row);
		}
		ASSERT_EQ(0, memcmp(want, k.arena, size));
		kva_rows_read(&k.view, k.arena, is_v, 1, P / 2, P - P / 2, out);
		ASSERT_EQ(0, memcmp(out, in + P / 2 * row, (P - P / 2) * row));
		free(in);
		free(out);
		free(want);
		kit_free(&k);
	}
}

/* |x - what is stored| of each element: at most half a step. */
static double half_step(unsigned int type, const float *in, uint32_t D,
			uint32_t d)
{
	double amax = 0, lo = INFINITY, hi = -INFINITY, norm = 0;
	uint32_t block = D & -D, i;	/* groups may be of several */

	for (i = 0; i < D; i++)
		amax = fmax(amax, fabs(in[i]));
	for (i = d / 32 * 32; i < D && i < d / 32 * 32 + 32; i++) {
		lo = fmin(lo, in[i]);
		hi = fmax(hi, in[i]);
	}
	for (i = 0; i < D; i++)
		norm += (double)in[i] * in[i];
	switch (type) {
	case KVA_INT8:
		return amax / 127 / 2 * 1.0001;
	case KVA_E4M3:
	case KVA_E4M3T:
		/* half of 2^-3 of it, or of the last place */
		return fmax(fabs(in[d]) / 16, amax / 448 * 0x1p-10) * 1.0001;
	case KVA_INT4:
		/* the minimum is rounded, to half of 2^-10 of it */
		return (hi - lo) / 15 / 2 * 1.001 + fabs(lo) * 0x1p-10 + 1e-6;
	default:
		/* a block's error is as long as before the rotation */
		return 2 * sqrt(norm) / 15 / 2 * sqrt(block);
	}
}

static void error_of(unsigned int type, uint32_t D, unsigned int how,
		     double *err, double *ref)
{
	float in[KVA_DIM_MAX] = { 0 }, out[KVA_DIM_MAX], amax = 0;
	uint32_t row[KVA_DIM_MAX], d;

	for (d = 0; d < D; d++) {
		in[d] = random_value(how);
		amax = fmaxf(amax, fabsf(in[d]));
	}
	kva_row_encode(type, amax / 448, in, row, D);
	kva_row_decode(type, amax / 448, row, out, D);
	for (d = 0; d < D; d++) {
		ASSERT_TRUE(fabs((double)in[d] - out[d]) <=
			    half_step(type, in, D, d));
		*err += ((double)in[d] - out[d]) * ((double)in[d] - out[d]);
		*ref += (double)in[d] * in[d];
	}
}

/*
 * Errors against f32: each within half a step, and the root mean squares of
 * uniform rows where theory has them: step / sqrt(12) of a span of sqrt(12)
 * deviations, 1/254 and 1/15 for int8 and int4 (less: spans are a bit smaller).
 */
TEST(errors)
{
	static const double most[KVA_NR_TYPES] = {
		[KVA_INT8] = 1 / 254.0, [KVA_E4M3] = 0.03, [KVA_E4M3T] = 0.03,
		[KVA_INT4] = 1 / 15.0, [KVA_INT4H] = 0.09,
	};

	for (unsigned int i = 0; i < N(types); i++) {
		for (unsigned int how = 0; how < 4; how++) {
			double err = 0, ref = 0, rms;

			for (unsigned int n = 0; n < 160; n++)
				error_of(types[i], dims[n % N(dims)], how, &err,
					 &ref);
			rms = sqrt(err / ref);
			ht_log("%s, values %u: %.5f", kva_type_name(types[i]),
			       how, rms);
			if (how == 0) {
				EXPECT_TRUE(rms <= most[types[i]]);
				EXPECT_TRUE(rms >= most[types[i]] / 2);
			}
		}
	}
}

/* A rotation spreads outliers, so 4 bits lose less on rows that have them. */
TEST(rotation_helps)
{
	double plain = 0, turned = 0, ref = 0;

	for (unsigned int n = 0; n < 200; n++) {
		float in[128], out[128];
		uint32_t row[128];

		for (int d = 0; d < 128; d++) {
			in[d] = kit_uniform() * (d == 17 ? 20 : 1);
			ref += in[d] * in[d];
		}
		kva_row_encode(KVA_INT4, 0, in, row, 128);
		kva_row_decode(KVA_INT4, 0, row, out, 128);
		for (int d = 0; d < 32; d++)
			plain += (in[d] - out[d]) * (in[d] - out[d]);
		kva_row_encode(KVA_INT4H, 0, in, row, 128);
		kva_row_decode(KVA_INT4H, 0, row, out, 128);
		for (int d = 0; d < 32; d++)
			turned += (in[d] - out[d]) * (in[d] - out[d]);
	}
	ht_log("%g without, %g with", plain / ref, turned / ref);
	EXPECT_TRUE(turned < plain / 2);
}

/* Zeros, denormals, and what is not finite: a row of NaN, never a number. */
TEST(special_rows)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY };
	float in[80] = { 0 }, out[80];
	uint32_t row[80];

	for (unsigned int i = 0; i < N(types); i++) {
		unsigned int type = types[i];

		memset(in, 0, sizeof(in));
		kva_row_encode(type, 1, in, row, 80);
		kva_row_decode(type, 1, row, out, 80);
		for (int d = 0; d < 80; d++)
			ASSERT_TRUE(out[d] == 0);
		in[7] = -1e-40f;
		in[9] = 3e-42f;
		kva_row_encode(type, 1, in, row, 80);
		kva_row_decode(type, 1, row, out, 80);
		for (int d = 0; d < 80; d++)
			ASSERT_TRUE(fabsf(out[d]) <= 1e-37f);
		for (int d = 0; d < 80; d++)
			in[d] = 5;
		kva_row_encode(type, 1, in, row, 80);
		kva_row_decode(type, 1, row, out, 80);
		for (int d = 0; d < 80; d++)
			ASSERT_TRUE(fabsf(out[d] - 5) <= 5.0f / 127);
		for (unsigned int k = 0; k < N(odd); k++) {
			in[70] = odd[k];
			kva_row_encode(type, 1, in, row, 80);
			kva_row_decode(type, 1, row, out, 80);
			if (type != KVA_E4M3T || isnan(odd[k]))
				ASSERT_TRUE(isnan(out[70]));
			else
				ASSERT_TRUE(fabsf(out[70]) == 448);
			if (type == KVA_INT8 || type == KVA_E4M3)
				ASSERT_TRUE(isnan(out[0]));
			if (type == KVA_INT4)
				ASSERT_TRUE(isnan(out[64]) && out[63] == 5);
		}
		in[70] = 1e30f;		/* no f16 holds it */
		kva_row_encode(KVA_INT4, 1, in, row, 80);
		kva_row_decode(KVA_INT4, 1, row, out, 80);
		ASSERT_TRUE(isnan(out[70]) && isnan(out[64]) && out[63] == 5);
	}
}

/* A scale that is missing or no scale is an error, and nothing is done. */
static void missing(const char *name)
{
	static const float bad[] = { 0, -1, NAN, INFINITY, 1e-40f };
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = {
		.k_type = KVA_E4M3T, .v_type = KVA_E4M3T, .order = KVA_CPU,
		.k_dim = 64, .v_dim = 64, .kv_heads = 1, .group = 1,
		.page_tokens = 8, .nseq = 1, .len = { 9 }, .rows = { 1 },
	};
	struct kva_append ap;
	uint32_t from = 0, to = 9;
	double turn[64] = { 0 };
	struct kva_shift sh;
	char *before;
	struct kit k;

	kit_init(&k, &s);
	ap = (struct kva_append) {
		.kv = &k.view, .row_ptr = k.row_ptr, .k = k.q, .v = k.q,
		.k_stride = 64, .v_stride = 64,
	};
	sh = (struct kva_shift) {
		.kv = &k.view, .from = &from, .to = &to, .turn = turn,
		.rope = KVA_ROPE_HALF, .rot_dim = 64,
	};
	before = kit_alloc(k.arena_size);
	memcpy(before, k.arena, k.arena_size);
	for (unsigned int i = 0; i < 2 * N(bad); i++) {
		k.view.k_scale = i % 2 ? bad[i / 2] : KIT_K_SCALE;
		k.view.v_scale = i % 2 ? KIT_V_SCALE : bad[i / 2];
		EXPECT_EQ(-EINVAL, kit_run(&k, ops, 0, NULL, k.o, k.lse));
		EXPECT_EQ(-EINVAL, kit_run(&k, ops, 1, NULL, k.o, k.lse));
		EXPECT_EQ(-EINVAL, ops->append(&ap, NULL));
		EXPECT_EQ(-EINVAL, ops->shift(&sh, NULL));
	}
	ASSERT_EQ(0, memcmp(before, k.arena, k.arena_size));
	k.view.k_type = k.view.v_type = KVA_INT4;	/* these need none */
	EXPECT_EQ(0, ops->append(&ap, NULL));
	free(before);
	kit_free(&k);
}

TEST(missing_ref) { missing("ref"); }
TEST(missing_scalar) { missing("scalar"); }
TEST(missing_avx2) { missing("avx2"); }
TEST(missing_avx512) { missing("avx512"); }

TEST_HARNESS_MAIN
