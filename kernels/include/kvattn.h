/* SPDX-License-Identifier: MIT */
/*
 * kvattn.h - attention on paged keys and values.
 *
 * What the library, the tools and the tests see of kernels/: the paged view,
 * the table of operations, and the choice of a variant. CPU and CUDA implement
 * the same table. Of this tree only: it is neither installed nor exported, and
 * changes with what it serves.
 */
#ifndef KVATTN_H
#define KVATTN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: slabs
 *
 * A page holds P token slots of every layer of its group. Inside it each layer
 * has a K part and a V part, each ``[kv_head][slab]``. A slab is the P rows of
 * one head; its element order depends on type and device only:
 *
 * ============  =================================  ==========================
 * order         K slab                             V slab
 * ============  =================================  ==========================
 * KVA_ROW       ``[P][row]``                       ``[P][row]``
 * KVA_CPU       f32, f16, e4m3: ``[D][P]``         ``[P][D]``
 * ..            bf16: ``[D/2][P][2]``              ``[ceil(P/2)][D][2]``
 * ..            int8: ``[D/4][P][4]``              ``[P][D]``
 * ..            int4: ``[D/2][P]``                 ``[P][D/2]``
 * ============  =================================  ==========================
 *
 * With KVA_CPU the scales of packed types follow, ``[scale][P]``. A row in
 * canonical order, which is also how KVA_ROW stores it, has its codes first:
 *
 * =========  ======================  =======================================
 * type       codes                   scales
 * =========  ======================  =======================================
 * int8       D, signed               f32: the row's largest size / 127
 * e4m3       D, OCP E4M3             f32: the row's largest size / 448
 * e4m3t      D, OCP E4M3             none: the view's, for all rows
 * int4       D/2; of each group of   f16: (largest - minimum) / 15 of each
 *            32, i and i + 16 share  group, then the minimum of each group
 *            a byte, i in its low
 *            half
 * int4h      as int4, after a Hadamard rotation in blocks of the largest
 *            power of two that divides D
 * =========  ======================  =======================================
 *
 * The last group of a row may be one of 16; i and i + 8 share a byte there.
 * All codes are rounded to nearest even. Rows (int4: groups) that are not
 * finite have scales (int4: minimums) of NaN, and e4m3t keeps NaN and
 * saturates.
 *
 * Slots past a sequence's length hold anything, NaN included: kernels never
 * let them reach a result.
 *
 * Dims are multiples of 16, up to KVA_DIM_MAX. Addresses, offsets and strides
 * are multiples of 4 bytes. KVA_CPU with a @page_tokens that is a multiple of
 * 8 is the fast case; everything else is right, and slower.
 */

/* Element types. The numbers are part of a layout's fingerprint. */
enum kva_type {
	KVA_F32 = 0,
	KVA_F16 = 1,
	KVA_BF16 = 2,
	KVA_INT8 = 3,
	KVA_E4M3 = 4,		/* a scale each token and head */
	KVA_E4M3T = 5,		/* one given scale */
	KVA_INT4 = 6,		/* groups of 32, scale and minimum */
	KVA_INT4H = 7,		/* the same of rotated rows */
	KVA_NR_TYPES
};

enum kva_order {
	KVA_ROW = 0,
	KVA_CPU = 1,
};

enum kva_rope {
	KVA_ROPE_NONE = 0,
	KVA_ROPE_PAIR = 1,	/* dims 2i and 2i + 1 rotate together */
	KVA_ROPE_HALF = 2,	/* dims i and i + rot/2 rotate together */
};

/**
 * struct kva_view - one layer of a batch of sequences, as pages
 * @base: address of page 0
 * @page_stride: bytes from one page to the next
 * @nseq: sequences in the batch
 * @indptr: [@nseq + 1]; sequence s owns @indices[@indptr[s] .. @indptr[s + 1])
 * @indices: page numbers
 * @last_page_len: [@nseq]; slots in use of the last page, 1 to @page_tokens;
 *                 ignored for a sequence without pages
 * @page_tokens: P, token slots in a page
 * @kv_heads: KV heads
 * @k_dim: elements in a K row
 * @v_dim: elements in a V row
 * @k_type: enum kva_type of K
 * @v_type: enum kva_type of V
 * @order: enum kva_order
 * @k_scale: KVA_E4M3T: what codes of K are multiplied with; more than 0
 * @v_scale: the same of V
 * @v_in_k: a V row is the first @v_dim elements of the K row (latent
 *          attention), and there is no V part: the offset, stride and type of
 *          V are not looked at. KVA_ROW only
 * @k_off: bytes from the start of a page to this layer's K part
 * @v_off: bytes from the start of a page to this layer's V part
 * @k_head_stride: bytes from one head's K slab to the next
 * @v_head_stride: bytes from one head's V slab to the next
 *
 * Lengths count the tokens that the current step appends. Everything is owned
 * by the caller and only read, the pages excepted. Pages that hold nothing
 * that a row sees (struct kva_attn.window) are never read: any page number,
 * such as that of a null page, may stand in for them.
 */
