// SPDX-License-Identifier: GPL-2.0-only
/*
 * call.c - commands: from an ioctl to the ledger and back.
 *
 * Most commands are the ledger's alone (cmd.c). Those that end somebody's
 * access to a page remove its mappings afterwards, and those that wait for
 * pages clean some meanwhile.
 */
#include <linux/bitmap.h>
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/nospec.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "trace.h"

#define HELP_PAGES	64

/* ---- what the commands ask of the memory's owner ------------------------- */

static int memory_alloc(struct kvl_cmd *x, u64 page_size, u32 nr_pages,
			u32 capacity, void **memory)
{
	struct kvcache_pool *p;
	int err = kvcache_pool_alloc(page_size, nr_pages, capacity, &p);

	if (!err)
		*memory = p;
	return err;
}

static void memory_free(struct kvl_cmd *x, void *memory)
{
	kvcache_pool_free(memory);
}

/* Pools come and go under @admin. */
static struct kvcache_pool *pool_get(u32 pool)
{
	if (pool >= KVCACHE_MAX_POOLS)
		return NULL;
	return kvcache.pools[array_index_nospec(pool, KVCACHE_MAX_POOLS)];
}

static int memory_grow(struct kvl_cmd *x, u32 pool, u64 nr_pages)
{
	struct kvcache_pool *p = pool_get(pool);

	return p ? kvcache_pool_grow(p, nr_pages) : -ENOENT;
}

static void memory_shrink(struct kvl_cmd *x, u32 pool, u64 nr_pages)
{
	kvcache_pool_shrink(pool_get(pool), nr_pages);
}

static void *memory_set(struct kvl_cmd *x, u32 pool, void *memory)
{
	struct kvcache_pool *p = memory, *old = kvcache.pools[pool];

	kvcache_assert_locked();
	if (p) {
		p->id = pool;
		p->known = true;
	}
	kvcache.pools[pool] = p;
	return old;
}

static void pool_info(struct kvl_cmd *x, struct kvcache_pool_info *info)
{
	info->rw_offset = 2ULL * info->id << KVCACHE_WINDOW_SHIFT;
	info->ro_offset = info->rw_offset + KVCACHE_WINDOW_SIZE;
}

/* The ledger's pins are exports; others are seen when they are in the way. */
static void page_info(struct kvl_cmd *x, struct kvcache_page_info *info)
{
	if (info->flags & KVCACHE_PAGE_PINNED)
		info->flags |= KVCACHE_PAGE_EXPORTED;
}

static void who(struct kvl_cmd *x, struct kvcache_client_info *info)
{
	const struct kvcache_client *c = kvl_client_owner(x->ledger, info->id);

	kvcache_assert_locked();
	/* Attached a moment ago: its owner is not known yet. */
	if (!c)
		return;
	info->pid = pid_vnr(c->pid);
	strscpy(info->comm, c->comm, sizeof(info->comm));
}

/* The nearest of the caller's cgroups that a tenant names decides, or its uid. */
static int auto_tenant(struct kvl_cmd *x, const struct kvl_cmd_frame *f)
{
	int tenant = -ENOENT;
#ifdef CONFIG_CGROUPS
	struct cgroup *cgrp;

	rcu_read_lock();
	for (cgrp = task_dfl_cgroup(current); cgrp && tenant < 0;
	     cgrp = cgroup_parent(cgrp))
		tenant = kvl_tenant_by_cgroup(x->ledger, cgroup_id(cgrp));
	rcu_read_unlock();
#endif
	return tenant < 0 ? kvl_tenant_by_uid(x->ledger, f->uid) : tenant;
}

const struct kvl_cmd_ops kvcache_cmd_ops = {
	.memory_alloc = memory_alloc,
	.memory_free = memory_free,
	.memory_grow = memory_grow,
	.memory_shrink = memory_shrink,
	.memory_set = memory_set,
	.pool_info = pool_info,
	.page_info = page_info,
	.who = who,
	.tenant = auto_tenant,
};

/* ---- running ------------------------------------------------------------- */

/*
 * Whose open it is may have been decided since the call began. What an
 * administrator has begun does not depend on it, and is not left half done.
 */
