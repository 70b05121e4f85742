// SPDX-License-Identifier: MIT
/*
 * kv_type.c - names of the types of keys and values on a command line.
 */
#include <stdio.h>
#include <string.h>

#include <kvattn.h>

#include "kv_type.h"

bool kv_type_pair(const char *s, int *k_type, int *v_type)
{
	const char *comma = strchr(s, ',');
	char first[16];
	int k, v;

	if (comma) {
		if ((size_t)(comma - s) >= sizeof(first))
			return false;
		memcpy(first, s, comma - s);
		first[comma - s] = '\0';
		k = kva_type_parse(first);
		v = kva_type_parse(comma + 1);
	} else {
		k = v = kva_type_parse(s);
	}
	if (k < 0 || v < 0)
		return false;
	*k_type = k;
	*v_type = v;
	return true;
}

const char *kv_type_pair_name(int k_type, int v_type)
{
	static char buf[32];

	if (k_type == v_type)
		return kva_type_name(k_type);
	snprintf(buf, sizeof(buf), "%s,%s", kva_type_name(k_type),
		 kva_type_name(v_type));
	return buf;
}

bool kv_type_scaled(int type)
{
	return type == KVA_E4M3T;
}
