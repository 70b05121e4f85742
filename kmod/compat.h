/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.h - where kernels differ. The code is written for the newest one; this
 * is the only file that asks for a version.
 */
#ifndef KVCACHE_COMPAT_H
#define KVCACHE_COMPAT_H

#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mm.h>
#include <linux/version.h>

/* 6.3 made vm_flags read-only. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* 6.2 made the kobject of kobj_type.get_ownership() constant. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define KVCACHE_CONST_KOBJ
#else
#define KVCACHE_CONST_KOBJ const
#endif

/*
 * Until 6.10 dma_need_sync() was true for all devices behind an IOMMU. These are
 * taken for such as see memory as it is there, as nearly all do.
 */
static inline bool kvcache_need_sync(struct device *dev, dma_addr_t at)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0) && defined(CONFIG_IOMMU_API)
	const struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	if (domain && (domain->type & __IOMMU_DOMAIN_PAGING))
		return false;
#endif
	return dma_need_sync(dev, at);
}

#endif /* KVCACHE_COMPAT_H */
