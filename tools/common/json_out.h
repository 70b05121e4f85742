/* SPDX-License-Identifier: MIT */
/*
 * json_out.h - what tools have in common when they print JSON.
 */
#ifndef JSON_OUT_H
#define JSON_OUT_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

/* A path, or a name out of a file, may have bytes that are no UTF-8. */
json_t *json_outside(const char *s);
/* JSON has no infinity. */
json_t *json_number(double x);
/* null for UINT64_MAX: no limit, or never. */
json_t *json_limit(uint64_t v);
/* 2^53 and more are rounded by readers that have doubles only: as hex digits. */
json_t *json_hex(uint64_t v);

/**
 * json_print() - one value and a newline, written in full
 * @root: the value; released
 * @f: where to
 *
 * Return: 0, or -1 after a complaint.
 */
int json_print(json_t *root, FILE *f);

#endif /* JSON_OUT_H */
