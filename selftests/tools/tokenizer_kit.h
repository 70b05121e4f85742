/* SPDX-License-Identifier: MIT */
/*
 * tokenizer_kit.h - what tests of tokenizers share.
 */
#ifndef TOKENIZER_KIT_H
#define TOKENIZER_KIT_H

#include <string.h>

#include "harness.h"
#include "tokenizer.h"

/* Ids back to bytes, for which @out has room; returns their number. */
static inline size_t decode(const struct tokenizer *t,
			    const uint32_t *ids, int n, char *out)
{
	size_t total = 0, len;
	const char *p;
	int i;

	for (i = 0; i < n; i++) {
		p = tokenizer_piece(t, ids[i], &len);
		ASSERT_TRUE(p);
		memcpy(out + total, p, len);
		total += len;
	}
	return total;
}

#endif /* TOKENIZER_KIT_H */
