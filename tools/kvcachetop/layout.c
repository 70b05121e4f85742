// SPDX-License-Identifier: MIT
/*
 * layout.c - a frame on a canvas of any size: two lines of totals, pools,
 * tenants, clients, and a line of keys. Bars are letters, which a terminal with
 * colours colours.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"
#include "view.h"

#define MIN_COLS	78
#define MIN_ROWS	10
#define BAR_MIN		12
#define HEADER		2
#define POOL_NAME	12
#define PARTS		5

static const struct {
	char letter;
	enum ink ink;
	const char *name;
} parts[PARTS] = {
	{ 'p', INK_PRIVATE, "private" }, { 's', INK_SHARED, "shared" },
	{ 'c', INK_CACHED, "cached" }, { 'r', INK_RETIRING, "retiring" },
	{ '.', INK_FREE, "free" },
};

const char *layout_size(const struct view *v, uint64_t pages,
			uint64_t page_size, char *buf)
{
	double x = (double)pages * page_size;
	int unit = 0;

	if (pages == UINT64_MAX)
		return strcpy(buf, "max");
	if (v->pages) {
		snprintf(buf, 32, "%" PRIu64, pages);
		return buf;
	}
	while (x >= 1024 && unit < 5) {
		x /= 1024;
		unit++;
	}
	snprintf(buf, 32, x < 100 && x != floor(x) ? "%.1f%.1s" : "%.0f%.1s", x,
		 &" KMGTP"[unit]);
	if (!unit)
		buf[strcspn(buf, " ")] = 0;
	return buf;
}

/* "120", "1.5k"; "-" where it is not known yet. */
static const char *rate_text(double rate, char *buf)
{
	if (rate < 0)
		return strcpy(buf, "-");
	if (rate >= 99950)
		snprintf(buf, 32, "%.1fM", rate / 1e6);
	else if (rate >= 9999.5)
		snprintf(buf, 32, "%.0fk", rate / 1e3);
	else
		snprintf(buf, 32, rate < 10 && rate != floor(rate) ? "%.1f" :
			 "%.0f", rate);
	return buf;
}

static const char *share_text(double share, char *buf)
{
	if (share < 0)
		return strcpy(buf, "-");
	snprintf(buf, 32, share >= 0.9995 ? "%.0f" : "%.1f", 100 * share);
	return buf;
}

/* ---- totals ----------------------------------------------------------------- */

static void totals(struct canvas *cv, const struct view *v,
		   const struct frame *f, const char *when)
{
	double lookups = f->before ? 0 : -1, allocs = lookups, taken = lookups;
	uint64_t waiters = 0, looked = 0, hit = 0;
	const struct kvcache_pool_info *p, *b;
	const struct sample *s = f->now;
	char a[32], h[32], l[32], r[32];
	size_t clients = 0;
	unsigned int i;
	int n;

	for (i = 0; i < s->npools; i++) {
		p = &s->pool[i];
		waiters += p->waiters;
		b = frame_pool_before(f, p->id);
		if (!b || frame_rate(f, b->lookups, p->lookups) < 0)
			continue;
		lookups += frame_rate(f, b->lookups, p->lookups);
		allocs += frame_rate(f, b->allocs, p->allocs);
		taken += frame_rate(f, b->reclaims, p->reclaims);
		looked += p->lookups - b->lookups;
		hit += p->hits - b->hits;
	}
	for (size_t k = 0; k < s->nclients; k++)
		clients += s->cpool[k] == s->cpool[0];
	n = canvas_put(cv, 0, 0, INK_TITLE, "kvcachetop");
	n += canvas_put(cv, 0, n, INK_PLAIN, "  %s  %s  seq %" PRIu64,
			s->backend, when, s->seq);
	if (s->last != s->seq)
		n += canvas_put(cv, 0, n, INK_PLAIN, "-%" PRIu64, s->last);
	n += canvas_put(cv, 0, n, INK_PLAIN, "  every %g s", v->interval);
	if (*v->filter)
		canvas_put(cv, 0, n, INK_WARN, "  only \"%s\"", v->filter);
	canvas_put(cv, 1, 0, INK_PLAIN,
		   "tenants %zu  clients %zu  waiting %" PRIu64 "  lookups %s/s  hits %s %%  allocs %s/s  reclaims %s/s",
		   s->npools ? s->ntenants / s->npools : 0, clients, waiters,
		   rate_text(lookups, l),
		   share_text(looked ? (double)hit / looked : -1, h),
		   rate_text(allocs, a), rate_text(taken, r));
}

