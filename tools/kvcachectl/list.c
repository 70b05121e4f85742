// SPDX-License-Identifier: MIT
/*
 * list.c - lists of tenants, clients and pages: replies until the end, and the
 * sequence numbers that say whether they are of one moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "json_out.h"
#include "table.h"
#include "util.h"

/* What the three replies begin with. */
struct head {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 start;
	__aligned_u64 out_seq;
	__u32 out_nr;
	__u32 out_next;
};

#define SAME_HEAD(type)							\
	_Static_assert(offsetof(struct type, out_info) == sizeof(struct head) && \
		       offsetof(struct type, out_next) ==		\
		       offsetof(struct head, out_next), #type)

SAME_HEAD(kvcache_tenant_get);
SAME_HEAD(kvcache_client_get);
SAME_HEAD(kvcache_page_get);

union reply {
	struct head head;
	struct kvcache_tenant_get tenants;
	struct kvcache_client_get clients;
	struct kvcache_page_get pages;
};

static int list(struct ctl *c, unsigned int nr, const char *what, uint32_t pool,
		uint32_t start, size_t record, struct ctl_list *out)
{
	static union reply r;
	size_t cap = 0;

	*out = (struct ctl_list){ 0 };
	do {
		r.head = (struct head){ .pool = pool, .start = start };
		if (ctl_read(c, nr, &r, what))
			return -1;
		if (out->n + r.head.out_nr > cap) {
			cap = 2 * (out->n + r.head.out_nr);
			out->v = xrealloc(out->v, cap, record);
		}
		if (r.head.out_nr)
			memcpy((char *)out->v + out->n * record, &r.head + 1,
			       r.head.out_nr * record);
		if (!out->n)
			out->seq = r.head.out_seq;
		out->last = r.head.out_seq;
		out->n += r.head.out_nr;
		/* One that does not go on would never end. */
		if (r.head.out_next && r.head.out_next <= start)
			return complain("%s: the list goes backwards: use a backend of the same release",
					what);
		start = r.head.out_next;
	} while (start);
	return 0;
}

int list_tenants(struct ctl *c, uint32_t pool, struct ctl_list *out)
{
	return list(c, KVCACHE_NR_TENANT_GET, "tenants", pool, 0,
		    sizeof(struct kvcache_tenant_info), out);
}

int list_clients(struct ctl *c, uint32_t pool, struct ctl_list *out)
{
	return list(c, KVCACHE_NR_CLIENT_GET, "clients", pool, 0,
		    sizeof(struct kvcache_client_info), out);
}

int list_pages(struct ctl *c, uint32_t pool, struct ctl_list *out)
{
	return list(c, KVCACHE_NR_PAGE_GET, "pages", pool, 0,
		    sizeof(struct kvcache_page_info), out);
}

int find_tenant(struct ctl *c, const char *name, uint32_t pool,
		struct kvcache_tenant_info *out)
{
	const struct kvcache_tenant_info *t;
	struct ctl_list l;
	size_t i;
	int ret;

	ret = list_tenants(c, pool, &l);
	t = l.v;
	for (i = 0; !ret && i < l.n; i++)
		if (!strcmp(t[i].name, name))
			break;
	if (!ret && i < l.n)
		*out = t[i];
	else if (!ret)
		ret = complain("tenant \"%s\": there is none of this name: kvcachectl tenant ls shows all",
			       name);
	free(l.v);
	return ret;
}

int names_read(struct ctl *c, uint32_t pool, struct names *out)
{
	return list_tenants(c, pool, &out->list);
}

/* They are listed by ascending number. */
static int compare(const void *key, const void *elem)
{
	const struct kvcache_tenant_info *t = elem;
	uint32_t id = *(const uint32_t *)key;

	return id < t->id ? -1 : id > t->id;
}

const char *names_of(const struct names *n, uint32_t tenant, char *buf)
{
	const struct kvcache_tenant_info *t;

	if (!tenant)
		return strcpy(buf, "");
	t = bsearch(&tenant, n->list.v, n->list.n, sizeof(*t), compare);
	if (t)
		snprintf(buf, KVCACHE_NAME_LEN, "%s", t->name);
	else
		snprintf(buf, KVCACHE_NAME_LEN, "#%u", tenant);
	return buf;
}

json_t *json_list(const struct ctl_list *l)
{
	return json_pack("{s:I, s:I}", "seq", (json_int_t)l->seq,
			 "seq_last", (json_int_t)l->last);
}

int ctl_pools_end(int ret, struct table *t, json_t *json)
{
	if (!ret && json)
		ret = json_print(json_pack("{s:O}", "pools", json), stdout);
	else if (!ret)
		table_print(t, stdout);
	table_free(t);
	json_decref(json);
	return ret;
}
