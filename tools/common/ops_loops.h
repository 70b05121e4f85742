/* SPDX-License-Identifier: MIT */
/*
 * ops_loops.h - rows of ops.h with vectors of VBYTES bytes.
 *
 * Included by ops.c, ops_avx2.c and ops_avx512.c, each built for its
 * instruction set; the compiler's vector types do the rest.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef float vf __attribute__((vector_size(VBYTES)));
typedef int32_t vi __attribute__((vector_size(VBYTES)));
typedef uint32_t vu __attribute__((vector_size(VBYTES)));
#define LANES ((uint32_t)(VBYTES / sizeof(float)))

/* The first @n of LANES elements; the others read as zeros. */
static inline vf load(const float *p, uint32_t n)
{
	vf v = {};

	if (n >= LANES)
		memcpy(&v, p, sizeof(v));
	else
		memcpy(&v, p, n * sizeof(*p));
	return v;
}

static inline void store(float *p, vf v, uint32_t n)
{
	if (n >= LANES)
		memcpy(p, &v, sizeof(v));
	else
		memcpy(p, &v, n * sizeof(*p));
}

static inline vf choose(vi mask, vf a, vf b)
{
	return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/*
 * e^x for x in [-88, 88], others clamped there; NaN for NaN. x = n ln 2 + r
 * with |r| at most half of ln 2; the polynomial is Taylor's of degree 7, whose
 * rest is below 2^-27. Its exponent is raised by n in unsigned arithmetic: n
 * may be negative, and of a NaN it is anything.
 */
static inline vf v_exp(vf x)
{
	const float magic = 0x1.8p23f;	/* rounds to integers when added */
	const vf lo = (vf){} - 88.0f, hi = (vf){} + 88.0f;
	vf t, n, r, p;

	x = choose(x < lo, lo, x);
	x = choose(x > hi, hi, x);
	t = x * 0x1.715476p0f + magic;
	n = t - magic;
	r = x - n * 0x1.62e400p-1f - n * 0x1.7f7d1cp-20f;
	p = r * (1.0f / 5040) + 1.0f / 720;
	p = p * r + 1.0f / 120;
	p = p * r + 1.0f / 24;
	p = p * r + 1.0f / 6;
	p = p * r + 0.5f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	return choose(x == x, (vf)((vu)p + ((vu)t << 23)), x);
}

static void norm_row(float *x, const float *delta, uint32_t dim,
		     const float *weight, float eps, float *out)
{
	double mean = 0;
	vf sum = {}, v;
	uint32_t i;
	float f;

	for (i = 0; i < dim; i += LANES) {
		v = load(x + i, dim - i);
		if (delta) {
			v += load(delta + i, dim - i);
			store(x + i, v, dim - i);
		}
		sum += v * v;
	}
	for (i = 0; i < LANES; i++)
		mean += sum[i];
	/* A sum that has overflowed must not make the row one of zeros. */
	f = isfinite(mean) ? 1.0 / sqrt(mean / dim + eps) : NAN;
	for (i = 0; i < dim; i += LANES)
		store(out + i, load(x + i, dim - i) * f *
			       load(weight + i, dim - i), dim - i);
}

static void swiglu_row(const float *gate, const float *up, uint32_t dim,
		       float *out)
{
	uint32_t i;
	vf g;

	for (i = 0; i < dim; i += LANES) {
		g = load(gate + i, dim - i);
		store(out + i, g / (1.0f + v_exp(-g)) * load(up + i, dim - i),
		      dim - i);
	}
}

/* 0.5 (1 + tanh u) is the logistic function of 2u, whose u is a cubic. */
static void geglu_row(const float *gate, const float *up, uint32_t dim,
		      float *out)
{
	const float one = 0x1.988454p+0f;	/* 2 sqrt(2 / pi) */
	const float three = 0x1.2444f2p-4f;	/* 0.044715 of that */
	uint32_t i;
	vf g, u;

	for (i = 0; i < dim; i += LANES) {
		g = load(gate + i, dim - i);
		u = g * (one + three * g * g);
		store(out + i, g / (1.0f + v_exp(-u)) * load(up + i, dim - i),
		      dim - i);
	}
}

#define OPS_ROWS(isa)							\
	const struct ops_rows ops_rows_##isa = {			\
		.norm = norm_row,					\
		.geglu = geglu_row,					\
		.swiglu = swiglu_row,					\
	}
