// SPDX-License-Identifier: MIT
/*
 * json_out.c - what tools have in common when they print JSON.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "json_out.h"
#include "text.h"
#include "util.h"

json_t *json_outside(const char *s)
{
	struct text t = { 0 };
	json_t *j;

	text_add(&t, s, strlen(s));
	text_end(&t);
	j = json_stringn(t.s, t.done);
	text_free(&t);
	return j;
}

json_t *json_number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

json_t *json_limit(uint64_t v)
{
	return v == UINT64_MAX ? json_null() : json_integer(v);
}

json_t *json_hex(uint64_t v)
{
	return json_sprintf("0x%" PRIx64, v);
}

int json_print(json_t *root, FILE *f)
{
	int ret = root ? json_dumpf(root, f, JSON_COMPACT |
				    JSON_REAL_PRECISION(9)) : -1;

	fputc('\n', f);
	json_decref(root);
	if (ret || fflush(f))
		return complain("JSON cannot be written: make room at its place");
	return 0;
}
