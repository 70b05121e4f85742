// SPDX-License-Identifier: MIT
/*
 * gguf.c - open a GGUF file and check all of it but the weights themselves.
 *
 * The format: a header (magic, version, counts), the keys with their values,
 * the tensors' names and shapes, and, aligned, the tensors' data. Nothing is
 * allocated for a count that the rest of the file could not hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_priv.h"
#include "utf8.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "GGUF files are read as they are in memory");

#define MAGIC 0x46554747u		/* "GGUF" */
#define KEY_NAME_MAX 65535		/* the format's own limit */
#define TENSOR_NAME_MAX 255
#define NAME_SHOWN 100			/* bytes of a key in a message */
#define ALIGN_DEFAULT 32
#define ALIGN_MIN 8			/* the format's own limit */
#define ALIGN_MAX (1u << 30)
/* The least that a key (name of one byte, value of one) and a tensor take. */
#define KEY_BYTES_MIN (8 + 1 + 4 + 1)
#define TENSOR_BYTES_MIN (8 + 1 + 4 + 8 + 4 + 8)
#define AGAIN "the file is truncated or damaged: download it again"

struct reader {
	struct gguf *g;
	size_t pos;
	char *err;
	size_t errlen;
};

int gguf_fail(const struct gguf *g, int error, char *err, size_t errlen,
	      const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(err, errlen, "%s: ", g->path);
	if (n >= 0 && n < errlen) {
		va_start(ap, fmt);
		vsnprintf(err + n, errlen - n, fmt, ap);
		va_end(ap);
	}
	/* Values of the file may be in it: no new lines, no escapes. */
	for (; errlen && *err; err++)
		if ((unsigned char)*err < 0x20 || *err == 0x7f)
			*err = '?';
	return error;
}

#define fail(r, error, ...) \
	gguf_fail((r)->g, error, (r)->err, (r)->errlen, __VA_ARGS__)

static size_t left(const struct reader *r)
{
	return r->g->len - r->pos;
}

/* The next @n bytes, or NULL if there are fewer. */
static const uint8_t *take(struct reader *r, uint64_t n)
{
	const uint8_t *p = r->g->base + r->pos;

	if (n > left(r))
		return NULL;
	r->pos += n;
	return p;
}

static bool take_u32(struct reader *r, uint32_t *out)
{
	const uint8_t *p = take(r, sizeof(*out));

	if (p)
		*out = gguf_read_u32(p);
	return p;
}

static bool take_u64(struct reader *r, uint64_t *out)
{
	const uint8_t *p = take(r, sizeof(*out));

	if (p)
		*out = gguf_read_u64(p);
	return p;
}

static bool take_string(struct reader *r, struct gguf_str *out)
{
	uint64_t len;

	if (!take_u64(r, &len))
		return false;
	out->s = (const char *)take(r, len);
	out->len = len;
	return out->s;
}

static int shown(const struct gguf_key *k)
{
	return k->name.len < NAME_SHOWN ? k->name.len : NAME_SHOWN;
}

/* Names go into messages and C strings. */
static bool name_ok(const struct gguf_str *s, size_t max)
{
	size_t i;

	if (!s->len || s->len > max || !utf8_valid(s->s, s->len))
		return false;
	for (i = 0; i < s->len; i++)
		if ((unsigned char)s->s[i] < 0x20 || s->s[i] == 0x7f)
			return false;
	return true;
}

static int read_header(struct reader *r)
{
	struct gguf *g = r->g;
	uint64_t ntensors, nkeys;
	uint32_t magic;

	if (!take_u32(r, &magic))
		return fail(r, -EBADMSG, "has %zu bytes; " AGAIN, g->len);
	if (magic != MAGIC)
		return fail(r, -EBADMSG,
			    "is not a GGUF file; give a model in that format");
	if (!take_u32(r, &g->version) || !take_u64(r, &ntensors) ||
	    !take_u64(r, &nkeys))
		return fail(r, -EBADMSG, "has %zu bytes; " AGAIN, g->len);
	if (g->version == __builtin_bswap32(2) ||
	    g->version == __builtin_bswap32(3))
		return fail(r, -EOPNOTSUPP,
			    "is a big-endian file; use the little-endian one");
	if (g->version != 2 && g->version != 3)
		return fail(r, -EOPNOTSUPP,
			    "GGUF version %u; versions 2 and 3 are read: convert the model again",
			    g->version);
	if (nkeys > left(r) / KEY_BYTES_MIN || nkeys > INT32_MAX)
		return fail(r, -EBADMSG, "cannot hold %llu keys; " AGAIN,
			    (unsigned long long)nkeys);
	if (ntensors > left(r) / TENSOR_BYTES_MIN || ntensors > INT32_MAX)
		return fail(r, -EBADMSG, "cannot hold %llu tensors; " AGAIN,
			    (unsigned long long)ntensors);
	g->keys = calloc(nkeys + 1, sizeof(*g->keys));
	g->tensors = calloc(ntensors + 1, sizeof(*g->tensors));
	if (!g->keys || !g->tensors)
		return fail(r, -ENOMEM,
			    "no memory for %llu keys and %llu tensors; free some",
			    (unsigned long long)nkeys,
			    (unsigned long long)ntensors);
	g->nkeys = nkeys;
	g->ntensors = ntensors;
	return 0;
}

