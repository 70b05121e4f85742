// SPDX-License-Identifier: MIT
/*
 * sys_local.c - the in-process backend: a ledger and its pages in this process.
 *
 * Pages are zeroed when they are handed out and not before: memory that was
 * never handed out is zero already. The lock protects the ledger; a thread
 * that waits for pages sleeps on a condition, in the order of the ledger.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "sys.h"

#define HUGE_PAGE	(2UL << 20)
#define DEFAULT_BYTES	(1ULL << 30)
#define DEFAULT_PAGE	(2ULL << 20)
#define MIN_PAGE	64
#define MAX_TENANTS	1024
#define MAX_CLIENTS	1024
#define NR_EVENTS	256
#define TICK_BUDGET	64

/**
 * struct memory - the pages of one pool
 * @base: page 0, the null page, on a huge page's boundary
 * @bytes: of all pages
 * @page_size: of one
 * @used: per page, whether it was handed out before
 */
struct memory {
	char *base;
	size_t bytes;
	size_t page_size;
	unsigned char *used;
};

struct sys_local {
	struct kvc_sys sys;
	struct kvl_cmd cmd;
	pthread_mutex_t admin;	/* one KVCACHE_POOL_SET at a time; outside @lock */
	pthread_mutex_t lock;	/* protects the ledger, @memory and @cmd */
	pthread_cond_t done;	/* some waiting request was decided, or told */
	unsigned int watchers;	/* threads that wait for events */
	struct memory *memory[KVCACHE_MAX_POOLS];
};

static struct sys_local *to_local(struct kvc_sys *s)
{
	return (struct sys_local *)s;
}

static struct sys_local *cmd_to_local(struct kvl_cmd *x)
{
	return container_of(x, struct sys_local, cmd);
}

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* ---- memory ------------------------------------------------------------- */

static void memory_free(struct memory *m)
{
	if (!m)
		return;
	if (m->base)
		munmap(m->base, m->bytes);
	free(m->used);
	free(m);
}

/* Reserves @nr_pages pages and the null page; nothing is populated. */
static struct memory *memory_alloc(u64 page_size, u64 nr_pages)
{
	struct memory *m = calloc(1, sizeof(*m));
	size_t lead, bytes;
	char *p;

	if (!m || __builtin_mul_overflow(nr_pages + 1, page_size, &bytes) ||
	    bytes > SIZE_MAX / 2)
		goto fail;
	bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	m->used = calloc(nr_pages + 1, 1);
	if (!m->used)
		goto fail;
	p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		goto fail;
	lead = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (lead)
		munmap(p, lead);
	munmap(p + lead + bytes, HUGE_PAGE - lead);
	m->base = p + lead;
	m->bytes = bytes;
	m->page_size = page_size;
	/* Where there are no huge pages, small ones do. */
	madvise(m->base, bytes, MADV_HUGEPAGE);
	if (page_size % sysconf(_SC_PAGESIZE) == 0)
		mprotect(m->base, page_size, PROT_READ);
	return m;
fail:
	memory_free(m);
	return NULL;
}

/* Pages just handed out, which nobody else touches. */
static void memory_clear(struct memory *m, const u64 *pages, u32 nr)
{
	u32 k, i;

	for (k = 0; k < nr; k++) {
		i = kvl_index(pages[k]);
		if (m->used[i])
			memset(m->base + i * m->page_size, 0, m->page_size);
		m->used[i] = 1;
	}
}

static int local_memory_alloc(struct kvl_cmd *x, u64 page_size, u32 nr_pages,
			      u32 capacity, void **out)
{
	*out = memory_alloc(page_size, capacity);
	return *out ? 0 : -ENOMEM;
}

static void local_memory_free(struct kvl_cmd *x, void *memory)
{
	memory_free(memory);
}

/* Memory for all pages that a pool may ever have is reserved with it. */
static int local_memory_grow(struct kvl_cmd *x, u32 pool, u64 nr_pages)
{
	return 0;
}

/* Memory of pages that a pool does not have any more goes back. */
static void local_memory_shrink(struct kvl_cmd *x, u32 pool, u64 nr_pages)
{
	struct memory *m = cmd_to_local(x)->memory[pool];
	size_t os_page = sysconf(_SC_PAGESIZE), from;

	from = (nr_pages + 1) * m->page_size;
	from = (from + os_page - 1) & ~(os_page - 1);
	if (from < m->bytes)
		madvise(m->base + from, m->bytes - from, MADV_DONTNEED);
}

