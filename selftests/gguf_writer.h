/* SPDX-License-Identifier: MIT */
/*
 * gguf_writer.h - make GGUF files in memory, sound ones and others: every
 * count and length is what the caller says.
 */
#ifndef GGUF_WRITER_H
#define GGUF_WRITER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct gw {
	uint8_t *p;
	size_t n;
	size_t cap;
};

static inline void gw_bytes(struct gw *w, const void *p, size_t n)
{
	if (w->n + n > w->cap) {
		w->cap = 2 * w->cap + n;
		w->p = realloc(w->p, w->cap);
		if (!w->p)
			abort();
	}
	if (n)
		memcpy(w->p + w->n, p, n);
	w->n += n;
}

static inline void gw_free(struct gw *w)
{
	free(w->p);
	memset(w, 0, sizeof(*w));
}

static inline void gw_u8(struct gw *w, uint8_t v)
{
	gw_bytes(w, &v, sizeof(v));
}

static inline void gw_u32(struct gw *w, uint32_t v)
{
	gw_bytes(w, &v, sizeof(v));
}

static inline void gw_u64(struct gw *w, uint64_t v)
{
	gw_bytes(w, &v, sizeof(v));
}

static inline void gw_strn(struct gw *w, const char *s, size_t len)
{
	gw_u64(w, len);
	gw_bytes(w, s, len);
}

static inline void gw_str(struct gw *w, const char *s)
{
	gw_strn(w, s, strlen(s));
}

static inline void gw_header(struct gw *w, uint32_t version, uint64_t ntensors,
			     uint64_t nkeys)
{
	gw_bytes(w, "GGUF", 4);
	gw_u32(w, version);
	gw_u64(w, ntensors);
	gw_u64(w, nkeys);
}

/* A key's name and type; its value follows. */
static inline void gw_key(struct gw *w, const char *name, uint32_t type)
{
	gw_str(w, name);
	gw_u32(w, type);
}

static inline void gw_key_array(struct gw *w, const char *name, uint32_t type,
				uint64_t n)
{
	gw_key(w, name, 9);
	gw_u32(w, type);
	gw_u64(w, n);
}

static inline void gw_key_u32(struct gw *w, const char *name, uint32_t v)
{
	gw_key(w, name, 4);
	gw_u32(w, v);
}

static inline void gw_key_bool(struct gw *w, const char *name, uint8_t v)
{
	gw_key(w, name, 7);
	gw_u8(w, v);
}

static inline void gw_key_str(struct gw *w, const char *name, const char *v)
{
	gw_key(w, name, 8);
	gw_str(w, v);
}

static inline void gw_tensor(struct gw *w, const char *name, uint32_t type,
			     uint32_t ndim, const uint64_t *ne,
			     uint64_t offset)
{
	gw_str(w, name);
	gw_u32(w, ndim);
	gw_bytes(w, ne, ndim * sizeof(*ne));
	gw_u32(w, type);
	gw_u64(w, offset);
}

static inline void gw_zeros(struct gw *w, size_t n)
{
	while (n--)
		gw_u8(w, 0);
}

static inline void gw_align(struct gw *w, size_t align)
{
	while (w->n % align)
		gw_u8(w, 0);
}

/* A byte in the printable form of byte-level vocabularies: 1 or 2 bytes. */
static inline size_t gw_printable(uint8_t b, char *out)
{
	uint32_t cp = b, i;

	if (!((b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
	      b >= 0xae))
		for (cp = 0x100, i = 0; i < b; i++)
			cp += !((i >= '!' && i <= '~') ||
				(i >= 0xa1 && i <= 0xac) || i >= 0xae);
	if (cp < 0x80) {
		out[0] = cp;
		return 1;
	}
	out[0] = 0xc0 | cp >> 6;
	out[1] = 0x80 | (cp & 0x3f);
	return 2;
}

#endif /* GGUF_WRITER_H */
