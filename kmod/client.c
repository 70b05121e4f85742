// SPDX-License-Identifier: GPL-2.0-only
/*
 * client.c - opens of the device and the processes that own them.
 *
 * A client lives as long as its owner's memory: when that ends, by exit, kill
 * or exec, all that the client holds is given back before the owner's parent
 * can know, although others may still have the file open.
 */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/poll.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "trace.h"

#define REAP_BUDGET	256
#define READ_EVENTS	16	/* at a time */

static struct vfsmount *kvcache_mnt;

/* ---- inodes to hang mappings on ----------------------------------------- */

static int init_fs_context(struct fs_context *fc)
{
	return init_pseudo(fc, 0x6b766361) ? 0 : -ENOMEM;
}

/* No owner: the mount is the module's own, and must not keep it from unloading. */
static struct file_system_type kvcache_fs = {
	.name = "kvcache",
	.init_fs_context = init_fs_context,
	.kill_sb = kill_anon_super,
};

int kvcache_fs_init(void)
{
	kvcache_mnt = kern_mount(&kvcache_fs);
	return PTR_ERR_OR_ZERO(kvcache_mnt);
}

void kvcache_fs_exit(void)
{
	kern_unmount(kvcache_mnt);
}

/* ---- open and close ------------------------------------------------------ */

/*
 * What may have mappings. Not every open: those are bounded by what their
 * opener may have open only, and each page that is unmapped walks the list.
 */
static void link_client(struct kvcache_client *c)
{
	down_write(&kvcache.clients_sem);
	list_add_tail(&c->link, &kvcache.clients);
	up_write(&kvcache.clients_sem);
}

static void unlink_client(struct kvcache_client *c)
{
	down_write(&kvcache.clients_sem);
	list_del_init(&c->link);
	up_write(&kvcache.clients_sem);
}

int kvcache_open(struct inode *inode, struct file *file)
{
	struct kvcache_client *c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);

	if (!c)
		return -ENOMEM;
	c->inode = alloc_anon_inode(kvcache_mnt->mnt_sb);
	if (IS_ERR(c->inode)) {
		int err = PTR_ERR(c->inode);

		kfree(c);
		return err;
	}
	i_size_write(c->inode, KVCACHE_WINDOWS * KVCACHE_WINDOW_SIZE);
	mutex_init(&c->attach);
	c->cmd.ops = &kvcache_cmd_ops;
	c->cmd.ledger = kvcache.ledger;
	c->cmd.features = KVCACHE_FEAT_MMAP | KVCACHE_FEAT_ENFORCED |
			  KVCACHE_FEAT_EXPORT | KVCACHE_FEAT_EVENTS;
	c->cmd.headroom = 4;
	c->cmd.min_page_size = KVCACHE_PAGE_SIZE_MIN;
	INIT_LIST_HEAD(&c->link);
	file->private_data = c;
	file->f_mapping = c->inode->i_mapping;
	return 0;
}

/*
 * What it holds goes back; its calls fail from now on. Nothing maps its pages
 * any more when the ledger gives them up, so that clean ones are free at once.
 */
static void end_client(struct kvcache_client *c)
{
	u64 pages = 0;
	u32 nr;

	kvcache_lock();
	if (!c->cmd.client || c->dead) {
		kvcache_unlock();
		return;
	}
	/* Pairs with kvcache_client_check(), where there is no lock. */
	WRITE_ONCE(c->dead, 1);
	kvl_client_kill(kvcache.ledger, c->cmd.client);
	kvcache_unlock();
	kvcache_zap_client(c);
	do {
		kvcache_lock();
		nr = kvl_client_reap(kvcache.ledger, c->cmd.client, REAP_BUDGET,
				     kvcache_now());
		kvcache_unlock();
		pages += nr;
		cond_resched();
	} while (nr == REAP_BUDGET);
	trace_kvcache_end(kvl_client_id(c->cmd.client), pages);
	wake_up_all(&kvcache.events);
}

static void owner_ends(struct mmu_notifier *mn, struct mm_struct *mm)
{
	end_client(container_of(mn, struct kvcache_client, mn));
}

static const struct mmu_notifier_ops owner_ops = {
	.release = owner_ends,
};

int kvcache_release(struct inode *inode, struct file *file)
{
	struct kvcache_client *c = file->private_data;
	struct kvl_client *k;

	end_client(c);
	if (c->mm)
		mmu_notifier_unregister(&c->mn, c->mm);
	unlink_client(c);
	k = c->cmd.client;
	if (k) {
		kvcache_lock();
		WARN_ON_ONCE(kvl_client_detach(kvcache.ledger, k));
		kvcache_unlock();
		kvl_client_free(k);
	}
	put_pid(c->pid);
	iput(c->inode);
	kfree(c);
	return 0;
}

