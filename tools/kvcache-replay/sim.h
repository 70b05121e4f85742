/* SPDX-License-Identifier: MIT */
/*
 * sim.h - requests run in virtual time against a store.
 */
#ifndef SIM_H
#define SIM_H

#include "replay.h"
#include "store.h"

/**
 * struct sim_config - how requests are served
 * @prefill: tokens a second of one prompt that were not found
 * @decode: tokens a second that one request generates
 * @restart: seconds after which a tenant's process starts anew, with an empty
 *           cache; the tenants take turns. 0: never
 * @commons: the store has one
 */
struct sim_config {
	double prefill;
	double decode;
	double restart;
	bool commons;
};

/* Runs all requests; exits if the store fails. @out is for outcome_free(). */
void sim_run(const struct trace *t, const struct sim_config *c, struct store *s,
	     struct outcome *out);
void outcome_free(struct outcome *o);

#endif /* SIM_H */
