// SPDX-License-Identifier: MIT
/*
 * trace.c - request traces: Mooncake's JSON lines, where a prompt is a chain of
 * block ids, and Azure's CSV, which has lengths only.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replay.h"

#define CSV_HEAD	"TIMESTAMP,ContextTokens,GeneratedTokens"
#define MAX_TOKENS	(1 << 28)

struct reader {
	struct trace *t;
	const char *path;
	size_t line;
	size_t cap;
	uint32_t file;
};

__attribute__((format(printf, 2, 3), noreturn))
static void bad(const struct reader *r, const char *fmt, ...)
{
	char what[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	replay_die("%s:%zu: %s", r->path, r->line, what);
}

static struct request *add(struct reader *r)
{
	struct trace *t = r->t;

	if (t->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 4096;
		t->v = reallocarray(t->v, r->cap, sizeof(*t->v));
		if (!t->v)
			replay_die("out of memory");
	}
	t->v[t->n] = (struct request) {
		.file = r->file, .line = r->line,
	};
	return &t->v[t->n++];
}

/* ---- Mooncake ----------------------------------------------------------- */

static uint64_t number(const struct reader *r, const json_t *o,
		       const char *name, uint64_t min, uint64_t max)
{
	const json_t *v = json_object_get(o, name);
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v))
		bad(r, "no whole number \"%s\"", name);
	if (n < 0 || (uint64_t)n < min || (uint64_t)n > max)
		bad(r, "\"%s\" is %lld, not %" PRIu64 " to %" PRIu64, name,
		    (long long)n, min, max);
	return n;
}

/* Blocks have the trace's ids at first; trace_number() makes them dense. */
static void read_blocks(const struct reader *r, const json_t *o,
			struct request *q)
{
	const json_t *ids = json_object_get(o, "hash_ids");
	size_t want = (q->input + REPLAY_BLOCK - 1) / REPLAY_BLOCK, k;

	if (!json_is_array(ids))
		bad(r, "no list \"hash_ids\"");
	if (json_array_size(ids) != want)
		bad(r, "%zu blocks for %u tokens, not %zu",
		    json_array_size(ids), q->input, want);
	q->nr_blocks = want;
	q->block = replay_alloc(want, sizeof(*q->block));
	q->own = replay_alloc(want, sizeof(*q->own));
	for (k = 0; k < want; k++) {
		const json_t *id = json_array_get(ids, k);

		if (!json_is_integer(id) || json_integer_value(id) < 0 ||
		    json_integer_value(id) > UINT32_MAX)
			bad(r, "block %zu of \"hash_ids\" is not a number from 0 to %u",
			    k, UINT32_MAX);
		q->block[k] = json_integer_value(id);
	}
}

static void read_json(struct reader *r, const char *line, size_t len)
{
	struct request *q = add(r);
	json_error_t e;
	json_t *o = json_loadb(line, len, 0, &e);

	if (!o)
		bad(r, "no JSON: %.100s", e.text);
	if (!json_is_object(o))
		bad(r, "not a JSON object");
	q->arrival = number(r, o, "timestamp", 0, UINT32_MAX) * 1000000;
	q->input = number(r, o, "input_length", 1, MAX_TOKENS);
	q->output = number(r, o, "output_length", 0, MAX_TOKENS);
	read_blocks(r, o, q);
	json_decref(o);
}

/* ---- Azure -------------------------------------------------------------- */

/* "2023-11-16 18:15:46.6805900", in nanoseconds since 1970. */
static bool read_time(const char *s, const char **end, uint64_t *out)
{
	uint64_t unit = SECOND, ns = 0;
	struct tm tm = { 0 };
	const char *p = strptime(s, "%Y-%m-%d %H:%M:%S", &tm);
	time_t when;

	if (!p)
		return false;
	if (*p == '.')
		while (isdigit((unsigned char)*++p) && unit > 1) {
			unit /= 10;
			ns += (*p - '0') * unit;
		}
	when = timegm(&tm);
	if (when < 0)
		return false;
	*out = when * SECOND + ns;
	*end = p;
	return true;
}

