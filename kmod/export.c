// SPDX-License-Identifier: GPL-2.0-only
/*
 * export.c - KVCACHE_EXPORT: pages as a dma-buf.
 *
 * The ledger's pins keep the pages where they are, whatever becomes of those
 * who hold them, until the dma-buf is released.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/iosys-map.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "internal.h"

#define MAX_ENTRIES	(1U << 16)	/* of a device's table: 2 MiB */

/**
 * struct exported - what a dma-buf is of
 * @p: the pool, which stays while pages of it are pinned
 * @writable: the pages were PRIVATE
 * @lock: protects @mapped
 * @mapped: mappings of devices
 * @nr: pages
 * @i: which, in order
 */
struct exported {
	struct kvcache_pool *p;
	bool writable;
	struct mutex lock;
	struct list_head mapped;
	u32 nr;
	u32 i[];
};

/**
 * struct mapped - one mapping of a device
 * @link: in exported.mapped
 * @dev: the device
 * @dir: what it may do
 * @sync: it need not see the pages as they are: what it writes comes into them
 *        when it is synchronised
 * @table: the pages, and where the device finds them
 */
struct mapped {
	struct list_head link;
	struct device *dev;
	enum dma_data_direction dir;
	bool sync;
	struct sg_table table;
};

static u32 nr_folios(const struct exported *e)
{
	return e->nr * e->p->per_page;
}

static struct folio *nth_folio(const struct exported *e, u32 n)
{
	return kvcache_page(e->p, e->i[n / e->p->per_page])
			[n % e->p->per_page];
}

/* ---- what a dma-buf does ------------------------------------------------- */

/* Bytes that the device, or what copies for it, takes in one entry. */
static size_t max_entry(struct device *dev)
{
	size_t max = min_not_zero(dma_max_mapping_size(dev),
				  (size_t)dma_get_max_seg_size(dev));

	return max_t(size_t, ALIGN_DOWN(max, PAGE_SIZE), PAGE_SIZE);
}