/* ---- pools ------------------------------------------------------------------ */

/*
 * @width characters shared out among parts: in proportion, and one at least for
 * whatever there is.
 */
static void share_out(const uint64_t *n, uint64_t all, int width, int *out)
{
	double left[PARTS];
	int used = 0, i, k;

	for (i = 0; i < PARTS; i++) {
		double x = all ? (double)n[i] * width / all : 0;

		out[i] = n[i] && x < 1 ? 1 : floor(x + 1e-9);
		left[i] = x - out[i];
		used += out[i];
	}
	while (used != width) {
		for (k = 0, i = 1; i < PARTS; i++)
			if (used < width ? left[i] > left[k] :
			    out[i] > out[k])
				k = i;
		if (used < width && all) {
			out[k]++;
			left[k]--;
			used++;
		} else if (used > width) {
			out[k]--;
			used--;
		} else {
			break;
		}
	}
}

static void parts_of(const struct kvcache_pool_info *p, uint64_t *n)
{
	n[0] = p->nr_private;
	n[1] = p->nr_shared;
	n[2] = p->nr_cached;
	n[3] = p->nr_retiring;
	n[4] = p->nr_free;
}

static void pool_bar(struct canvas *cv, int row, int col, int width,
		     const struct kvcache_pool_info *p)
{
	uint64_t n[PARTS];
	int out[PARTS], i, k;

	parts_of(p, n);
	share_out(n, p->nr_pages, width - 2, out);
	col += canvas_put(cv, row, col, INK_PLAIN, "[");
	for (i = 0; i < PARTS; i++)
		for (k = 0; k < out[i]; k++)
			col += canvas_put(cv, row, col, parts[i].ink, "%c",
					  parts[i].letter);
	canvas_put(cv, row, col, INK_PLAIN, "]");
}

static void pool_numbers(struct canvas *cv, int row, const struct view *v,
			 const struct frame *f,
			 const struct kvcache_pool_info *p)
{
	uint64_t n[PARTS];
	char buf[32];
	double waits;
	int col = 2, i;

	parts_of(p, n);
	for (i = 0; i < PARTS; i++)
		col += canvas_put(cv, row, col, INK_PLAIN, "%s %s  ",
				  parts[i].name,
				  layout_size(v, n[i], p->page_size, buf));
	col += canvas_put(cv, row, col, p->waiters ? INK_WARN : INK_PLAIN,
			  "wait %" PRIu64, (uint64_t)p->waiters);
	waits = frame_waits(f, p->id);
	if (f->now->has_waits)
		col += canvas_put(cv, row, col, INK_PLAIN, "  %s/s",
				  rate_text(waits, buf));
	if (p->draining)
		canvas_put(cv, row, col, INK_WARN, "  draining");
}

/* Name, bar, size, lookups a second, hits. */
static void pool_row(struct canvas *cv, int row, const struct view *v,
		     const struct frame *f, const struct kvcache_pool_info *p)
{
	const struct kvcache_pool_info *b = frame_pool_before(f, p->id);
	double rate = b ? frame_rate(f, b->lookups, p->lookups) : -1, hits = -1;
	int end = cv->cols - 22;
	char buf[32];

	if (rate > 0)
		hits = (double)(p->hits - b->hits) / (p->lookups - b->lookups);
	else if (p->lookups)
		hits = (double)p->hits / p->lookups;
	canvas_field(cv, row, 0, POOL_NAME, 0, INK_PLAIN, p->name);
	pool_bar(cv, row, POOL_NAME + 1, end - POOL_NAME - 1, p);
	canvas_field(cv, row, end + 1, 7, 1, INK_PLAIN,
		     layout_size(v, p->nr_pages, p->page_size, buf));
	canvas_field(cv, row, end + 9, 7, 1, INK_PLAIN, rate_text(rate, buf));
	canvas_field(cv, row, end + 17, 5, 1, INK_PLAIN, share_text(hits, buf));
}

static void pool_head(struct canvas *cv, int row, unsigned int shown,
		      unsigned int n)
{
	int end = cv->cols - 22, col = POOL_NAME + 1, i;

	canvas_ink_row(cv, row, INK_HEAD);
	canvas_put(cv, row, 0, INK_HEAD, shown < n ? "POOL %u/%u" : "POOL",
		   shown, n);
	for (i = 0; i < PARTS; i++)
		if (col + (int)strlen(parts[i].name) + 2 <= end)
			col += canvas_put(cv, row, col, INK_HEAD, "%c %s ",
					  parts[i].letter, parts[i].name);
	canvas_field(cv, row, end + 1, 7, 1, INK_HEAD, "SIZE");
	canvas_field(cv, row, end + 9, 7, 1, INK_HEAD, "LOOK/S");
	canvas_field(cv, row, end + 17, 5, 1, INK_HEAD, "HIT%");
}

