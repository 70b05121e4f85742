// SPDX-License-Identifier: MIT
/*
 * matmul_wide.c - products of one panel of a matrix with many rows, by oneDNN.
 *
 * oneDNN would divide the work among OpenMP's threads. The panels are divided
 * among our own already, so each call is told to stay in its thread. bf16
 * products exist as compiled primitives of one shape only: rows go through in
 * tiles of two sizes, the last one padded.
 */
#include <errno.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#include "matmul.h"
#include "matmul_wide.h"

struct prim {
	uint32_t tile;
	uint32_t n;
	uint32_t k;
	size_t scratch;
	dnnl_primitive_desc_t pd;
	dnnl_primitive_t p;
};

struct wide {
	dnnl_engine_t engine;
	struct prim *prims;
	unsigned int nprims;
};

int matmul_has_bf16(void)
{
	unsigned int isa = dnnl_get_effective_cpu_isa();

	return (isa & dnnl_cpu_isa_avx512_core_bf16) ==
	       dnnl_cpu_isa_avx512_core_bf16;
}

int wide_create(struct wide **out)
{
	struct wide *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	if (dnnl_engine_create(&w->engine, dnnl_cpu, 0)) {
		free(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

void wide_destroy(struct wide *w)
{
	unsigned int i;

	if (!w)
		return;
	for (i = 0; i < w->nprims; i++) {
		dnnl_primitive_destroy(w->prims[i].p);
		dnnl_primitive_desc_destroy(w->prims[i].pd);
	}
	free(w->prims);
	dnnl_engine_destroy(w->engine);
	free(w);
}

int wide_f32(const float *x, size_t x_stride, uint32_t m, const float *panel,
	     uint32_t n, uint32_t k, float *y, size_t y_stride)
{
	omp_set_num_threads(1);
	switch (dnnl_sgemm('N', 'T', m, n, k, 1.0f, x, x_stride, panel, k,
			   0.0f, y, y_stride)) {
	case dnnl_success:
		return 0;
	case dnnl_invalid_arguments:
		return -EINVAL;
	default:
		return -ENOMEM;
	}
}

static uint32_t tile_for(uint32_t m)
{
	return m >= WIDE_TILE_MAX ? WIDE_TILE_MAX : WIDE_TILE_MIN;
}

static struct prim *find_prim(const struct wide *w, uint32_t tile, uint32_t n,
			      uint32_t k)
{
	unsigned int i;

	for (i = 0; i < w->nprims; i++)
		if (w->prims[i].tile == tile && w->prims[i].n == n &&
		    w->prims[i].k == k)
			return &w->prims[i];
	return NULL;
}

static int make_prim(struct wide *w, struct prim *p)
{
	dnnl_dims_t dx = { p->tile, p->k }, dw = { p->k, p->n };
	dnnl_dims_t dy = { p->tile, p->n };
	dnnl_memory_desc_t mx, mw, my;
	dnnl_primitive_attr_t attr;
	dnnl_matmul_desc_t desc;
	int ret = -ENOMEM;

	if (dnnl_primitive_attr_create(&attr))
		return -ENOMEM;
	omp_set_num_threads(1);
	if (dnnl_primitive_attr_set_scratchpad_mode(
		    attr, dnnl_scratchpad_mode_user) ||
	    dnnl_memory_desc_init_by_tag(&mx, 2, dx, dnnl_bf16, dnnl_ab) ||
	    dnnl_memory_desc_init_by_tag(&mw, 2, dw, dnnl_bf16, dnnl_ba) ||
	    dnnl_memory_desc_init_by_tag(&my, 2, dy, dnnl_f32, dnnl_ab) ||
	    dnnl_matmul_desc_init(&desc, &mx, &mw, NULL, &my) ||
	    dnnl_primitive_desc_create(&p->pd, &desc, attr, w->engine, NULL))
		goto out;
	if (dnnl_primitive_create(&p->p, p->pd)) {
		dnnl_primitive_desc_destroy(p->pd);
		goto out;
	}
	p->scratch = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(
		p->pd, dnnl_query_scratchpad_md, 0));
	ret = 0;
out:
	dnnl_primitive_attr_destroy(attr);
	return ret;
}

static int prepare_tile(struct wide *w, uint32_t tile, uint32_t n, uint32_t k,
			size_t *scratch)
{
	struct prim *p = find_prim(w, tile, n, k), *grown;
	size_t tile_bytes = (size_t)tile * n * sizeof(float);
	int ret;

	if (!p) {
		grown = realloc(w->prims, (w->nprims + 1) * sizeof(*p));
		if (!grown)
			return -ENOMEM;
		w->prims = grown;
		p = &grown[w->nprims];
		*p = (struct prim){ .tile = tile, .n = n, .k = k };
		ret = make_prim(w, p);
		if (ret)
			return ret;
		w->nprims++;
	}
	/* The tile of y comes first: keep what follows aligned. */
	tile_bytes = (tile_bytes + 63) / 64 * 64;
	if (*scratch < tile_bytes + p->scratch)
		*scratch = tile_bytes + p->scratch;
	return 0;
}

int wide_prepare(struct wide *w, uint32_t m, uint32_t n, uint32_t k,
		 size_t *scratch)
{
	int ret = 0;

	if (m >= WIDE_TILE_MAX)
		ret = prepare_tile(w, WIDE_TILE_MAX, n, k, scratch);
	if (!ret && m % WIDE_TILE_MAX)
		ret = prepare_tile(w, WIDE_TILE_MIN, n, k, scratch);
	return ret;
}

static int run_prim(dnnl_engine_t engine, const struct prim *p,
		    const uint16_t *x, const uint16_t *panel, float *y,
		    void *scratch)
{
	static const struct {
		int arg;
		dnnl_query_t query;
	} args[] = {
		{ DNNL_ARG_SRC, dnnl_query_src_md },
		{ DNNL_ARG_WEIGHTS, dnnl_query_weights_md },
		{ DNNL_ARG_DST, dnnl_query_dst_md },
		{ DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md },
	};
	void *data[] = { (void *)x, (void *)panel, y, scratch };
	dnnl_exec_arg_t exec[4];
	dnnl_stream_t stream;
	int i, n = 0, ret = -ENOMEM;

	if (dnnl_stream_create(&stream, engine, dnnl_stream_default_flags))
		return -ENOMEM;
	for (; n < 4; n++) {
		exec[n].arg = args[n].arg;
		if (dnnl_memory_create(&exec[n].memory,
				       dnnl_primitive_desc_query_md(
					       p->pd, args[n].query, 0),
				       engine, data[n]))
			goto out;
	}
	if (!dnnl_primitive_execute(p->p, stream, n, exec) &&
	    !dnnl_stream_wait(stream))
		ret = 0;
out:
	for (i = 0; i < n; i++)
		dnnl_memory_destroy(exec[i].memory);
	dnnl_stream_destroy(stream);
	return ret;
}

int wide_bf16(const struct wide *w, const uint16_t *x, uint32_t m,
	      const uint16_t *panel, uint32_t n, uint32_t k, float *y,
	      size_t y_stride, void *scratch)
{
	const struct prim *p;
	uint32_t done, i, rows;
	float *tile = scratch;
	size_t tile_bytes;
	int ret;

	omp_set_num_threads(1);
	for (done = 0; done < m; done += p->tile) {
		p = find_prim(w, tile_for(m - done), n, k);
		tile_bytes = ((size_t)p->tile * n * sizeof(float) + 63) /
			     64 * 64;
		ret = run_prim(w->engine, p, x + (size_t)done * k, panel, tile,
			       (char *)scratch + tile_bytes);
		if (ret)
			return ret;
		rows = m - done < p->tile ? m - done : p->tile;
		for (i = 0; i < rows; i++)
			memcpy(y + (done + i) * y_stride, tile + (size_t)i * n,
			       n * sizeof(float));
	}
	return 0;
}
