/* SPDX-License-Identifier: MIT */
/*
 * saved.h - the form of a saved sequence, for save.c, saved.c and restore.c.
 *
 * kvcache-save(5) has it in words. All numbers are little-endian.
 */
#ifndef KVC_SAVED_H
#define KVC_SAVED_H

#include <endian.h>

#include "crc32c.h"
#include "internal.h"

#define SAVED_MAGIC	"\211KVCSEQ\n"
#define SAVED_VERSION	1
#define SAVED_CHUNK	256	/* tokens */

#define SAVED_BEGIN	16	/* bytes: magic, version, 0 */
#define SAVED_SECTION	20	/* bytes: tag, index, length, their checksum */
#define SAVED_CRC	4	/* bytes behind what is in a section */
#define SAVED_HEAD	104	/* bytes of a head without layers and groups */
#define SAVED_GROUP	80
#define SAVED_END	16
#define SAVED_HEAD_MAX	(SAVED_HEAD + KVC_MAX_LAYERS + \
			 KVC_MAX_GROUPS * SAVED_GROUP)

#define SAVED_ALL	UINT32_MAX	/* publishable: whatever there is */

/**
 * struct saved_span - which rows of a group there are
 * @sink_end: the first rows, up to this one
 * @first: and those from this one on; 0 for all
 */
struct saved_span {
	uint32_t sink_end;
	uint32_t first;
};

/**
 * struct saved_group - a group of a saved sequence
 * @g: as its cache had it
 * @nlayers: its layers
 * @k_row: bytes of a K row
 * @v_row: bytes of a V row
 * @span: its rows
 * @row_id: see struct kvc_lgroup
 */
struct saved_group {
	struct kvc_group g;
	uint32_t nlayers;
	uint32_t k_row;
	uint32_t v_row;
	struct saved_span span;
	uint8_t row_id[KVCACHE_KEY_LEN];
};

/**
 * struct saved_head - the head of a saved sequence
 * @bytes: of all of it
 * @epoch: of the model
 * @id: of the model
 * @extra: see struct kvc_seq
 * @len: tokens
 * @publishable: of these, tokens whose pages may be published; SAVED_ALL
 * @nlayers: layers
 * @ngroups: groups
 * @app_len: bytes of a program's own
 * @layer_group: [@nlayers] group of each layer
 * @group: [@ngroups] the groups
 */
struct saved_head {
	uint64_t bytes;
	uint64_t epoch;
	uint8_t id[32];
	uint8_t extra[KVCACHE_KEY_LEN];
	uint32_t len;
	uint32_t publishable;
	uint32_t nlayers;
	uint32_t ngroups;
	uint32_t app_len;
	uint8_t layer_group[KVC_MAX_LAYERS];
	struct saved_group group[KVC_MAX_GROUPS];
};

/* Bytes of the head as it is written. */
static inline uint32_t saved_head_len(uint32_t nlayers, uint32_t ngroups)
{
	return SAVED_HEAD + (nlayers + 3) / 4 * 4 + ngroups * SAVED_GROUP;
}

/* Of tokens [@from, @to), those that there is a row of. */
static inline uint32_t saved_rows(const struct saved_span *sp, uint32_t from,
				  uint32_t to)
{
	uint32_t sinks = from < sp->sink_end ?
			 KVC_MIN(to, sp->sink_end) - from : 0;

	from = KVC_MAX(from, sp->first);
	return sinks + (from < to ? to - from : 0);
}

/* Bytes of what is in the section of tokens [@from, @to). */
static inline uint64_t saved_chunk_len(const struct saved_head *h,
				       uint32_t from, uint32_t to)
{
	uint64_t bytes = (uint64_t)(to - from) * sizeof(uint32_t);

	/* 2^8 rows of 2^10 layers of 2^12 heads of 2^14 bytes */
	for (uint32_t i = 0; i < h->ngroups; i++) {
		const struct saved_group *g = &h->group[i];

		bytes += (uint64_t)saved_rows(&g->span, from, to) *
			 g->nlayers * g->g.kv_heads * (g->k_row + g->v_row);
	}
	return bytes;
}

/* Bytes of all of it: 0, or -EOVERFLOW. */
int kvc_saved_size(const struct saved_head *h, uint64_t *bytes);

/*
 * Call @fn for each run of rows of tokens [@from, @to), in the order in which
 * they are saved, until it returns something else than 0, which is returned.
 * No head has more than two runs.
 */
struct saved_run {
	const struct kvc_layout *l;
	uint32_t group;
	uint32_t layer;
	int is_v;
	uint32_t head;
	uint32_t pos;
	uint32_t n;
	size_t row;		/* bytes */
};

int kvc_saved_runs(const struct kvc_layout *l, const struct saved_head *h,
		   uint32_t from, uint32_t to,
		   int (*fn)(void *arg, const struct saved_run *r), void *arg);

/* Of one row of K or V, the most bytes that any group has. */
size_t kvc_saved_row_max(const struct saved_head *h);

static inline uint8_t *put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static inline uint8_t *put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static inline uint32_t get32(const uint8_t **p)
{
	uint32_t v;

	memcpy(&v, *p, sizeof(v));
	*p += sizeof(v);
	return le32toh(v);
}

static inline uint64_t get64(const uint8_t **p)
{
	uint64_t v;

	memcpy(&v, *p, sizeof(v));
	*p += sizeof(v);
	return le64toh(v);
}

/**
 * struct saved_in - a saved sequence that is being read
 * @ctx: for reasons
 * @st: where from
 * @total: bytes read
 * @want: bytes that there should be, 0 as long as nobody knows
 * @crc: of what was read of the section
 * @whole: of all
 * @index: sections begun
 */
struct saved_in {
	struct kvc *ctx;
	struct kvc_stream st;
	uint64_t total;
	uint64_t want;
	uint32_t crc;
	uint32_t whole;
	uint32_t index;
};

/* saved.c: each returns 0, or -errno and why. */

/* Exactly @n bytes. */
int kvc_saved_get(struct saved_in *in, void *p, size_t n);
/* A section of this tag and length begins; and ends. */
int kvc_saved_open(struct saved_in *in, const char *tag, uint64_t bytes);
int kvc_saved_close(struct saved_in *in, const char *tag);
/* What comes first, and the head: nothing in it contradicts itself. */
int kvc_saved_read_head(struct saved_in *in, struct saved_head *h);
/* What comes last; with @alone nothing may follow it. */
int kvc_saved_read_end(struct saved_in *in, bool alone);

#endif /* KVC_SAVED_H */