static int read_array(struct reader *r, struct gguf_key *k)
{
	const int len = shown(k);
	struct gguf_str s;
	size_t size;
	uint64_t i;

	k->array = true;
	if (!take_u32(r, &k->type) || !take_u64(r, &k->n))
		return fail(r, -EBADMSG, "key %.*s ends early; " AGAIN, len,
			    k->name.s);
	if (k->type == GGUF_V_ARRAY)
		return fail(r, -EOPNOTSUPP,
			    "key %.*s is an array of arrays, which is not supported; convert the model without it",
			    len, k->name.s);
	size = gguf_value_size(k->type);
	if (size) {
		if (k->n <= left(r) / size)
			k->value = take(r, k->n * size);
		if (!k->value)
			goto too_long;
		return 0;
	}
	if (k->type != GGUF_V_STRING)
		return fail(r, -EBADMSG, "key %.*s: elements of type %u; "
			    AGAIN, len, k->name.s, k->type);
	if (k->n > left(r) / sizeof(uint64_t))
		goto too_long;
	k->strings = calloc(k->n + 1, sizeof(*k->strings));
	if (!k->strings)
		return fail(r, -ENOMEM,
			    "no memory for the %llu strings of key %.*s; free some",
			    (unsigned long long)k->n, len, k->name.s);
	for (i = 0; i < k->n; i++) {
		k->strings[i] = r->g->base + r->pos;
		if (!take_string(r, &s))
			goto too_long;
	}
	return 0;

too_long:
	return fail(r, -EBADMSG,
		    "key %.*s: %llu elements do not fit in the file; " AGAIN,
		    len, k->name.s, (unsigned long long)k->n);
}

static int read_key(struct reader *r, struct gguf_key *k, uint32_t number)
{
	struct gguf_str s;
	size_t size;

	if (!take_string(r, &k->name))
		return fail(r, -EBADMSG, "key %u of %u ends early; " AGAIN,
			    number + 1, r->g->nkeys);
	if (!name_ok(&k->name, KEY_NAME_MAX))
		return fail(r, -EBADMSG, "key %u of %u has no proper name; "
			    AGAIN, number + 1, r->g->nkeys);
	if (strmap_add(&r->g->key_map, k->name.s, k->name.len, number))
		return fail(r, -EBADMSG,
			    "key %.*s is there twice; convert the model again",
			    shown(k), k->name.s);
	if (!take_u32(r, &k->type))
		goto early;
	if (k->type == GGUF_V_ARRAY)
		return read_array(r, k);
	k->value = r->g->base + r->pos;
	size = gguf_value_size(k->type);
	if (size) {
		if (!take(r, size))
			goto early;
		return 0;
	}
	if (k->type != GGUF_V_STRING)
		return fail(r, -EBADMSG, "key %.*s: value of type %u; " AGAIN,
			    shown(k), k->name.s, k->type);
	if (!take_string(r, &s))
		goto early;
	return 0;

early:
	return fail(r, -EBADMSG, "key %.*s ends early; " AGAIN,
		    shown(k), k->name.s);
}

/* Shape and type; sets @nelem and @nbytes. */
static int check_shape(struct reader *r, struct gguf_tensor *t)
{
	unsigned int block = gguf_block_elems(t->type);
	uint32_t i;

	if (!block)
		return fail(r, -EOPNOTSUPP,
			    "tensor %s has type %u (%s), which is not supported; use a model in F16, Q8_0, Q4_1 or Q4_K_M",
			    t->name, t->type, gguf_type_name(t->type));
	t->nelem = 1;
	for (i = 0; i < 4; i++) {
		if (!t->ne[i])
			return fail(r, -EBADMSG,
				    "tensor %s: dimension %u is 0; convert the model again",
				    t->name, i);
		if (__builtin_mul_overflow(t->nelem, t->ne[i], &t->nelem) ||
		    t->nelem > INT64_MAX)
			return fail(r, -EBADMSG,
				    "tensor %s has over 2^63 elements; "
				    AGAIN, t->name);
	}
	if (t->ne[0] % block)
		return fail(r, -EBADMSG,
			    "tensor %s: rows of %llu elements are not whole %s blocks of %u; convert the model again",
			    t->name, (unsigned long long)t->ne[0],
			    gguf_type_name(t->type), block);
	if (__builtin_mul_overflow(t->nelem / block, gguf_block_bytes(t->type),
				   &t->nbytes))
		return fail(r, -EBADMSG, "tensor %s has over 2^64 bytes; "
			    AGAIN, t->name);
	return 0;
}