int kvcache_run_locked(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	int err = f->admin && f->again ? 0 : kvcache_client_check(c);

	kvcache_assert_locked();
	return err ? err : kvl_cmd_run(&c->cmd, f, kvcache_now());
}

/* Cleans some of the pages that there are, or waits for those who do. */
static void lend_a_hand(void)
{
	u32 nr = 0;

	while (nr < HELP_PAGES && !fatal_signal_pending(current) &&
	       kvcache_clean_any())
		nr++;
	if (!nr)
		schedule_timeout_killable(1);
}

int kvcache_run(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	int rc;

	for (;;) {
		kvcache_lock();
		rc = kvcache_run_locked(c, f);
		kvcache_unlock();
		if (rc != -EAGAIN)
			return rc;
		/* What only makes way for others goes on to its end. */
		if (f->work && fatal_signal_pending(current))
			return -EINTR;
		if (f->work)
			lend_a_hand();
		cond_resched();
		rc = kvl_cmd_more(f);
		if (rc)
			return rc;
	}
}

/* Until it is decided or the time has come: 0, -ETIMEDOUT or -EINTR. */
static int wait_until(struct kvcache_wait *w, u64 deadline_ns)
{
	long left = MAX_SCHEDULE_TIMEOUT;
	u64 now;

	do {
		if (deadline_ns != KVCACHE_TIME_NEVER) {
			now = kvcache_now();
			if (now >= deadline_ns)
				return -ETIMEDOUT;
			left = min_t(u64, nsecs_to_jiffies64(deadline_ns - now),
				     MAX_SCHEDULE_TIMEOUT - 1) + 1;
		}
		left = wait_for_completion_interruptible_timeout(&w->done,
								 left);
	} while (!left);
	return left < 0 ? -EINTR : 0;
}

static bool must_stop(bool nowait, u64 deadline_ns)
{
	return nowait ? fatal_signal_pending(current) :
	       signal_pending(current) || kvcache_now() >= deadline_ns;
}

/*
 * A request waits: for pages that are being cleaned, to which the caller lends
 * a hand, or for others to give some up. Without a deadline only for the first.
 */
static int wait_for_pages(struct kvcache_wait *w, u64 deadline_ns)
{
	u64 start = kvcache_now();
	bool nowait = w->request.nowait;
	int err = 0, rc;

	while (!completion_done(&w->done) && !must_stop(nowait, deadline_ns) &&
	       kvcache_clean_one(w->request.pool))
		;
	if (!completion_done(&w->done))
		err = !nowait ? wait_until(w, deadline_ns) :
		      wait_for_completion_killable(&w->done) ? -EINTR : 0;
	kvcache_lock();
	if (w->request.status == KVL_WAITING)
		kvl_cancel(kvcache.ledger, &w->request, err, kvcache_now());
	rc = w->request.status;
	kvcache_unlock();
	trace_kvcache_wait(w->request.pool, w->request.nr, rc,
			   kvcache_now() - start);
	return rc;
}

int kvcache_get_pages(struct kvcache_client *c, u32 pool, u32 nr, u64 *pages)
{
	struct kvcache_wait w = {
		.request = { .pool = pool, .nr = nr, .pages = pages },
	};
	int rc;

	init_completion(&w.done);
	kvcache_lock();
	rc = kvl_alloc(kvcache.ledger, c->cmd.client, &w.request, false,
		       kvcache_now());
	kvcache_unlock();
	return rc == KVL_WAITING ? wait_for_pages(&w, 0) : rc;
}

static int alloc_call(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	struct kvcache_wait *w = container_of(f->request, struct kvcache_wait,
					      request);
	int rc = kvcache_run(c, f);

	return rc == KVL_WAITING ?
	       wait_for_pages(w, f->arg.alloc.deadline_ns) : rc;
}

/* ---- commands that end an access ----------------------------------------- */

/* Which of these pages are mapped, or were touched otherwise. */
static struct kvcache_pool *note_used(u32 pool, const u64 *pages, u32 nr,
				      unsigned long *used)
{
	struct kvcache_pool *p = pool_get(pool);
	u32 k, i;

	kvcache_assert_locked();
	bitmap_zero(used, KVCACHE_MAX_PAGES);
	for (k = 0; p && k < min_t(u32, nr, KVCACHE_MAX_PAGES); k++) {
		i = kvl_index(pages[k]);
		if (i > p->nr_pages)
			continue;
		i = array_index_nospec(i, p->nr_pages + 1);
		if (kvcache_page_used(p, i))
			__set_bit(k, used);
	}
	return p;
}

