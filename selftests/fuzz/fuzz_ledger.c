// SPDX-License-Identifier: MIT
/*
 * fuzz_ledger.c - bytes as operations on the ledger and on its oracle, as in
 * selftests/unit/test_model_ledger.c, which see.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/model_ledger.h"

#define MAX_OPS 128

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct model_op op[MAX_OPS];
	struct model_config cfg;
	char why[256];
	size_t nr;

	if (size < sizeof(cfg))
		return 0;
	memcpy(&cfg, data, sizeof(cfg));
	nr = (size - sizeof(cfg)) / sizeof(*op);
	nr = nr < MAX_OPS ? nr : MAX_OPS;
	memcpy(op, data + sizeof(cfg), nr * sizeof(*op));
	if (model_play(&cfg, op, nr, NULL, why, sizeof(why)) == nr)
		return 0;
	model_play(&cfg, op, nr, stderr, why, sizeof(why));
	fprintf(stderr, "\n%s\n", why);
	abort();
}
