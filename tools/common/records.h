/* SPDX-License-Identifier: MIT */
/*
 * records.h - lists of tenants, clients, pages and grants: replies until the end,
 * and the sequence numbers that say whether they are of one moment.
 */
#ifndef RECORDS_H
#define RECORDS_H

#include <stddef.h>
#include <stdint.h>

/* One command of the ABI, as kvc_call(): 0, or what records_read() returns. */
typedef int records_call(void *arg, unsigned int nr, void *cmd);

/**
 * struct records - all records of one kind
 * @v: [@n] of them
 * @n: their number
 * @seq: the ledger's sequence number of the first reply
 * @last: of the last one; the same if nothing changed in between, so that the
 *        list is one moment
 */
struct records {
	void *v;
	size_t n;
	uint64_t seq;
	uint64_t last;
};

/**
 * records_read() - all of them
 * @call: asks
 * @arg: for @call
 * @nr: KVCACHE_NR_TENANT_GET, _CLIENT_GET, _PAGE_GET or _GRANT_GET
 * @pool: the pool; 0 with KVCACHE_NR_GRANT_GET
 * @out: written; free(@out->v) in any case
 *
 * Return: 0; what @call returned; -EPROTO the list goes backwards, so that it
 * would never end; -ENOMEM.
 */
int records_read(records_call *call, void *arg, unsigned int nr, uint32_t pool,
		 struct records *out);

#endif /* RECORDS_H */