struct kva_view {
	void *base;
	uint64_t page_stride;
	uint32_t nseq;
	const uint32_t *indptr;
	const uint32_t *indices;
	const uint32_t *last_page_len;
	uint32_t page_tokens;
	uint32_t kv_heads;
	uint32_t k_dim;
	uint32_t v_dim;
	uint8_t k_type;
	uint8_t v_type;
	uint8_t order;
	uint8_t v_in_k;
	float k_scale;
	float v_scale;
	uint64_t k_off;
	uint64_t v_off;
	uint64_t k_head_stride;
	uint64_t v_head_stride;
};

/**
 * struct kva_append - rotate, convert and store the new rows of a step
 * @kv: where to
 * @row_ptr: [nseq + 1]; rows @row_ptr[s] .. @row_ptr[s + 1]) are the last
 *           tokens of sequence s, in order
 * @q: [rows][q_heads][k_dim] f32, rotated in place; or NULL
 * @k: [rows][kv_heads][k_dim] f32, before rotation
 * @v: [rows][kv_heads][v_dim] f32; not looked at if V is in K
 * @q_stride: elements from one row of @q to the next
 * @k_stride: elements from one row of @k to the next
 * @v_stride: elements from one row of @v to the next
 * @q_heads: query heads
 * @rope: enum kva_rope
 * @rot_dim: leading elements of a head that rotate; even, at most k_dim
 * @pos: [rows] position of each row in @rope_table
 * @rope_table: [positions][@rot_dim / 2][2]: cosine, sine
 *
 * RoFormer, arXiv:2104.09864, equation 34; @rope_table comes from
 * kva_rope_table().
 */
struct kva_append {
	const struct kva_view *kv;
	const uint32_t *row_ptr;
	float *q;
	const float *k;
	const float *v;
	size_t q_stride;
	size_t k_stride;
	size_t v_stride;
	uint32_t q_heads;
	uint32_t rope;
	uint32_t rot_dim;
	const uint32_t *pos;
	const float *rope_table;
};

/**
 * struct kva_attn - attention of the new rows over the pages
 * @kv: keys and values, the new rows included
 * @row_ptr: [nseq + 1], as in struct kva_append; row r of sequence s sees the
 *           tokens up to and with its own
 * @q: [rows][q_heads][k_dim] f32, rotated
 * @o: [rows][q_heads][v_dim] f32, the result
 * @lse: [rows][q_heads] natural logarithm of the sum of exponentials; or NULL
 * @q_stride: elements from one row of @q to the next
 * @o_stride: elements from one row of @o to the next
 * @q_heads: query heads, a multiple of kv_heads
 * @scale: factor of the scores, usually 1 / sqrt(k_dim)
 * @softcap: a score s becomes @softcap * tanh(s / @softcap); 0 for as it is
 * @window: tokens that a row sees, its own included; 0 for all
 * @sinks: first tokens of a sequence that every row after them sees, whatever
 *         the window
 * @sink_logits: [q_heads] a score each, of a token whose value is 0: a term of
 *               the softmax's denominator and of @lse; or NULL. Of the parts
 *               of a kva_merge, one has it
 * @split: decode: KV tokens in one piece, a multiple of 16; 0 for
 *         KVA_SPLIT_DEFAULT. Results depend on it, and on nothing else of how
 *         the work is divided
 * @ws: scratch of kva_workspace() bytes, 64-byte aligned
 *
 * A row that sees nothing gives 0 and an @lse of minus infinity (with
 * @sink_logits, that logit).
 */
struct kva_attn {
	const struct kva_view *kv;
	const uint32_t *row_ptr;
	const float *q;
	float *o;
	float *lse;
	size_t q_stride;
	size_t o_stride;
	uint32_t q_heads;
	float scale;
	float softcap;
	uint32_t window;
	uint32_t sinks;
	const float *sink_logits;
	uint32_t split;
	void *ws;
};

#define KVA_SPLIT_DEFAULT 512
#define KVA_DIM_MAX 1024

/**
 * struct kva_merge - join partial results of disjoint sets of keys
 * @n: partial results of each row
 * @rows: rows
 * @dim: elements in a row
 * @o: [@n][@rows][@dim]
 * @lse: [@n][@rows]
 * @out: [@rows][@dim]
 * @out_lse: [@rows], or NULL
 *
 * Joined in ascending order. An empty part (lse minus infinity) changes
 * nothing; all empty gives 0 and minus infinity. arXiv:2501.01005, section
 * 2.2.
 */
struct kva_merge {
	uint32_t n;
	uint32_t rows;
	uint32_t dim;
	const float *o;
	const float *lse;
	float *out;
	float *out_lse;
};

