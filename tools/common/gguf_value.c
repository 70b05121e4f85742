// SPDX-License-Identifier: MIT
/*
 * gguf_value.c - values of keys. The file was checked when it was opened; here
 * only types and ranges are.
 */
#include <errno.h>
#include <string.h>

#include "gguf_priv.h"

size_t gguf_value_size(uint32_t type)
{
	switch (type) {
	case GGUF_V_U8:
	case GGUF_V_I8:
	case GGUF_V_BOOL:
		return 1;
	case GGUF_V_U16:
	case GGUF_V_I16:
		return 2;
	case GGUF_V_U32:
	case GGUF_V_I32:
	case GGUF_V_F32:
		return 4;
	case GGUF_V_U64:
	case GGUF_V_I64:
	case GGUF_V_F64:
		return 8;
	default:
		return 0;
	}
}

uint32_t gguf_read_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

uint64_t gguf_read_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static struct gguf_str read_string(const uint8_t *p)
{
	return (struct gguf_str){ (const char *)p + 8, gguf_read_u64(p) };
}

/* An integer of any width; those past INT64_MAX are out of range. */
static int read_i64(uint32_t type, const uint8_t *p, int64_t *out)
{
	uint64_t v;
	int16_t h;

	switch (type) {
	case GGUF_V_U8:
		*out = p[0];
		return 0;
	case GGUF_V_I8:
		*out = (int8_t)p[0];
		return 0;
	case GGUF_V_U16:
		memcpy(&h, p, sizeof(h));
		*out = (uint16_t)h;
		return 0;
	case GGUF_V_I16:
		memcpy(&h, p, sizeof(h));
		*out = h;
		return 0;
	case GGUF_V_U32:
		*out = gguf_read_u32(p);
		return 0;
	case GGUF_V_I32:
		*out = (int32_t)gguf_read_u32(p);
		return 0;
	case GGUF_V_U64:
		v = gguf_read_u64(p);
		if (v > INT64_MAX)
			return -EINVAL;
		*out = v;
		return 0;
	case GGUF_V_I64:
		*out = (int64_t)gguf_read_u64(p);
		return 0;
	default:
		return -EINVAL;
	}
}

static int read_f64(uint32_t type, const uint8_t *p, double *out)
{
	float f;

	switch (type) {
	case GGUF_V_F32:
		memcpy(&f, p, sizeof(f));
		*out = f;
		return 0;
	case GGUF_V_F64:
		memcpy(out, p, sizeof(*out));
		return 0;
	default:
		return -EINVAL;
	}
}

static int find(const struct gguf *g, const char *name, bool array,
		const struct gguf_key **out)
{
	uint32_t i;

	if (!strmap_find(&g->key_map, name, strlen(name), &i))
		return -ENOENT;
	if (g->keys[i].array != array)
		return -EINVAL;
	*out = &g->keys[i];
	return 0;
}

static int find_elem(const struct gguf *g, const char *name, uint64_t i,
		     const struct gguf_key **out, const uint8_t **p)
{
	int ret = find(g, name, true, out);

	if (ret)
		return ret;
	if (i >= (*out)->n)
		return -EINVAL;
	*p = (*out)->strings ? (*out)->strings[i] :
	     (*out)->value + i * gguf_value_size((*out)->type);
	return 0;
}

int gguf_u64(const struct gguf *g, const char *key, uint64_t *out)
{
	const struct gguf_key *k;
	int64_t v;
	int ret;

	ret = find(g, key, false, &k);
	if (ret)
		return ret;
	if (k->type == GGUF_V_U64) {
		*out = gguf_read_u64(k->value);
		return 0;
	}
	ret = read_i64(k->type, k->value, &v);
	if (ret || v < 0)
		return -EINVAL;
	*out = v;
	return 0;
}

int gguf_f64(const struct gguf *g, const char *key, double *out)
{
	const struct gguf_key *k;
	int ret;

	ret = find(g, key, false, &k);
	return ret ? ret : read_f64(k->type, k->value, out);
}

int gguf_bool(const struct gguf *g, const char *key, bool *out)
{
	const struct gguf_key *k;
	int ret;

	ret = find(g, key, false, &k);
	if (ret)
		return ret;
	if (k->type != GGUF_V_BOOL || k->value[0] > 1)
		return -EINVAL;
	*out = k->value[0];
	return 0;
}

int gguf_string(const struct gguf *g, const char *key, struct gguf_str *out)
{
	const struct gguf_key *k;
	int ret;

	ret = find(g, key, false, &k);
	if (ret)
		return ret;
	if (k->type != GGUF_V_STRING)
		return -EINVAL;
	*out = read_string(k->value);
	return 0;
}

int gguf_array(const struct gguf *g, const char *key, enum gguf_value *type,
	       uint64_t *n)
{
	const struct gguf_key *k;
	int ret;

	ret = find(g, key, true, &k);
	if (ret)
		return ret;
	*type = k->type;
	*n = k->n;
	return 0;
}

int gguf_array_string(const struct gguf *g, const char *key, uint64_t i,
		      struct gguf_str *out)
{
	const struct gguf_key *k;
	const uint8_t *p;
	int ret;

	ret = find_elem(g, key, i, &k, &p);
	if (ret)
		return ret;
	if (k->type != GGUF_V_STRING)
		return -EINVAL;
	*out = read_string(p);
	return 0;
}

int gguf_array_i64(const struct gguf *g, const char *key, uint64_t i,
		   int64_t *out)
{
	const struct gguf_key *k;
	const uint8_t *p;
	int ret;

	ret = find_elem(g, key, i, &k, &p);
	return ret ? ret : read_i64(k->type, p, out);
}

int gguf_array_f64(const struct gguf *g, const char *key, uint64_t i,
		   double *out)
{
	const struct gguf_key *k;
	const uint8_t *p;
	int ret;

	ret = find_elem(g, key, i, &k, &p);
	return ret ? ret : read_f64(k->type, p, out);
}