/*
 * Runs the command, and removes the caller's mappings of its pages. What is
 * not mapped now cannot be mapped once the ledger says no.
 */
static int run_and_zap(struct kvcache_client *c, struct kvl_cmd_frame *f,
		       u32 pool, const u64 *pages, u32 nr, bool read_only_too)
{
	DECLARE_BITMAP(used, KVCACHE_MAX_PAGES);
	struct kvcache_pool *p;
	int idx, rc;
	u32 k, i;

	idx = srcu_read_lock(&kvcache_srcu);
	do {
		kvcache_lock();
		p = note_used(pool, pages, nr, used);
		rc = kvcache_run_locked(c, f);
		kvcache_unlock();
	} while (rc == -EAGAIN && !kvl_cmd_more(f));
	if (rc == -EAGAIN)
		rc = -ENOMEM;
	if (!rc)
		for_each_set_bit(k, used, KVCACHE_MAX_PAGES) {
			i = kvl_index(pages[k]);
			kvcache_page_lock(p, i);
			kvcache_zap(c, p, i, 1, read_only_too);
			kvcache_page_unlock(p, i);
		}
	srcu_read_unlock(&kvcache_srcu, idx);
	return rc;
}

static int free_call(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	struct kvcache_free *a = &f->arg.free;

	return run_and_zap(c, f, a->pool, a->pages, a->nr, true);
}

/* Volatile pages are not written any more. */
static int advise_call(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	struct kvcache_advise *a = &f->arg.advise;

	if (!(a->advice & KVCACHE_ADVISE_VOLATILE))
		return kvcache_run(c, f);
	return run_and_zap(c, f, a->pool, a->pages, a->nr, false);
}

/* ---- changes of pools and tenants ---------------------------------------- */

static bool is_change(u32 nr)
{
	return nr == KVCACHE_NR_POOL_SET || nr == KVCACHE_NR_TENANT_CREATE ||
	       nr == KVCACHE_NR_TENANT_SET || nr == KVCACHE_NR_TENANT_REMOVE;
}

/* Folders for what is new, none for what is gone. */
static int follow_change(u32 nr, const struct kvl_cmd_frame *f)
{
	const struct kvcache_tenant_set *t = &f->arg.tenant_set;
	const struct kvcache_pool_set *p = &f->arg.pool_set;

	lockdep_assert_held(&kvcache.admin);
	switch (nr) {
	case KVCACHE_NR_POOL_SET:
		if (p->op == KVCACHE_POOL_CREATE)
			return kvcache_sysfs_add_pool(p->out_pool, p->name);
		if (p->op == KVCACHE_POOL_REMOVE)
			kvcache_sysfs_del_pool(p->pool);
		return 0;
	case KVCACHE_NR_TENANT_CREATE:
		return kvcache_sysfs_add_tenant(t->out_tenant, t->name,
						t->set & KVCACHE_SET_OWNER ?
						t->gid : 0);
	case KVCACHE_NR_TENANT_SET:
		return t->set & KVCACHE_SET_OWNER ?
		       kvcache_sysfs_chown_tenant(t->tenant, t->gid) : 0;
	case KVCACHE_NR_TENANT_REMOVE:
		kvcache_sysfs_del_tenant(f->arg.tenant_ref.tenant);
		return 0;
	}
	return 0;
}

static int change_call(struct kvcache_client *c, struct kvl_cmd_frame *f,
		       u32 nr)
{
	int rc = kvcache_run(c, f);

	/*
	 * Without memory for its folder a pool or tenant is there all the
	 * same, and no less of use.
	 */
	if (!rc && follow_change(nr, f))
		pr_debug("no folder in sysfs\n");
	return rc;
}

/* ---- the ioctl ----------------------------------------------------------- */

bool kvcache_privileged(struct file *file)
{
	return file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN) &&
	       ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

