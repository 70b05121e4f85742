/* SPDX-License-Identifier: MIT */
/*
 * tenant.h - how a tenant is shown.
 */
#ifndef CTL_TENANT_H
#define CTL_TENANT_H

#include <jansson.h>
#include <kvcache/kvcache.h>

struct table;

json_t *json_tenant(const struct kvcache_tenant_info *t,
		    const struct kvcache_pool_info *p);
void tenant_columns(struct table *t);
void tenant_row(struct table *t, const struct kvcache_tenant_info *v,
		const struct kvcache_pool_info *p);

#endif /* CTL_TENANT_H */
