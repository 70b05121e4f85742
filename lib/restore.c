// SPDX-License-Identifier: MIT
/*
 * restore.c - a saved sequence becomes one of this cache.
 *
 * First it is asked whether it is of this model, then for all of its pages, and
 * then they are filled. Until its end was read, nobody else sees them: the
 * sequence has no token and finds nothing and publishes nothing.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "saved.h"

/**
 * struct restore - one that is on its way
 * @c: the cache
 * @o: options
 * @in: what is read
 * @alone: nothing may follow it
 * @h: its head
 * @s: the sequence, or NULL
 * @fresh: [@npages] pages that are not in a chain yet, group by group
 * @npages: their number
 * @next: [group] the next of them
 * @rows: [SAVED_CHUNK] rows
 */
struct restore {
	struct kvc_cache *c;
	struct kvc_restore_opts o;
	struct saved_in in;
	bool alone;
	struct saved_head h;
	struct kvc_seq *s;
	struct kvc_page **fresh;
	uint32_t npages;
	uint32_t next[KVC_MAX_GROUPS];
	uint8_t *rows;
};

static int fail(const struct restore *r, int err, const char *why)
{
	return kvc_fail(r->c->ctx, err, "%s", why);
}

/* ---- is it one of ours? ----------------------------------------------- */

static void tell(const struct restore *r)
{
	struct kvc_saved *out = r->o.saved;
	const struct saved_head *h = &r->h;

	if (!out)
		return;
	out->version = SAVED_VERSION;
	out->tokens = h->len;
	out->bytes = h->bytes;
	out->app_len = h->app_len;
	out->publishes = h->publishable != 0;
	out->nlayers = h->nlayers;
	out->epoch = h->epoch;
	memcpy(out->id, h->id, sizeof(out->id));
	out->ngroups = h->ngroups;
	for (uint32_t i = 0; i < h->ngroups; i++)
		out->groups[i] = h->group[i].g;
}

static int read_app(struct restore *r)
{
	size_t len = r->h.app_len, keep, n;
	uint8_t rest[1024];
	int rc;

	if (!len)
		return 0;
	keep = r->o.app ? KVC_MIN(len, r->o.app_room) : 0;
	rc = kvc_saved_open(&r->in, "APP.", len);
	if (!rc)
		rc = kvc_saved_get(&r->in, r->o.app, keep);
	for (len -= keep; !rc && len; len -= n) {
		n = KVC_MIN(len, sizeof(rest));
		rc = kvc_saved_get(&r->in, rest, n);
	}
	return rc ? rc : kvc_saved_close(&r->in, "APP.");
}

static int another(const struct restore *r, uint32_t group, const char *what,
		   uint32_t there, uint32_t here)
{
	if (there == here)
		return 0;
	return kvc_fail(r->c->ctx, -EXDEV,
			"it is of a model of another shape: group %u has %s %u there, and %u here",
			group, what, there, here);
}

static int check_type(const struct restore *r, uint32_t group, const char *of,
		      uint32_t there, uint32_t here)
{
	if (there == here)
		return 0;
	return kvc_fail(r->c->ctx, -EPROTOTYPE,
			"its %s are %s in group %u, and %s here: rows are restored as they were stored",
			of, kva_type_name(there), group, kva_type_name(here));
}

static int check_group(const struct restore *r, uint32_t i)
{
	const struct saved_group *there = &r->h.group[i];
	const struct kvc_lgroup *here = &r->c->l.group[i];
	const struct kvc_group *a = &there->g, *b = &here->g;
	int rc;

	rc = another(r, i, "layers:", there->nlayers, here->nlayers);
	if (!rc)
		rc = another(r, i, "KV heads:", a->kv_heads, b->kv_heads);
	if (!rc)
		rc = another(r, i, "K dimensions:", a->k_dim, b->k_dim);
	if (!rc)
		rc = another(r, i, "V dimensions:", a->v_dim, b->v_dim);
	if (!rc)
		rc = check_type(r, i, "keys", a->k_type, b->k_type);
	if (!rc)
		rc = check_type(r, i, "values", a->v_type, b->v_type);
	if (!rc)
		rc = another(r, i, "a window of", a->window, b->window);
	if (!rc)
		rc = another(r, i, "sinks:", a->sinks, b->sinks);
	if (rc)
		return rc;
	if (there->k_row != kva_row_size(b->k_type, b->k_dim) ||
	    there->v_row != kva_row_size(b->v_type, b->v_dim))
		return fail(r, -EPROTOTYPE,
			    "its rows have another size than this library's of the same type: use the program that saved it");
	if (memcmp(there->row_id, here->row_id, sizeof(here->row_id)))
		return fail(r, -EXDEV,
			    "it was made with other scales, or other layers in a group");
	return 0;
}

