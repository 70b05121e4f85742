// SPDX-License-Identifier: MIT
/*
 * fuzz_save.c - any bytes as a saved sequence. What is restored is used like any
 * other, and saved once more; what is refused leaves no page behind.
 *
 * The first byte of an input says into which cache it goes, and whether its
 * checksums are put right first: without that hardly an input would get past
 * the first of them.
 */
#include <stdlib.h>

#include "saved.h"

#define FUZZ_SEAL	(1 << 0)
#define FUZZ_WINDOW	(1 << 1)	/* a cache whose second group has one */
#define FUZZ_SMALL	(1 << 2)	/* pages of another size */
#define FUZZ_PUBLISH	(1 << 3)
#define FUZZ_STATIC	(1 << 4)
#define FUZZ_SINKS	(1 << 5)

#define LAYERS	3
#define DIM	16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

struct mem {
	uint8_t *p;
	size_t len;
	size_t at;
};

static int64_t read_mem(void *arg, void *buf, size_t n)
{
	struct mem *m = arg;

	n = KVC_MIN(n, m->len - m->at);
	if (n)
		memcpy(buf, m->p + m->at, n);
	m->at += n;
	return n;
}

static int count(void *arg, const void *buf, size_t n)
{
	*(uint64_t *)arg += n;
	return 0;
}

/* Every section's checksums, as far as there are whole ones. */
static void seal(struct mem *m)
{
	size_t at = SAVED_BEGIN, end;
	const uint8_t *p;
	uint64_t n;

	while (at <= m->len && m->len - at >= SAVED_SECTION + SAVED_CRC) {
		p = m->p + at + 8;
		n = get64(&p);
		put32(m->p + at + 16, kvc_crc32c(0, m->p + at, 16));
		if (n > m->len - at - SAVED_SECTION - SAVED_CRC)
			return;
		end = at + SAVED_SECTION + n;
		if (!memcmp(m->p + at, "END.", 4) && n == SAVED_END)
			put32(m->p + at + SAVED_SECTION + 4,
			      kvc_crc32c(0, m->p, at));
		put32(m->p + end, kvc_crc32c(0, m->p + at + SAVED_SECTION, n));
		at = end + SAVED_CRC;
	}
}

/* Of one more token, rows of zeros, in all layers. */
static void append(struct kvc_cache *c, struct kvc_seq *s)
{
	static const float zeros[2 * DIM];
	const uint32_t token = 7;
	const struct kvc_item item = { s, &token, 1 };
	struct kvc_batch *b;

	require(!kvc_batch_create(c, &b));
	if (!kvc_batch_plan(b, &item, 1)) {
		for (uint32_t i = 0; i < LAYERS; i++)
			require(!kvc_append(b, i, NULL, NULL, 0, zeros, DIM,
					    zeros, DIM));
		require(!kvc_batch_commit(b));
	}
	kvc_batch_destroy(b);
}

static void use(struct kvc_cache *c, struct kvc_seq *s)
{
	uint64_t size, written = 0;
	const struct kvc_stream to = {
		.sz = sizeof(to), .write = count, .arg = &written,
	};
	uint32_t len = kvc_seq_len(s), i;
	struct kvc_seq *fork;
	float row[DIM];

	for (i = 0; i < len; i++)
		for (uint32_t layer = 0; layer < LAYERS; layer++)
			kvc_seq_read(s, layer, i & 1, 0, i, 1, row);
	require(!kvc_save_size(s, NULL, &size));
	require(!kvc_seq_save(s, &to, NULL) && written == size);
	if (!kvc_seq_fork(s, &fork)) {
		append(c, fork);
		kvc_seq_free(fork, 0);
	}
	append(c, s);
	kvc_seq_truncate(s, kvc_seq_len(s) / 2);
	append(c, s);
	require(!kvc_seq_idle(s) && kvc_seq_wake(s) >= 0);
}

static uint64_t pages_used(struct kvc *ctx)
{
	struct kvcache_query q = { 0 };

	require(!kvc_call(ctx, KVCACHE_NR_QUERY, &q));
	return q.out_pools[0].nr_private + q.out_pools[0].nr_shared;
}

static void restore(struct kvc *ctx, struct kvc_cache *c, struct mem *m,
		    uint8_t how)
{
	char app[64];
	struct kvc_saved saved;
	const struct kvc_seq_opts so = {
		.sz = sizeof(so), .fixed = how & FUZZ_STATIC ? 40 : 0,
	};
	const struct kvc_restore_opts o = {
		.sz = sizeof(o),
		.flags = how & FUZZ_PUBLISH ? KVC_RESTORE_PUBLISH : 0,
		.seq = &so,
		.app = app,
		.app_room = sizeof(app),
		.saved = &saved,
	};
	const struct kvc_stream from = {
		.sz = sizeof(from), .read = read_mem, .arg = m,
	};
	struct kvc_seq *s = NULL;
	int rc = kvc_seq_restore(c, &from, &o, &s);

	require(rc <= 0 && !rc == !!s);
	if (rc) {
		require(kvc_errmsg(ctx)[0]);
	} else {
		require(kvc_seq_len(s) == saved.tokens && m->at == saved.bytes);
		use(c, s);
		kvc_seq_free(s, 0);
	}
	require(!pages_used(ctx));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t layer_group[LAYERS] = { 0, 1, 0 };
	struct kvc_group g[2] = {
		{ .kv_heads = 1, .k_dim = DIM, .v_dim = DIM,
		  .k_type = KVC_F16, .v_type = KVC_F16 },
		{ .kv_heads = 1, .k_dim = DIM, .v_dim = DIM,
		  .k_type = KVC_F32, .v_type = KVC_BF16 },
	};
	struct kvc_model m = {
		.sz = sizeof(m), .nlayers = LAYERS, .ngroups = 2, .groups = g,
		.layer_group = layer_group, .q_heads = 1,
	};
	struct kvc_open_opts open = {
		.sz = sizeof(open), .local_bytes = 1 << 16,
	};
	const struct kvc_cache_opts co = { .sz = sizeof(co), .threads = 1 };
	struct kvc_cache *c;
	struct mem mem;
	struct kvc *ctx;
	uint8_t how;

	if (!size)
		return 0;
	how = *data;
	g[1].window = how & FUZZ_WINDOW ? 8 : 0;
	g[1].sinks = g[1].window && how & FUZZ_SINKS ? 3 : 0;
	open.local_page_size = how & FUZZ_SMALL ? 512 : 1024;
	mem = (struct mem) { .p = malloc(size), .len = size - 1 };
	memcpy(mem.p, data + 1, size - 1);
	if (how & FUZZ_SEAL)
		seal(&mem);
	require(!kvc_open("local", &open, &ctx));
	require(!kvc_cache_create(ctx, &m, &co, &c));
	restore(ctx, c, &mem, how);
	kvc_cache_destroy(c);
	kvc_close(ctx);
	free(mem.p);
	return 0;
}
