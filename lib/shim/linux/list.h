/* SPDX-License-Identifier: MIT */
/* Doubly linked lists and hash chains with the kernel's names. */
#ifndef SHIM_LINUX_LIST_H
#define SHIM_LINUX_LIST_H

#include <linux/types.h>

#ifndef container_of
#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))
#endif

#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }

static inline void INIT_LIST_HEAD(struct list_head *h)
{
	h->next = h;
	h->prev = h;
}

static inline bool list_empty(const struct list_head *h)
{
	return h->next == h;
}

static inline void list_add(struct list_head *n, struct list_head *after)
{
	n->prev = after;
	n->next = after->next;
	after->next->prev = n;
	after->next = n;
}

static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	list_add(n, h->prev);
}

static inline void list_del_init(struct list_head *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	INIT_LIST_HEAD(n);
}

static inline void list_move_tail(struct list_head *n, struct list_head *h)
{
	list_del_init(n);
	list_add_tail(n, h);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first_entry(h, type, member) list_entry((h)->next, type, member)
#define list_last_entry(h, type, member) list_entry((h)->prev, type, member)
#define list_for_each_entry(pos, h, member)				\
	for (pos = list_entry((h)->next, __typeof__(*pos), member);	\
	     &pos->member != (h);					\
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))
#define list_for_each_entry_safe(pos, n, h, member)			\
	for (pos = list_entry((h)->next, __typeof__(*pos), member),	\
	     n = list_entry(pos->member.next, __typeof__(*n), member);	\
	     &pos->member != (h);					\
	     pos = n, n = list_entry(n->member.next, __typeof__(*n), member))

#define list_for_each_entry_safe_reverse(pos, n, h, member)		\
	for (pos = list_entry((h)->prev, __typeof__(*pos), member),	\
	     n = list_entry(pos->member.prev, __typeof__(*n), member);	\
	     &pos->member != (h);					\
	     pos = n, n = list_entry(n->member.prev, __typeof__(*n), member))

static inline bool hlist_empty(const struct hlist_head *h)
{
	return !h->first;
}

static inline void hlist_add_head(struct hlist_node *n, struct hlist_head *h)
{
	n->next = h->first;
	n->pprev = &h->first;
	if (h->first)
		h->first->pprev = &n->next;
	h->first = n;
}

static inline void hlist_del(struct hlist_node *n)
{
	*n->pprev = n->next;
	if (n->next)
		n->next->pprev = n->pprev;
}

#define hlist_entry(ptr, type, member) container_of(ptr, type, member)
#define hlist_entry_safe(ptr, type, member) ({				\
	__typeof__(ptr) entry_p = (ptr);				\
	entry_p ? hlist_entry(entry_p, type, member) : NULL;		\
})
#define hlist_for_each_entry(pos, h, member)				\
	for (pos = hlist_entry_safe((h)->first, __typeof__(*pos), member); \
	     pos;							\
	     pos = hlist_entry_safe(pos->member.next, __typeof__(*pos), \
				    member))

#endif /* SHIM_LINUX_LIST_H */
