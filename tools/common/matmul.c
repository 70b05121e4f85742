// SPDX-License-Identifier: MIT
/*
 * matmul.c - divide products among threads and between our code and oneDNN.
 *
 * A product of few rows is bound by the bytes of the weights: they are read
 * once, as the file has them. A product of many rows is bound by arithmetic:
 * a panel of rows is expanded into a thread's own scratch, which costs a few
 * hundredths of the product, and no second copy of the weights exists.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <kvattn.h>
#include "gguf.h"
#include "matmul.h"
#include "matmul_kernels.h"
#include "matmul_wide.h"

#define MAX_JOBS 4
/* Weight rows that a thread takes at a time: at least, and at most. */
#define FEW_MIN 16
#define FEW_MAX 64
#define PANEL_MIN 32
#define PANEL_MAX 96

/* A thread's own memory. */
struct slot {
	float *row;		/* one row of a type without a kernel */
	void *panel;
	void *scratch;
	size_t row_bytes;
	size_t panel_bytes;
	size_t scratch_bytes;
};

struct matmul {
	struct kva_threads *threads;
	const struct matmul_kernels *k;
	struct wide *wide;	/* only for bf16 */
	struct slot *slots;
	unsigned int nslots;
	uint16_t *xb;		/* x as bf16 */
	size_t xb_bytes;
};

struct call {
	struct matmul *mm;
	const float *x;
	size_t xs;
	uint32_t m;
	const struct matmul_job *jobs;
	uint32_t unit;			/* weight rows of an item */
	size_t first[MAX_JOBS + 1];	/* item where each job begins */
	int err;
};

int matmul_direct(uint32_t type)
{
	return type == GGUF_F32 || type == GGUF_F16 || type == GGUF_BF16 ||
	       type == GGUF_Q4_0 || type == GGUF_Q4_1 || type == GGUF_Q8_0;
}

static int is_direct(const struct matrix *w)
{
	return matmul_direct(w->type) && w->cols % MATMUL_RUN == 0;
}

static int pick_kernels(const struct matmul_kernels **out)
{
	static const struct matmul_kernels *const kernels[] = {
		[KVA_SCALAR] = &matmul_scalar,
		[KVA_AVX2] = &matmul_avx2,
		[KVA_AVX512] = &matmul_avx512,
	};
	int isa = kva_isa();

	if (isa < 0)
		return isa;
	*out = kernels[isa];
	return 0;
}

int matmul_create(struct kva_threads *threads, enum matmul_wide wide,
		  struct matmul **out)
{
	struct matmul *mm;
	int ret;

	if (wide == MATMUL_BF16 && !matmul_has_bf16())
		return -EOPNOTSUPP;
	mm = calloc(1, sizeof(*mm));
	if (!mm)
		return -ENOMEM;
	mm->threads = threads;
	mm->nslots = threads ? kva_threads_count(threads) : 1;
	ret = pick_kernels(&mm->k);
	if (ret)
		goto fail;
	ret = -ENOMEM;
	mm->slots = calloc(mm->nslots, sizeof(*mm->slots));
	if (!mm->slots)
		goto fail;
	if (wide == MATMUL_BF16) {
		ret = wide_create(&mm->wide);
		if (ret)
			goto fail;
	}
	*out = mm;
	return 0;
fail:
	matmul_destroy(mm);
	return ret;
}

void matmul_destroy(struct matmul *mm)
{
	unsigned int i;

	if (!mm)
		return;
	for (i = 0; mm->slots && i < mm->nslots; i++) {
		free(mm->slots[i].row);
		free(mm->slots[i].panel);
		free(mm->slots[i].scratch);
	}
	free(mm->slots);
	free(mm->xb);
	wide_destroy(mm->wide);
	free(mm);
}

const char *matmul_isa(const struct matmul *mm)
{
	return mm->k->name;
}

void matmul_row(const struct matrix *w, uint32_t row, float *out)
{
	gguf_dequant(w->type, w->data + row * w->row_bytes, w->cols, out);
}

