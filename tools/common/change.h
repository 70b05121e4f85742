/* SPDX-License-Identifier: MIT */
/*
 * change.h - change a tenant: what is given, and what is in force of the rest.
 *
 * A change has the revision after the one that was read: if somebody else was
 * faster, it is made anew, so that neither undoes what the other did.
 */
#ifndef CHANGE_H
#define CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include <kvcache/uapi.h>

#include "records.h"
#include "units.h"

/**
 * struct change - what is asked for
 * @set: KVCACHE_SET_* that are given
 * @min: with KVCACHE_SET_LIMITS, each may be LIMIT_NONE
 * @low: likewise
 * @max: likewise
 * @deadline_ns: from now, or UINT64_MAX
 * @ttl_ns: with KVCACHE_SET_TTL
 * @cgroup: with KVCACHE_SET_CGROUP
 * @trust: with KVCACHE_SET_TRUST
 * @has_uid: @uid is given
 * @has_gid: @gid is given
 * @has_mode: @mode is given
 * @uid: with KVCACHE_SET_OWNER, the owner
 * @gid: likewise, the group
 * @mode: likewise, who may attach
 */
struct change {
	uint32_t set;
	struct limit min;
	struct limit low;
	struct limit max;
	uint64_t deadline_ns;
	uint64_t ttl_ns;
	uint64_t cgroup;
	uint32_t trust;
	bool has_uid;
	bool has_gid;
	bool has_mode;
	uint32_t uid;
	uint32_t gid;
	uint32_t mode;
};

/**
 * change_fill() - the command
 * @ch: what is asked for
 * @t: the tenant as it is
 * @p: pool of the limits; may be NULL without
 * @s: the command
 *
 * Return: NULL, or the limit of @ch that is less than a page, but not 0.
 */
const struct limit *change_fill(const struct change *ch,
				const struct kvcache_tenant_info *t,
				const struct kvcache_pool_info *p,
				struct kvcache_tenant_set *s);

/**
 * change_make() - make a change
 * @call: asks as who may administer
 * @who: for @call
 * @ch: what is asked for
 * @p: pool of the limits
 * @find: reads the tenant as it is now; what it returns but 0 is the end
 * @arg: for @find
 * @s: the last command that was tried
 *
 * Return: 0; what @find returned; -ERANGE a limit is less than a page, but not
 * 0; -ESTALE others change it all the time; or an errno of KVCACHE_TENANT_SET.
 */
int change_make(records_call *call, void *who, const struct change *ch,
		const struct kvcache_pool_info *p,
		int (*find)(void *arg, struct kvcache_tenant_info *t),
		void *arg, struct kvcache_tenant_set *s);

#endif /* CHANGE_H */