static int fill_table(const struct exported *e, struct sg_table *table,
		      size_t entry)
{
	size_t folio = PAGE_SIZE << e->p->order;
	u32 n, each = DIV_ROUND_UP(folio, entry);
	struct scatterlist *sg;
	size_t at;
	int err;

	if (nr_folios(e) * each > MAX_ENTRIES)
		return -E2BIG;
	err = sg_alloc_table(table, nr_folios(e) * each, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	for_each_sgtable_sg(table, sg, n) {
		at = n % each * entry;
		sg_set_page(sg, folio_page(nth_folio(e, n / each),
					   at >> PAGE_SHIFT),
			    min(entry, folio - at), 0);
	}
	return 0;
}

static bool needs_sync(struct mapped *m)
{
	struct scatterlist *sg;
	unsigned int n;

	for_each_sgtable_dma_sg(&m->table, sg, n)
		if (kvcache_need_sync(m->dev, sg_dma_address(sg)))
			return true;
	return false;
}

static bool writes(const struct mapped *m)
{
	return m->dir != DMA_TO_DEVICE;
}

/*
 * A copy that a device had comes back as a whole: with what it wrote comes what
 * was there before, over what another device wrote. So there is one that may
 * write, unless all see the pages themselves.
 */
static int add_mapping(struct exported *e, struct mapped *m)
{
	struct mapped *other;
	int err = 0;

	mutex_lock(&e->lock);
	list_for_each_entry(other, &e->mapped, link)
		if (writes(m) && writes(other) && (m->sync || other->sync))
			err = -EBUSY;
	if (!err)
		list_add(&m->link, &e->mapped);
	mutex_unlock(&e->lock);
	return err;
}

static struct sg_table *map_dma_buf(struct dma_buf_attachment *at,
				    enum dma_data_direction dir)
{
	struct exported *e = at->dmabuf->priv;
	struct mapped *m;
	int err;

	if (!e->writable && dir != DMA_TO_DEVICE)
		return ERR_PTR(-EACCES);
	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return ERR_PTR(-ENOMEM);
	m->dev = at->dev;
	m->dir = dir;
	err = fill_table(e, &m->table, max_entry(m->dev));
	if (err)
		goto free;
	err = dma_map_sgtable(m->dev, &m->table, dir, 0);
	if (err)
		goto free_table;
	m->sync = needs_sync(m);
	err = add_mapping(e, m);
	if (err)
		goto unmap;
	return &m->table;
unmap:
	/* Its copy is older than what has been written since. */
	dma_unmap_sgtable(m->dev, &m->table, dir, DMA_ATTR_SKIP_CPU_SYNC);
free_table:
	sg_free_table(&m->table);
free:
	kfree(m);
	return ERR_PTR(err);
}

static void unmap_dma_buf(struct dma_buf_attachment *at, struct sg_table *table,
			  enum dma_data_direction dir)
{
	struct mapped *m = container_of(table, struct mapped, table);
	struct exported *e = at->dmabuf->priv;

	mutex_lock(&e->lock);
	list_del(&m->link);
	mutex_unlock(&e->lock);
	dma_unmap_sgtable(m->dev, table, m->dir, 0);
	sg_free_table(table);
	kfree(m);
}

/*
 * A device need not see memory as the CPU does: its caches, or, in a guest whose
 * memory is encrypted, a copy of it (swiotlb). Whichever way the CPU is going to
 * access the pages, what devices wrote comes first, and what is in the pages
 * afterwards is what they see.
 */
static int begin_cpu_access(struct dma_buf *buf, enum dma_data_direction dir)
{
	struct exported *e = buf->priv;
	struct mapped *m;

	mutex_lock(&e->lock);
	list_for_each_entry(m, &e->mapped, link)
		dma_sync_sgtable_for_cpu(m->dev, &m->table, m->dir);
	mutex_unlock(&e->lock);
	return 0;
}

static int end_cpu_access(struct dma_buf *buf, enum dma_data_direction dir)
{
	struct exported *e = buf->priv;
	struct mapped *m;

	mutex_lock(&e->lock);
	list_for_each_entry(m, &e->mapped, link)
		dma_sync_sgtable_for_device(m->dev, &m->table, m->dir);
	mutex_unlock(&e->lock);
	return 0;
}

static int vmap_dma_buf(struct dma_buf *buf, struct iosys_map *map)
{
	const struct exported *e = buf->priv;
	u32 n, k, nr = 0, per_folio = 1U << e->p->order;
	struct page **pages;
	void *at;

	pages = kvmalloc_array(nr_folios(e), sizeof(*pages) * per_folio,
			       GFP_KERNEL_ACCOUNT);
	if (!pages)
		return -ENOMEM;
	for (n = 0; n < nr_folios(e); n++)
		for (k = 0; k < per_folio; k++)
			pages[nr++] = folio_page(nth_folio(e, n), k);
	at = vmap(pages, nr, VM_MAP, PAGE_KERNEL);
	kvfree(pages);
	if (!at)
		return -ENOMEM;
	iosys_map_set_vaddr(map, at);
	return 0;
}

static void vunmap_dma_buf(struct dma_buf *buf, struct iosys_map *map)
{
	vunmap(map->vaddr);
}

static vm_fault_t exported_fault(struct vm_fault *vmf)
{
	const struct exported *e = vmf->vma->vm_private_data;
	u64 n = vmf->pgoff >> e->p->order;
	struct folio *folio;
	struct page *page;
	vm_fault_t rc;

	if (n >= nr_folios(e))
		return VM_FAULT_SIGBUS;
	folio = nth_folio(e, n);
	page = folio_page(folio, vmf->pgoff & (folio_nr_pages(folio) - 1));
	if (unlikely(PageHWPoison(page))) {
		kvcache_lock();
		rc = kvcache_lose_page(e->p->id, e->i[n / e->p->per_page]);
		kvcache_unlock();
		return rc;
	}
	folio_get(folio);
	vmf->page = page;
	return 0;
}

static const struct vm_operations_struct exported_vm_ops = {
	.fault = exported_fault,
};

static int mmap_dma_buf(struct dma_buf *buf, struct vm_area_struct *vma)
{
	const struct exported *e = buf->priv;

	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (!e->writable) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vm_flags_clear(vma, VM_MAYEXEC);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = (void *)e;
	vma->vm_ops = &exported_vm_ops;
	return 0;
}

/* Lock held, for the first @nr pages. */
static void unpin(const struct exported *e, u32 nr)
{
	u32 k;

	kvcache_assert_locked();
	for (k = 0; k < nr; k++)
		kvl_unpin(kvcache.ledger, e->p->id, e->i[k], kvcache_now());
}

static void release_dma_buf(struct dma_buf *buf)
{
	struct exported *e = buf->priv;

	kvcache_lock();
	unpin(e, e->nr);
	kvcache_unlock();
	kfree(e);
}

#define EXPORTED_OPS							\
	.map_dma_buf = map_dma_buf,					\
	.unmap_dma_buf = unmap_dma_buf,					\
	.begin_cpu_access = begin_cpu_access,				\
	.end_cpu_access = end_cpu_access,				\
	.mmap = mmap_dma_buf,						\
	.release = release_dma_buf

static const struct dma_buf_ops writable_ops = {
	EXPORTED_OPS,
	.vmap = vmap_dma_buf,
	.vunmap = vunmap_dma_buf,
};

/* A vmap() that refuses is a warning of the kernel: there is none. */
static const struct dma_buf_ops read_only_ops = {
	EXPORTED_OPS,
};

/* ---- making one ---------------------------------------------------------- */

/* The page, pinned; PRIVATE ones are writable and may be written from now on. */
static int pin_page(struct kvcache_client *c, struct exported *e, u32 pool,
		    u64 handle)
{
	u32 i = kvl_index(handle);
	int err = kvl_pin(kvcache.ledger, c->cmd.client, pool, handle);
	struct kvcache_page_info page;
	bool writable;

	kvcache_assert_locked();
	if (err)
		return err;
	writable = !kvl_page_access(kvcache.ledger, c->cmd.client, pool, i,
				    true);
	if (!e->nr)
		e->writable = writable;
	e->i[e->nr++] = i;
	/* What is held through a grant is bounded; an export is not. */
	if (kvl_page_info(kvcache.ledger, pool, 0, i, kvcache_now(), &page) ||
	    page.tenant != kvl_client_tenant(c->cmd.client))
		return -EPERM;
	if (writable != e->writable)
		return -EINVAL;
	if (writable)
		set_bit(i, e->p->dirty);
	return 0;
}

static int pin_pages(struct kvcache_client *c, struct exported *e,
		     const struct kvcache_export *a)
{
	u32 k;
	int err = 0;

	kvcache_assert_locked();
	err = kvcache_client_check(c);
	if (err)
		return err;
	if (a->pool >= KVCACHE_MAX_POOLS)
		return -ENOENT;
	e->p = kvcache.pools[array_index_nospec(a->pool, KVCACHE_MAX_POOLS)];
	if (!e->p)
		return -ENOENT;
	for (k = 0; !err && k < a->nr; k++)
		err = pin_page(c, e, a->pool, a->pages[k]);
	if (err)
		unpin(e, e->nr);
	return err;
}

int kvcache_export(struct kvcache_client *c, struct kvcache_export *a,
		   struct file **out)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	int fd_flags = a->flags & KVCACHE_FD_CLOEXEC ? O_CLOEXEC : 0;
	struct exported *e;
	struct dma_buf *buf;
	int err, fd;

	/* As of all commands, before what it is given is looked at. */
	if (!kvcache_attached(c))
		return -ENOTCONN;
	if (!a->nr || a->nr > KVCACHE_MAX_PAGES)
		return -EINVAL;
	e = kzalloc(struct_size(e, i, a->nr), GFP_KERNEL_ACCOUNT);
	if (!e)
		return -ENOMEM;
	mutex_init(&e->lock);
	INIT_LIST_HEAD(&e->mapped);
	kvcache_lock();
	err = pin_pages(c, e, a);
	kvcache_unlock();
	if (err) {
		kfree(e);
		return err;
	}
	info.ops = e->writable ? &writable_ops : &read_only_ops;
	info.size = (size_t)e->nr << e->p->page_shift;
	info.flags = fd_flags | (e->writable ? O_RDWR : O_RDONLY);
	info.priv = e;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		kvcache_lock();
		unpin(e, e->nr);
		kvcache_unlock();
		kfree(e);
		return PTR_ERR(buf);
	}
	fd = get_unused_fd_flags(fd_flags);
	if (fd < 0) {
		dma_buf_put(buf);
		return fd;
	}
	a->out_fd = fd;
	*out = buf->file;
	return 0;
}

MODULE_IMPORT_NS(DMA_BUF);