static void *local_memory_set(struct kvl_cmd *x, u32 pool, void *memory)
{
	struct memory **m = &cmd_to_local(x)->memory[pool];
	void *old = *m;

	*m = memory;
	return old;
}

static void local_who(struct kvl_cmd *x, struct kvcache_client_info *info)
{
	info->pid = getpid();
	strncpy(info->comm, program_invocation_short_name,
		sizeof(info->comm) - 1);
}

static int local_tenant(struct kvl_cmd *x, const struct kvl_cmd_frame *f)
{
	return kvl_tenant_by_uid(x->ledger, f->uid);
}

static const struct kvl_cmd_ops local_cmd_ops = {
	.memory_alloc = local_memory_alloc,
	.memory_free = local_memory_free,
	.memory_grow = local_memory_grow,
	.memory_shrink = local_memory_shrink,
	.memory_set = local_memory_set,
	.who = local_who,
	.tenant = local_tenant,
};

/* ---- commands ----------------------------------------------------------- */

/* Wakes those whose requests were decided, and those who wait for events. */
static void wake(struct sys_local *s)
{
	bool any = false;

	while (kvl_next_done(s->cmd.ledger))
		any = true;
	if (s->watchers && kvl_events_pending(s->cmd.ledger, s->cmd.client))
		any = true;
	if (any)
		pthread_cond_broadcast(&s->done);
}

/* Sleeps until woken, 0, or until then, ETIMEDOUT; lock held. */
static int sleep_until(struct sys_local *s, u64 deadline_ns)
{
	struct timespec ts = {
		.tv_sec = deadline_ns / 1000000000ULL,
		.tv_nsec = deadline_ns % 1000000000ULL,
	};

	return deadline_ns == KVCACHE_TIME_NEVER ?
	       pthread_cond_wait(&s->done, &s->lock) :
	       pthread_cond_timedwait(&s->done, &s->lock, &ts);
}

static int wait_for_pages(struct sys_local *s, struct kvl_request *r,
			  u64 deadline_ns)
{
	int err = 0;

	while (r->status == KVL_WAITING && err != ETIMEDOUT)
		err = sleep_until(s, deadline_ns);
	if (r->status == KVL_WAITING)
		kvl_cancel(s->cmd.ledger, r, -ETIMEDOUT, now_ns());
	return r->status;
}

/* Runs it to its end; lock held, and released where the command says so. */
static int run(struct sys_local *s, struct kvl_cmd_frame *f, u64 now)
{
	int rc;

	if (kvl_next_tick(s->cmd.ledger) <= now)
		kvl_tick(s->cmd.ledger, now, TICK_BUDGET);
	while ((rc = kvl_cmd_run(&s->cmd, f, now)) == -EAGAIN) {
		pthread_mutex_unlock(&s->lock);
		rc = kvl_cmd_more(f);
		pthread_mutex_lock(&s->lock);
		if (rc)
			break;
	}
	wake(s);
	if (rc != KVL_WAITING)
		return rc;
	rc = wait_for_pages(s, f->request, f->arg.alloc.deadline_ns);
	wake(s);
	return rc;
}

static int local_call(struct kvc_sys *sys, unsigned int nr, void *arg)
{
	struct sys_local *s = to_local(sys);
	struct kvl_request request = { 0 };
	struct kvl_cmd_frame f;
	struct kvcache_alloc *a = &f.arg.alloc;
	struct memory *m = NULL;
	int rc;

	memset(&f, 0, offsetof(struct kvl_cmd_frame, arg));
	f.request = &request;
	f.admin = true;
	f.uid = getuid();
	f.gid = getgid();
	if (nr == KVCACHE_NR_POOL_SET)
		pthread_mutex_lock(&s->admin);
	rc = kvl_cmd_begin(&s->cmd, &f, nr, arg);
	if (!rc) {
		pthread_mutex_lock(&s->lock);
		rc = run(s, &f, now_ns());
		if (nr == KVCACHE_NR_ALLOC && !rc &&
		    !(a->flags & KVCACHE_ALLOC_CHECK))
			m = s->memory[a->pool];
		pthread_mutex_unlock(&s->lock);
	}
	rc = kvl_cmd_end(&s->cmd, &f, arg, rc);
	if (nr == KVCACHE_NR_POOL_SET)
		pthread_mutex_unlock(&s->admin);
	if (m)
		memory_clear(m, a->out_pages, a->nr);
	return rc;
}

