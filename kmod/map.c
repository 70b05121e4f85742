// SPDX-License-Identifier: GPL-2.0-only
/*
 * map.c - mappings: who may see a page is asked when it is touched.
 *
 * A mapping is of a client's own inode, so that one client's can be removed
 * without the others'. A fault holds the folio's lock from the question to the
 * mapping; whoever ends an access changes the ledger first and then removes
 * what is mapped.
 */
#include <linux/nospec.h>
#include <linux/pagemap.h>

#include "compat.h"
#include "internal.h"

/* Where a mapping's offset points. */
struct where {
	u32 pool;
	bool write;
	u64 offset;
};

static bool find_window(u64 offset, struct where *w)
{
	u64 window = offset >> KVCACHE_WINDOW_SHIFT;

	if (window >= KVCACHE_WINDOWS)
		return false;
	window = array_index_nospec(window, KVCACHE_WINDOWS);
	w->pool = window / 2;
	w->write = !(window & 1);
	w->offset = offset & (KVCACHE_WINDOW_SIZE - 1);
	return true;
}

/*
 * The page at this place: its pool stays as long as the caller reads under
 * kvcache_srcu, and so do the folios.
 */
static struct kvcache_pool *find_page(const struct where *w, u32 *index)
{
	struct kvcache_pool *p = kvcache.pools[w->pool];
	u64 nr, i;

	kvcache_assert_locked();
	if (!p)
		return NULL;
	nr = (u64)p->nr_pages + 1;
	i = w->offset >> p->page_shift;
	if (i >= nr)
		return NULL;
	*index = array_index_nospec(i, nr);
	return p;
}

static struct folio *find_folio(const struct where *w)
{
	struct kvcache_pool *p;
	u32 i;

	kvcache_assert_locked();
	p = find_page(w, &i);
	return p ? p->folio[w->offset >> (PAGE_SHIFT + p->order)] : NULL;
}

/* Asked again once the folio is locked: the page may have changed hands. */
static bool may_map(const struct kvcache_client *c, const struct where *w)
{
	struct kvcache_pool *p;
	u32 i;

	kvcache_assert_locked();
	p = find_page(w, &i);
	if (!p || c->dead)
		return false;
	if (!i)
		return !w->write;
	if (kvl_page_access(kvcache.ledger, c->cmd.client, w->pool, i,
			    w->write))
		return false;
	if (w->write)
		set_bit(i, p->dirty);
	return true;
}

/* The folio, locked and with a reference for the mapping to be; or NULL. */
static struct folio *claim_folio(const struct kvcache_client *c,
				 const struct where *w)
{
	struct folio *folio;
	bool ok;

	mutex_lock(&kvcache.lock);
	folio = find_folio(w);
	mutex_unlock(&kvcache.lock);
	if (!folio)
		return NULL;
	folio_lock(folio);
	mutex_lock(&kvcache.lock);
	ok = find_folio(w) == folio && may_map(c, w);
	/* From here on whoever ends the access sees that it is mapped. */
	if (ok)
		folio_get(folio);
	mutex_unlock(&kvcache.lock);
	if (ok)
		return folio;
	folio_unlock(folio);
	return NULL;
}

/* Whoever else holds it is told, and loses its mappings with the next tick. */
vm_fault_t kvcache_lose_page(u32 pool, u32 i)
{
	kvcache_assert_locked();
	kvl_page_lost(kvcache.ledger, pool, i, kvcache_now());
	kvcache.tick_soon = true;
	return VM_FAULT_HWPOISON;
}

/* The number may be another pool's by now, whose page is sound. */
static vm_fault_t lose_folio(const struct where *w, const struct folio *folio)
{
	u32 i;

	kvcache_lock();
	if (find_page(w, &i) && find_folio(w) == folio)
		kvcache_lose_page(w->pool, i);
	kvcache_unlock();
	return VM_FAULT_HWPOISON;
}