/* Two lines a pool where there is room, one where there is less. */
static int pool_lines(const struct view *v, const struct frame *f, int rows,
		      int *each)
{
	int n = f->now->npools, room = rows / 2 - 1;

	*each = v->batch || 2 * n <= rows / 3 ? 2 : 1;
	if (!v->batch && n * *each > room)
		n = room / *each;
	return n;
}

static int pools(struct canvas *cv, int row, const struct view *v,
		 const struct frame *f)
{
	int each, n = pool_lines(v, f, cv->rows, &each), i;

	pool_head(cv, row++, n, f->now->npools);
	for (i = 0; i < n; i++, row += each) {
		pool_row(cv, row, v, f, &f->now->pool[i]);
		if (each == 2)
			pool_numbers(cv, row + 1, v, f, &f->now->pool[i]);
	}
	return row;
}

/* ---- tables ----------------------------------------------------------------- */

static const struct column *columns_of(int section, int *n)
{
	*n = section == TENANTS ? (int)T_NR : (int)C_NR;
	return section == TENANTS ? tenant_columns : client_columns;
}

/*
 * Widths of the columns that are shown, 0 for those that are not, and what is
 * left for a bar.
 */
static int fit(const struct frame *f, int section, int cols, int *width)
{
	int n, i, sum = 0, worst, left, name;
	const struct column *col = columns_of(section, &n);

	for (i = 0; i < n; i++) {
		width[i] = col[i].width;
		if (col[i].text && !strcmp(col[i].name, "POOL") &&
		    f->now->npools < 2)
			width[i] = 0;
		sum += width[i] ? width[i] + 1 : 0;
	}
	while (cols - sum < (section == TENANTS ? BAR_MIN : 0)) {
		for (worst = -1, i = 0; i < n; i++)
			if (width[i] && col[i].drop &&
			    (worst < 0 || col[i].drop > col[worst].drop))
				worst = i;
		if (worst < 0)
			break;
		sum -= width[worst] + 1;
		width[worst] = 0;
	}
	left = cols - sum;
	/* A wide screen has whole names. */
	name = section == TENANTS ? (int)T_TENANT : (int)C_TENANT;
	i = left / (section == TENANTS ? 4 : 2);
	if (i > 30)
		i = 30;
	if (i > 0) {
		width[name] += i;
		left -= i;
	}
	return left;
}

static const char *cell(const struct view *v, const struct row *r, int section,
			int i, char *buf)
{
	const struct kvcache_tenant_info *t = r->tenant;
	const struct kvcache_client_info *c = r->client;
	uint64_t page = r->pool->page_size;

	if (section == TENANTS) {
		switch (i) {
		case T_TENANT: return r->name;
		case T_POOL: return r->pool->name;
		case T_USED: return layout_size(v, t->cur, page, buf);
		case T_CACHED: return layout_size(v, t->nr_cached, page, buf);
		case T_MIN: return layout_size(v, t->min, page, buf);
		case T_LOW: return layout_size(v, t->low, page, buf);
		case T_MAX: return layout_size(v, t->max, page, buf);
		case T_CLIENTS: snprintf(buf, 32, "%u", t->clients); break;
		case T_WAIT:
			snprintf(buf, 32, "%" PRIu64, (uint64_t)t->waiters);
			break;
		case T_MAXED: return rate_text(r->maxed, buf);
		case T_LOOKUPS: return rate_text(r->lookups, buf);
		case T_HITS: return share_text(r->hits, buf);
		}
		return buf;
	}
	switch (i) {
	case C_CLIENT: snprintf(buf, 32, "%u", c->id); break;
	case C_PID:
		snprintf(buf, 32, c->pid ? "%u" : "-", c->pid);
		break;
	case C_COMMAND: return c->comm;
	case C_TENANT: return *r->name ? r->name : "-";
	case C_POOL: return r->pool->name;
	case C_PRIVATE: return layout_size(v, c->nr_private, page, buf);
	case C_SHARED: return layout_size(v, c->nr_shared, page, buf);
	case C_WAIT:
		return c->waiting ? layout_size(v, c->waiting, page, buf) : "-";
	}
	return buf;
}

/*
 * What a whole bar is: the most that any tenant of that pool has or may have, so
 * that bars can be compared.
 */
