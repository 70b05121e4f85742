/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * internal.h - the module around the ledger: one device, its opens, its memory.
 *
 * Documentation/driver-api/locking.rst has the order of the locks and why.
 */
#ifndef KVCACHE_INTERNAL_H
#define KVCACHE_INTERNAL_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/srcu.h>
#include <linux/timekeeping.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "cmd.h"

/*
 * Offsets of mmap(): two windows a pool, writable and read-only, each with page
 * i at i x page size.
 */
#define KVCACHE_WINDOW_SHIFT	44
#define KVCACHE_WINDOW_SIZE	(1ULL << KVCACHE_WINDOW_SHIFT)
#define KVCACHE_WINDOWS		(2 * KVCACHE_MAX_POOLS)

/* Pages in a list of a pool, by their numbers; 0 ends it. */
struct kvcache_fifo {
	u32 first;
	u32 last;
};

/**
 * struct kvcache_pool - memory of one pool
 * @id: its number, if it is @known
 * @known: the ledger has it, or had
 * @page_shift: log2 of the page size
 * @order: of a folio: a page, or 2 MiB if that is less
 * @per_page: folios of a page
 * @capacity: pages that there is room for in the arrays
 * @nr_pages: pages with memory, page 0 not counted
 * @folio: per page, @per_page of them; page 0 is the null page
 * @dirty: per page, whether it may hold anything but zeros
 * @next: per page, in @work or @stuck
 * @work: pages to be cleaned
 * @stuck: pages that were in use when they were to be cleaned
 */
struct kvcache_pool {
	u32 id;
	bool known;
	unsigned int page_shift;
	unsigned int order;
	u32 per_page;
	u32 capacity;
	u32 nr_pages;
	struct folio **folio;
	unsigned long *dirty;
	u32 *next;
	struct kvcache_fifo work;
	struct kvcache_fifo stuck;
};

/**
 * struct kvcache_client - one open of the device
 * @cmd: the ledger's side; @cmd.client is set by KVCACHE_ATTACH, for good
 * @inode: what its mappings are mappings of
 * @link: in kvcache_device.clients, once attached
 * @attach: one KVCACHE_ATTACH, or read() of events, at a time
 * @windows: those which it ever had a mapping of
 * @mm: the owner's memory, once attached; compared, never used
 * @mn: tells when @mm ends; holds @mm's struct
 * @dead: the owner has ended; no bool, for where UBSAN checks the value of
 *        one, READ_ONCE() is a plain read to KCSAN
 * @pid: the owner
 * @comm: its name
 */
struct kvcache_client {
	struct kvl_cmd cmd;
	struct inode *inode;
	struct list_head link;
	struct mutex attach;
	DECLARE_BITMAP(windows, KVCACHE_WINDOWS);
	struct mm_struct *mm;
	struct mmu_notifier mn;
	int dead;
	struct pid *pid;
	char comm[TASK_COMM_LEN];
};

/* A request for pages and how to know what became of it. */
struct kvcache_wait {
	struct kvl_request request;
	struct completion done;
};

/**
 * struct kvcache_device - the one device
 * @admin: one change of pools or tenants at a time, with their sysfs folders
 * @clients_sem: protects @clients
 * @clients: opens that are attached
 * @lock: the ledger's: @ledger, @pools, and what is in a pool but @folio of
 *        pages that somebody holds
 * @ledger: the ledger
 * @pools: memory of its pools
 * @events: who waits for events
 * @posted: the ledger's count of events when @events was woken last
 * @turn: pool of which a page was cleaned last
 * @wq: for the next three
 * @clean: unmaps and zeroes pages
 * @retry: looks at stuck pages again
 * @tick: calls kvl_tick()
 * @tick_at: when it will
 * @tick_soon: a page was lost: at once
 * @stopping: no work is begun any more
 * @misc: /dev/kvcache
 */
struct kvcache_device {
	struct mutex admin;
	struct rw_semaphore clients_sem;
	struct list_head clients;
	struct mutex lock;
	struct kvl *ledger;
	struct kvcache_pool *pools[KVCACHE_MAX_POOLS];
	wait_queue_head_t events;
	u64 posted;
	u32 turn;
	struct workqueue_struct *wq;
	struct work_struct clean;
	struct delayed_work retry;
	struct delayed_work tick;
	u64 tick_at;
	bool tick_soon;
	bool stopping;
	struct miscdevice misc;
};

extern struct kvcache_device kvcache;
/* Read: a pool found under the lock, and its folios, stay. */
extern struct srcu_struct kvcache_srcu;

static inline u64 kvcache_now(void)
{
	return ktime_get_ns();
}

/*
 * main.c: the lock of the ledger. What a change brought about is dealt with
 * when it is released.
 */
void kvcache_lock(void);
void kvcache_unlock(void);

static inline void kvcache_assert_locked(void)
{
	lockdep_assert_held(&kvcache.lock);
}

