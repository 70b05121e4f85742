// SPDX-License-Identifier: MIT
/*
 * test_slab.c - where each element of a slab lies, rows in and out, and
 * copies that leave all other slots alone.
 */
#include "kit.h"

/* The table in kvattn.h, once more. */
static size_t place(unsigned int type, unsigned int order, int is_v, size_t P,
		    size_t D, size_t slot, size_t d)
{
	if (order == KVA_ROW || (is_v && type != KVA_BF16))
		return slot * D + d;
	if (type != KVA_BF16)
		return d * P + slot;
	if (is_v)
		return ((slot / 2) * D + d) * 2 + slot % 2;
	return ((d / 2) * P + slot) * 2 + d % 2;
}

static const uint32_t page_tokens[] = { 1, 2, 5, 8, 16, 40 };

#define FOR_ALL(k, s)							\
	for (unsigned int i = 0; i < 6 * 2 * 3; i++)			\
		if ((s = (struct kit_shape) {				\
			.k_type = i / 12, .v_type = (i / 12 + i) % 3,	\
			.order = i / 6 % 2, .k_dim = 32, .v_dim = 48,	\
			.kv_heads = 3, .group = 1,			\
			.page_tokens = page_tokens[i % 6],		\
			.nseq = 1, .len = { 1 }, .rows = { 1 },		\
		}, kit_init(&k, &s), 1))

static uint32_t element(const void *p, size_t esz, size_t i)
{
	uint32_t x = 0;

	memcpy(&x, (const char *)p + i * esz, esz);
	return x;
}

TEST(places)
{
	struct kit_shape s;
	struct kit k;

	FOR_ALL(k, s) {
		for (int is_v = 0; is_v <= 1; is_v++) {
			unsigned int type = is_v ? s.v_type : s.k_type;
			size_t D = is_v ? s.v_dim : s.k_dim;
			size_t P = s.page_tokens, esz = kva_row_size(type, 1);
			size_t slots = type == KVA_BF16 && is_v &&
				       s.order == KVA_CPU ? (P + 1) / 2 * 2 : P;
			uint32_t head = 2;
			char *slab = k.arena + (is_v ?
				k.view.v_off + head * k.view.v_head_stride :
				k.view.k_off + head * k.view.k_head_stride);
			char *in = kit_alloc(P * D * esz);
			char *out = kit_alloc(P * D * esz);

			ASSERT_EQ(slots * D * esz,
				  kva_slab_size(type, s.order, is_v, P, D));
			for (size_t b = 0; b < P * D * esz; b++)
				in[b] = kit_random();
			kva_rows_write(&k.view, k.arena, is_v, head, 0, P, in);
			for (size_t t = 0; t < P; t++)
				for (size_t d = 0; d < D; d++)
					ASSERT_EQ(element(in, esz, t * D + d),
						  element(slab, esz,
							  place(type, s.order,
								is_v, P, D, t,
								d)));
			/* and from the middle */
			kva_rows_read(&k.view, k.arena, is_v, head, P / 2,
				      P - P / 2, out);
			ASSERT_EQ(0, memcmp(out, in + P / 2 * D * esz,
					    (P - P / 2) * D * esz));
			free(in);
			free(out);
		}
		kit_free(&k);
	}
}

/* A copy moves the first n slots of one layer, and not one byte besides. */
TEST(copy)
{
	struct kit_shape s;
	struct kit k;

	FOR_ALL(k, s) {
		size_t size = k.view.page_stride, P = s.page_tokens;

		for (uint32_t n = 0; n <= P; n += P > 8 ? 7 : 1) {
			char *src = kit_alloc(size), *dst = kit_alloc(size);
			char *want = kit_alloc(size);

			for (size_t b = 0; b < size; b++) {
				src[b] = kit_random();
				want[b] = dst[b] = kit_random();
			}
			for (uint32_t h = 0; h < s.kv_heads; h++) {
				char rows[40 * 48 * 4];

				kva_rows_read(&k.view, src, 0, h, 0, n, rows);
				kva_rows_write(&k.view, want, 0, h, 0, n, rows);
				kva_rows_read(&k.view, src, 1, h, 0, n, rows);
				kva_rows_write(&k.view, want, 1, h, 0, n, rows);
			}
			kva_rows_copy(&k.view, dst, src, n);
			ASSERT_EQ(0, memcmp(dst, want, size));
			free(src);
			free(dst);
			free(want);
		}
		kit_free(&k);
	}
}

TEST_HARNESS_MAIN
