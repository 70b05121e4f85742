// SPDX-License-Identifier: MIT
/*
 * calibrate.c - scales of keys and values, measured on a text.
 *
 * The largest size that a layer had becomes the largest number of E4M3.
 */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "calibrate.h"
#include "engine.h"
#include "interrupt.h"
#include "json_out.h"
#include "run.h"
#include "scales.h"
#include "util.h"
#include "windows.h"

#define E4M3_MAX 448.0

/**
 * struct most - the largest size that was seen
 * @k: [layers] of keys, as they are stored: rotated
 * @v: [layers] of values
 * @tokens: tokens that were looked at
 * @rows: room for one head's rows
 */
struct most {
	float *k;
	float *v;
	uint64_t tokens;
	float *rows;
};

static float largest(const float *x, size_t n, float most)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!(fabsf(x[i]) <= most))
			most = fabsf(x[i]);	/* NaN stays */
	return most;
}

/* All rows of a window are in f32 pages. */
static int look(const struct engine *e, const struct kvc_seq *seq,
		struct most *m)
{
	uint32_t n = kvc_seq_len(seq), dim = e->info.head_dim, layer, i;

	for (layer = 0; layer < e->info.nlayers; layer++) {
		for (i = 0; i < 2 * e->info.kv_heads; i++) {
			float *most = (i & 1 ? m->v : m->k) + layer;

			if (kvc_seq_read(seq, layer, i & 1, i / 2, 0, n,
					 m->rows))
				return complain("reading keys and values: %s",
						kvc_errmsg(e->kvc));
			*most = largest(m->rows, (size_t)n * dim, *most);
		}
	}
	m->tokens += n;
	return 0;
}

static int measure(struct run *r, struct most *m)
{
	const struct engine *e = &r->engine;
	struct windows w;
	struct lane lane;
	int ret;

	windows_begin(&w, r, "calibrating");
	m->rows = xcalloc((size_t)w.len * e->info.head_dim, sizeof(float));
	ret = lane_open(&lane, e, e->cache);
	while (!ret && windows_next(&w)) {
		ret = lane_window(&lane);
		while (!ret && w.at < w.n) {
			ret = lane_step(&lane, &w, 0);
			windows_step(&w);
		}
		if (!ret)
			ret = look(e, lane.seq, m);
	}
	lane_close(&lane);
	windows_end(&w);
	return ret || interrupted() ? -1 : 0;
}

static int write_scales(const struct run *r, const struct most *m)
{
	const struct engine *e = &r->engine;
	json_t *list = json_array(), *root;
	uint32_t i;

	for (i = 0; i < e->info.nlayers; i++)
		json_array_append_new(list, json_pack(
			"{s:f, s:f}", "k", m->k[i] / E4M3_MAX,
			"v", m->v[i] / E4M3_MAX));
	root = json_pack("{s:s, s:i, s:s, s:o, s:I, s:o}",
			 "format", SCALES_FORMAT,
			 "version", SCALES_VERSION,
			 "model", scales_hex(e->file_id),
			 "name", json_outside(e->info.name),
			 "tokens", (json_int_t)m->tokens,
			 "layers", list);
	return json_print(root, r->scales);
}

static int check_most(const struct engine *e, const struct most *m)
{
	uint32_t i;

	for (i = 0; i < e->info.nlayers; i++) {
		if (isnormal(m->k[i] / E4M3_MAX) && isnormal(m->v[i] / E4M3_MAX))
			continue;
		return complain("layer %u: the largest key is %g and the largest value %g: nothing to scale by: give another text",
				i, m->k[i], m->v[i]);
	}
	return 0;
}

int run_calibrate(struct run *r)
{
	const struct engine *e = &r->engine;
	struct most m = {
		.k = xcalloc(e->info.nlayers, sizeof(float)),
		.v = xcalloc(e->info.nlayers, sizeof(float)),
	};
	int ret = run_begin(r);

	if (!ret)
		ret = measure(r, &m);
	if (!ret)
		ret = check_most(e, &m);
	if (!ret)
		ret = write_scales(r, &m);
	if (!ret && !r->opts.quiet)
		printf("%s: scales of keys and values of %u layers, from %llu tokens\n",
		       r->opts.calibrate, e->info.nlayers,
		       (unsigned long long)m.tokens);
	free(m.k);
	free(m.v);
	free(m.rows);
	return ret;
}