/* @offset: where the data is, from the start of all data. */
static int read_tensor(struct reader *r, struct gguf_tensor *t,
		       uint32_t number, uint64_t *offset)
{
	struct gguf_str name;
	uint32_t i;

	if (!take_string(r, &name))
		return fail(r, -EBADMSG, "tensor %u of %u ends early; " AGAIN,
			    number + 1, r->g->ntensors);
	if (!name_ok(&name, TENSOR_NAME_MAX))
		return fail(r, -EBADMSG, "tensor %u of %u has no proper name; "
			    AGAIN, number + 1, r->g->ntensors);
	t->name = strndup(name.s, name.len);
	if (!t->name)
		return fail(r, -ENOMEM,
			    "no memory for the tensors' names; free some");
	if (strmap_add(&r->g->tensor_map, t->name, name.len, number))
		return fail(r, -EBADMSG,
			    "tensor %s is there twice; convert the model again",
			    t->name);
	if (!take_u32(r, &t->ndim))
		goto early;
	if (t->ndim < 1 || t->ndim > 4)
		return fail(r, -EBADMSG,
			    "tensor %s has %u dimensions, not 1 to 4; " AGAIN,
			    t->name, t->ndim);
	for (i = 0; i < 4; i++) {
		t->ne[i] = 1;
		if (i < t->ndim && !take_u64(r, &t->ne[i]))
			goto early;
	}
	if (!take_u32(r, &t->type) || !take_u64(r, offset))
		goto early;
	return check_shape(r, t);

early:
	return fail(r, -EBADMSG, "tensor %s ends early; " AGAIN, t->name);
}

static int by_data(const void *a, const void *b)
{
	const struct gguf_tensor *x = *(const struct gguf_tensor **)a;
	const struct gguf_tensor *y = *(const struct gguf_tensor **)b;

	return x->data < y->data ? -1 : x->data > y->data;
}

static int check_overlap(struct reader *r)
{
	struct gguf *g = r->g;
	const struct gguf_tensor **order, *a, *b;
	uint32_t i;
	int ret = 0;

	order = calloc(g->ntensors + 1, sizeof(*order));
	if (!order)
		return fail(r, -ENOMEM,
			    "no memory to check the tensors; free some");
	for (i = 0; i < g->ntensors; i++)
		order[i] = &g->tensors[i];
	qsort(order, g->ntensors, sizeof(*order), by_data);
	for (i = 1; i < g->ntensors && !ret; i++) {
		a = order[i - 1];
		b = order[i];
		if ((const uint8_t *)a->data + a->nbytes >
		    (const uint8_t *)b->data)
			ret = fail(r, -EBADMSG,
				   "tensors %s and %s overlap; convert the model again",
				   a->name, b->name);
	}
	free(order);
	return ret;
}

static int read_alignment(struct reader *r, uint64_t *align)
{
	int ret = gguf_u64(r->g, "general.alignment", align);

	if (ret == -ENOENT) {
		*align = ALIGN_DEFAULT;
		return 0;
	}
	if (ret || *align < ALIGN_MIN || *align > ALIGN_MAX ||
	    *align & (*align - 1))
		return fail(r, -EBADMSG,
			    "key general.alignment is not a power of two from %u to %u; convert the model again",
			    ALIGN_MIN, ALIGN_MAX);
	return 0;
}

/* Turns the offsets of the file into addresses. */
static int place_tensors(struct reader *r, const uint64_t *offset)
{
	uint64_t align, start, room;
	struct gguf *g = r->g;
	struct gguf_tensor *t;
	uint32_t i;
	int ret;

	if (!g->ntensors)
		return 0;
	ret = read_alignment(r, &align);
	if (ret)
		return ret;
	start = (r->pos + align - 1) & ~(align - 1);
	room = start < g->len ? g->len - start : 0;
	for (i = 0; i < g->ntensors; i++) {
		t = &g->tensors[i];
		if (offset[i] % align)
			return fail(r, -EBADMSG,
				    "tensor %s is at offset %llu, not a multiple of %llu; "
				    AGAIN, t->name,
				    (unsigned long long)offset[i],
				    (unsigned long long)align);
		if (offset[i] > room)
			return fail(r, -EBADMSG,
				    "tensor %s begins %llu bytes past the end of the file; "
				    AGAIN, t->name,
				    (unsigned long long)(offset[i] - room));
		if (t->nbytes > room - offset[i])
			return fail(r, -EBADMSG,
				    "tensor %s lacks %llu of its %llu bytes; "
				    AGAIN, t->name, (unsigned long long)
				    (t->nbytes - (room - offset[i])),
				    (unsigned long long)t->nbytes);
		t->data = g->base + start + offset[i];
	}
	return check_overlap(r);
}