static uint64_t scale_of(const struct frame *f,
			 const struct kvcache_pool_info *p)
{
	uint64_t most = 1;

	for (size_t i = 0; i < f->now->ntenants; i++) {
		const struct kvcache_tenant_info *t = &f->now->tenant[i];
		uint64_t x = t->max < p->nr_pages ? t->max : p->nr_pages;

		if (t->pool != p->id)
			continue;
		if (t->cur > x)
			x = t->cur;
		if (x > most)
			most = x;
	}
	return most;
}

static void mark(struct canvas *cv, int row, int col, int width, uint64_t x,
		 uint64_t scale, char letter)
{
	int at;

	if (!x || x > scale)
		return;
	/* The last cell that is still below it. */
	at = ceil((double)x * width / scale - 1e-9) - 1;
	canvas_put(cv, row, col + at, INK_MARK, "%c", letter);
}

/* '|' in use, 'c' cached, '.' not had; m, l and M where its limits are. */
static void tenant_bar(struct canvas *cv, int row, int col, int width,
		       const struct row *r, uint64_t scale)
{
	const struct kvcache_tenant_info *t = r->tenant;
	int used = ceil((double)(t->cur - t->nr_cached) * width / scale - 1e-9);
	int all = ceil((double)t->cur * width / scale - 1e-9), i;

	for (i = 0; i < width; i++)
		canvas_put(cv, row, col + i, i < used ? INK_PRIVATE :
			   i < all ? INK_CACHED : INK_FREE, "%c",
			   i < used ? '|' : i < all ? 'c' : '.');
	mark(cv, row, col, width, t->min, scale, 'm');
	mark(cv, row, col, width, t->low, scale, 'l');
	mark(cv, row, col, width, t->max, scale, 'M');
}

static void table_head(struct canvas *cv, int row, const struct view *v,
		       const struct frame *f, int section, const int *width,
		       int bar, size_t shown)
{
	int n, i, col = 0;
	const struct column *c = columns_of(section, &n);
	char buf[64];

	canvas_ink_row(cv, row, INK_HEAD);
	for (i = 0; i < n; i++) {
		if (!width[i])
			continue;
		canvas_field(cv, row, col, width[i], !c[i].text,
			     i == v->sort[section] ? INK_SORT : INK_HEAD,
			     c[i].name);
		col += width[i] + 1;
	}
	if (shown < f->n[section]) {
		snprintf(buf, sizeof(buf), "%zu-%zu/%zu", v->top[section] + 1,
			 v->top[section] + shown, f->n[section]);
		canvas_field(cv, row, cv->cols - (int)strlen(buf),
			     strlen(buf), 1, INK_HEAD, buf);
	} else if (section == TENANTS && f->now->npools == 1 && bar > 8) {
		snprintf(buf, sizeof(buf), "..%s",
			 layout_size(v, scale_of(f, &f->now->pool[0]),
				     f->now->pool[0].page_size, buf + 32));
		canvas_field(cv, row, cv->cols - bar, bar, 1, INK_HEAD, buf);
	}
}

static void table_row(struct canvas *cv, int row, const struct view *v,
		      const struct row *r, int section, const int *width,
		      int bar, uint64_t scale)
{
	bool bad = section == TENANTS ? r->tenant->waiters ||
					r->tenant->cur > r->tenant->max :
					r->client->waiting;
	int n, i, col = 0;
	const struct column *c = columns_of(section, &n);
	char buf[32];

	for (i = 0; i < n; i++) {
		if (!width[i])
			continue;
		canvas_field(cv, row, col, width[i], !c[i].text,
			     bad ? INK_WARN : INK_PLAIN,
			     cell(v, r, section, i, buf));
		col += width[i] + 1;
	}
	if (!v->batch && section == (int)v->focus &&
	    r->key == v->key[section])
		canvas_ink_row(cv, row, INK_SELECTED);
	if (section == TENANTS && bar > 0)
		tenant_bar(cv, row, cv->cols - bar, bar, r, scale);
}

