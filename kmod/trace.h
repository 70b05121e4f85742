/* SPDX-License-Identifier: GPL-2.0-only */
/* trace.h - tracepoints: /sys/kernel/tracing/events/kvcache/ */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvcache

#if !defined(KVCACHE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KVCACHE_TRACE_H

#include <linux/tracepoint.h>

/* One command, when it is over. */
TRACE_EVENT(kvcache_call,
	TP_PROTO(u32 client, u32 nr, int rc, u64 ns),
	TP_ARGS(client, nr, rc, ns),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u32, nr)
		__field(int, rc)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->nr = nr;
		__entry->rc = rc;
		__entry->ns = ns;
	),
	TP_printk("client=%u nr=0x%02x rc=%d ns=%llu",
		  __entry->client, __entry->nr, __entry->rc, __entry->ns)
);

/* A request waited for pages. */
TRACE_EVENT(kvcache_wait,
	TP_PROTO(u32 pool, u32 pages, int status, u64 ns),
	TP_ARGS(pool, pages, status, ns),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, pages)
		__field(int, status)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->pages = pages;
		__entry->status = status;
		__entry->ns = ns;
	),
	TP_printk("pool=%u pages=%u status=%d ns=%llu", __entry->pool,
		  __entry->pages, __entry->status, __entry->ns)
);

/* A page that left its owner was zeroed, or was still in use. */
TRACE_EVENT(kvcache_clean,
	TP_PROTO(u32 pool, u32 page, bool ok),
	TP_ARGS(pool, page, ok),
	TP_STRUCT__entry(
		__field(u32, pool)
		__field(u32, page)
		__field(bool, ok)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->page = page;
		__entry->ok = ok;
	),
	TP_printk("pool=%u page=%u %s", __entry->pool, __entry->page,
		  __entry->ok ? "clean" : "in use")
);

/* An owner ended, and what its client held went back. */
TRACE_EVENT(kvcache_end,
	TP_PROTO(u32 client, u64 pages),
	TP_ARGS(client, pages),
	TP_STRUCT__entry(
		__field(u32, client)
		__field(u64, pages)
	),
	TP_fast_assign(
		__entry->client = client;
		__entry->pages = pages;
	),
	TP_printk("client=%u pages=%llu", __entry->client, __entry->pages)
);

#endif /* KVCACHE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