/*
 * What falls due while it waits happens then, not at the next command. Signals
 * do not end it: conditions know none.
 */
static int local_events(struct kvc_sys *sys, struct kvcache_event *ev,
			unsigned int n, uint64_t deadline_ns)
{
	struct sys_local *s = to_local(sys);
	u64 tick, now;
	int nr = -ENOTCONN;

	pthread_mutex_lock(&s->lock);
	s->watchers++;
	while (s->cmd.client) {
		nr = kvl_events(s->cmd.ledger, s->cmd.client, ev, n);
		now = now_ns();
		if (nr || deadline_ns <= now)
			break;
		tick = kvl_next_tick(s->cmd.ledger);
		if (tick > now) {
			sleep_until(s, tick < deadline_ns ? tick : deadline_ns);
			continue;
		}
		kvl_tick(s->cmd.ledger, now, TICK_BUDGET);
		wake(s);
	}
	s->watchers--;
	pthread_mutex_unlock(&s->lock);
	return nr;
}

static void *local_window(struct kvc_sys *sys, uint32_t pool, int writable)
{
	struct sys_local *s = to_local(sys);

	return pool < KVCACHE_MAX_POOLS && s->memory[pool] ?
	       s->memory[pool]->base : NULL;
}

static void local_close(struct kvc_sys *sys)
{
	struct sys_local *s = to_local(sys);
	u32 pool;

	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++)
		memory_free(s->memory[pool]);
	kvl_destroy(s->cmd.ledger);
	pthread_cond_destroy(&s->done);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->admin);
	free(s);
}

static const struct kvc_sys_ops local_ops = {
	.name = "local",
	.call = local_call,
	.events = local_events,
	.window = local_window,
	.close = local_close,
};

/* ---- opening ------------------------------------------------------------ */

static int make_pool(struct sys_local *s, const struct kvc_open_opts *o)
{
	u64 page_size = o->local_page_size ? o->local_page_size : DEFAULT_PAGE;
	u64 bytes = o->local_bytes ? o->local_bytes : DEFAULT_BYTES;
	struct kvcache_pool_set set = {
		.size = sizeof(set),
		.op = KVCACHE_POOL_CREATE,
		.page_size = page_size,
		.nr_pages = bytes / page_size,
		.name = "local",
	};

	return local_call(&s->sys, KVCACHE_NR_POOL_SET, &set);
}

static int make_tenant(struct sys_local *s, const struct kvc_open_opts *o)
{
	const char *name = o->tenant ? o->tenant : "default";
	struct kvcache_tenant_set set = {
		.size = sizeof(set),
		.set = KVCACHE_SET_OWNER | KVCACHE_SET_LIMITS,
		.uid = getuid(),
		.gid = getgid(),
		.mode = 0400,
		.max = o->local_max ? o->local_max : KVCACHE_LIMIT_MAX,
	};

	if (strlen(name) >= sizeof(set.name))
		return -EINVAL;
	strcpy(set.name, name);
	return local_call(&s->sys, KVCACHE_NR_TENANT_CREATE, &set);
}

int kvc_sys_local_open(const struct kvc_open_opts *opts, struct kvc_sys **out)
{
	static const struct kvc_open_opts none;
	struct kvl_config cfg = {
		.max_tenants = MAX_TENANTS,
		.max_clients = MAX_CLIENTS,
		.nr_events = NR_EVENTS,
	};
	struct sys_local *s = calloc(1, sizeof(*s));
	pthread_condattr_t attr;
	int err = -ENOMEM;

	if (!s)
		return -ENOMEM;
	if (getrandom(&cfg.seed, sizeof(cfg.seed), 0) != sizeof(cfg.seed))
		cfg.seed = now_ns();
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->admin, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->done, &attr);
	pthread_condattr_destroy(&attr);
	s->sys.ops = &local_ops;
	s->cmd.ops = &local_cmd_ops;
	s->cmd.features = KVCACHE_FEAT_LOCAL | KVCACHE_FEAT_EVENTS;
	s->cmd.pool_flags = KVL_POOL_DIRECT;
	s->cmd.min_page_size = MIN_PAGE;
	s->cmd.headroom = 1;
	s->cmd.ledger = kvl_create(&cfg);
	if (s->cmd.ledger)
		err = make_pool(s, opts ? opts : &none);
	if (!err)
		err = make_tenant(s, opts ? opts : &none);
	if (err) {
		local_close(&s->sys);
		return err;
	}
	*out = &s->sys;
	return 0;
}