static void table(struct canvas *cv, int row, int rows, struct view *v,
		  const struct frame *f, int section)
{
	size_t n = f->n[section], *top = &v->top[section], i, shown;
	const struct kvcache_pool_info *of = NULL;
	int width[T_NR], bar, columns, k;
	uint64_t scale = 1;

	if (rows < 1)
		return;
	shown = n < (size_t)rows - 1 ? n : (size_t)rows - 1;
	if (v->index[section] < *top)
		*top = v->index[section];
	if (v->index[section] >= *top + shown && shown)
		*top = v->index[section] + 1 - shown;
	if (*top + shown > n)
		*top = n - shown;
	bar = fit(f, section, cv->cols, width);
	columns_of(section, &columns);
	for (v->shown[section] = 0, k = 0; k < columns; k++)
		if (width[k])
			v->shown[section] |= 1U << k;
	table_head(cv, row, v, f, section, width, bar, shown);
	for (i = 0; i < shown; i++) {
		const struct row *r = &f->row[section][*top + i];

		if (section == TENANTS && r->pool != of) {
			of = r->pool;
			scale = scale_of(f, of);
		}
		table_row(cv, row + 1 + i, v, r, section, width, bar, scale);
	}
}

/* ---- the last line, help ------------------------------------------------------ */

static const char *limit_name(char which)
{
	return which == 'm' ? "min" : which == 'l' ? "low" : "max";
}

static void last_line(struct canvas *cv, const struct view *v,
		      const struct frame *f)
{
	const struct kvcache_pool_info *p = sample_pool(f->now, v->change.pool);
	uint64_t page = p ? p->page_size : 1;
	int row = cv->rows - 1;
	char a[32], b[32];

	switch (v->mode) {
	case MODE_FILTER:
		canvas_put(cv, row, 0, INK_TITLE, "filter: %s_", v->input);
		return;
	case MODE_VALUE:
		canvas_put(cv, row, 0, INK_TITLE,
			   "%s of %s, now %s (64M, 25%%, max): %s_",
			   limit_name(v->change.which), v->change.name,
			   layout_size(v, v->old, page, a), v->input);
		return;
	case MODE_ASK:
		canvas_put(cv, row, 0, INK_WARN,
			   "set %s of %s from %s to %s? y or n",
			   limit_name(v->change.which), v->change.name,
			   layout_size(v, v->old, page, a),
			   layout_size(v, v->change.pages, page, b));
		return;
	default:
		break;
	}
	if (*v->message)
		canvas_put(cv, row, 0, INK_WARN, "%s", v->message);
	else
		canvas_put(cv, row, 0, INK_PLAIN,
			   "q quit  h help  / filter  < > sort  r reverse  m l M limits  Tab  u units");
}

static void help(struct canvas *cv)
{
	static const char *const lines[] = {
		"Tab          tenants or clients",
		"Up Down      another row; also PageUp PageDown Home End, k j",
		"< >          sort by the column before or after",
		"r            the other way round",
		"/            show what has a text in its name; an empty one ends it",
		"m l M        change min, low or max of the selected tenant; asks first",
		"u            pages or bytes",
		"+ -          more or less time between two samples",
		"Space        a sample now",
		"h            this, and back",
		"q            quit",
		"",
		"A pool's bar: p private, s shared, c cached, r retiring, . free.",
		"A tenant's bar: | in use, c cached, and m, l, M where its limits are.",
		"Bars of a pool's tenants have one scale: the most that one may have.",
	};
	int i;

	for (i = 0; i < (int)(sizeof(lines) / sizeof(lines[0])); i++)
		canvas_put(cv, HEADER + 1 + i, 2, INK_PLAIN, "%s", lines[i]);
}

/* ---- all of it ------------------------------------------------------------------ */

int layout_rows(const struct view *v, const struct frame *f)
{
	return HEADER + 1 + 2 * f->now->npools + 1 + f->n[TENANTS] + 1 +
	       f->n[CLIENTS] + !v->batch;
}

void layout_frame(struct canvas *cv, struct view *v, const struct frame *f,
		  const char *when)
{
	int row, rest, tenants, clients = f->n[CLIENTS] + 1;

	if (cv->rows < MIN_ROWS || cv->cols < MIN_COLS) {
		canvas_put(cv, 0, 0, INK_WARN, "needs %dx%d, has %dx%d",
			   MIN_COLS, MIN_ROWS, cv->cols, cv->rows);
		return;
	}
	totals(cv, v, f, when);
	if (!v->batch)
		last_line(cv, v, f);
	if (v->mode == MODE_HELP) {
		help(cv);
		return;
	}
	row = pools(cv, HEADER, v, f);
	/* Who needs less than half leaves the rest to the other. */
	rest = cv->rows - row - !v->batch;
	tenants = f->n[TENANTS] + 1;
	if (tenants + clients > rest) {
		if (clients > rest / 2)
			clients = rest - tenants > rest / 2 ? rest - tenants :
							      rest / 2;
		tenants = rest - clients;
	}
	table(cv, row, tenants, v, f, TENANTS);
	table(cv, row + tenants, rest - tenants, v, f, CLIENTS);
}
