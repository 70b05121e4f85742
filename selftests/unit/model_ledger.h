/* SPDX-License-Identifier: MIT */
/*
 * model_ledger.h - operations decoded from bytes, carried out on the ledger
 * and on the oracle, everything visible compared after each. The random test
 * and the fuzzer feed it.
 */
#ifndef MODEL_LEDGER_H
#define MODEL_LEDGER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One operation; every value of every member means something. */
struct model_op {
	uint8_t code;
	uint8_t client;
	uint8_t tenant;
	uint8_t pool;
	uint8_t a, b, c, d;
	uint32_t seed;
};

/* The ledger and its pools. */
struct model_config {
	uint8_t pages;
	uint8_t direct;
	uint8_t pages2;		/* second pool: 0 none */
	uint8_t spread;		/* how many different keys */
	uint8_t tenants;
	uint8_t clients;
	uint8_t events;
	uint8_t kpp;		/* keys per page */
	uint8_t slice;		/* pages that one call changes: few, or all */
};

/**
 * model_play() - carry out operations on both
 * @cfg: the ledger
 * @op: operations
 * @nr: their number
 * @trace: where to write each operation, or NULL
 * @why: what differed
 * @len: bytes in @why
 *
 * Return: the number of operations that went well, @nr if all did.
 */
size_t model_play(const struct model_config *cfg, const struct model_op *op,
		  size_t nr, FILE *trace, char *why, size_t len);

#endif /* MODEL_LEDGER_H */