/* Room for @bytes at @p, which loses what it had. */
static int room(void *p, size_t *have, size_t bytes)
{
	void *fresh;

	if (bytes <= *have)
		return 0;
	bytes = (bytes + 63) / 64 * 64;
	fresh = aligned_alloc(64, bytes);
	if (!fresh)
		return -ENOMEM;
	free(*(void **)p);
	*(void **)p = fresh;
	*have = bytes;
	return 0;
}

/* The job of an item, and the weight rows that it means. */
static const struct matmul_job *find_job(const struct call *c, size_t item,
					 uint32_t *first, uint32_t *n)
{
	const struct matmul_job *j = c->jobs;
	size_t i = 0;

	while (item >= c->first[i + 1])
		i++;
	j += i;
	*first = (item - c->first[i]) * c->unit;
	*n = j->w->rows - *first;
	if (*n > c->unit)
		*n = c->unit;
	return j;
}

/* Weight rows, in runs that the kernels read, with all rows of x. */
static void dot_all(const struct call *c, const struct matrix *w,
		    uint32_t first, uint32_t n, float *y, size_t ys)
{
	uint32_t i, nx;

	for (i = 0; i < c->m; i += nx) {
		nx = c->m - i < MATMUL_GROUP ? c->m - i : MATMUL_GROUP;
		c->mm->k->dot(w, first, n, c->x + i * c->xs, c->xs, nx,
			      y + i * ys, ys);
	}
}

static void few_item(void *arg, size_t item, unsigned int thread)
{
	struct call *c = arg;
	float *row = c->mm->slots[thread].row;
	const struct matmul_job *j;
	uint32_t first, n, r, i, k;
	struct matrix one;
	float *y;

	j = find_job(c, item, &first, &n);
	if (is_direct(j->w)) {
		dot_all(c, j->w, first, n, j->y + first, j->y_stride);
		return;
	}
	one = (struct matrix){
		.data = (const uint8_t *)row,
		.type = GGUF_F32,
		.rows = 1,
		.cols = j->w->cols - j->w->cols % MATMUL_RUN,
	};
	for (r = first; r < first + n; r++) {
		matmul_row(j->w, r, row);
		y = j->y + r;
		dot_all(c, &one, 0, 1, y, j->y_stride);
		for (i = 0; i < c->m; i++, y += j->y_stride)
			for (k = one.cols; k < j->w->cols; k++)
				*y += row[k] * c->x[i * c->xs + k];
	}
}

static void expand_panel(const struct call *c, struct slot *s,
			 const struct matrix *w, uint32_t first, uint32_t n)
{
	const struct matmul_kernels *k = c->mm->k;
	uint32_t r;

	for (r = 0; r < n; r++) {
		float *f32 = (float *)s->panel + (size_t)r * w->cols;
		uint16_t *bf16 = (uint16_t *)s->panel + (size_t)r * w->cols;

		if (!c->mm->wide) {
			if (is_direct(w))
				k->expand(w, first + r, f32);
			else
				matmul_row(w, first + r, f32);
		} else if (is_direct(w)) {
			k->expand_bf16(w, first + r, bf16);
		} else {
			matmul_row(w, first + r, s->row);
			k->to_bf16(s->row, w->cols, bf16);
		}
	}
}

static void wide_item(void *arg, size_t item, unsigned int thread)
{
	struct call *c = arg;
	struct slot *s = &c->mm->slots[thread];
	const struct matmul_job *j;
	uint32_t first, n;
	int ret;

	j = find_job(c, item, &first, &n);
	expand_panel(c, s, j->w, first, n);
	if (!c->mm->wide) {
		ret = wide_f32(c->x, c->xs, c->m, s->panel, n, j->w->cols,
			       j->y + first, j->y_stride);
	} else {
		ret = wide_bf16(c->mm->wide, c->mm->xb, c->m, s->panel, n,
				j->w->cols, j->y + first, j->y_stride,
				s->scratch);
	}
	if (ret)
		__atomic_store_n(&c->err, ret, __ATOMIC_RELAXED);
}

