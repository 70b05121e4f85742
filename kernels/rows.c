// SPDX-License-Identifier: MIT
/*
 * rows.c - rows and pages as they lie: copied, moved in and out in canonical
 * order, and rotated to other positions. There is no arithmetic here that
 * depends on the instruction set.
 */
#include "kva.h"

/* The same view, of a layer further in. */
static struct kva_view layer_of(const struct kva_view *v, uint64_t offset)
{
	struct kva_view l = *v;

	l.k_off += offset;
	l.v_off += offset;
	return l;
}

static char *page_at(const struct kva_view *v, uint32_t page)
{
	return (char *)v->base + page * v->page_stride;
}

static void copy_item(void *arg, size_t item, unsigned int thread)
{
	const struct kva_copy *c = arg;
	const struct kva_copy_page *p = &c->pages[item / c->layers];
	struct kva_view v = layer_of(c->kv, item % c->layers * c->layer_stride);

	kva_rows_copy(&v, page_at(&v, p->dst), page_at(&v, p->src), p->slots);
}

int kva_cpu_copy(const struct kva_copy *c, struct kva_threads *t)
{
	int rc = kva_check_copy(c);

	if (!rc)
		kva_threads_run(t, (size_t)c->n * c->layers, copy_item,
				(void *)c);
	return rc;
}

static void rows_item(void *arg, size_t item, unsigned int thread)
{
	const struct kva_rows *r = arg;
	uint32_t head = item % r->kv->kv_heads, layer = item / r->kv->kv_heads;
	struct kva_view v = layer_of(r->kv, layer * r->layer_stride);
	char *data = (char *)r->data + layer * r->data_layer +
		     head * r->data_head, *page = page_at(&v, r->page);
	uint32_t i;

	for (i = 0; i < r->n; i++, data += r->data_row) {
		if (r->write)
			kva_rows_write(&v, page, r->is_v, head, r->slot + i, 1,
				       data);
		else
			kva_rows_read(&v, page, r->is_v, head, r->slot + i, 1,
				      data);
	}
}

int kva_cpu_rows(const struct kva_rows *r, struct kva_threads *t)
{
	int rc = kva_check_rows(r);

	if (!rc)
		kva_threads_run(t, (size_t)r->layers * r->kv->kv_heads,
				rows_item, (void *)r);
	return rc;
}

static void turn_row(const struct kva_shift *s, float *row)
{
	uint32_t half = s->rot_dim / 2, i;

	for (i = 0; i < half; i++) {
		uint32_t x = s->rope == KVA_ROPE_PAIR ? 2 * i : i;
		uint32_t y = s->rope == KVA_ROPE_PAIR ? 2 * i + 1 : i + half;
		double inx = row[x], iny = row[y];
		double c = s->turn[2 * i], sn = s->turn[2 * i + 1];

		row[x] = inx * c - iny * sn;
		row[y] = inx * sn + iny * c;
	}
}

/* One KV head of one sequence. */
static void shift_item(void *arg, size_t item, unsigned int thread)
{
	const struct kva_shift *s = arg;
	const struct kva_view *v = s->kv;
	uint32_t seq = item / v->kv_heads, head = item % v->kv_heads, pos;
	float row[KVA_DIM_MAX], stored[KVA_DIM_MAX];

	for (pos = s->from[seq]; pos < s->to[seq]; pos++) {
		uint32_t slot = pos % v->page_tokens;
		char *page = kva_page(v, seq, pos);

		kva_rows_read(v, page, 0, head, slot, 1, stored);
		kva_row_decode(v->k_type, v->k_scale, stored, row, v->k_dim);
		turn_row(s, row);
		kva_row_encode(v->k_type, v->k_scale, row, stored, v->k_dim);
		kva_rows_write(v, page, 0, head, slot, 1, stored);
	}
}

int kva_cpu_shift(const struct kva_shift *s, struct kva_threads *t)
{
	int rc = kva_check_shift(s);

	if (!rc && s->kv->nseq)
		kva_threads_run(t, (size_t)s->kv->nseq * s->kv->kv_heads,
				shift_item, (void *)s);
	return rc;
}
