/* SPDX-License-Identifier: MIT */
/*
 * faulty.h - a real backend that a test can watch, and make refuse.
 */
#ifndef FAULTY_H
#define FAULTY_H

#include "kit.h"

/* Sees every command first; what is not 0 is the answer instead of the backend's. */
typedef int faulty_hook(struct kvc_sys *sys, unsigned int nr, void *arg);

static faulty_hook *faulty_look;
static const struct kvc_sys_ops *faulty_real;

static inline int faulty_call(struct kvc_sys *sys, unsigned int nr, void *arg)
{
	int rc = faulty_look ? faulty_look(sys, nr, arg) : 0;

	return rc ? rc : faulty_real->call(sys, nr, arg);
}

static inline void faulty_begin(struct kit *k, faulty_hook *look)
{
	static struct kvc_sys_ops ops;

	faulty_real = k->ctx->sys->ops;
	ops = *faulty_real;
	ops.call = faulty_call;
	k->ctx->sys->ops = &ops;
	faulty_look = look;
}

#endif /* FAULTY_H */
