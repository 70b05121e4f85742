// SPDX-License-Identifier: MIT
/*
 * save.c - a sequence is written: a head, what the program adds, its tokens and
 * rows in chunks, an end.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "saved.h"

#define BUF_LEN 65536

/**
 * struct writer - where it goes
 * @s: the sequence
 * @h: its head
 * @st: the stream
 * @err: what it said, or 0
 * @crc: of the section so far
 * @whole: of all so far
 * @total: bytes so far
 * @index: sections so far
 * @n: bytes in @buf
 * @buf: what is not written yet
 * @rows: [SAVED_CHUNK] rows
 */
struct writer {
	const struct kvc_seq *s;
	const struct saved_head *h;
	struct kvc_stream st;
	int err;
	uint32_t crc;
	uint32_t whole;
	uint64_t total;
	uint32_t index;
	size_t n;
	uint8_t *buf;
	uint8_t *rows;
};

static int write_fd(int fd, const uint8_t *p, size_t n)
{
	ssize_t done;

	while (n) {
		done = write(fd, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		p += done;
		n -= done;
	}
	return 0;
}

static void emit(struct writer *w, const void *p, size_t n)
{
	if (w->err || !n)
		return;
	w->err = w->st.write ? w->st.write(w->st.arg, p, n) :
			       write_fd(w->st.fd, p, n);
}

static void flush(struct writer *w)
{
	emit(w, w->buf, w->n);
	w->n = 0;
}

static void put(struct writer *w, const void *p, size_t n)
{
	w->crc = kvc_crc32c(w->crc, p, n);
	w->whole = kvc_crc32c(w->whole, p, n);
	w->total += n;
	if (n > BUF_LEN - w->n)
		flush(w);
	if (n > BUF_LEN) {
		emit(w, p, n);
		return;
	}
	memcpy(w->buf + w->n, p, n);
	w->n += n;
}

static void put_u32(struct writer *w, uint32_t v)
{
	uint8_t b[4];

	put32(b, v);
	put(w, b, sizeof(b));
}

static void begin(struct writer *w, const char *tag, uint64_t bytes)
{
	uint8_t b[16];

	memcpy(b, tag, 4);
	put64(put32(b + 4, w->index++), bytes);
	put(w, b, sizeof(b));
	put_u32(w, kvc_crc32c(0, b, sizeof(b)));
	w->crc = 0;
}

static void end(struct writer *w)
{
	put_u32(w, w->crc);
}

static void put_begin(struct writer *w)
{
	uint8_t b[SAVED_BEGIN] = SAVED_MAGIC;

	put32(put32(b + 8, SAVED_VERSION), 0);
	put(w, b, sizeof(b));
}

static uint8_t *put_group(uint8_t *p, const struct saved_group *g)
{
	const uint32_t v[] = {
		g->g.kv_heads, g->g.k_dim, g->g.v_dim, g->g.k_type,
		g->g.v_type, g->g.window, g->g.sinks, g->nlayers, g->k_row,
		g->v_row, g->span.sink_end, g->span.first,
	};

	for (uint32_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		p = put32(p, v[i]);
	memcpy(p, g->row_id, sizeof(g->row_id));
	return p + sizeof(g->row_id);
}

static void put_head(struct writer *w)
{
	const struct saved_head *h = w->h;
	uint8_t b[SAVED_HEAD_MAX] = { 0 }, *p = b;
	uint32_t len = saved_head_len(h->nlayers, h->ngroups);

	p = put64(put64(p, h->bytes), h->epoch);
	memcpy(p, h->id, sizeof(h->id));
	memcpy(p + 32, h->extra, sizeof(h->extra));
	p = put32(put32(p + 64, h->len), h->publishable);
	p = put32(put32(p, h->nlayers), h->ngroups);
	p = put32(put32(p, h->app_len), 0);
	memcpy(p, h->layer_group, h->nlayers);
	p += (h->nlayers + 3) / 4 * 4;
	for (uint32_t i = 0; i < h->ngroups; i++)
		p = put_group(p, &h->group[i]);
	begin(w, "HEAD", len);
	put(w, b, len);
	end(w);
}

/* Rows of one head, gathered from its pages. */
static int put_run(void *arg, const struct saved_run *r)
{
	struct writer *w = arg;
	const struct kvc_lgroup *g = &r->l->group[r->group];
	const struct kvc_chain *ch = &w->s->chain[r->group];
	uint32_t pos = r->pos, left = r->n, slot, k;
	uint8_t *to = w->rows;
	struct kva_view v;

	kvc_layout_view(r->l, r->layer, w->s->c->ro, &v);
	for (; left; left -= k, pos += k, to += k * r->row) {
		slot = pos % g->page_tokens;
		k = KVC_MIN(left, g->page_tokens - slot);
		kva_rows_read(&v, kvc_page_ro(w->s->c,
			      ch->pages[pos / g->page_tokens]->handle),
			      r->is_v, r->head, slot, k, to);
	}
	put(w, w->rows, r->n * r->row);
	return w->err;
}

static void put_chunk(struct writer *w, uint32_t from)
{
	uint32_t to = from + KVC_MIN(SAVED_CHUNK, w->h->len - from), i;

	begin(w, "TOKS", saved_chunk_len(w->h, from, to));
	for (i = from; i < to; i++)
		put_u32(w, w->s->tokens[i]);
	kvc_saved_runs(&w->s->c->l, w->h, from, to, put_run, w);
	end(w);
}

static void put_end(struct writer *w)
{
	uint32_t whole = w->whole, index = w->index;

	begin(w, "END.", SAVED_END);
	put_u32(w, index);
	put_u32(w, whole);
	put_u32(w, w->h->bytes);
	put_u32(w, w->h->bytes >> 32);
	end(w);
}

/*
 * What there is of a chain: a window leaves a hole behind the sinks, and one
 * that was restored may lack more.
 */
static struct saved_span span_of(const struct kvc_seq *s, uint32_t group)
{
	const struct kvc_lgroup *g = &s->c->l.group[group];
	uint32_t n = kvc_pages_for(g, s->len), sinks = 0, first;
	const struct kvc_chain *ch = &s->chain[group];
	struct saved_span sp = { 0 };

	while (sinks < n && ch->pages[sinks])
		sinks++;
	first = sinks;
	while (first < n && !ch->pages[first])
		first++;
	if (first > sinks) {
		sp.sink_end = sinks * g->page_tokens;
		sp.first = KVC_MIN(s->len, first * (uint64_t)g->page_tokens);
	}
	if (ch->gap_end) {
		sp.sink_end = sp.first ? KVC_MIN(sp.sink_end, ch->gap) :
					 ch->gap;
		sp.first = KVC_MAX(sp.first, ch->gap_end);
	}
	return sp;
}

static void fill_head(const struct kvc_seq *s, uint32_t app_len,
		      struct saved_head *h)
{
	const struct kvc_layout *l = &s->c->l;

	memset(h, 0, sizeof(*h));
	h->epoch = l->epoch;
	memcpy(h->id, l->id, sizeof(h->id));
	memcpy(h->extra, s->extra, sizeof(h->extra));
	h->len = s->len;
	h->publishable = s->no_reuse ? 0 : s->own_from;
	h->nlayers = l->nlayers;
	h->ngroups = l->ngroups;
	h->app_len = app_len;
	memcpy(h->layer_group, l->layer_group, l->nlayers);
	for (uint32_t i = 0; i < l->ngroups; i++) {
		const struct kvc_lgroup *g = &l->group[i];
		struct saved_group *sg = &h->group[i];

		sg->g = g->g;
		sg->nlayers = g->nlayers;
		sg->k_row = kva_row_size(g->g.k_type, g->g.k_dim);
		sg->v_row = kva_row_size(g->g.v_type, g->g.v_dim);
		sg->span = span_of(s, i);
		memcpy(sg->row_id, g->row_id, sizeof(sg->row_id));
	}
}

/* Can it be saved, and what is its head? */
static int prepare(const struct kvc_seq *s, const struct kvc_save_opts *opts,
		   struct kvc_save_opts *o, struct saved_head *h)
{
	struct kvc *ctx = s->c->ctx;
	int rc;

	if (__BYTE_ORDER != __LITTLE_ENDIAN)
		return kvc_fail(ctx, -EOPNOTSUPP,
				"rows are saved in little-endian order only");
	if (kvc_opts_copy(o, sizeof(*o), opts))
		return kvc_fail(ctx, -EINVAL,
				"struct kvc_save_opts: bad sz, or members that this library does not know");
	if (o->app_len > KVC_SAVE_APP_MAX || (o->app_len && !o->app))
		return kvc_fail(ctx, -EINVAL,
				"%zu bytes of the program's own: up to %u can be",
				o->app_len, KVC_SAVE_APP_MAX);
	rc = kvc_seq_ready(s);
	if (rc)
		return rc;
	fill_head(s, o->app_len, h);
	if (kvc_saved_size(h, &h->bytes))
		return kvc_fail(ctx, -EOVERFLOW, "more than 2^64 bytes");
	return 0;
}

int kvc_save_size(const struct kvc_seq *s, const struct kvc_save_opts *opts,
		  uint64_t *bytes)
{
	struct kvc_save_opts o;
	struct saved_head h;
	int rc = prepare(s, opts, &o, &h);

	if (!rc)
		*bytes = h.bytes;
	return rc;
}

static int save(struct writer *w, const struct kvc_save_opts *o)
{
	uint32_t from, len = w->h->len;
	int rc;

	put_begin(w);
	put_head(w);
	if (o->app_len) {
		begin(w, "APP.", o->app_len);
		put(w, o->app, o->app_len);
		end(w);
	}
	for (from = 0; !w->err && from < len;
	     from += KVC_MIN(SAVED_CHUNK, len - from))
		put_chunk(w, from);
	/* Rows of pages that were revoked meanwhile are nobody's. */
	rc = kvc_seq_check(w->s);
	if (rc)
		return rc;
	put_end(w);
	flush(w);
	if (!w->err)
		return 0;
	return kvc_fail(w->s->c->ctx, w->err, "cannot be written: %s",
			strerrordesc_np(-w->err));
}

int kvc_seq_save(const struct kvc_seq *s, const struct kvc_stream *to,
		 const struct kvc_save_opts *opts)
{
	struct kvc_save_opts o;
	struct saved_head h;
	struct writer w = { .s = s, .h = &h };
	int rc;

	if (!to || kvc_opts_copy(&w.st, sizeof(w.st), to))
		return kvc_fail(s->c->ctx, -EINVAL,
				"struct kvc_stream: bad sz, or members that this library does not know");
	rc = prepare(s, opts, &o, &h);
	if (rc)
		return rc;
	w.buf = malloc(BUF_LEN);
	w.rows = malloc(SAVED_CHUNK * kvc_saved_row_max(&h));
	rc = w.buf && w.rows ? save(&w, &o) : kvc_nomem(s->c->ctx);
	free(w.buf);
	free(w.rows);
	return rc;
}

/* Beside the file, so that a rename is all that is left to do. */
static int open_beside(struct kvc *ctx, const char *path, char **temp)
{
	struct stat st;
	int fd;

	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return kvc_fail(ctx, -EINVAL, "%s: no regular file", path);
	if (asprintf(temp, "%s.XXXXXX", path) < 0) {
		*temp = NULL;
		return kvc_nomem(ctx);
	}
	fd = mkostemp(*temp, O_CLOEXEC);
	if (fd >= 0)
		return fd;
	fd = -errno;
	free(*temp);
	*temp = NULL;
	return kvc_fail(ctx, fd, "%s: %s", path, strerrordesc_np(-fd));
}

/* The new name, too, is to be on the disk; not all file systems can do that. */
static void sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, slash - path + 1) : strdup(".");
	int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(folder);
}

int kvc_seq_save_file(const struct kvc_seq *s, const char *path,
		      const struct kvc_save_opts *opts)
{
	struct kvc_stream to = { .sz = sizeof(to) };
	struct kvc *ctx = s->c->ctx;
	char *temp = NULL;
	int rc;

	to.fd = open_beside(ctx, path, &temp);
	if (to.fd < 0)
		return to.fd;
	rc = kvc_seq_save(s, &to, opts);
	if (!rc && fsync(to.fd))
		rc = kvc_fail(ctx, -errno, "%s: %s", path, strerror(errno));
	if (close(to.fd) && !rc)
		rc = kvc_fail(ctx, -errno, "%s: %s", path, strerror(errno));
	if (!rc && rename(temp, path))
		rc = kvc_fail(ctx, -errno, "%s: %s", path, strerror(errno));
	if (rc)
		unlink(temp);
	else
		sync_folder(path);
	free(temp);
	return rc;
}
