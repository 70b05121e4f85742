/* SPDX-License-Identifier: MIT */
/* options.h - the command line of kvcache-broker. */
#ifndef BROKER_OPTIONS_H
#define BROKER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "units.h"

/**
 * struct pool_option - --pool NAME=SIZE[,page=SIZE]
 * @name: its name
 * @bytes: of its pages together
 * @page_size: of one
 */
struct pool_option {
	const char *name;
	uint64_t bytes;
	uint64_t page_size;
};

/**
 * struct tenant_option - --tenant NAME[,KEY=VALUE]...
 * @name: its name
 * @pool: pool of the limits, NULL for the first
 * @uid: owner
 * @gid: group
 * @mode: who may attach
 * @min: limit, or LIMIT_NONE
 * @low: limit, or LIMIT_NONE
 * @max: limit, or LIMIT_NONE
 * @ttl_ns: of its cached pages
 */
struct tenant_option {
	const char *name;
	const char *pool;
	uint32_t uid;
	uint32_t gid;
	uint32_t mode;
	struct limit min, low, max;
	uint64_t ttl_ns;
};

/**
 * struct options - the command line
 * @socket: path, or NULL for the default
 * @user: a broker of one user
 * @stall_ns: for how long a client may take no reply
 * @pools: @nr_pools of them
 * @tenants: @nr_tenants of them
 */
struct options {
	const char *socket;
	bool user;
	uint64_t stall_ns;
	struct pool_option *pools;
	unsigned int nr_pools;
	struct tenant_option *tenants;
	unsigned int nr_tenants;
};

/* 0; 1 there is nothing more to do; -1 after a complaint. Changes @argv. */
int options_parse(int argc, char **argv, struct options *o);
void options_free(struct options *o);

#endif /* BROKER_OPTIONS_H */