static int check_model(const struct restore *r)
{
	const struct kvc_layout *l = &r->c->l;
	const struct saved_head *h = &r->h;
	struct kvc *ctx = r->c->ctx;
	int rc = 0;

	if (memcmp(h->id, l->id, sizeof(l->id)))
		return kvc_fail(ctx, -EXDEV,
				"it is of another model: %02x%02x%02x%02x... there, and %02x%02x%02x%02x... here",
				h->id[0], h->id[1], h->id[2], h->id[3],
				l->id[0], l->id[1], l->id[2], l->id[3]);
	if (h->epoch != l->epoch)
		return kvc_fail(ctx, -EKEYEXPIRED,
				"it is of epoch %llu, and this is %llu: the weights have changed since",
				(unsigned long long)h->epoch,
				(unsigned long long)l->epoch);
	if (h->nlayers != l->nlayers || h->ngroups != l->ngroups ||
	    memcmp(h->layer_group, l->layer_group, l->nlayers))
		return kvc_fail(ctx, -EXDEV,
				"it is of a model of another shape: %u layers in %u groups there, and %u in %u, or others, here",
				h->nlayers, h->ngroups, l->nlayers,
				l->ngroups);
	for (uint32_t i = 0; !rc && i < l->ngroups; i++)
		rc = check_group(r, i);
	return rc;
}

/* ---- its pages -------------------------------------------------------- */

static bool wanted(const struct restore *r, uint32_t group, uint32_t page)
{
	const struct kvc_lgroup *g = &r->c->l.group[group];

	return page < kvc_sink_pages(g) ||
	       page >= kvc_first_page(g, r->h.len);
}

/* Are the rows there that whoever comes next sees? */
static int check_span(const struct restore *r, uint32_t group)
{
	const struct saved_span *sp = &r->h.group[group].span;
	const struct kvc_lgroup *g = &r->c->l.group[group];
	uint32_t first = 0, sinks = 0;

	if (g->span && r->h.len >= g->span) {
		first = r->h.len - g->span + 1;
		sinks = KVC_MIN(g->g.sinks, first);
	}
	if (!sp->first || (first >= sp->first && sinks <= sp->sink_end))
		return 0;
	return fail(r, -EXDEV,
		    "it has less than what this cache keeps of a window");
}

/* Do pages that there will be lack rows, as they had another size? */
static bool has_gap(const struct restore *r, uint32_t group)
{
	const struct saved_span *sp = &r->h.group[group].span;
	const struct kvc_lgroup *g = &r->c->l.group[group];
	uint64_t sinks = (uint64_t)kvc_sink_pages(g) * g->page_tokens;
	uint64_t first = kvc_first_page(g, r->h.len) * g->page_tokens;

	/* A static one has all pages. */
	if (r->s->fixed)
		return sp->first;
	return KVC_MIN(sinks, first) > sp->sink_end || first < sp->first;
}

static uint64_t count_pages(const struct restore *r, uint32_t group)
{
	const struct kvc_lgroup *g = &r->c->l.group[group];

	return kvc_pages_for(g, r->h.len) - kvc_pages_gone(g, r->h.len);
}

static int reserve(struct restore *r)
{
	struct kvc_cache *c = r->c;
	uint64_t n = 0;
	uint32_t i;
	int rc;

	for (i = 0; i < c->l.ngroups; i++) {
		rc = check_span(r, i);
		if (rc)
			return rc;
		r->next[i] = KVC_MIN(n, (uint64_t)UINT32_MAX);
		if (!r->s->fixed)
			n += count_pages(r, i);
	}
	rc = kvc_seq_in_range(r->s, r->h.len);
	if (rc)
		return rc;
	if (n > UINT32_MAX)
		return kvc_fail(c->ctx, -E2BIG, "%llu pages wanted at once",
				(unsigned long long)n);
	/* Before memory: the number is a file's. */
	rc = n ? kvc_pages_check(c, n, r->o.deadline_ns) : 0;
	if (rc)
		return rc;
	r->rows = malloc(SAVED_CHUNK * kvc_saved_row_max(&r->h));
	r->fresh = calloc(n + 1, sizeof(struct kvc_page *));
	if (!r->rows || !r->fresh)
		return kvc_nomem(c->ctx);
	rc = n ? kvc_pages_alloc(c, n, r->o.deadline_ns, r->fresh) : 0;
	if (!rc)
		r->npages = n;
	return rc;
}

