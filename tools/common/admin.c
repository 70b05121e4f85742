// SPDX-License-Identifier: MIT
/*
 * admin.c - may this user administer?
 */
#include <errno.h>

#include <kvcache/uapi.h>

#include "admin.h"

/* Nobody is tenant 0: whoever may flush one is told that there is no such. */
int admin_probe(records_call *call, void *arg)
{
	struct kvcache_tenant_ref nobody = { .tenant = 0 };
	int err = call(arg, KVCACHE_NR_TENANT_FLUSH, &nobody);

	return err == -ENOENT ? 0 : err;
}