/**
 * struct kva_copy - the first slots of pages to other pages
 * @kv: a view of the first layer; its sequence arrays are not looked at
 * @layers: layers to copy; the others of a page are left as they are
 * @layer_stride: bytes from one layer's parts to the next's
 * @n: number of @pages
 * @pages: page numbers and slots; no page is written that is read
 *
 * All heads, K and V. Slots past them are left as they are.
 */
struct kva_copy {
	const struct kva_view *kv;
	uint32_t layers;
	uint64_t layer_stride;
	uint32_t n;
	const struct kva_copy_page {
		uint32_t dst;
		uint32_t src;
		uint32_t slots;
	} *pages;
};

/**
 * struct kva_rows - rows of one page in canonical order, in or out
 * @kv: a view of the first layer; its sequence arrays are not looked at
 * @layers: layers to move
 * @layer_stride: bytes from one layer's parts to the next's
 * @page: page number
 * @is_v: 0 for K, 1 for V
 * @write: 0 from the page to @data, 1 from @data to the page
 * @slot: first token slot
 * @n: number of slots
 * @data: kva_row_size() bytes each row
 * @data_layer: bytes in @data from one layer to the next
 * @data_head: bytes in @data from one head to the next
 * @data_row: bytes in @data from one slot to the next
 */
struct kva_rows {
	const struct kva_view *kv;
	uint32_t layers;
	uint64_t layer_stride;
	uint32_t page;
	uint8_t is_v;
	uint8_t write;
	uint32_t slot;
	uint32_t n;
	void *data;
	size_t data_layer;
	size_t data_head;
	size_t data_row;
};

/**
 * struct kva_shift - rotate stored K rows on, in place
 * @kv: the pages, of this sequence alone where they are written
 * @from: [nseq] first token to rotate
 * @to: [nseq] token after the last
 * @rope: KVA_ROPE_PAIR or KVA_ROPE_HALF, as they were appended
 * @rot_dim: as they were appended
 * @turn: [@rot_dim / 2][2] of kva_rope_turn(): by how many positions
 *
 * A row is read as its type says, rotated in double, rounded to f32 and stored
 * as append stores it: every shift rounds once more.
 */
struct kva_shift {
	const struct kva_view *kv;
	const uint32_t *from;
	const uint32_t *to;
	uint32_t rope;
	uint32_t rot_dim;
	const double *turn;
};

struct kva_threads;

/**
 * struct kva_ops - one variant of the kernels
 * @name: "ref", "scalar", "avx2", "avx512"
 * @append: rows into pages
 * @prefill: any number of rows a sequence, causal, over what was there before
 * @decode: exactly one row a sequence, or none; split over the KV tokens
 * @merge: partial results into one
 * @copy: slots from pages to pages
 * @rows: rows in and out of a page
 * @shift: stored K rows to other positions
 *
 * All return 0, or -EINVAL for arguments that no kernel can serve. A NULL
 * threads runs in the calling thread. For one variant, types, page size and
 * split, each row's result is the same bits whatever else is in the batch and
 * however many threads there are, and whether or not pages are there that it
 * does not see; prefill also however a prompt is cut into calls. Append
 * rotates in double and rounds once to f32, then to the type: all variants
 * store the same bits.
 */
struct kva_ops {
	const char *name;
	int (*append)(const struct kva_append *a, struct kva_threads *t);
	int (*prefill)(const struct kva_attn *a, struct kva_threads *t);
	int (*decode)(const struct kva_attn *a, struct kva_threads *t);
	int (*merge)(const struct kva_merge *m);
	int (*copy)(const struct kva_copy *c, struct kva_threads *t);
	int (*rows)(const struct kva_rows *r, struct kva_threads *t);
	int (*shift)(const struct kva_shift *s, struct kva_threads *t);
};

/* Instruction sets, each with those before it. */
enum kva_isa {
	KVA_SCALAR = 0,		/* what every CPU has */
	KVA_AVX2 = 1,		/* and FMA, F16C */
	KVA_AVX512 = 2,		/* F, BW, VL and DQ */
};

/**
 * kva_isa() - the instruction set to use, for code that has several
 *
 * The best that this CPU runs, or what KVATTN_ISA in the environment (scalar,
 * avx2, avx512, ref) says; an empty one says nothing.
 * Return: enum kva_isa; -EOPNOTSUPP if KVATTN_ISA names one that is unknown or
 * that the CPU cannot run.
 */
int kva_isa(void);

/* The variant for kva_isa(), or the one KVATTN_ISA names; NULL if it fails. */
const struct kva_ops *kva_config(void);

/**
 * kva_variant() - the i-th variant, best first
 * @i: from 0
 * @runnable: set to 1 if this CPU can run it; may be NULL
 *
 * Return: the table, or NULL past the last.
 */
