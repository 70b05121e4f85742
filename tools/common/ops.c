// SPDX-License-Identifier: MIT
/*
 * ops.c - divide the rows of an operation among threads.
 */
#include <kvattn.h>
#include "ops.h"
#include "ops_rows.h"

#define VBYTES 16
#include "ops_loops.h"

OPS_ROWS(any);

/* Elements that are worth an item of their own. */
#define ITEM 8192

typedef void gate_fn(const float *gate, const float *up, uint32_t dim,
		     float *out);

struct call {
	const struct ops_rows *fn;
	float *x;
	const float *delta;
	const float *in;
	gate_fn *gate;
	const float *weight;
	float eps;
	float *out;
	size_t stride;
	uint32_t rows;
	uint32_t heads;
	uint32_t dim;
	uint32_t unit;		/* rows of an item */
};

/* Nothing here can fail: that KVATTN_ISA is wrong is for others to say. */
static const struct ops_rows *pick(void)
{
	switch (kva_isa()) {
	case KVA_AVX512:
		return &ops_rows_avx512;
	case KVA_AVX2:
		return &ops_rows_avx2;
	default:
		return &ops_rows_any;
	}
}

static void run(struct kva_threads *t, struct call *c,
		void (*fn)(void *arg, size_t item, unsigned int thread))
{
	size_t row = (size_t)c->dim * (c->heads ? c->heads : 1);

	c->fn = pick();
	c->unit = row < ITEM ? ITEM / row : 1;
	kva_threads_run(t, (c->rows + c->unit - 1) / c->unit, fn, c);
}

static uint32_t end_of(const struct call *c, size_t item)
{
	size_t end = (item + 1) * c->unit;

	return end < c->rows ? end : c->rows;
}

static void norm_item(void *arg, size_t item, unsigned int thread)
{
	const struct call *c = arg;
	size_t r, at;

	for (r = item * c->unit; r < end_of(c, item); r++) {
		at = r * c->dim;
		c->fn->norm(c->x + at, c->delta ? c->delta + at : NULL, c->dim,
			    c->weight, c->eps, c->out + at);
	}
}

static void gated_item(void *arg, size_t item, unsigned int thread)
{
	const struct call *c = arg;
	const float *in;
	size_t r;

	for (r = item * c->unit; r < end_of(c, item); r++) {
		in = c->in + 2 * r * c->dim;
		c->gate(in, in + c->dim, c->dim, c->out + r * c->dim);
	}
}

static void bias_item(void *arg, size_t item, unsigned int thread)
{
	const struct call *c = arg;
	uint32_t i;
	float *x;
	size_t r;

	for (r = item * c->unit; r < end_of(c, item); r++) {
		x = c->x + r * c->stride;
		for (i = 0; i < c->dim; i++)
			x[i] += c->weight[i];
	}
}

static void heads_item(void *arg, size_t item, unsigned int thread)
{
	const struct call *c = arg;
	uint32_t h;
	float *x;
	size_t r;

	for (r = item * c->unit; r < end_of(c, item); r++) {
		x = c->x + r * c->stride;
		for (h = 0; h < c->heads; h++, x += c->dim)
			c->fn->norm(x, NULL, c->dim, c->weight, c->eps, x);
	}
}

void ops_norm(struct kva_threads *t, float *x, const float *delta,
	      uint32_t rows, uint32_t dim, const float *weight, float eps,
	      float *out)
{
	struct call c = {
		.x = x,
		.delta = delta,
		.weight = weight,
		.eps = eps,
		.out = out,
		.rows = rows,
		.dim = dim,
	};

	run(t, &c, norm_item);
}

static void gated(struct kva_threads *t, const float *gate_up, uint32_t rows,
		  uint32_t dim, float *out, gate_fn *gate)
{
	struct call c = {
		.in = gate_up,
		.out = out,
		.rows = rows,
		.dim = dim,
		.gate = gate,
	};

	run(t, &c, gated_item);
}

void ops_swiglu(struct kva_threads *t, const float *gate_up, uint32_t rows,
		uint32_t dim, float *out)
{
	gated(t, gate_up, rows, dim, out, pick()->swiglu);
}

void ops_geglu(struct kva_threads *t, const float *gate_up, uint32_t rows,
	       uint32_t dim, float *out)
{
	gated(t, gate_up, rows, dim, out, pick()->geglu);
}

void ops_bias(struct kva_threads *t, float *x, size_t stride, uint32_t rows,
	      uint32_t dim, const float *bias)
{
	struct call c = {
		.x = x,
		.weight = bias,
		.stride = stride,
		.rows = rows,
		.dim = dim,
	};

	run(t, &c, bias_item);
}

void ops_norm_heads(struct kva_threads *t, float *x, size_t stride,
		    uint32_t rows, uint32_t heads, uint32_t dim,
		    const float *weight, float eps)
{
	struct call c = {
		.x = x,
		.weight = weight,
		.eps = eps,
		.stride = stride,
		.rows = rows,
		.heads = heads,
		.dim = dim,
	};

	run(t, &c, heads_item);
}
