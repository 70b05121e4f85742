/* SPDX-License-Identifier: MIT */
/*
 * order.h - which of the waiting requests starts next: a pure function.
 */
#ifndef RUN_ORDER_H
#define RUN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* Later requests that may start before one that waits. */
#define ORDER_PATIENCE 16

/**
 * struct order_req - one waiting request
 * @arrival: its place in the order of arrival, once only
 * @cached: tokens of it that are cached now
 * @passed: requests that arrived later and started earlier
 * @held: a running request is about to make more of it cached
 * @gave_way: it ran before, and others took its pages
 */
struct order_req {
	uint32_t arrival;
	uint32_t cached;
	uint32_t passed;
	bool held;
	bool gave_way;
};

/**
 * order_next() - the request to start
 * @r: the waiting requests
 * @n: their number
 * @limit: only those that arrived before this
 *
 * One whose patience is used up, or that gave way, comes first, in order of
 * arrival; then the one with the longest cached prefix, the first to arrive
 * among equals. Those held are left out until their patience ends.
 *
 * If the one chosen does not fit, ask again with its arrival as @limit: those
 * that came before it may still start, those that came after it wait for it,
 * so a large request is not starved by small ones.
 *
 * Return: index in @r, or -1.
 */
int order_next(const struct order_req *r, unsigned int n, uint32_t limit);

/**
 * order_common() - tokens that two texts have in common at their beginning
 * @a: one text
 * @na: its length
 * @b: the other
 * @nb: its length
 */
uint32_t order_common(const uint32_t *a, uint32_t na, const uint32_t *b,
		      uint32_t nb);

#endif /* RUN_ORDER_H */
