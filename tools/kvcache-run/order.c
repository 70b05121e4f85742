// SPDX-License-Identifier: MIT
/*
 * order.c - which of the waiting requests starts next.
 */
#include "order.h"

static bool before(const struct order_req *a, const struct order_req *b)
{
	bool due_a = a->gave_way || a->passed >= ORDER_PATIENCE;
	bool due_b = b->gave_way || b->passed >= ORDER_PATIENCE;

	if (due_a != due_b)
		return due_a;
	if (!due_a && a->cached != b->cached)
		return a->cached > b->cached;
	return a->arrival < b->arrival;
}

int order_next(const struct order_req *r, unsigned int n, uint32_t limit)
{
	unsigned int i;
	int best = -1;

	for (i = 0; i < n; i++) {
		if (r[i].arrival >= limit ||
		    (r[i].held && r[i].passed < ORDER_PATIENCE))
			continue;
		if (best < 0 || before(&r[i], &r[best]))
			best = i;
	}
	return best;
}

uint32_t order_common(const uint32_t *a, uint32_t na, const uint32_t *b,
		      uint32_t nb)
{
	uint32_t n = na < nb ? na : nb, i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}
