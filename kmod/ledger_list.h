/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ledger_list.h - lists of pages, and bitmaps of these lists; for
 * ledger_internal.h.
 */
#ifndef KVL_LEDGER_LIST_H
#define KVL_LEDGER_LIST_H

#define KVL_LIST_OPS(member)						\
static inline void kvl_##member##_add_tail(struct kvl_page *page,	\
					   struct kvl_list *l, u32 i)	\
{									\
	page[i].member.next = 0;					\
	page[i].member.prev = l->last;					\
	if (l->last)							\
		page[l->last].member.next = i;				\
	else								\
		l->first = i;						\
	l->last = i;							\
}									\
									\
static inline void kvl_##member##_del(struct kvl_page *page,		\
				      struct kvl_list *l, u32 i)	\
{									\
	struct kvl_link *n = &page[i].member;				\
									\
	if (n->prev)							\
		page[n->prev].member.next = n->next;			\
	else								\
		l->first = n->next;					\
	if (n->next)							\
		page[n->next].member.prev = n->prev;			\
	else								\
		l->last = n->prev;					\
}

KVL_LIST_OPS(own)
KVL_LIST_OPS(order)
KVL_LIST_OPS(lru)

static inline void kvl_order_add(struct kvl_page *page, struct kvl_list *l,
				 u32 i)
{
	page[i].order.prev = 0;
	page[i].order.next = l->first;
	if (l->first)
		page[l->first].order.prev = i;
	else
		l->last = i;
	l->first = i;
}

static inline u32 kvl_map_first(const u64 *map)
{
	return map[0] ? __ffs64(map[0]) : map[1] ? 64 + __ffs64(map[1]) :
	       KVL_NR_SLOTS;
}

static inline void kvl_map_set(u64 *map, u32 bit)
{
	map[bit / 64] |= 1ULL << (bit % 64);
}

static inline void kvl_map_clear(u64 *map, u32 bit)
{
	map[bit / 64] &= ~(1ULL << (bit % 64));
}

#endif /* KVL_LEDGER_LIST_H */