const struct kva_ops *kva_variant(unsigned int i, int *runnable);

/* Bytes of struct kva_attn.ws that decode and prefill want for this call. */
size_t kva_workspace(const struct kva_attn *a, const struct kva_threads *t);

/* Bytes of a row of @dim elements, scales included; 0 for an unknown type. */
size_t kva_row_size(unsigned int type, uint32_t dim);
const char *kva_type_name(unsigned int type);
/* The type of a name ("bf16", "e4m3t"), or -EINVAL. */
int kva_type_parse(const char *name);

/* Bytes of one head's K or V slab. */
size_t kva_slab_size(unsigned int type, unsigned int order, int is_v,
		     uint32_t page_tokens, uint32_t dim);

/**
 * kva_rows_read() - rows of a slab, in canonical order and in its own type
 * @v: the view; its sequence arrays are not looked at
 * @page: address of the page
 * @is_v: 0 for K, 1 for V
 * @head: KV head
 * @slot: first token slot
 * @n: number of rows
 * @out: [@n][dim] elements of the slab's type
 */
void kva_rows_read(const struct kva_view *v, const void *page, int is_v,
		   uint32_t head, uint32_t slot, uint32_t n, void *out);
/* The inverse of kva_rows_read(). */
void kva_rows_write(const struct kva_view *v, void *page, int is_v,
		    uint32_t head, uint32_t slot, uint32_t n, const void *in);
/**
 * kva_rows_copy() - slots [0, @n) of one layer from one page to another
 * @v: the view; its sequence arrays are not looked at
 * @dst: address of the page to write
 * @src: address of the page to read
 * @n: number of slots
 *
 * All heads, K and V. Slots past them are left as they are.
 */
void kva_rows_copy(const struct kva_view *v, void *dst, const void *src,
		   uint32_t n);

/**
 * kva_row_decode() - a row in canonical order as the floats that it means
 * @type: enum kva_type
 * @scale: KVA_E4M3T: the view's; other types do not look at it
 * @row: kva_row_size() bytes, aligned to 4
 * @out: [@dim], not rotated whatever the type
 * @dim: elements
 */
void kva_row_decode(unsigned int type, float scale, const void *row,
		    float *out, uint32_t dim);
/* The inverse of kva_row_decode(): what append stores. */
void kva_row_encode(unsigned int type, float scale, const float *in, void *row,
		    uint32_t dim);

/* Round to nearest even; NaN stays NaN. */
float kva_f16_to_f32(uint16_t h);
uint16_t kva_f32_to_f16(float f);
float kva_bf16_to_f32(uint16_t h);
uint16_t kva_f32_to_bf16(float f);

/**
 * kva_rope_table() - cosines and sines for struct kva_append
 * @table: [@npos][@rot_dim / 2][2]
 * @first: first position
 * @npos: number of positions
 * @rot_dim: even
 * @base: the model's RoPE base, such as 10000
 * @scale: linear scaling: positions are multiplied with it; 1 for none
 * @factors: [@rot_dim / 2] divisors of the frequencies (Llama 3's
 *           rope_freqs), or NULL
 *
 * Computed in double, rounded once.
 */
void kva_rope_table(float *table, uint32_t first, uint32_t npos,
		    uint32_t rot_dim, double base, double scale,
		    const float *factors);

/**
 * kva_rope_turn() - cosines and sines for struct kva_shift
 * @turn: [@rot_dim / 2][2]
 * @delta: positions to move by, to either side
 * @rot_dim: even
 * @base: as in kva_rope_table()
 * @scale: as in kva_rope_table()
 * @factors: as in kva_rope_table()
 */
void kva_rope_turn(double *turn, int64_t delta, uint32_t rot_dim, double base,
		   double scale, const float *factors);

/**
 * kva_threads_create() - a pool of threads, each pinned to one CPU
 * @n: threads, the calling one included; 0 for one a CPU that it may run on
 * @out: the pool
 *
 * The caller of kva_threads_run() works as thread 0 and is not pinned.
 * Return: 0 or -errno.
 */
int kva_threads_create(unsigned int n, struct kva_threads **out);
void kva_threads_destroy(struct kva_threads *t);
unsigned int kva_threads_count(const struct kva_threads *t);

/**
 * kva_threads_run() - call @fn for each item, on all threads
 * @t: the pool; NULL runs all items in the calling thread
 * @nitems: items, taken in ascending order by whoever is free
 * @fn: gets @arg, the item, and the number of its thread
 * @arg: for @fn
 *
 * Returns when all are done. One run at a time for each pool.
 */
void kva_threads_run(struct kva_threads *t, size_t nitems,
		     void (*fn)(void *arg, size_t item, unsigned int thread),
		     void *arg);

#ifdef __cplusplus
}
#endif

#endif /* KVATTN_H */
