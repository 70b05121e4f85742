// SPDX-License-Identifier: MIT
/*
 * scales.c - scales of keys and values from a file.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "engine.h"
#include "scales.h"
#include "util.h"

const char *scales_hex(const uint8_t id[32])
{
	static char buf[65];
	unsigned int i;

	for (i = 0; i < 32; i++)
		sprintf(buf + 2 * i, "%02x", id[i]);
	return buf;
}

static int check_head(const struct engine *e, const char *path,
		      const json_t *root)
{
	const char *format = json_string_value(json_object_get(root, "format"));
	const char *model = json_string_value(json_object_get(root, "model"));
	const json_t *version = json_object_get(root, "version");

	if (!format || strcmp(format, SCALES_FORMAT))
		return complain("%s: not a file of scales: give one that --calibrate wrote",
				path);
	if (json_integer_value(version) != SCALES_VERSION)
		return complain("%s: scales of version %lld: this program reads %d: write them with --calibrate",
				path, (long long)json_integer_value(version),
				SCALES_VERSION);
	if (!model || strcmp(model, scales_hex(e->file_id)))
		return complain("%s: scales of another model: of the file with SHA-256 %.12s..., and %s has %.12s...: write them with --calibrate",
				path, model ? model : "(none)", e->opts->model,
				scales_hex(e->file_id));
	return 0;
}

/* One scale; what is not there is 0. */
static int get_scale(const char *path, const json_t *layer, uint32_t i,
		     const char *key, float *out)
{
	const json_t *x = json_object_get(layer, key);

	*out = json_number_value(x);
	if (!x || (json_is_number(x) && isnormal(*out) && *out > 0))
		return 0;
	return complain("%s: layer %u: \"%s\" is not a number above 0: write the file with --calibrate",
			path, i, key);
}

static int get_layers(const struct engine *e, const char *path,
		      const json_t *list, float *k, float *v)
{
	size_t n = json_array_size(list);
	uint32_t i;
	int ret = 0;

	if (n < e->info.nlayers)
		return complain("%s: layer %zu is missing: the model has %u: write the file with --calibrate",
				path, n, e->info.nlayers);
	if (n > e->info.nlayers)
		return complain("%s: scales of %zu layers: the model has %u: write the file with --calibrate",
				path, n, e->info.nlayers);
	for (i = 0; i < n && !ret; i++) {
		const json_t *layer = json_array_get(list, i);

		ret = get_scale(path, layer, i, "k", &k[i]);
		if (!ret)
			ret = get_scale(path, layer, i, "v", &v[i]);
	}
	return ret;
}

int scales_read(const struct engine *e, const char *path, float *k, float *v)
{
	json_error_t err;
	json_t *root;
	size_t len;
	char *text;
	int ret;

	text = read_file(path, &len);
	if (!text)
		return -1;
	root = json_loadb(text, len, 0, &err);
	free(text);
	if (!root)
		return complain("%s:%d: %s: give a file that --calibrate wrote",
				path, err.line, err.text);
	ret = check_head(e, path, root);
	if (!ret)
		ret = get_layers(e, path, json_object_get(root, "layers"), k,
				 v);
	json_decref(root);
	return ret;
}
