// SPDX-License-Identifier: MIT
/*
 * saved.c - the form of a saved sequence: what save.c and restore.c have in
 * common, and how it is read.
 *
 * Every section's length follows from the head, and is compared with that
 * before anything is read into memory.
 */
#include <string.h>
#include <unistd.h>

#include "saved.h"

int kvc_saved_size(const struct saved_head *h, uint64_t *bytes)
{
	uint64_t sections = 2 + !!h->app_len, part, sum;

	sections += h->len / SAVED_CHUNK + !!(h->len % SAVED_CHUNK);
	sum = SAVED_BEGIN + sections * (SAVED_SECTION + SAVED_CRC) +
	      saved_head_len(h->nlayers, h->ngroups) + h->app_len + SAVED_END +
	      (uint64_t)h->len * sizeof(uint32_t);
	for (uint32_t i = 0; i < h->ngroups; i++) {
		const struct saved_group *g = &h->group[i];

		part = (uint64_t)g->nlayers * g->g.kv_heads *
		       (g->k_row + g->v_row);
		if (__builtin_mul_overflow(part,
					   saved_rows(&g->span, 0, h->len),
					   &part) ||
		    __builtin_add_overflow(sum, part, &sum))
			return -EOVERFLOW;
	}
	*bytes = sum;
	return 0;
}

size_t kvc_saved_row_max(const struct saved_head *h)
{
	size_t most = 0;

	for (uint32_t i = 0; i < h->ngroups; i++) {
		most = KVC_MAX(most, h->group[i].k_row);
		most = KVC_MAX(most, h->group[i].v_row);
	}
	return most;
}

/* One head's rows: those of the sinks, and those from @first on. */
static int head_runs(struct saved_run *r, const struct saved_span *sp,
		     uint32_t from, uint32_t to,
		     int (*fn)(void *arg, const struct saved_run *r), void *arg)
{
	int rc = 0;

	if (from < sp->sink_end) {
		r->pos = from;
		r->n = KVC_MIN(to, sp->sink_end) - from;
		rc = fn(arg, r);
	}
	from = KVC_MAX(from, sp->first);
	if (rc || from >= to)
		return rc;
	r->pos = from;
	r->n = to - from;
	return fn(arg, r);
}

static int layer_runs(struct saved_run *r, const struct saved_group *g,
		      uint32_t from, uint32_t to,
		      int (*fn)(void *arg, const struct saved_run *r),
		      void *arg)
{
	int rc = 0;

	for (r->is_v = 0; r->is_v <= 1; r->is_v++) {
		r->row = r->is_v ? g->v_row : g->k_row;
		for (r->head = 0; !rc && r->head < g->g.kv_heads; r->head++)
			rc = head_runs(r, &g->span, from, to, fn, arg);
	}
	return rc;
}

int kvc_saved_runs(const struct kvc_layout *l, const struct saved_head *h,
		   uint32_t from, uint32_t to,
		   int (*fn)(void *arg, const struct saved_run *r), void *arg)
{
	struct saved_run r = { .l = l };
	int rc = 0;

	for (r.group = 0; r.group < l->ngroups; r.group++)
		for (r.layer = 0; !rc && r.layer < l->nlayers; r.layer++)
			if (l->layer_group[r.layer] == r.group)
				rc = layer_runs(&r, &h->group[r.group], from,
						to, fn, arg);
	return rc;
}

/* ---- reading ---------------------------------------------------------- */