/* ---- who may call -------------------------------------------------------- */

int kvcache_client_check(const struct kvcache_client *c)
{
	/* Pairs with attach_locked(): who sees @mm sees all that came before. */
	const struct mm_struct *mm = smp_load_acquire(&c->mm);

	if (!mm)
		return 0;
	if (READ_ONCE(c->dead))
		return -EOWNERDEAD;
	return current->mm == mm ? 0 : -EPERM;
}

static int attach_locked(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	int err;

	kvcache_assert_locked();
	err = kvl_cmd_run(&c->cmd, f, kvcache_now());
	if (err)
		return err;
	c->pid = get_pid(task_tgid(current));
	get_task_comm(c->comm, current->group_leader);
	kvl_client_set_owner(c->cmd.client, c);
	/* Pairs with kvcache_client_check() and kvcache_attached(). */
	smp_store_release(&c->mm, current->mm);
	return 0;
}

int kvcache_client_attach(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	int err;

	/* Whoever holds the lock then may be waiting for memory of its own. */
	if (kvcache_attached(c))
		return -EALREADY;
	if (mutex_lock_killable(&c->attach))
		return -EINTR;
	if (c->mm) {
		mutex_unlock(&c->attach);
		return -EALREADY;
	}
	c->mn.ops = &owner_ops;
	err = mmu_notifier_register(&c->mn, current->mm);
	if (!err) {
		link_client(c);
		kvcache_lock();
		err = attach_locked(c, f);
		kvcache_unlock();
		/* Nothing is attached: nothing ends. */
		if (err) {
			unlink_client(c);
			mmu_notifier_unregister(&c->mn, current->mm);
		}
	}
	mutex_unlock(&c->attach);
	return err;
}

/* ---- events -------------------------------------------------------------- */

/* Their number; -EOWNERDEAD and the like. */
static int take_events(struct kvcache_client *c, struct kvcache_event *ev,
		       u32 nr)
{
	int rc;

	mutex_lock(&kvcache.lock);
	rc = kvcache_client_check(c);
	if (!rc)
		rc = !c->cmd.client ? -ENOTCONN :
		     kvl_events(kvcache.ledger, c->cmd.client, ev, nr);
	mutex_unlock(&kvcache.lock);
	return rc;
}

/*
 * One reader at a time, so that what it cannot take can be put back. It may wait
 * for its memory for ever (FUSE, userfaultfd).
 */
static ssize_t read_events(struct kvcache_client *c, char __user *buf,
			   struct kvcache_event *ev, u32 nr, bool nowait)
{
	ssize_t rc;

	if (nowait && !mutex_trylock(&c->attach))
		return -EAGAIN;
	if (!nowait && mutex_lock_interruptible(&c->attach))
		return -ERESTARTSYS;
	rc = take_events(c, ev, nr);
	if (rc > 0 && copy_to_user(buf, ev, rc * sizeof(*ev))) {
		mutex_lock(&kvcache.lock);
		kvl_events_return(c->cmd.client, ev, rc);
		mutex_unlock(&kvcache.lock);
		rc = -EFAULT;
	}
	mutex_unlock(&c->attach);
	return rc > 0 ? rc * sizeof(*ev) : rc;
}

static bool events_pending(struct kvcache_client *c)
{
	bool any;

	mutex_lock(&kvcache.lock);
	any = c->dead || kvl_events_pending(kvcache.ledger, c->cmd.client);
	mutex_unlock(&kvcache.lock);
	return any;
}

ssize_t kvcache_read(struct file *file, char __user *buf, size_t len,
		     loff_t *pos)
{
	struct kvcache_client *c = file->private_data;
	u32 want = min_t(size_t, len / sizeof(struct kvcache_event),
			 READ_EVENTS);
	bool nowait = file->f_flags & O_NONBLOCK;
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct kvcache_event *ev;
	ssize_t rc;

	if (!want)
		return -EINVAL;
	ev = kcalloc(want, sizeof(*ev), GFP_KERNEL_ACCOUNT);
	if (!ev)
		return -ENOMEM;
	add_wait_queue(&kvcache.events, &wait);
	while (!(rc = read_events(c, buf, ev, want, nowait))) {
		rc = nowait ? -EAGAIN :
		     signal_pending(current) ? -ERESTARTSYS : 0;
		if (rc)
			break;
		wait_woken(&wait, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
	}
	remove_wait_queue(&kvcache.events, &wait);
	kfree(ev);
	return rc;
}

__poll_t kvcache_poll(struct file *file, struct poll_table_struct *wait)
{
	struct kvcache_client *c = file->private_data;

	poll_wait(file, &kvcache.events, wait);
	if (take_events(c, NULL, 0))
		return EPOLLERR | EPOLLHUP;
	return events_pending(c) ? EPOLLIN | EPOLLRDNORM : 0;
}
