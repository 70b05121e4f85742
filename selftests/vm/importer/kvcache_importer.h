/* SPDX-License-Identifier: MIT */
/*
 * kvcache_importer.h - /dev/kvcache_importer, a device that imports a dma-buf.
 *
 * Each open is a device of its own, with at most one dma-buf.
 */
#ifndef KVCACHE_IMPORTER_H
#define KVCACHE_IMPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* As the kernel has them. */
#define IMPORTER_BIDIRECTIONAL	0
#define IMPORTER_TO_DEVICE	1
#define IMPORTER_FROM_DEVICE	2

#define IMPORTER_MAPPINGS	4
#define IMPORTER_VMAP		0xffffffff

/* Attaches; the device takes no entry that is longer than @max_seg. */
struct importer_import {
	__s32 fd;
	__u32 max_seg;
};

/**
 * struct importer_map - maps for the device
 * @dir: IMPORTER_*
 * @out_id: for what follows
 * @out_nr: entries that the device sees
 * @out_longest: bytes of the longest of them
 * @out_total: bytes of all
 * @out_bounced: entries that are not the pages, but copies for the device
 * @out_broken: entries that the next one does not follow in memory
 */
struct importer_map {
	__u32 dir;
	__u32 out_id;
	__u32 out_nr;
	__u32 out_longest;
	__u64 out_total;
	__u32 out_bounced;
	__u32 out_broken;
};

/* Reads or writes as the device does, or the kernel through its own mapping. */
struct importer_access {
	__u32 id;		/* of a mapping, or IMPORTER_VMAP */
	__u32 write;
	__u64 offset;
	__u64 len;
	__u64 data;
};

#define IMPORTER_IMPORT		_IOW('k', 0, struct importer_import)
#define IMPORTER_MAP		_IOWR('k', 1, struct importer_map)
#define IMPORTER_UNMAP		_IO('k', 2)	/* the mapping's number */
#define IMPORTER_MAP_KERNEL	_IO('k', 3)	/* vmap */
#define IMPORTER_UNMAP_KERNEL	_IO('k', 4)
#define IMPORTER_ACCESS		_IOW('k', 5, struct importer_access)

#endif /* KVCACHE_IMPORTER_H */