static void convert_item(void *arg, size_t item, unsigned int thread)
{
	struct call *c = arg;
	uint32_t cols = c->jobs[0].w->cols;

	c->mm->k->to_bf16(c->x + item * c->xs, cols, c->mm->xb + item * cols);
}

static int prepare_wide(struct call *c, unsigned int njobs)
{
	uint32_t cols = c->jobs[0].w->cols, tail;
	struct matmul *mm = c->mm;
	size_t m = ((size_t)c->m + WIDE_TILE_MIN - 1) / WIDE_TILE_MIN *
		   WIDE_TILE_MIN;
	size_t bytes = m * cols * sizeof(*mm->xb), scratch = 0;
	unsigned int i;
	int ret;

	if (bytes > mm->xb_bytes) {
		ret = room(&mm->xb, &mm->xb_bytes, bytes);
		if (ret)
			return ret;
		/* The rows that fill up the last tile: finite, whatever. */
		memset(mm->xb, 0, mm->xb_bytes);
	}
	for (i = 0; i < njobs; i++) {
		ret = 0;
		tail = c->jobs[i].w->rows % c->unit;
		if (c->jobs[i].w->rows >= c->unit)
			ret = wide_prepare(mm->wide, c->m, c->unit, cols,
					   &scratch);
		if (!ret && tail)
			ret = wide_prepare(mm->wide, c->m, tail, cols,
					   &scratch);
		if (ret)
			return ret;
	}
	for (i = 0; i < mm->nslots; i++) {
		ret = room(&mm->slots[i].scratch, &mm->slots[i].scratch_bytes,
			   scratch);
		if (ret)
			return ret;
	}
	kva_threads_run(mm->threads, c->m, convert_item, c);
	return 0;
}

static int prepare_slots(struct matmul *mm, uint32_t cols, int panel)
{
	unsigned int i;
	int ret;

	for (i = 0; i < mm->nslots; i++) {
		struct slot *s = &mm->slots[i];

		ret = room(&s->row, &s->row_bytes, cols * sizeof(float));
		if (!ret && panel)
			ret = room(&s->panel, &s->panel_bytes,
				   (size_t)PANEL_MAX * cols * sizeof(float));
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Rows of an item: long runs suit the memory and oneDNN, but each thread
 * should get several items.
 */
static uint32_t unit_for(const struct matmul *mm, uint32_t rows, int few)
{
	uint32_t lo = few ? FEW_MIN : PANEL_MIN, hi = few ? FEW_MAX : PANEL_MAX;
	uint32_t unit = rows / (mm->nslots * (few ? 4 : 2)) / lo * lo;

	return unit < lo ? lo : unit > hi ? hi : unit;
}

int matmul_run(struct matmul *mm, const float *x, size_t x_stride, uint32_t m,
	       const struct matmul_job *jobs, unsigned int njobs)
{
	int few = m <= MATMUL_FEW;
	struct call c = {
		.mm = mm,
		.x = x,
		.xs = x_stride,
		.m = m,
		.jobs = jobs,
	};
	uint32_t rows = 0;
	unsigned int i;
	int ret;

	if (!njobs || njobs > MAX_JOBS)
		return -EINVAL;
	for (i = 0; i < njobs; i++) {
		if (jobs[i].w->cols != jobs[0].w->cols)
			return -EINVAL;
		rows += jobs[i].w->rows;
	}
	c.unit = unit_for(mm, rows, few);
	for (i = 0; i < njobs; i++)
		c.first[i + 1] = c.first[i] +
				 (jobs[i].w->rows + c.unit - 1) / c.unit;
	ret = prepare_slots(mm, jobs[0].w->cols, !few);
	if (!ret && !few && mm->wide)
		ret = prepare_wide(&c, njobs);
	if (ret)
		return ret;
	kva_threads_run(mm->threads, c.first[njobs], few ? few_item : wide_item,
			&c);
	return c.err;
}
