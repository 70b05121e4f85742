/* SPDX-License-Identifier: MIT */
/*
 * save_kit.h - saved sequences in memory, for tests, and heads of them that are
 * other than what was saved and yet have the right checksums.
 */
#ifndef SAVE_KIT_H
#define SAVE_KIT_H

#include "kit.h"
#include "saved.h"

/* A stream in memory: @step, if not 0, is the most that a read gives. */
struct mem {
	uint8_t *p;
	size_t len;
	size_t cap;
	size_t at;
	size_t step;
	int fail;		/* what it says past @cap, if not 0 */
};

static inline int mem_write(void *arg, const void *buf, size_t n)
{
	struct mem *m = arg;

	if (m->fail && m->len + n > m->cap)
		return m->fail;
	if (m->len + n > m->cap) {
		m->cap = 2 * (m->len + n);
		m->p = realloc(m->p, m->cap);
	}
	memcpy(m->p + m->len, buf, n);
	m->len += n;
	return 0;
}

static inline int64_t mem_read(void *arg, void *buf, size_t n)
{
	struct mem *m = arg;

	n = KVC_MIN(n, m->len - m->at);
	if (m->step)
		n = KVC_MIN(n, m->step);
	if (n)
		memcpy(buf, m->p + m->at, n);
	m->at += n;
	return n;
}

static inline struct kvc_stream mem_stream(struct mem *m)
{
	m->at = 0;
	return (struct kvc_stream) {
		.sz = sizeof(struct kvc_stream),
		.fd = -1,
		.write = mem_write,
		.read = mem_read,
		.arg = m,
	};
}

static inline void mem_save(struct mem *m, const struct kvc_seq *s)
{
	struct kvc_stream st;

	memset(m, 0, sizeof(*m));
	st = mem_stream(m);
	ASSERT_EQ(0, kvc_seq_save(s, &st, NULL));
}

static inline int mem_restore(struct kit *k, struct mem *m, uint32_t flags,
			      struct kvc_seq **out)
{
	const struct kvc_restore_opts o = { .sz = sizeof(o), .flags = flags };
	struct kvc_stream st = mem_stream(m);

	return kvc_seq_restore(k->c, &st, &o, out);
}

static inline void mem_free(struct mem *m)
{
	free(m->p);
	m->p = NULL;
}

/* Where a member of the head is: at its beginning, behind the layers. */
#define HEAD_AT(at)	(SAVED_BEGIN + SAVED_SECTION + (at))
#define HEAD_BYTES	HEAD_AT(0)
#define HEAD_EPOCH	HEAD_AT(8)
#define HEAD_ID		HEAD_AT(16)
#define HEAD_EXTRA	HEAD_AT(48)
#define HEAD_LEN	HEAD_AT(80)
#define HEAD_PUBLISH	HEAD_AT(84)
#define HEAD_NLAYERS	HEAD_AT(88)
#define HEAD_NGROUPS	HEAD_AT(92)
#define HEAD_APP	HEAD_AT(96)
#define HEAD_GROUP(n)	HEAD_AT(SAVED_HEAD + (KIT_LAYERS + 3) / 4 * 4 + \
				(n) * SAVED_GROUP)

static inline uint32_t mem_get32(const struct mem *m, size_t at)
{
	const uint8_t *p = m->p + at;

	return get32(&p);
}

static inline void mem_set32(struct mem *m, size_t at, uint32_t v)
{
	put32(m->p + at, v);
}

/* The head's checksum, when all that was set in it is. */
static inline void mem_seal(struct mem *m)
{
	uint32_t len = mem_get32(m, SAVED_BEGIN + 8);

	mem_set32(m, HEAD_AT(len), kvc_crc32c(0, m->p + HEAD_AT(0), len));
}

/* Rows of two sequences, of one or two caches, as they are stored. */
static inline void same_rows(const struct kvc_seq *a, const struct kvc_seq *b)
{
	uint32_t len = kvc_seq_len(a), layer, head;
	char *x, *y;
	int is_v;

	ASSERT_EQ(len, kvc_seq_len(b));
	if (!len)
		return;
	ASSERT_EQ(0, memcmp(kvc_seq_tokens(a), kvc_seq_tokens(b), len * 4));
	x = malloc(len * KIT_DIM * 4);
	y = malloc(len * KIT_DIM * 4);
	for (layer = 0; layer < KIT_LAYERS; layer++) {
		const struct kvc_lgroup *g =
			&a->c->l.group[a->c->l.layer_group[layer]];

		for (is_v = 0; is_v <= 1; is_v++) {
			size_t row = is_v ?
				kva_row_size(g->g.v_type, g->g.v_dim) :
				kva_row_size(g->g.k_type, g->g.k_dim);

			for (head = 0; head < g->g.kv_heads; head++) {
				ASSERT_EQ(0, kvc_seq_read(a, layer, is_v, head,
							  0, len, x));
				ASSERT_EQ(0, kvc_seq_read(b, layer, is_v, head,
							  0, len, y));
				ASSERT_EQ(0, memcmp(x, y, len * row));
			}
		}
	}
	free(x);
	free(y);
}

#endif /* SAVE_KIT_H */