static void read_csv(struct reader *r, const char *line)
{
	struct request *q = add(r);
	uint32_t in, out;
	const char *p;
	int end = 0;

	if (strchr(line, '-') == NULL || line[0] == '-' ||
	    !read_time(line, &p, &q->arrival))
		bad(r, "begins with no time like 2023-11-16 18:15:46.68");
	if (*p != ',' || !isdigit((unsigned char)p[1]) ||
	    sscanf(p, ",%9" SCNu32 ",%9" SCNu32 "%n", &in, &out, &end) != 2 ||
	    !isdigit((unsigned char)p[end - 1]) || p[end])
		bad(r, "not a time and two numbers of tokens");
	if (!in || in > MAX_TOKENS || out > MAX_TOKENS)
		bad(r, "tokens are 1 to %d of a prompt, and up to that generated",
		    MAX_TOKENS);
	q->input = in;
	q->output = out;
}

/* ---- files -------------------------------------------------------------- */

static size_t chomp(char *line, size_t len)
{
	while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
		line[--len] = 0;
	return len;
}

static void read_file(struct reader *r)
{
	FILE *f = fopen(r->path, "r");
	size_t cap = 0, first = r->t->n, k;
	uint64_t base = UINT64_MAX;
	bool csv = false;
	char *line = NULL;
	ssize_t len;

	if (!f)
		replay_die("%s: %s: name a trace", r->path, strerror(errno));
	for (r->line = 1; (len = getline(&line, &cap, f)) > 0; r->line++) {
		len = chomp(line, len);
		if (strlen(line) != (size_t)len)
			bad(r, "a byte that is zero");
		if (r->line == 1 && !strncmp(line, CSV_HEAD, sizeof(CSV_HEAD)))
			csv = true;
		else if (csv)
			read_csv(r, line);
		else if (r->line == 1 && line[0] != '{')
			bad(r, "neither a JSON object nor " CSV_HEAD);
		else
			read_json(r, line, len);
	}
	if (ferror(f))
		replay_die("%s: %s", r->path, strerror(errno));
	if (r->t->n == first)
		replay_die("%s: no requests", r->path);
	fclose(f);
	free(line);
	/* Each file begins at 0: those of one run are replayed together. */
	for (k = first; k < r->t->n; k++)
		if (r->t->v[k].arrival < base)
			base = r->t->v[k].arrival;
	for (k = first; k < r->t->n; k++)
		r->t->v[k].arrival -= base;
}

/* ---- numbers of blocks -------------------------------------------------- */

struct entry {
	uint64_t key;		/* 0: none */
	uint32_t number;
};