/* Groups of the caller, beside its own; to be freed. */
static u32 *get_groups(u32 *nr)
{
	const struct group_info *g = current_cred()->group_info;
	u32 *groups, k;

	groups = kvmalloc_array(g->ngroups + 1, sizeof(*groups),
				KVL_GFP);
	if (!groups)
		return NULL;
	for (k = 0; k < g->ngroups; k++)
		groups[k] = from_kgid(&init_user_ns, g->gid[k]);
	*nr = k;
	return groups;
}

static int attach_call(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	u32 *groups = get_groups(&f->nr_groups);
	int rc;

	if (!groups)
		return -ENOMEM;
	f->uid = from_kuid(&init_user_ns, current_euid());
	f->gid = from_kgid(&init_user_ns, current_egid());
	f->groups = groups;
	rc = kvcache_client_attach(c, f);
	kvfree(groups);
	return rc;
}

/* The descriptor is of use to others only once the caller was told of it. */
static int export_call(struct kvcache_client *c, struct kvl_cmd_frame *f,
		       void __user *arg)
{
	struct file *file;
	int fd, rc;

	rc = kvcache_export(c, &f->arg.export, &file);
	fd = f->arg.export.out_fd;
	f->reply = !rc;
	if (rc)
		return rc;
	rc = kvl_cmd_end(&c->cmd, f, arg, 0);
	f->reply = false;
	if (rc) {
		put_unused_fd(fd);
		fput(file);
	} else {
		fd_install(fd, file);
	}
	return rc;
}

static int dispatch(struct kvcache_client *c, struct kvl_cmd_frame *f, u32 nr,
		    void __user *arg)
{
	switch (nr) {
	case KVCACHE_NR_ATTACH:
		return attach_call(c, f);
	case KVCACHE_NR_ALLOC:
		return alloc_call(c, f);
	case KVCACHE_NR_FREE:
		return free_call(c, f);
	case KVCACHE_NR_PUBLISH:
		return kvcache_publish(c, f);
	case KVCACHE_NR_ADVISE:
		return advise_call(c, f);
	case KVCACHE_NR_EXPORT:
		return export_call(c, f, arg);
	}
	return is_change(nr) ? change_call(c, f, nr) : kvcache_run(c, f);
}

/* From its frame on. What cannot be answered is not done. */
static int call_framed(struct kvcache_client *c, struct kvl_cmd_frame *f,
		       u32 nr, size_t size, void __user *arg)
{
	struct kvcache_wait w = { };
	int rc;

	init_completion(&w.done);
	f->request = &w.request;
	rc = kvl_cmd_begin(&c->cmd, f, nr, arg);
	if (!rc && copy_to_user(arg, &f->arg, min_t(size_t, f->usize, size)))
		rc = -EFAULT;
	if (!rc)
		rc = dispatch(c, f, nr, arg);
	return kvl_cmd_end(&c->cmd, f, arg, rc);
}

long kvcache_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct kvcache_client *c = file->private_data;
	u32 nr = _IOC_NR(cmd);
	u64 start = kvcache_now();
	struct kvl_cmd_frame *f;
	size_t size;
	bool change;
	int rc;

	size = cmd == KVCACHE_IO(nr) ? kvl_cmd_frame_size(nr) : 0;
	if (!size)
		return -ENOTTY;
	rc = kvcache_client_check(c);
	if (rc)
		return rc;
	f = kvmalloc(size, KVL_GFP);
	if (!f)
		return -ENOMEM;
	memset(f, 0, offsetof(struct kvl_cmd_frame, arg));
	f->admin = nr >= KVCACHE_NR_TENANT_CREATE && kvcache_privileged(file);
	change = is_change(nr) && f->admin;
	rc = change ? mutex_lock_killable(&kvcache.admin) : 0;
	if (!rc) {
		rc = call_framed(c, f, nr,
				 size - offsetof(struct kvl_cmd_frame, arg),
				 (void __user *)arg);
		if (change)
			mutex_unlock(&kvcache.admin);
	}
	kvfree(f);
	trace_kvcache_call(kvcache_attached(c) ?
				   kvl_client_id(c->cmd.client) : 0,
			   nr, rc, kvcache_now() - start);
	return rc;
}