static int read_all(struct reader *r)
{
	struct gguf *g = r->g;
	uint64_t *offset;
	uint32_t i;
	int ret;

	ret = read_header(r);
	if (ret)
		return ret;
	ret = strmap_init(&g->key_map, g->nkeys);
	if (!ret)
		ret = strmap_init(&g->tensor_map, g->ntensors);
	offset = calloc(g->ntensors + 1, sizeof(*offset));
	if (ret || !offset) {
		ret = fail(r, ret ? ret : -ENOMEM,
			   "no memory for the index of the file; free some");
		goto out;
	}
	for (i = 0; i < g->nkeys && !ret; i++)
		ret = read_key(r, &g->keys[i], i);
	for (i = 0; i < g->ntensors && !ret; i++)
		ret = read_tensor(r, &g->tensors[i], i, &offset[i]);
	if (!ret)
		ret = place_tensors(r, offset);
out:
	free(offset);
	return ret;
}

/* Takes over the mapping, if it is one, on failure too. */
static int open_bytes(const char *path, const void *data, size_t len,
		      bool mapped, struct gguf **out, char *err, size_t errlen)
{
	struct reader r = { .err = err, .errlen = errlen };
	struct gguf *g;
	int ret;

	g = calloc(1, sizeof(*g));
	if (g)
		g->path = strdup(path);
	if (!g || !g->path) {
		snprintf(err, errlen, "%s: no memory; free some", path);
		free(g);
		if (mapped)
			munmap((void *)data, len);
		return -ENOMEM;
	}
	g->base = data;
	g->len = len;
	g->mapped = mapped;
	r.g = g;
	ret = read_all(&r);
	if (ret) {
		gguf_close(g);
		return ret;
	}
	*out = g;
	return 0;
}

int gguf_open_mem(const void *data, size_t len, struct gguf **out, char *err,
		  size_t errlen)
{
	return open_bytes("(memory)", data, len, false, out, err, errlen);
}

int gguf_open(const char *path, struct gguf **out, char *err, size_t errlen)
{
	struct stat st;
	void *p;
	int fd, ret;

	/* Opening a FIFO would wait for a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st)) {
		ret = -errno;
		snprintf(err, errlen, "%s: cannot open: %s; name a GGUF file",
			 path, strerror(-ret));
		goto out;
	}
	if (!S_ISREG(st.st_mode) || !st.st_size) {
		ret = -EINVAL;
		snprintf(err, errlen, "%s: %s; name a GGUF file", path,
			 S_ISREG(st.st_mode) ? "empty" : "not a regular file");
		goto out;
	}
	p = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED) {
		ret = -errno;
		snprintf(err, errlen,
			 "%s: cannot map: %s; put it on a local file system",
			 path, strerror(-ret));
		goto out;
	}
	ret = open_bytes(path, p, st.st_size, true, out, err, errlen);
out:
	if (fd >= 0)
		close(fd);
	return ret;
}

void gguf_close(struct gguf *g)
{
	uint32_t i;

	if (!g)
		return;
	for (i = 0; i < g->nkeys; i++)
		free(g->keys[i].strings);
	for (i = 0; i < g->ntensors; i++)
		free((char *)g->tensors[i].name);
	free(g->keys);
	free(g->tensors);
	strmap_free(&g->key_map);
	strmap_free(&g->tensor_map);
	if (g->mapped)
		munmap((void *)g->base, g->len);
	free(g->path);
	free(g);
}

size_t gguf_file_size(const struct gguf *g)
{
	return g->len;
}

unsigned int gguf_version(const struct gguf *g)
{
	return g->version;
}

unsigned int gguf_ntensors(const struct gguf *g)
{
	return g->ntensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, unsigned int i)
{
	return i < g->ntensors ? &g->tensors[i] : NULL;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
	uint32_t i;

	if (!strmap_find(&g->tensor_map, name, strlen(name), &i))
		return NULL;
	return &g->tensors[i];
}