static int64_t read_some(struct saved_in *in, void *p, size_t n)
{
	ssize_t got;

	if (in->st.read) {
		int64_t rc = in->st.read(in->st.arg, p, n);

		/* A function is not trusted with the size of a buffer. */
		return rc > 0 && (uint64_t)rc > n ? -EINVAL : rc;
	}
	do {
		got = read(in->st.fd, p, n);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static int ends(const struct saved_in *in)
{
	if (!in->want)
		return kvc_fail(in->ctx, -ENODATA,
				"it ends after %llu bytes, in its head: it was cut off: take a whole copy",
				(unsigned long long)in->total);
	return kvc_fail(in->ctx, -ENODATA,
			"it ends after %llu bytes of %llu: it was cut off: take a whole copy",
			(unsigned long long)in->total,
			(unsigned long long)in->want);
}

int kvc_saved_get(struct saved_in *in, void *p, size_t n)
{
	size_t done = 0;
	int64_t got;

	while (done < n) {
		got = read_some(in, (char *)p + done, n - done);
		if (got < 0)
			return kvc_fail(in->ctx, got, "cannot be read: %s",
					strerrordesc_np(-got));
		if (!got)
			return ends(in);
		done += got;
		in->total += got;
	}
	in->crc = kvc_crc32c(in->crc, p, n);
	in->whole = kvc_crc32c(in->whole, p, n);
	return 0;
}

static int altered(const struct saved_in *in, const char *what)
{
	return kvc_fail(in->ctx, -EBADMSG,
			"byte %llu or before, %s: it was altered after it was written: take another copy",
			(unsigned long long)in->total, what);
}

/* The beginning of a section: its length is not trusted yet. */
static int read_section(struct saved_in *in, const char *tag, uint64_t *bytes)
{
	uint8_t b[SAVED_SECTION];
	const uint8_t *p = b + 4;
	uint32_t index;
	int rc;

	rc = kvc_saved_get(in, b, sizeof(b));
	if (rc)
		return rc;
	index = get32(&p);
	*bytes = get64(&p);
	if (get32(&p) != kvc_crc32c(0, b, 16))
		return altered(in, "a wrong checksum");
	if (memcmp(b, tag, 4) || index != in->index)
		return altered(in, "another section than is expected");
	in->index++;
	in->crc = 0;
	return 0;
}

int kvc_saved_open(struct saved_in *in, const char *tag, uint64_t bytes)
{
	uint64_t says;
	int rc = read_section(in, tag, &says);

	if (!rc && says != bytes)
		return altered(in, "a section of another length than is expected");
	return rc;
}

int kvc_saved_close(struct saved_in *in, const char *tag)
{
	uint32_t crc = in->crc;
	const uint8_t *p;
	uint8_t b[4];
	int rc;

	rc = kvc_saved_get(in, b, sizeof(b));
	if (rc)
		return rc;
	p = b;
	return get32(&p) == crc ? 0 : altered(in, "a wrong checksum");
}

static int read_begin(struct saved_in *in)
{
	uint8_t b[SAVED_BEGIN] = { 0 };
	const uint8_t *p = b + 8;
	uint32_t version;
	int rc;

	rc = kvc_saved_get(in, b, sizeof(b));
	/* A text of a few bytes is no saved sequence that was cut off. */
	if ((!rc || rc == -ENODATA) && in->total &&
	    memcmp(b, SAVED_MAGIC, KVC_MIN(in->total, (uint64_t)8)))
		return kvc_fail(in->ctx, -EMEDIUMTYPE,
				"this is no saved sequence");
	if (rc)
		return rc;
	version = get32(&p);
	if (version != SAVED_VERSION)
		return kvc_fail(in->ctx, -EPROTONOSUPPORT,
				"version %u of the format, and this library knows version %u only: use the program that saved it",
				version, SAVED_VERSION);
	return get32(&p) ? altered(in, "bits that are not used") : 0;
}

static const uint8_t *parse_group(const uint8_t *p, struct saved_group *g)
{
	g->g.kv_heads = get32(&p);
	g->g.k_dim = get32(&p);
	g->g.v_dim = get32(&p);
	g->g.k_type = get32(&p);
	g->g.v_type = get32(&p);
	g->g.window = get32(&p);
	g->g.sinks = get32(&p);
	g->nlayers = get32(&p);
	g->k_row = get32(&p);
	g->v_row = get32(&p);
	g->span.sink_end = get32(&p);
	g->span.first = get32(&p);
	memcpy(g->row_id, p, sizeof(g->row_id));
	return p + sizeof(g->row_id);
}

/* False: it contradicts itself, or @len bytes are not what it takes. */
static bool parse_head(const uint8_t *p, uint32_t len, struct saved_head *h)
{
	uint64_t bytes;
	uint32_t i;

	h->bytes = get64(&p);
	h->epoch = get64(&p);
	memcpy(h->id, p, sizeof(h->id));
	memcpy(h->extra, p + 32, sizeof(h->extra));
	p += 64;
	h->len = get32(&p);
	h->publishable = get32(&p);
	h->nlayers = get32(&p);
	h->ngroups = get32(&p);
	h->app_len = get32(&p);
	if (get32(&p) || !h->nlayers || h->nlayers > KVC_MAX_LAYERS ||
	    !h->ngroups || h->ngroups > KVC_MAX_GROUPS ||
	    h->app_len > KVC_SAVE_APP_MAX ||
	    len != saved_head_len(h->nlayers, h->ngroups))
		return false;
	memcpy(h->layer_group, p, h->nlayers);
	p += (h->nlayers + 3) / 4 * 4;
	for (i = 0; i < h->ngroups; i++) {
		const struct saved_span *sp = &h->group[i].span;

		p = parse_group(p, &h->group[i]);
		/* What the sums of saved_chunk_len() can hold. */
		if (h->group[i].nlayers > KVC_MAX_LAYERS ||
		    h->group[i].g.kv_heads > 4096 ||
		    h->group[i].k_row > 1 << 13 ||
		    h->group[i].v_row > 1 << 13 ||
		    (sp->first && sp->sink_end >= sp->first) ||
		    (!sp->first && sp->sink_end) || sp->first > h->len)
			return false;
	}
	return !kvc_saved_size(h, &bytes) && bytes == h->bytes;
}

int kvc_saved_read_head(struct saved_in *in, struct saved_head *h)
{
	uint8_t b[SAVED_HEAD_MAX];
	uint64_t len;
	int rc;

	rc = read_begin(in);
	if (!rc)
		rc = read_section(in, "HEAD", &len);
	if (rc)
		return rc;
	if (len < SAVED_HEAD || len > sizeof(b))
		return altered(in, "a head of an impossible length");
	rc = kvc_saved_get(in, b, len);
	if (!rc)
		rc = kvc_saved_close(in, "HEAD");
	if (rc)
		return rc;
	if (!parse_head(b, len, h))
		return altered(in, "a head that contradicts itself");
	in->want = h->bytes;
	return 0;
}

int kvc_saved_read_end(struct saved_in *in, bool alone)
{
	uint32_t whole = in->whole, index = in->index;
	uint8_t b[SAVED_END];
	const uint8_t *p = b;
	int rc;

	rc = kvc_saved_open(in, "END.", SAVED_END);
	if (!rc)
		rc = kvc_saved_get(in, b, sizeof(b));
	if (!rc)
		rc = kvc_saved_close(in, "END.");
	if (rc)
		return rc;
	if (get32(&p) != index || get32(&p) != whole ||
	    get64(&p) != in->want || in->total != in->want)
		return altered(in, "an end that is another's");
	if (alone && read_some(in, b, 1))
		return altered(in, "more behind its end");
	return 0;
}
