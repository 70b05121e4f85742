// SPDX-License-Identifier: GPL-2.0-only
/*
 * main.c - /dev/kvcache: the device, its lock, and what happens by itself.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/random.h>
#include <linux/seq_file.h>

#include "internal.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

#define MAX_TENANTS	4096
#define MAX_CLIENTS	65536
#define TENANT_CLIENTS	4096
#define NR_EVENTS	256
#define TICK_BUDGET	256

DEFINE_SRCU(kvcache_srcu);

static void tick_work(struct work_struct *w);

struct kvcache_device kvcache = {
	.admin = __MUTEX_INITIALIZER(kvcache.admin),
	.clients_sem = __RWSEM_INITIALIZER(kvcache.clients_sem),
	.clients = LIST_HEAD_INIT(kvcache.clients),
	.lock = __MUTEX_INITIALIZER(kvcache.lock),
	.events = __WAIT_QUEUE_HEAD_INITIALIZER(kvcache.events),
	.tick_at = KVCACHE_TIME_NEVER,
};

/* ---- the lock of the ledger ---------------------------------------------- */

void kvcache_lock(void)
{
	mutex_lock(&kvcache.lock);
}

/* Requests that stopped waiting. */
static void wake_requests(void)
{
	struct kvl_request *r;

	kvcache_assert_locked();
	while ((r = kvl_next_done(kvcache.ledger)))
		complete(&container_of(r, struct kvcache_wait, request)->done);
}

/* What time alone will bring about, or the loss of a page. */
static void arm_tick(u64 now)
{
	u64 at = kvcache.tick_soon ? 0 : kvl_next_tick(kvcache.ledger);

	kvcache_assert_locked();
	if (at == kvcache.tick_at)
		return;
	kvcache.tick_at = at;
	if (at != KVCACHE_TIME_NEVER && !kvcache.stopping)
		mod_delayed_work(kvcache.wq, &kvcache.tick, at <= now ? 0 :
				 min_t(u64, nsecs_to_jiffies64(at - now) + 1,
				       24 * 3600 * HZ));
}

void kvcache_unlock(void)
{
	u64 now = kvcache_now(), posted;
	bool news;
	u32 k;

	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		if (kvcache.pools[k])
			kvcache_pool_sort(kvcache.pools[k], now);
	wake_requests();
	arm_tick(now);
	posted = kvl_posted(kvcache.ledger);
	news = posted != kvcache.posted;
	kvcache.posted = posted;
	mutex_unlock(&kvcache.lock);
	if (news && wq_has_sleeper(&kvcache.events))
		wake_up_interruptible(&kvcache.events);
}

/*
 * A page that was revoked while it is pinned is no work for the ledger, so what
 * maps it is removed here; others are seen to when they are cleaned.
 */
static void tick_work(struct work_struct *w)
{
	bool revoked;
	u32 nr;

	do {
		kvcache_lock();
		nr = kvl_tick(kvcache.ledger, kvcache_now(), TICK_BUDGET);
		revoked = kvl_revoked(kvcache.ledger);
		kvcache.tick_at = KVCACHE_TIME_NEVER;
		kvcache.tick_soon = false;
		kvcache_unlock();
		if (revoked)
			kvcache_zap_clients();
		cond_resched();
	} while (nr == TICK_BUDGET);
}

/* ---- the device ---------------------------------------------------------- */

static const struct file_operations kvcache_fops = {
	.owner = THIS_MODULE,
	.open = kvcache_open,
	.release = kvcache_release,
	.unlocked_ioctl = kvcache_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = kvcache_read,
	.poll = kvcache_poll,
	.mmap = kvcache_mmap,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.get_unmapped_area = thp_get_unmapped_area,
#endif
	.show_fdinfo = kvcache_show_fdinfo,
};

static int __init make_ledger(void)
{
	struct kvl_config cfg = {
		.max_tenants = MAX_TENANTS,
		.max_clients = MAX_CLIENTS,
		.tenant_clients = TENANT_CLIENTS,
		.nr_events = NR_EVENTS,
		.seed = get_random_u64(),
	};

	kvcache.ledger = kvl_create(&cfg);
	return kvcache.ledger ? 0 : -ENOMEM;
}

static void free_ledger(void)
{
	u32 k;

	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		kvcache_pool_free(kvcache.pools[k]);
	kvl_destroy(kvcache.ledger);
}

static int __init kvcache_init(void)
{
	int err;

	INIT_WORK(&kvcache.clean, kvcache_clean_work);
	INIT_DELAYED_WORK(&kvcache.retry, kvcache_retry_work);
	INIT_DELAYED_WORK(&kvcache.tick, tick_work);
	kvcache.misc.minor = MISC_DYNAMIC_MINOR;
	kvcache.misc.name = "kvcache";
	kvcache.misc.fops = &kvcache_fops;
	kvcache.misc.mode = 0666;

	err = make_ledger();
	if (err)
		return err;
	kvcache.wq = alloc_workqueue("kvcache", WQ_UNBOUND, 0);
	if (!kvcache.wq) {
		err = -ENOMEM;
		goto ledger;
	}
	err = kvcache_fs_init();
	if (err)
		goto queue;
	err = kvcache_sysfs_init();
	if (err)
		goto fs;
	err = misc_register(&kvcache.misc);
	if (err)
		goto sysfs;
	kvcache_debugfs_init();
	return 0;
sysfs:
	kvcache_sysfs_exit();
fs:
	kvcache_fs_exit();
queue:
	destroy_workqueue(kvcache.wq);
ledger:
	free_ledger();
	return err;
}

/* Nobody has it open, maps it or has a dma-buf of it: these hold the module. */
static void __exit kvcache_exit(void)
{
	kvcache_debugfs_exit();
	misc_deregister(&kvcache.misc);
	kvcache_sysfs_exit();
	/* None of the three starts another one from here on. */
	kvcache_lock();
	kvcache.stopping = true;
	kvcache_unlock();
	cancel_work_sync(&kvcache.clean);
	cancel_delayed_work_sync(&kvcache.retry);
	cancel_delayed_work_sync(&kvcache.tick);
	destroy_workqueue(kvcache.wq);
	kvcache_fs_exit();
	free_ledger();
}

module_init(kvcache_init);
module_exit(kvcache_exit);

MODULE_DESCRIPTION("Pages for key/value caches, owned, shared and limited");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