/* Room for tokens up to @end: memory follows what was read, not what is said. */
static int grow(struct restore *r, uint32_t end)
{
	uint32_t i, n;
	int rc;

	rc = kvc_tokens_grow(r->s, end);
	for (i = 0; !rc && !r->s->fixed && i < r->c->l.ngroups; i++) {
		struct kvc_chain *ch = &r->s->chain[i];

		n = kvc_pages_for(&r->c->l.group[i], end);
		rc = kvc_chain_grow(ch, n);
		while (!rc && ch->n < n) {
			struct kvc_page **p = NULL;

			if (wanted(r, i, ch->n))
				p = &r->fresh[r->next[i]++];
			kvc_chain_set(ch, ch->n++, p ? *p : NULL);
			if (p)
				*p = NULL;
		}
	}
	return rc ? kvc_nomem(r->c->ctx) : 0;
}

/* ---- its rows --------------------------------------------------------- */

static int get_run(void *arg, const struct saved_run *run)
{
	struct restore *r = arg;
	const struct kvc_lgroup *g = &run->l->group[run->group];
	const struct kvc_chain *ch = &r->s->chain[run->group];
	uint32_t pos = run->pos, left = run->n, slot, k, page;
	const uint8_t *from = r->rows;
	struct kva_view v;
	char *to;
	int rc;

	rc = kvc_saved_get(&r->in, r->rows, run->n * run->row);
	if (rc)
		return rc;
	kvc_layout_view(run->l, run->layer, r->c->rw, &v);
	for (; left; left -= k, pos += k, from += k * run->row) {
		slot = pos % g->page_tokens;
		page = pos / g->page_tokens;
		k = KVC_MIN(left, g->page_tokens - slot);
		/* More than this cache keeps of a window. */
		if (!ch->pages[page])
			continue;
		to = r->c->rw + ch->numbers[page] * r->c->l.page_size;
		kva_rows_write(&v, to, run->is_v, run->head, slot, k, from);
	}
	return 0;
}

static int get_chunk(struct restore *r, uint32_t from, uint32_t to)
{
	uint32_t *tokens, i;
	int rc;

	rc = kvc_saved_open(&r->in, "TOKS", saved_chunk_len(&r->h, from, to));
	if (!rc)
		rc = grow(r, to);
	if (rc)
		return rc;
	tokens = r->s->tokens + from;
	rc = kvc_saved_get(&r->in, tokens, (to - from) * sizeof(*tokens));
	if (rc)
		return rc;
	for (i = 0; i < to - from; i++)
		tokens[i] = le32toh(tokens[i]);
	rc = kvc_saved_runs(&r->c->l, &r->h, from, to, get_run, r);
	return rc ? rc : kvc_saved_close(&r->in, "TOKS");
}