/* Reads kvcache_srcu: no other folio has the address of one that it found. */
static vm_fault_t map_folio(struct vm_fault *vmf, const struct where *w)
{
	struct kvcache_client *c = vmf->vma->vm_file->private_data;
	struct folio *folio = claim_folio(c, w);
	struct page *page;

	if (!folio)
		return VM_FAULT_SIGBUS;
	page = folio_page(folio, (w->offset >> PAGE_SHIFT) &
			  (folio_nr_pages(folio) - 1));
	if (likely(!PageHWPoison(page))) {
		vmf->page = page;
		return VM_FAULT_LOCKED;
	}
	folio_unlock(folio);
	folio_put(folio);
	return lose_folio(w, folio);
}

static vm_fault_t kvcache_fault(struct vm_fault *vmf)
{
	struct kvcache_client *c = vmf->vma->vm_file->private_data;
	struct where w;
	vm_fault_t rc;
	int idx;

	if (!find_window((u64)vmf->pgoff << PAGE_SHIFT, &w))
		return VM_FAULT_SIGBUS;
	/* Who forks can hand the mapping on (MADV_DOFORK), not what it shows. */
	if (vmf->vma->vm_mm != READ_ONCE(c->mm))
		return VM_FAULT_SIGBUS;
	idx = srcu_read_lock(&kvcache_srcu);
	rc = map_folio(vmf, &w);
	srcu_read_unlock(&kvcache_srcu, idx);
	return rc;
}

static const struct vm_operations_struct kvcache_vm_ops = {
	.fault = kvcache_fault,
};

int kvcache_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct kvcache_client *c = file->private_data;
	u64 start = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 len = vma->vm_end - vma->vm_start;
	struct where w;
	int err = kvcache_client_check(c);

	if (err)
		return err;
	if (!READ_ONCE(c->mm))
		return -ENOTCONN;
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (!find_window(start, &w) || w.offset + len > KVCACHE_WINDOW_SIZE)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	if (!w.write && (vma->vm_flags & VM_WRITE))
		return -EPERM;
	/* Before a fault can lock a folio, so that zap_window() sees it. */
	set_bit(start >> KVCACHE_WINDOW_SHIFT, c->windows);
	vm_flags_clear(vma, w.write ? VM_MAYEXEC : VM_MAYEXEC | VM_MAYWRITE);
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &kvcache_vm_ops;
	return 0;
}

/* ---- removing ------------------------------------------------------------ */

/*
 * Most clients never map most pools. Whether a window has mappings now cannot be
 * asked without the lock that unmapping takes: one that is being split is not
 * in the tree for a moment.
 */
static void zap_window(struct kvcache_client *c, u32 window, loff_t at,
		       loff_t len)
{
	if (test_bit(window, c->windows))
		unmap_mapping_range(c->inode->i_mapping,
				    ((loff_t)window << KVCACHE_WINDOW_SHIFT) +
				    at, len, 1);
}

void kvcache_zap(struct kvcache_client *c, const struct kvcache_pool *p, u32 i,
		 u32 nr, bool read_only_too)
{
	loff_t at = (loff_t)i << p->page_shift;
	loff_t len = (loff_t)nr << p->page_shift;

	zap_window(c, 2 * p->id, at, len);
	if (read_only_too)
		zap_window(c, 2 * p->id + 1, at, len);
}

void kvcache_zap_everywhere(const struct kvcache_pool *p, u32 i)
{
	struct kvcache_client *c;

	down_read(&kvcache.clients_sem);
	list_for_each_entry(c, &kvcache.clients, link)
		kvcache_zap(c, p, i, 1, true);
	up_read(&kvcache.clients_sem);
}

void kvcache_zap_client(struct kvcache_client *c)
{
	unmap_mapping_range(c->inode->i_mapping, 0, 0, 1);
}

void kvcache_zap_clients(void)
{
	struct kvcache_client *c;

	down_read(&kvcache.clients_sem);
	list_for_each_entry(c, &kvcache.clients, link)
		kvcache_zap_client(c);
	up_read(&kvcache.clients_sem);
}
