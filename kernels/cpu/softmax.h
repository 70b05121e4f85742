/* SPDX-License-Identifier: MIT */
/*
 * softmax.h - the online softmax in base 2 (arXiv:2205.14135), in f32, and
 * the merge of finished results.
 *
 * A row keeps its greatest score m, the sum l of its exponentials, and the
 * sum o of the values; o and l are rescaled only when m grows. To be included
 * after a vec_*.h.
 */
#ifndef KVA_SOFTMAX_H
#define KVA_SOFTMAX_H

#include <math.h>

#define LOG2E 1.4426950408889634074
#define LN2 0.69314718055994530942

/*
 * 2^x for x <= 0, to one or two units in the last place; 0 below -126.5. The
 * polynomial is minimax in relative error on [-0.5, 0.5]: 2.6e-9.
 */
static inline vf v_exp2(vf x)
{
	vf n, f, p;

	x = v_max(v_set1(-127), x);	/* in this order, NaN stays NaN */
	n = v_round(x);
	f = v_sub(x, n);
	p = v_set1(0x1.470b4ap-13f);
	p = v_fma(p, f, v_set1(0x1.5f7276p-10f));
	p = v_fma(p, f, v_set1(0x1.3b270ep-7f));
	p = v_fma(p, f, v_set1(0x1.c6ae72p-5f));
	p = v_fma(p, f, v_set1(0x1.ebfbe2p-3f));
	p = v_fma(p, f, v_set1(0x1.62e432p-1f));
	p = v_fma(p, f, v_set1(1));
	return v_scale2(p, n);
}

static inline float exp2_one(float x)
{
	float out[VW];

	v_store(out, v_exp2(v_set1(x)));
	return out[0];
}

/*
 * tanh, to some units in the last place: the Taylor series, 3e-9 off, where
 * the quotient would cancel.
 */
static inline vf v_tanh(vf x)
{
	vf size = v_max(v_sub(v_set1(0), x), x), sq = v_mul(x, x), t, p;

	t = v_exp2(v_mul(size, v_set1(-2 * LOG2E)));
	t = v_div(v_sub(v_set1(1), t), v_add(v_set1(1), t));
	t = v_less(x, v_set1(0), v_sub(v_set1(0), t), t);
	p = v_set1(62.0f / 2835);
	p = v_fma(p, sq, v_set1(-17.0f / 315));
	p = v_fma(p, sq, v_set1(2.0f / 15));
	p = v_fma(p, sq, v_set1(-1.0f / 3));
	p = v_fma(v_mul(p, sq), x, x);
	return v_less(size, v_set1(0.25f), p, t);
}

/* The first @n scores of a row, between -cap and cap. */
static void cap_row(float *s, unsigned int n, float cap)
{
	unsigned int i;

	for (i = 0; i < n; i += VW)
		v_store(s + i, v_mul(v_tanh(v_div(v_load(s + i), v_set1(cap))),
				     v_set1(cap)));
}

static void scale_row(float *o, size_t dim, float by)
{
	size_t d;

	for (d = 0; d < dim; d += VW)
		v_store(o + d, v_mul(v_load(o + d), v_set1(by)));
}

/*
 * The first @n scores of a row become probabilities relative to
 * the greatest score so far; the row's state follows.
 */
static void softmax_row(float *s, unsigned int n, float *m, float *l,
			float *o, size_t dim)
{
	vf max = v_set1(-INFINITY), sum = v_set1(0), none = v_set1(-INFINITY);
	unsigned int i;
	float top, by;

	for (i = 0; i + VW <= n; i += VW)
		max = v_max(v_load(s + i), max);
	if (i < n)
		max = v_max(v_first(v_load(s + i), n - i, none), max);
	top = v_hmax(max);
	if (top > *m) {
		by = exp2_one(*m - top);
		*m = top;
		*l *= by;
		scale_row(o, dim, by);
	}
	/* all scores so far are -inf: subtract 0, not -inf, from them */
	top = *m > -INFINITY ? *m : 0;
	for (i = 0; i + VW <= n; i += VW) {
		max = v_exp2(v_sub(v_load(s + i), v_set1(top)));
		v_store(s + i, max);
		sum = v_add(sum, max);
	}
	if (i < n) {
		max = v_exp2(v_sub(v_first(v_load(s + i), n - i, none),
				   v_set1(top)));
		max = v_first(max, n - i, v_set1(0));
		v_store(s + i, max);
		sum = v_add(sum, max);
	}
	*l += v_hsum(sum);
}

/*
 * Join @n partial results, @stride rows apart; the weights are relative to
 * the greatest lse.
 */
static void merge_row(size_t n, size_t stride, size_t dim, const float *o,
		      const float *lse, float *out, float *out_lse)
{
	float max = -INFINITY, sum = 0, by;
	size_t i, d;

	for (i = 0; i < n; i++)
		max = lse[i * stride] > max ? lse[i * stride] : max;
	for (d = 0; d < dim; d++)
		out[d] = 0;
	for (i = 0; i < n; i++) {
		if (lse[i * stride] == -INFINITY)
			continue;
		by = expf(lse[i * stride] - max);
		sum += by;
		for (d = 0; d < dim; d++)
			out[d] += by * o[i * stride * dim + d];
	}
	for (d = 0; d < dim && sum != 0; d++)
		out[d] /= sum;
	if (out_lse)
		*out_lse = sum == 0 ? -INFINITY : max + logf(sum);
}

static int merge(const struct kva_merge *m)
{
	size_t r;
	int rc;

	rc = kva_check_merge(m);
	for (r = 0; !rc && r < m->rows; r++)
		merge_row(m->n, m->rows, m->dim, m->o + r * m->dim, m->lse + r,
			  m->out + r * m->dim, m->out_lse ? m->out_lse + r :
							    NULL);
	return rc;
}

#endif /* KVA_SOFTMAX_H */
