/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* cmd_internal.h - what the files of the commands share. */
#ifndef KVL_CMD_INTERNAL_H
#define KVL_CMD_INTERNAL_H

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>

#include "cmd.h"

/* Is there a NUL in it? */
static inline bool kvl_cmd_terminated(const char name[KVCACHE_NAME_LEN])
{
	return strnlen(name, KVCACHE_NAME_LEN) < KVCACHE_NAME_LEN;
}

typedef int kvl_cmd_fn(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now);

/* cmd_admin.c */
kvl_cmd_fn kvl_cmd_tenant_create;
kvl_cmd_fn kvl_cmd_tenant_set;
kvl_cmd_fn kvl_cmd_tenant_remove;
kvl_cmd_fn kvl_cmd_tenant_flush;
kvl_cmd_fn kvl_cmd_tenant_grant;
kvl_cmd_fn kvl_cmd_pool_set;
/* No lock: what POOL_SET needs before. */
int kvl_cmd_pool_prepare(struct kvl_cmd *x, struct kvl_cmd_frame *f);

/* cmd_list.c */
kvl_cmd_fn kvl_cmd_query;
kvl_cmd_fn kvl_cmd_tenant_get;
kvl_cmd_fn kvl_cmd_client_get;
kvl_cmd_fn kvl_cmd_page_get;
kvl_cmd_fn kvl_cmd_grant_get;
kvl_cmd_fn kvl_cmd_pool_get;

#endif /* KVL_CMD_INTERNAL_H */
