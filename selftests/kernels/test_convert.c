// SPDX-License-Identifier: MIT
/*
 * test_convert.c - element conversions, over all values of the 16-bit types
 * and at every rounding border between them.
 */
#include "kit.h"

static float from_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/* The value that a 16-bit pattern stands for, by its definition. */
static double value_of(uint16_t h, int exp_bits, int man_bits)
{
	int bias = (1 << (exp_bits - 1)) - 1;
	int e = h >> man_bits & ((1 << exp_bits) - 1);
	int m = h & ((1 << man_bits) - 1);
	double sign = h & 0x8000 ? -1 : 1;

	if (e == (1 << exp_bits) - 1)
		return m ? NAN : sign * INFINITY;
	if (e == 0)
		return sign * ldexp(m, 1 - bias - man_bits);
	return sign * ldexp((1 << man_bits) + m, e - bias - man_bits);
}

TEST(f16_all_values)
{
	uint32_t h;

	for (h = 0; h < 65536; h++) {
		double want = value_of(h, 5, 10);
		float f = kva_f16_to_f32(h);

		if (isnan(want)) {
			ASSERT_TRUE(isnan(f));
			ASSERT_TRUE(isnan(kva_f16_to_f32(kva_f32_to_f16(f))));
			ASSERT_EQ(h >> 15, kva_f32_to_f16(f) >> 15);
			continue;
		}
		ASSERT_TRUE(f == want);
		ASSERT_EQ(signbit(want) != 0, signbit(f) != 0);
		ASSERT_EQ(h, kva_f32_to_f16(f));
	}
}

TEST(bf16_all_values)
{
	uint32_t h;

	for (h = 0; h < 65536; h++) {
		double want = value_of(h, 8, 7);
		float f = kva_bf16_to_f32(h);

		if (isnan(want)) {
			ASSERT_TRUE(isnan(f));
			ASSERT_TRUE(isnan(kva_bf16_to_f32(
						kva_f32_to_bf16(f))));
			continue;
		}
		ASSERT_TRUE(f == want);
		ASSERT_EQ(h, kva_f32_to_bf16(f));
	}
}

/*
 * Between each value and the next: the middle goes to the even one, anything
 * nearer to the nearer one.
 */
static void borders(int exp_bits, int man_bits, uint16_t (*to)(float))
{
	uint32_t last = ((1u << exp_bits) - 1) << man_bits, h, sign;

	for (h = 0; h < last; h++) {
		double a = value_of(h, exp_bits, man_bits), b;
		float mid;

		/* past the last value is where the next would be */
		b = h + 1 < last ? value_of(h + 1, exp_bits, man_bits) :
		    a + (a - value_of(h - 1, exp_bits, man_bits));
		mid = (a + b) / 2;
		ASSERT_TRUE(mid == (a + b) / 2);	/* exact in f32 */
		for (sign = 0; sign <= 0x8000; sign += 0x8000) {
			float s = sign ? -1 : 1;

			ASSERT_EQ(sign | (h + (h & 1)), to(s * mid));
			ASSERT_EQ(sign | h, to(s * nextafterf(mid, 0)));
			ASSERT_EQ(sign | (h + 1),
				  to(s * nextafterf(mid, INFINITY)));
		}
	}
}

TEST(f16_borders) { borders(5, 10, kva_f32_to_f16); }
TEST(bf16_borders) { borders(8, 7, kva_f32_to_bf16); }

TEST(extremes)
{
	static const uint32_t nan[] = {
		0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff,
		0x7f800fff, 0x7fbfffff, 0x7f80ffff,
	};
	size_t i;

	ASSERT_EQ(0x7c00, kva_f32_to_f16(INFINITY));
	ASSERT_EQ(0xfc00, kva_f32_to_f16(-INFINITY));
	ASSERT_EQ(0x7c00, kva_f32_to_f16(3e38f));
	ASSERT_EQ(0x7f80, kva_f32_to_bf16(INFINITY));
	ASSERT_EQ(0xff80, kva_f32_to_bf16(-INFINITY));
	ASSERT_EQ(0x8000, kva_f32_to_f16(-0.0f));
	ASSERT_EQ(0x8000, kva_f32_to_bf16(-0.0f));
	ASSERT_EQ(0, kva_f32_to_f16(from_bits(1)));
	for (i = 0; i < sizeof(nan) / sizeof(nan[0]); i++) {
		ASSERT_TRUE(isnan(kva_f16_to_f32(
					kva_f32_to_f16(from_bits(nan[i])))));
		ASSERT_TRUE(isnan(kva_bf16_to_f32(
					kva_f32_to_bf16(from_bits(nan[i])))));
	}
}

TEST(types_by_name)
{
	ASSERT_EQ(KVA_F32, kva_type_parse("f32"));
	ASSERT_EQ(KVA_F16, kva_type_parse("f16"));
	ASSERT_EQ(KVA_BF16, kva_type_parse("bf16"));
	ASSERT_EQ(3, kva_type_parse("int8"));
	ASSERT_EQ(4, kva_type_parse("e4m3"));
	ASSERT_EQ(5, kva_type_parse("e4m3t"));
	ASSERT_EQ(6, kva_type_parse("int4"));
	ASSERT_EQ(7, kva_type_parse("int4h"));
	ASSERT_EQ(-EINVAL, kva_type_parse("f64"));
	ASSERT_EQ(-EINVAL, kva_type_parse(""));
	ASSERT_STREQ("bf16", kva_type_name(KVA_BF16));
	ASSERT_STREQ("?", kva_type_name(KVA_NR_TYPES));
	ASSERT_EQ(64, kva_row_size(KVA_F32, 16));
	ASSERT_EQ(32, kva_row_size(KVA_F16, 16));
	ASSERT_EQ(32, kva_row_size(KVA_BF16, 16));
	ASSERT_EQ(0, kva_row_size(KVA_NR_TYPES, 16));
}

TEST_HARNESS_MAIN
