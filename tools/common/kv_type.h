/* SPDX-License-Identifier: MIT */
/*
 * kv_type.h - names of the types of keys and values on a command line.
 */
#ifndef KV_TYPE_H
#define KV_TYPE_H

#include <stdbool.h>

/* All of them, for a complaint. */
#define KV_TYPE_NAMES "f32, f16, bf16, int8, e4m3, e4m3t, int4 or int4h"

/**
 * kv_type_pair() - "int8", for both, or "int8,int4": keys, then values
 * @s: the text
 * @k_type: the type of keys, enum kva_type
 * @v_type: the type of values
 *
 * Return: true; false, and both stay as they are.
 */
bool kv_type_pair(const char *s, int *k_type, int *v_type);
/* The inverse; valid until the next call. */
const char *kv_type_pair_name(int k_type, int v_type);
/* Does it want scales that are given? */
bool kv_type_scaled(int type);

#endif /* KV_TYPE_H */
