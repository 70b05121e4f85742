/* SPDX-License-Identifier: MIT */
/* metrics_table.h - which metrics there are. */
#ifndef METRICS_TABLE_H
#define METRICS_TABLE_H

#include <stdint.h>

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };

/* What a metric is of: the struct that its value is in, and its labels. */
enum metric_of {
	METRIC_OF_LOOK,		/* struct metrics_of_look; none */
	METRIC_OF_POOL,		/* struct kvcache_pool_info; pool */
	METRIC_OF_COUNTERS,	/* struct kvcache_pool_get; pool */
	METRIC_OF_SHARE,	/* struct kvcache_tenant_info; tenant, pool */
	METRIC_OF_TENANT,	/* the same, of the first pool; tenant */
};

/* How a value is written. */
enum metric_as {
	METRIC_COUNT,		/* as it is */
	METRIC_BYTES,		/* pages, as bytes */
	METRIC_LIMIT,		/* the same, KVCACHE_LIMIT_MAX as +Inf */
	METRIC_SECONDS,		/* nanoseconds; KVCACHE_TIME_NEVER as +Inf */
};

/**
 * struct metrics_of_look - what a look says of itself
 * @seq: the ledger's sequence number
 * @inconsistent: looks that were not of one moment
 */
struct metrics_of_look {
	uint64_t seq;
	uint64_t inconsistent;
};

/**
 * struct metric - one family
 * @name: without the suffix of its type
 * @unit: which is the end of @name, or NULL
 * @help: one sentence
 * @type: what kind
 * @of: of what
 * @as: how it is written
 * @at: where its value is; of a histogram, counts of its buckets, @nr of them
 * @size: bytes of the value, 4 or 8
 * @label: name of a label that tells @nr values apart, one after the other; or
 *         NULL, and there is one value
 * @values: [@nr] of @label
 * @nr: values
 */
struct metric {
	const char *name;
	const char *unit;
	const char *help;
	enum metric_type type;
	enum metric_of of;
	enum metric_as as;
	uint16_t at;
	uint16_t size;
	const char *label;
	const char *const *values;
	unsigned int nr;
};

/* Ends with one that has no name. */
extern const struct metric metrics_table[];

#endif /* METRICS_TABLE_H */
