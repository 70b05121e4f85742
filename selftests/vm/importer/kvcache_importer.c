// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * kvcache_importer.c - a device that imports dma-bufs, for tests: what drivers
 * do with them is done at a program's word.
 *
 * The kernels that the tests run in have no driver that could. It is loaded in
 * virtual machines only, and trusts its caller, who makes one call at a time.
 * There the address of a device is that of memory, be it the pages' or that
 * which the kernel copies them to.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "kvcache_importer.h"

/* Until 6.2 the caller held no lock for these. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define dma_buf_vmap_unlocked	dma_buf_vmap
#define dma_buf_vunmap_unlocked	dma_buf_vunmap
#endif

/* One open. */
struct importer {
	struct platform_device *dev;
	struct dma_buf *buf;		/* NULL: none yet */
	struct dma_buf_attachment *at;
	struct sg_table *table[IMPORTER_MAPPINGS];
	enum dma_data_direction dir[IMPORTER_MAPPINGS];
	struct iosys_map map;		/* the kernel's */
};

static long import(struct importer *m, void __user *arg)
{
	struct importer_import a;
	struct dma_buf *buf;

	if (copy_from_user(&a, arg, sizeof(a)))
		return -EFAULT;
	if (m->buf)
		return -EBUSY;
	buf = dma_buf_get(a.fd);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	dma_set_max_seg_size(&m->dev->dev, a.max_seg);
	m->at = dma_buf_attach(buf, &m->dev->dev);
	if (IS_ERR(m->at)) {
		dma_buf_put(buf);
		return PTR_ERR(m->at);
	}
	m->buf = buf;
	return 0;
}

static void describe(struct sg_table *table, struct importer_map *a)
{
	dma_addr_t end = 0;
	struct scatterlist *sg;
	unsigned int n;

	for_each_sgtable_dma_sg(table, sg, n) {
		a->out_nr++;
		a->out_total += sg_dma_len(sg);
		a->out_longest = max(a->out_longest, sg_dma_len(sg));
		a->out_bounced += sg_dma_address(sg) != sg_phys(sg);
		a->out_broken += n && sg_dma_address(sg) != end;
		end = sg_dma_address(sg) + sg_dma_len(sg);
	}
}

static long map(struct importer *m, void __user *arg)
{
	struct sg_table *table;
	struct importer_map a;
	u32 id = 0;

	if (copy_from_user(&a, arg, sizeof(a)))
		return -EFAULT;
	while (id < IMPORTER_MAPPINGS && m->table[id])
		id++;
	if (!m->buf || a.dir > DMA_FROM_DEVICE || id == IMPORTER_MAPPINGS)
		return -EINVAL;
	table = dma_buf_map_attachment_unlocked(m->at, a.dir);
	if (IS_ERR(table))
		return PTR_ERR(table);
	m->table[id] = table;
	m->dir[id] = a.dir;
	a = (struct importer_map){ .dir = a.dir, .out_id = id };
	describe(table, &a);
	return copy_to_user(arg, &a, sizeof(a)) ? -EFAULT : 0;
}

static long unmap(struct importer *m, unsigned long id)
{
	if (id >= IMPORTER_MAPPINGS || !m->table[id])
		return -EINVAL;
	dma_buf_unmap_attachment_unlocked(m->at, m->table[id], m->dir[id]);
	m->table[id] = NULL;
	return 0;
}

static long map_kernel(struct importer *m)
{
	if (!m->buf || iosys_map_is_set(&m->map))
		return -EINVAL;
	return dma_buf_vmap_unlocked(m->buf, &m->map);
}

static long unmap_kernel(struct importer *m)
{
	if (!iosys_map_is_set(&m->map))
		return -EINVAL;
	dma_buf_vunmap_unlocked(m->buf, &m->map);
	iosys_map_clear(&m->map);
	return 0;
}

/* Moves what there is in one piece from @at on; bytes or -EFAULT. */
static long move(void *at, size_t have, const struct importer_access *a)
{
	void __user *data = u64_to_user_ptr(a->data);
	size_t n = min_t(u64, have, a->len);

	if (a->write ? copy_from_user(at, data, n) : copy_to_user(data, at, n))
		return -EFAULT;
	return n;
}

static long access(struct importer *m, void __user *arg)
{
	struct importer_access a;
	struct scatterlist *sg;
	unsigned int n;
	long rc;

	if (copy_from_user(&a, arg, sizeof(a)))
		return -EFAULT;
	if (a.id == IMPORTER_VMAP) {
		if (!iosys_map_is_set(&m->map) || a.offset > m->buf->size)
			return -EINVAL;
		rc = move(m->map.vaddr + a.offset, m->buf->size - a.offset, &a);
		return rc == a.len ? 0 : -EFAULT;
	}
	if (a.id >= IMPORTER_MAPPINGS || !m->table[a.id])
		return -EINVAL;
	for_each_sgtable_dma_sg(m->table[a.id], sg, n) {
		if (a.offset >= sg_dma_len(sg)) {
			a.offset -= sg_dma_len(sg);
			continue;
		}
		rc = move(phys_to_virt(sg_dma_address(sg)) + a.offset,
			  sg_dma_len(sg) - a.offset, &a);
		if (rc < 0)
			return rc;
		a.offset = 0;
		a.data += rc;
		a.len -= rc;
		if (!a.len)
			return 0;
	}
	return -EINVAL;
}

static long importer_ioctl(struct file *file, unsigned int cmd,
			   unsigned long arg)
{
	struct importer *m = file->private_data;

	switch (cmd) {
	case IMPORTER_IMPORT:
		return import(m, (void __user *)arg);
	case IMPORTER_MAP:
		return map(m, (void __user *)arg);
	case IMPORTER_UNMAP:
		return unmap(m, arg);
	case IMPORTER_MAP_KERNEL:
		return map_kernel(m);
	case IMPORTER_UNMAP_KERNEL:
		return unmap_kernel(m);
	case IMPORTER_ACCESS:
		return access(m, (void __user *)arg);
	}
	return -ENOTTY;
}

static int importer_open(struct inode *inode, struct file *file)
{
	struct importer *m = kzalloc(sizeof(*m), GFP_KERNEL);
	int err;

	if (!m)
		return -ENOMEM;
	m->dev = platform_device_register_simple("kvcache_importer",
						 PLATFORM_DEVID_AUTO, NULL, 0);
	err = PTR_ERR_OR_ZERO(m->dev);
	if (!err)
		err = dma_coerce_mask_and_coherent(&m->dev->dev,
						   DMA_BIT_MASK(64));
	if (err) {
		platform_device_unregister(m->dev);
		kfree(m);
		return err;
	}
	file->private_data = m;
	return 0;
}

static int importer_release(struct inode *inode, struct file *file)
{
	struct importer *m = file->private_data;
	unsigned long id;

	unmap_kernel(m);
	for (id = 0; id < IMPORTER_MAPPINGS; id++)
		unmap(m, id);
	if (m->buf) {
		dma_buf_detach(m->buf, m->at);
		dma_buf_put(m->buf);
	}
	platform_device_unregister(m->dev);
	kfree(m);
	return 0;
}

static const struct file_operations importer_fops = {
	.owner = THIS_MODULE,
	.open = importer_open,
	.release = importer_release,
	.unlocked_ioctl = importer_ioctl,
};

static struct miscdevice importer_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kvcache_importer",
	.fops = &importer_fops,
};
module_misc_device(importer_misc);

MODULE_DESCRIPTION("Imports dma-bufs, for tests of kvcache");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_IMPORT_NS(DMA_BUF);