/* A file tells its length before it is read. */
static int check_file(struct restore *r)
{
	off_t at;
	struct stat st;

	if (r->in.st.read || fstat(r->in.st.fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	at = lseek(r->in.st.fd, 0, SEEK_CUR);
	if (at < 0 || (uint64_t)KVC_MAX(st.st_size - at, (off_t)0) >=
	    r->in.want - r->in.total)
		return 0;
	return kvc_fail(r->c->ctx, -ENODATA,
			"it ends %llu bytes too early, after %llu of %llu: it was cut off: take a whole copy",
			(unsigned long long)(r->in.want - r->in.total -
					     KVC_MAX(st.st_size - at, 0)),
			(unsigned long long)(r->in.total +
					     KVC_MAX(st.st_size - at, 0)),
			(unsigned long long)r->in.want);
}

static int fill(struct restore *r)
{
	uint32_t from, to;
	int rc = 0;

	for (from = 0; !rc && from < r->h.len; from = to) {
		to = from + KVC_MIN(SAVED_CHUNK, r->h.len - from);
		rc = get_chunk(r, from, to);
	}
	if (!rc)
		rc = kvc_saved_read_end(&r->in, r->alone);
	if (rc)
		return rc;
	kvc_lost_poll(r->c->ctx);
	if (kvc_seq_stale(r->s))
		return fail(r, -ESTALE,
			    "its pages were revoked while they were filled: try again");
	return 0;
}

/* ---- all of it -------------------------------------------------------- */

static int create(struct restore *r, const struct kvc_seq_opts *opts)
{
	struct kvc_seq_opts o = { .sz = sizeof(o) };
	uint8_t extra[KVCACHE_KEY_LEN];
	int rc;

	if (kvc_opts_copy(&o, sizeof(o), opts))
		return fail(r, -EINVAL,
			    "struct kvc_seq_opts: bad sz, or members that this library does not know");
	o.sz = sizeof(o);
	o.common = 0;
	rc = kvc_seq_create(r->c, &o, &r->s);
	if (rc)
		return rc;
	kvc_key_extra(extra, o.extra, o.extra_len);
	if (memcmp(extra, r->h.extra, sizeof(extra)))
		return fail(r, -EKEYREJECTED,
			    "its conversation had other extra bytes, such as another adapter's");
	return 0;
}

/* It is whole: it counts from here on. */
static void finish(struct restore *r, bool no_reuse)
{
	struct kvc_seq *s = r->s;
	struct kvc_msg msg;
	uint32_t i;

	s->len = r->h.len;
	s->no_reuse = no_reuse || !(r->o.flags & KVC_RESTORE_PUBLISH) ||
		      !r->h.publishable;
	if (r->h.publishable < s->len)
		s->own_from = r->h.publishable;
	for (i = 0; i < r->c->l.ngroups; i++) {
		struct kvc_chain *ch = &s->chain[i];

		if (!s->fixed)
			ch->first = kvc_first_page(&r->c->l.group[i], s->len);
		if (!r->h.group[i].span.first || !has_gap(r, i))
			continue;
		/* A page that is not whole is nobody else's. */
		ch->gap = r->h.group[i].span.sink_end;
		ch->gap_end = r->h.group[i].span.first;
		s->no_reuse = true;
	}
	if (s->no_reuse)
		return;
	kvc_msg_save(r->c->ctx, &msg);
	for (i = 0; i < r->c->l.ngroups; i++) {
		kvc_seq_keys(s, i, 0);
		kvc_publish(s, i, false);
	}
	/* Pages that could not be published stay private. */
	kvc_msg_restore(r->c->ctx, &msg);
}

static int restore(struct restore *r)
{
	bool no_reuse;
	int rc;

	rc = kvc_saved_read_head(&r->in, &r->h);
	if (rc)
		return rc;
	tell(r);
	rc = read_app(r);
	if (!rc)
		rc = check_model(r);
	if (!rc)
		rc = create(r, r->o.seq);
	if (!rc)
		rc = check_file(r);
	if (rc)
		return rc;
	no_reuse = r->s->no_reuse;
	r->s->no_reuse = true;
	rc = reserve(r);
	if (!rc)
		rc = fill(r);
	if (!rc)
		finish(r, no_reuse);
	return rc;
}

/* Give back what it did not come to. */
static void put_rest(struct restore *r)
{
	uint32_t i, n = 0;

	for (i = 0; i < r->npages; i++)
		if (r->fresh[i])
			r->fresh[n++] = r->fresh[i];
	if (n)
		kvc_pages_put(r->c, r->fresh, n);
	free(r->fresh);
	free(r->rows);
}

static int restore_from(struct kvc_cache *c, const struct kvc_stream *from,
			const struct kvc_restore_opts *opts, bool alone,
			struct kvc_seq **out)
{
	struct kvc_stats was = c->st;
	struct restore r = { .c = c, .in.ctx = c->ctx, .alone = alone };
	int rc;

	if (!from || kvc_opts_copy(&r.in.st, sizeof(r.in.st), from) ||
	    kvc_opts_copy(&r.o, sizeof(r.o), opts) ||
	    r.o.flags & ~KVC_RESTORE_PUBLISH)
		return fail(&r, -EINVAL,
			    "struct kvc_stream or kvc_restore_opts: bad sz, or what this library does not know");
	if (__BYTE_ORDER != __LITTLE_ENDIAN)
		return fail(&r, -EOPNOTSUPP,
			    "rows are restored in little-endian order only");
	if (r.o.saved)
		memset(r.o.saved, 0, sizeof(*r.o.saved));
	rc = restore(&r);
	put_rest(&r);
	if (!rc) {
		*out = r.s;
		return 0;
	}
	if (r.s)
		kvc_seq_free(r.s, KVC_SEQ_DISCARD);
	c->st = was;
	return rc;
}

int kvc_seq_restore(struct kvc_cache *c, const struct kvc_stream *from,
		    const struct kvc_restore_opts *opts, struct kvc_seq **out)
{
	return restore_from(c, from, opts, false, out);
}

int kvc_seq_restore_file(struct kvc_cache *c, const char *path,
			 const struct kvc_restore_opts *opts,
			 struct kvc_seq **out)
{
	struct kvc_stream from = { .sz = sizeof(from) };
	int rc;

	from.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (from.fd < 0)
		return kvc_fail(c->ctx, -errno, "%s", strerror(errno));
	rc = restore_from(c, &from, opts, true, out);
	close(from.fd);
	return rc;
}
