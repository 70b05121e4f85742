/* SPDX-License-Identifier: MIT */
/*
 * model_ops.h - one operation on the ledger and on the oracle.
 */
#ifndef MODEL_OPS_H
#define MODEL_OPS_H

#include "model_priv.h"

void model_do(struct model *m, const struct model_op *op);

/* Pseudo-random numbers of an operation, below @n. */
u32 model_rand(struct model *m, u32 n);
/* A line of the trace. */
void model_note(struct model *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The client, tenant, or pool that an operation names; 0: there is none. */
u32 model_client(struct model *m);
u32 model_tenant(struct model *m, u32 which);
u32 model_pool(struct model *m);
/* Handles that a client holds, in random order, one of them wrong; how many. */
u32 model_handles(struct model *m, u32 client, u32 pool, u64 *out, u32 max,
		  u32 state, bool wrong);
/* After -EAGAIN: nothing changed; give the ledger nodes. */
void model_feed(struct model *m, u32 pool);

/* ---- model_ops_index.c ----------------------------------------------- */

void model_publish(struct model *m);
void model_lookup(struct model *m);

/* ---- model_ops_tenant.c ---------------------------------------------- */

void model_create(struct model *m);
void model_set(struct model *m);
void model_fit(struct model *m);
void model_grant(struct model *m);
void model_flush(struct model *m);
void model_remove(struct model *m);
void model_attach(struct model *m);
void model_kill(struct model *m);
void model_reap(struct model *m);
void model_resize(struct model *m);
void model_drain(struct model *m);
void model_trim(struct model *m);
void model_second_pool(struct model *m);
void model_members(struct model *m);
void model_events(struct model *m);

#endif /* MODEL_OPS_H */
