/* SPDX-License-Identifier: MIT */
/*
 * metrics.h - a look at the ledger as metrics, in the text of OpenMetrics or in
 * the older one of Prometheus. Documentation/admin-guide/metrics.rst has a table
 * of all of them.
 */
#ifndef METRICS_H
#define METRICS_H

#include "buffer.h"
#include "look.h"

/* What look_read() is to read. */
#define METRICS_LOOK	(LOOK_TENANTS | LOOK_COUNTERS | LOOK_ANYBODY)
#define METRICS_TRIES	16		/* until it is of one moment */
/* The tenant of all beyond metrics_opts.max_tenants: no name of one. */
#define METRICS_REST	"(rest)"

/* Media types of the two texts. */
#define METRICS_TYPE_OPENMETRICS \
	"application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TYPE_PROMETHEUS	"text/plain; version=0.0.4; charset=utf-8"

enum metrics_format {
	METRICS_OPENMETRICS, METRICS_PROMETHEUS, METRICS_FORMATS
};

/**
 * struct metrics_opts - how they are written
 * @format: in which text
 * @max_tenants: tenants that have series of their own, by their number; all
 *               others are summed up in one, but for counters, of which such
 *               a sum would go back with each tenant removed; 0: all have
 * @inconsistent: looks so far that were not of one moment, this one included
 */
struct metrics_opts {
	enum metrics_format format;
	uint64_t max_tenants;
	uint64_t inconsistent;
};

/**
 * metrics_write() - one look as text
 * @l: the look, with METRICS_LOOK
 * @o: how
 * @out: added to
 *
 * Return: 0 or -ENOMEM.
 */
int metrics_write(const struct look *l, const struct metrics_opts *o,
		  struct buffer *out);

#endif /* METRICS_H */