/* The ledger's side of it, which stays once it is there: needs no lock. */
static inline struct kvl_client *kvcache_attached(const struct kvcache_client *c)
{
	/* Pairs with attach_locked(). */
	return smp_load_acquire(&c->mm) ? c->cmd.client : NULL;
}

/* client.c: opens and their owners */
int kvcache_open(struct inode *inode, struct file *file);
int kvcache_release(struct inode *inode, struct file *file);
/* May the calling process use this open: 0, -EOWNERDEAD, -EPERM. */
int kvcache_client_check(const struct kvcache_client *c);
/* KVCACHE_ATTACH: from kvl_cmd_begin() on. */
int kvcache_client_attach(struct kvcache_client *c, struct kvl_cmd_frame *f);
ssize_t kvcache_read(struct file *file, char __user *buf, size_t len,
		     loff_t *pos);
__poll_t kvcache_poll(struct file *file, struct poll_table_struct *wait);
int kvcache_fs_init(void);
void kvcache_fs_exit(void);

/* call.c: commands */
/* kvl_cmd_run() to its end: 0, -errno or KVL_WAITING. */
int kvcache_run(struct kvcache_client *c, struct kvl_cmd_frame *f);
/* Lock held: once. */
int kvcache_run_locked(struct kvcache_client *c, struct kvl_cmd_frame *f);
/* PRIVATE pages, not waiting for others to give some up. */
int kvcache_get_pages(struct kvcache_client *c, u32 pool, u32 nr, u64 *pages);
extern const struct kvl_cmd_ops kvcache_cmd_ops;
long kvcache_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
/* Both capabilities that changing tenants and pools wants. */
bool kvcache_privileged(struct file *file);

/* pool.c: memory */
int kvcache_pool_alloc(u64 page_size, u32 nr_pages, u32 capacity,
		       struct kvcache_pool **out);
void kvcache_pool_free(struct kvcache_pool *p);
int kvcache_pool_grow(struct kvcache_pool *p, u64 nr_pages);
void kvcache_pool_shrink(struct kvcache_pool *p, u64 nr_pages);

static inline struct folio **kvcache_page(const struct kvcache_pool *p, u32 i)
{
	return p->folio + (size_t)i * p->per_page;
}

/* Does anybody but the pool hold a part of the page? */
bool kvcache_page_used(const struct kvcache_pool *p, u32 i);
/* The same, but references that go away by themselves may do so first. */
bool kvcache_page_pinned(const struct kvcache_pool *p, u32 i);
/* Nobody maps it meanwhile. Of several pages the lowest first. */
void kvcache_page_lock(const struct kvcache_pool *p, u32 i);
void kvcache_page_unlock(const struct kvcache_pool *p, u32 i);
void kvcache_page_copy(const struct kvcache_pool *p, u32 to, u32 from);
/* Lock held. New work of the ledger: done if it is nothing, or queued. */
void kvcache_pool_sort(struct kvcache_pool *p, u64 now);
/* Cleans one page of the pool; false: there was none. */
bool kvcache_clean_one(u32 pool);
/* Of the pool whose turn it is. */
bool kvcache_clean_any(void);
void kvcache_clean_work(struct work_struct *w);
void kvcache_retry_work(struct work_struct *w);

/* map.c: mappings */
int kvcache_mmap(struct file *file, struct vm_area_struct *vma);
/* Lock held. A fault that found the page's memory broken: what it returns. */
vm_fault_t kvcache_lose_page(u32 pool, u32 i);
/* Unmaps @nr pages from @i on, from the windows wanted, of one client or all. */
void kvcache_zap(struct kvcache_client *c, const struct kvcache_pool *p, u32 i,
		 u32 nr, bool read_only_too);
void kvcache_zap_everywhere(const struct kvcache_pool *p, u32 i);
/* All mappings of a client, or of all of them. */
void kvcache_zap_client(struct kvcache_client *c);
void kvcache_zap_clients(void);

/* publish.c: KVCACHE_PUBLISH, for pages that nobody can write any more */
int kvcache_publish(struct kvcache_client *c, struct kvl_cmd_frame *f);

/* export.c: KVCACHE_EXPORT: a reserved descriptor, and the file to be there. */
int kvcache_export(struct kvcache_client *c, struct kvcache_export *a,
		   struct file **out);

/* sysfs.c */
int kvcache_sysfs_init(void);
void kvcache_sysfs_exit(void);
/* @admin held. */
int kvcache_sysfs_add_pool(u32 id, const char *name);
void kvcache_sysfs_del_pool(u32 id);
int kvcache_sysfs_add_tenant(u32 id, const char *name, u32 gid);
int kvcache_sysfs_chown_tenant(u32 id, u32 gid);
void kvcache_sysfs_del_tenant(u32 id);
void kvcache_show_fdinfo(struct seq_file *m, struct file *file);
void kvcache_debugfs_init(void);
void kvcache_debugfs_exit(void);

#endif /* KVCACHE_INTERNAL_H */