struct map {
	struct entry *v;
	size_t mask;
	uint32_t n;
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static void map_init(struct map *m, uint64_t nr)
{
	size_t size = 16;

	while (size < 2 * nr)
		size *= 2;
	m->v = replay_alloc(size, sizeof(*m->v));
	m->mask = size - 1;
	m->n = 0;
}

/* The number of (@a, @b), a new one if it was not seen. */
static uint32_t map_number(struct map *m, uint32_t a, uint32_t b)
{
	uint64_t key = ((uint64_t)a << 32 | b) + 1;
	size_t k = mix(key) & m->mask;

	while (m->v[k].key && m->v[k].key != key)
		k = (k + 1) & m->mask;
	if (!m->v[k].key)
		m->v[k] = (struct entry) { key, m->n++ };
	return m->v[k].number;
}

/* Ids mean something in their file only. */
static void trace_number(struct trace *t)
{
	uint32_t before, b, k, lead;
	struct map m;
	size_t i;

	map_init(&m, t->blocks);
	for (i = 0; i < t->n; i++) {
		struct request *q = &t->v[i];

		before = m.n;
		lead = 0;
		for (k = 0; k < q->nr_blocks; k++) {
			b = map_number(&m, q->file, q->block[k]);
			lead += lead == k && b < before;
			q->block[k] = b;
		}
		t->seen += lead;
	}
	t->unique = t->nr_block = m.n;
	free(m.v);
}

/* As qsort() is not stable: of those of one time, in the order of the file. */
static int by_arrival(const void *a, const void *b)
{
	const struct request *x = a, *y = b;

	if (x->arrival != y->arrival)
		return x->arrival < y->arrival ? -1 : 1;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

void trace_read(struct trace *t, char *const *path, uint32_t files,
		uint32_t page_tokens)
{
	struct reader r = { .t = t };
	size_t i;

	*t = (struct trace) { .files = files, .page_tokens = page_tokens };
	for (r.file = 0; r.file < files; r.file++) {
		r.path = path[r.file];
		read_file(&r);
		if (t->v[t->n - 1].nr_blocks && page_tokens != REPLAY_BLOCK)
			replay_die("%s: its blocks have %d tokens, and so have pages: leave --page-tokens out",
				   r.path, REPLAY_BLOCK);
	}
	qsort(t->v, t->n, sizeof(*t->v), by_arrival);
	for (i = 0; i < t->n; i++) {
		struct request *q = &t->v[i];

		q->pages = ((uint64_t)q->input + q->output + page_tokens - 1) /
			   page_tokens;
		if (q->nr_blocks) {
			q->full = q->input / page_tokens;
			q->ask = (q->input - 1) / page_tokens;
		}
		t->input += q->input;
		t->output += q->output;
		t->blocks += q->nr_blocks;
		t->ask += q->ask;
	}
	trace_number(t);
}

/* ---- tenants ------------------------------------------------------------ */

/* Leading blocks that all requests of a file have in common. */
static uint32_t common(const struct trace *t, uint32_t file)
{
	const struct request *first = NULL;
	uint32_t lead = 0, k;
	size_t i;

	for (i = 0; i < t->n; i++) {
		const struct request *q = &t->v[i];

		if (q->file != file)
			continue;
		if (!first) {
			first = q;
			lead = q->nr_blocks;
		}
		for (k = 0; k < lead && k < q->nr_blocks; k++)
			if (q->block[k] != first->block[k])
				break;
		lead = k;
	}
	return lead;
}

/* A tenant for a number, tenant k with a weight of 1 / (k + 1)^skew. */
static uint32_t draw(const double *weight, uint32_t tenants, uint64_t number)
{
	double at = ldexp(mix(number + 0x9e3779b97f4a7c15ULL) >> 11, -53);
	uint32_t k;

	for (k = 0; k + 1 < tenants && at >= weight[k]; k++)
		;
	return k;
}

static uint32_t tenant_of(const struct trace *t, const struct request *q,
			  uint32_t lead, size_t i, const double *weight)
{
	if (t->by == BY_FILE)
		return q->file % t->tenants;
	if (t->by == BY_PREFIX && q->nr_blocks)
		i = q->block[lead < q->nr_blocks ? lead : q->nr_blocks - 1];
	return draw(weight, t->tenants, i);
}

void trace_assign(struct trace *t, enum by by, uint32_t tenants, double skew)
{
	double weight[REPLAY_MAX_TENANTS], sum = 0;
	uint32_t *lead = replay_alloc(t->files, sizeof(*lead)), k;
	struct map m;
	size_t i;

	if (by == BY_AUTO)
		by = t->files > 1 ? BY_FILE : t->blocks ? BY_PREFIX :
		     BY_REQUEST;
	if (!tenants)
		tenants = by == BY_FILE ? t->files : 4;
	t->by = by;
	t->tenants = tenants;
	t->skew = skew;
	for (k = 0; k < tenants; k++)
		weight[k] = sum += pow(k + 1, -skew);
	for (k = 0; k < tenants; k++)
		weight[k] /= sum;
	for (k = 0; k < t->files; k++)
		lead[k] = common(t, k);
	map_init(&m, t->blocks);
	for (i = 0; i < t->n; i++) {
		struct request *q = &t->v[i];

		q->tenant = tenant_of(t, q, lead[q->file], i, weight);
		for (k = 0; k < q->nr_blocks; k++)
			q->own[k] = map_number(&m, q->tenant, q->block[k]);
	}
	t->nr_own = m.n;
	free(m.v);
	free(lead);
}

void trace_free(struct trace *t)
{
	size_t i;

	for (i = 0; i < t->n; i++) {
		free(t->v[i].block);
		free(t->v[i].own);
	}
	free(t->v);
}
