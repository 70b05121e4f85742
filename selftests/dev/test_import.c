// SPDX-License-Identifier: MIT
/*
 * test_import.c - pages as other drivers have them: a device reads and writes
 * the dma-buf that KVCACHE_EXPORT made, and the kernel by its own mapping.
 *
 * The device is selftests/vm/importer. In one machine the kernel gives devices
 * copies of the pages instead (swiotlb=force, with BOUNCES=1 for the tests): what
 * one side wrote, the other sees after DMA_BUF_IOCTL_SYNC only, or never.
 */
#include <linux/dma-buf.h>
#include <sys/syscall.h>

#include "dev_mem.h"
#include "vm/importer/kvcache_importer.h"

#define RW		(PROT_READ | PROT_WRITE)
#define ANY_LENGTH	0xffffffff
#define FOLIO		(2 * MIB)

/* ---- the device ---------------------------------------------------------- */

/* The dma-buf, or -errno. */
static int export(int fd, uint32_t pool, const uint64_t *pages, uint32_t nr)
{
	struct kvcache_export e;
	int err;

	POISON(e);
	e.flags = KVCACHE_FD_CLOEXEC;
	e.pool = pool;
	e.nr = nr;
	e.__reserved = 0;
	memcpy(e.pages, pages, nr * sizeof(*pages));
	err = dev_call(fd, KVCACHE_NR_EXPORT, &e);
	return err ? err : e.out_fd;
}

/* A device that has attached to the dma-buf, or -errno. */
static int import(int buf, uint32_t max_seg)
{
	struct importer_import a = { .fd = buf, .max_seg = max_seg };
	int fd = open("/dev/kvcache_importer", O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	if (!ioctl(fd, IMPORTER_IMPORT, &a))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The mapping's number, or -errno. */
static int map(int dev, uint32_t dir, struct importer_map *out)
{
	struct importer_map a = { .dir = dir };

	if (ioctl(dev, IMPORTER_MAP, &a))
		return -errno;
	if (out)
		*out = a;
	return a.out_id;
}

static int unmap(int dev, int id)
{
	return ioctl(dev, IMPORTER_UNMAP, (unsigned long)id) ? -errno : 0;
}

static int transfer(int dev, uint32_t id, bool write, uint64_t offset,
		    void *data, uint64_t len)
{
	struct importer_access a = {
		.id = id, .write = write, .offset = offset, .len = len,
		.data = (uintptr_t)data,
	};

	return ioctl(dev, IMPORTER_ACCESS, &a) ? -errno : 0;
}

/* Does the device see this byte everywhere? */
static bool sees(int dev, uint32_t id, uint64_t offset, char byte, uint64_t len)
{
	char *data = malloc(len);
	bool is;

	memset(data, ~byte, len);
	is = !transfer(dev, id, false, offset, data, len) &&
	     all_are(data, byte, len);
	free(data);
	return is;
}

/* And writes this one. */
static int fill(int dev, uint32_t id, uint64_t offset, char byte, uint64_t len)
{
	char *data = malloc(len);
	int err;

	memset(data, byte, len);
	err = transfer(dev, id, true, offset, data, len);
	free(data);
	return err;
}

/* The program is about to access the pages, or has. */
static int sync_buf(int buf, uint64_t flags)
{
	struct dma_buf_sync s = { .flags = flags };

	return ioctl(buf, DMA_BUF_IOCTL_SYNC, &s) ? -errno : 0;
}

/* ---- three PRIVATE pages, filled with 1, 2 and 3; a dma-buf of 3, 1, 2 --- */

FIXTURE(import) {
	struct world w;
	char *rw;
	uint64_t pages[3];
	uint64_t order[3];
	int buf;
};

FIXTURE_SETUP(import)
{
	int k;

	if (access("/dev/kvcache_importer", F_OK))
		SKIP(exit(255), "no device that imports: run.sh -d");
	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
	self->rw = dev_window(self->w.fd[0], self->w.pool, true);
	ASSERT_NE(MAP_FAILED, self->rw);
	ASSERT_EQ(0, dev_alloc(self->w.fd[0], self->w.pool, 3, self->pages));
	for (k = 0; k < 3; k++) {
		memset(AT(self->rw, self->pages[k]), k + 1, PAGE);
		self->order[k] = self->pages[(k + 2) % 3];
	}
	self->buf = export(self->w.fd[0], self->w.pool, self->order, 3);
	ASSERT_LE(0, self->buf);
}

FIXTURE_TEARDOWN(import)
{
	close(self->buf);
	EXPECT_EQ(0, world_end(&self->w));
}

#define AT_NTH(self, n)	AT((self)->rw, (self)->order[n])

TEST_F(import, a_device_sees_the_pages_in_the_given_order)
{
	int dev = import(self->buf, ANY_LENGTH), id;
	struct importer_map m;

	ASSERT_LE(0, dev);
	id = map(dev, IMPORTER_TO_DEVICE, &m);
	ASSERT_LE(0, id);
	EXPECT_EQ(3 * PAGE, m.out_total);
	EXPECT_EQ(3, m.out_nr);
	EXPECT_EQ(PAGE, m.out_longest);
	EXPECT_EQ(getenv("BOUNCES") ? m.out_nr : 0, m.out_bounced);
	EXPECT_TRUE(sees(dev, id, 0, 3, PAGE));
	EXPECT_TRUE(sees(dev, id, PAGE, 1, PAGE));
	EXPECT_TRUE(sees(dev, id, 2 * PAGE, 2, PAGE));
	EXPECT_EQ(-EINVAL, fill(dev, id, 3 * PAGE, 0, 1));
	close(dev);
}

TEST_F(import, what_a_device_writes_is_in_the_window_and_the_other_way_round)
{
	int dev = import(self->buf, ANY_LENGTH), id;
	char *at = mmap(NULL, 3 * PAGE, RW, MAP_SHARED, self->buf, 0);

	ASSERT_LE(0, dev);
	ASSERT_NE(MAP_FAILED, at);
	id = map(dev, IMPORTER_BIDIRECTIONAL, NULL);
	ASSERT_LE(0, id);
	/* Over the end of a page. */
	ASSERT_EQ(0, fill(dev, id, PAGE - 64, 0x5a, 128));
	ASSERT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	EXPECT_TRUE(all_are(AT_NTH(self, 0), 3, PAGE - 64));
	EXPECT_TRUE(all_are(AT_NTH(self, 0) + PAGE - 64, 0x5a, 64));
	EXPECT_TRUE(all_are(AT_NTH(self, 1), 0x5a, 64));
	EXPECT_TRUE(all_are(AT_NTH(self, 1) + 64, 1, PAGE - 64));
	EXPECT_TRUE(all_are(at + PAGE - 64, 0x5a, 128));
	memset(AT_NTH(self, 2), 0x77, PAGE);
	memset(at, 0x78, PAGE);
	ASSERT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW));
	EXPECT_TRUE(sees(dev, id, 2 * PAGE, 0x77, PAGE));
	EXPECT_TRUE(sees(dev, id, 0, 0x78, PAGE));
	EXPECT_TRUE(sees(dev, id, PAGE, 0x5a, 64));
	/* What was written last comes with the end of the mapping. */
	ASSERT_EQ(0, fill(dev, id, PAGE, 0x11, PAGE));
	ASSERT_EQ(0, unmap(dev, id));
	EXPECT_TRUE(all_are(AT_NTH(self, 1), 0x11, PAGE));
	EXPECT_TRUE(all_are(AT_NTH(self, 2), 0x77, PAGE));
	id = map(dev, IMPORTER_FROM_DEVICE, NULL);
	ASSERT_LE(0, id);
	ASSERT_EQ(0, fill(dev, id, 0, 0x22, 3 * PAGE));
	close(dev);
	EXPECT_TRUE(all_are(at, 0x22, 3 * PAGE));
	munmap(at, 3 * PAGE);
}

TEST_F(import, the_kernel_has_the_pages_in_one_piece)
{
	int dev = import(self->buf, ANY_LENGTH);
	int other = import(self->buf, ANY_LENGTH);

	ASSERT_LE(0, dev);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, ioctl(dev, IMPORTER_MAP_KERNEL));
	ASSERT_EQ(0, ioctl(other, IMPORTER_MAP_KERNEL));
	EXPECT_TRUE(sees(dev, IMPORTER_VMAP, 0, 3, PAGE));
	EXPECT_TRUE(sees(dev, IMPORTER_VMAP, PAGE, 1, PAGE));
	EXPECT_TRUE(sees(dev, IMPORTER_VMAP, 2 * PAGE, 2, PAGE));
	ASSERT_EQ(0, fill(dev, IMPORTER_VMAP, 2 * PAGE - 64, 0x5a, 128));
	EXPECT_TRUE(all_are(AT_NTH(self, 1) + PAGE - 64, 0x5a, 64));
	EXPECT_TRUE(all_are(AT_NTH(self, 2), 0x5a, 64));
	*AT_NTH(self, 0) = 0x66;
	EXPECT_TRUE(sees(dev, IMPORTER_VMAP, 0, 0x66, 1));
	ASSERT_EQ(0, ioctl(dev, IMPORTER_UNMAP_KERNEL));
	close(dev);
	EXPECT_TRUE(sees(other, IMPORTER_VMAP, 2 * PAGE, 0x5a, 64));
	/* As good as a device's mapping, whatever becomes of the descriptor. */
	close(self->buf);
	ASSERT_EQ(0, dev_free(self->w.fd[0], self->w.pool, self->pages, 3));
	usleep(200000);
	EXPECT_TRUE(sees(other, IMPORTER_VMAP, 0, 0x66, 1));
	EXPECT_EQ(3, charge(&self->w, 0));
	close(other);
	EXPECT_TRUE(dev_settles(self->w.admin, self->w.pool, PAGES));
}

TEST_F(import, nobody_writes_immutable_pages)
{
	struct world *w = &self->w;
	uint64_t page;
	int buf, dev, id;

	close(self->buf);
	page = self->pages[0];
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &page, 1));
	buf = export(w->fd[0], w->pool, &page, 1);
	ASSERT_LE(0, buf);
	dev = import(buf, ANY_LENGTH);
	ASSERT_LE(0, dev);
	EXPECT_EQ(-EACCES, map(dev, IMPORTER_BIDIRECTIONAL, NULL));
	EXPECT_EQ(-EACCES, map(dev, IMPORTER_FROM_DEVICE, NULL));
	EXPECT_EQ(-1, ioctl(dev, IMPORTER_MAP_KERNEL));
	EXPECT_EQ(EINVAL, errno);
	/* Nothing was mapped by those. */
	id = map(dev, IMPORTER_TO_DEVICE, NULL);
	EXPECT_EQ(0, id);
	EXPECT_TRUE(sees(dev, id, 0, 1, PAGE));
	ASSERT_EQ(0, sync_buf(buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ));
	EXPECT_TRUE(all_are(AT_NTH(self, 0), 3, PAGE));
	ASSERT_EQ(0, sync_buf(buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ));
	EXPECT_TRUE(sees(dev, id, 0, 1, PAGE));
	close(buf);
	close(dev);
	EXPECT_EQ(0, page_info(w->admin, w->pool, page).flags);
}

TEST_F(import, a_second_mapping_is_as_good_as_the_first)
{
	int dev = import(self->buf, ANY_LENGTH), id[2];
	int other = import(self->buf, ANY_LENGTH), its;

	ASSERT_LE(0, dev);
	ASSERT_LE(0, other);
	id[0] = map(dev, IMPORTER_BIDIRECTIONAL, NULL);
	id[1] = map(dev, IMPORTER_TO_DEVICE, NULL);
	its = map(other, IMPORTER_TO_DEVICE, NULL);
	ASSERT_LE(0, id[0]);
	ASSERT_LE(0, id[1]);
	ASSERT_LE(0, its);
	/* From one device to the other: it must be in the pages in between. */
	ASSERT_EQ(0, fill(dev, id[0], 0, 0x42, 2 * PAGE));
	ASSERT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	ASSERT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW));
	EXPECT_TRUE(sees(other, its, 0, 0x42, 2 * PAGE));
	EXPECT_TRUE(sees(dev, id[1], 0, 0x42, 2 * PAGE));
	EXPECT_TRUE(sees(other, its, 2 * PAGE, 2, PAGE));
	ASSERT_EQ(0, unmap(dev, id[1]));
	EXPECT_TRUE(sees(dev, id[0], 0, 0x42, 2 * PAGE));
	EXPECT_TRUE(sees(other, its, 0, 0x42, 2 * PAGE));
	close(dev);
	/* What is unmapped is synchronised no more. */
	EXPECT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW));
	EXPECT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW));
	EXPECT_TRUE(sees(other, its, 0, 0x42, 2 * PAGE));
	close(other);
}

TEST_F(import, two_devices_write_only_where_they_see_the_same_memory)
{
	static const uint32_t dirs[] = {
		IMPORTER_BIDIRECTIONAL, IMPORTER_FROM_DEVICE,
	};
	int dev = import(self->buf, ANY_LENGTH), id, its, own;
	int other = import(self->buf, ANY_LENGTH);
	unsigned int k;

	ASSERT_LE(0, dev);
	ASSERT_LE(0, other);
	for (k = 0; k < 2; k++) {
		id = map(dev, dirs[k], NULL);
		ASSERT_LE(0, id);
		ASSERT_EQ(0, fill(dev, id, 0, 0x42, 3 * PAGE));
		its = map(other, dirs[!k], NULL);
		own = map(dev, dirs[k], NULL);
		if (getenv("BOUNCES")) {
			EXPECT_EQ(-EBUSY, its);
			EXPECT_EQ(-EBUSY, own);
		} else {
			ASSERT_LE(0, its);
			ASSERT_LE(0, own);
			ASSERT_EQ(0, fill(other, its, PAGE, 0x43, PAGE));
			ASSERT_EQ(0, fill(dev, own, 2 * PAGE, 0x44, PAGE));
		}
		ASSERT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_START |
				      DMA_BUF_SYNC_RW));
		EXPECT_TRUE(all_are(AT_NTH(self, 0), 0x42, PAGE));
		EXPECT_TRUE(all_are(AT_NTH(self, 1),
				    its < 0 ? 0x42 : 0x43, PAGE));
		EXPECT_TRUE(all_are(AT_NTH(self, 2),
				    own < 0 ? 0x42 : 0x44, PAGE));
		ASSERT_EQ(0, sync_buf(self->buf, DMA_BUF_SYNC_END |
				      DMA_BUF_SYNC_RW));
		EXPECT_TRUE(sees(dev, id, PAGE, its < 0 ? 0x42 : 0x43, PAGE));
		/* Those which read may be many. */
		if (own >= 0)
			ASSERT_EQ(0, unmap(dev, own));
		own = map(other, IMPORTER_TO_DEVICE, NULL);
		ASSERT_LE(0, own);
		ASSERT_EQ(0, unmap(other, own));
		if (its >= 0)
			ASSERT_EQ(0, unmap(other, its));
		/* The next one can write when it has gone. */
		ASSERT_EQ(0, unmap(dev, id));
		its = map(other, dirs[k], NULL);
		ASSERT_LE(0, its);
		ASSERT_EQ(0, fill(other, its, 0, 0x45, PAGE));
		ASSERT_EQ(0, unmap(other, its));
		EXPECT_TRUE(all_are(AT_NTH(self, 0), 0x45, PAGE));
	}
	close(dev);
	close(other);
}

/* ---- pages larger than a folio, devices that take less -------------------- */

TEST_F(import, no_entry_is_longer_than_the_device_takes)
{
	static const struct {
		uint32_t max_seg, longest, each;
	} t[] = {
		{ ANY_LENGTH, FOLIO, 1 },
		{ FOLIO - 1, FOLIO - 4096, 2 },
		{ 64 << 10, 64 << 10, 32 },
		{ 100000, 24 * 4096, 22 },
		{ 512, 4096, 512 },
	};
	struct world *w = &self->w;
	int pool = dev_pool(w->admin, "large", 2 * FOLIO, 4), buf, dev, id;
	uint64_t pages[4], order[3];
	struct importer_map m;
	unsigned int k, n;
	char *rw;

	ASSERT_LE(0, pool);
	ASSERT_EQ(0, dev_alloc(w->fd[0], pool, 4, pages));
	rw = dev_window(w->fd[0], pool, true);
	ASSERT_NE(MAP_FAILED, rw);
	for (k = 0; k < 3; k++) {
		order[k] = pages[k ? k - 1 : 3];
		for (n = 0; n < 2 * FOLIO / 4096; n++)
			*(uint32_t *)(rw + (uint32_t)order[k] * 2 * FOLIO +
				      n * 4096UL) = k << 16 | n;
	}
	buf = export(w->fd[0], pool, order, 3);
	ASSERT_LE(0, buf);
	for (k = 0; k < sizeof(t) / sizeof(t[0]); k++) {
		uint32_t got, bad = 0;

		dev = import(buf, t[k].max_seg);
		ASSERT_LE(0, dev);
		id = map(dev, IMPORTER_TO_DEVICE, &m);
		ASSERT_LE(0, id);
		EXPECT_EQ(6 * FOLIO, m.out_total);
		if (getenv("BOUNCES") && t[k].max_seg > 256 << 10) {
			/* Nor than the kernel copies in one piece. */
			EXPECT_EQ(256 << 10, m.out_longest);
		} else {
			EXPECT_EQ(t[k].longest, m.out_longest);
			EXPECT_EQ(6 * t[k].each, m.out_nr);
		}
		for (n = 0; n < 6 * FOLIO / 4096; n++)
			bad += transfer(dev, id, false, n * 4096UL, &got, 4) ||
			       got != (n / 1024 << 16 | n % 1024);
		EXPECT_EQ(0, bad);
		close(dev);
	}
	close(buf);
	ASSERT_EQ(0, dev_free(w->fd[0], pool, pages, 4));
	dev_unmap_all();
	ASSERT_TRUE(dev_settles(w->admin, pool, 4));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
}

/* A table of 4 KiB each for 272 MiB. */
TEST_F(import, what_would_be_too_many_entries_is_not_mapped)
{
	const uint64_t size = 16 * MIB;
	struct world *w = &self->w;
	int pool = dev_pool(w->admin, "large", size, 17), buf, dev;
	uint64_t pages[17];
	struct importer_map m;

	ASSERT_LE(0, pool);
	ASSERT_EQ(0, dev_alloc(w->fd[0], pool, 17, pages));
	buf = export(w->fd[0], pool, pages, 17);
	ASSERT_LE(0, buf);
	dev = import(buf, 4096);
	ASSERT_LE(0, dev);
	EXPECT_EQ(-E2BIG, map(dev, IMPORTER_TO_DEVICE, NULL));
	close(dev);
	close(buf);
	/* So many are. A copy of them would be too large. */
	buf = export(w->fd[0], pool, pages, 16);
	ASSERT_LE(0, buf);
	dev = import(buf, 4096);
	ASSERT_LE(0, dev);
	if (!getenv("BOUNCES")) {
		ASSERT_LE(0, map(dev, IMPORTER_TO_DEVICE, &m));
		EXPECT_EQ(1 << 16, m.out_nr);
	}
	close(dev);
	close(buf);
	ASSERT_EQ(0, dev_free(w->fd[0], pool, pages, 17));
	ASSERT_TRUE(dev_settles(w->admin, pool, 17));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
}

/* ---- as long as the device has them --------------------------------------- */

TEST_F(import, what_is_freed_stays_charged_until_the_device_lets_go)
{
	struct world *w = &self->w;
	int dev = import(self->buf, ANY_LENGTH), id;
	uint64_t all[PAGES];

	ASSERT_LE(0, dev);
	id = map(dev, IMPORTER_BIDIRECTIONAL, NULL);
	ASSERT_LE(0, id);
	close(self->buf);
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, self->pages, 3));
	usleep(200000);
	EXPECT_EQ(KVCACHE_PAGE_RETIRING, page_state(w, self->pages[0]));
	EXPECT_EQ(3, charge(w, 0));
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, PAGES - 2, all));
	EXPECT_TRUE(sees(dev, id, PAGE, 1, PAGE));
	ASSERT_EQ(0, fill(dev, id, 0, 0x33, 3 * PAGE));
	ASSERT_EQ(0, unmap(dev, id));
	/* It may map it again. */
	usleep(200000);
	EXPECT_EQ(3, charge(w, 0));
	id = map(dev, IMPORTER_TO_DEVICE, NULL);
	ASSERT_LE(0, id);
	EXPECT_TRUE(sees(dev, id, 0, 0x33, 3 * PAGE));
	close(dev);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	EXPECT_EQ(0, charge(w, 0));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, all));
	EXPECT_TRUE(dev_is_zero(AT(self->rw, 1), PAGES * PAGE));
}

TEST_F(import, what_only_a_device_wrote_is_zeroed_for_the_next)
{
	struct world *w = &self->w;
	uint64_t page, all[PAGES];
	int buf, dev, id;
	char *its;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	buf = export(w->fd[0], w->pool, &page, 1);
	ASSERT_LE(0, buf);
	dev = import(buf, ANY_LENGTH);
	ASSERT_LE(0, dev);
	close(buf);
	id = map(dev, IMPORTER_FROM_DEVICE, NULL);
	ASSERT_LE(0, id);
	ASSERT_EQ(0, fill(dev, id, 0, 0x99, PAGE));
	close(dev);
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	ASSERT_TRUE(becomes(w, page, KVCACHE_PAGE_FREE));
	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES - 3, all));
	its = dev_window(w->fd[1], w->pool, true);
	ASSERT_NE(MAP_FAILED, its);
	EXPECT_TRUE(dev_is_zero(AT(its, page), PAGE));
}

TEST_F(import, what_is_revoked_stays_with_the_device)
{
	struct world *w = &self->w;
	int dev = import(self->buf, ANY_LENGTH), id, k;

	ASSERT_LE(0, dev);
	id = map(dev, IMPORTER_BIDIRECTIONAL, NULL);
	ASSERT_LE(0, id);
	close(self->buf);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 0,
				dev_now()));
	for (k = 0; k < 3; k++)
		ASSERT_TRUE(becomes(w, self->pages[k], KVCACHE_PAGE_RETIRING));
	EXPECT_TRUE(sees(dev, id, PAGE, 1, PAGE));
	EXPECT_EQ(0, fill(dev, id, 0, 0x44, 3 * PAGE));
	EXPECT_TRUE(sees(dev, id, 0, 0x44, 3 * PAGE));
	EXPECT_EQ(3, charge(w, 0));
	close(dev);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	EXPECT_EQ(0, charge(w, 0));
}

/* Two pages of the child's, as a dma-buf for who started it. */
static void export_and_stay(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	char *rw = dev_window(fd, w->pool, true);
	uint64_t pages[2];

	if (rw == MAP_FAILED || dev_alloc(fd, w->pool, 2, pages))
		return;
	memset(AT(rw, pages[0]), 0x21, PAGE);
	memset(AT(rw, pages[1]), 0x22, PAGE);
	send_fd(sock, export(fd, w->pool, pages, 2));
	pause();
}

TEST_F(import, who_exported_can_be_killed)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	int buf, dev, id;
	struct child c;

	ASSERT_EQ(0, child_start(&c, export_and_stay, w));
	buf = recv_fd(c.sock);
	ASSERT_LE(0, buf);
	dev = import(buf, ANY_LENGTH);
	ASSERT_LE(0, dev);
	close(buf);
	id = map(dev, IMPORTER_BIDIRECTIONAL, NULL);
	ASSERT_LE(0, id);
	EXPECT_EQ(5, charge(w, 0));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	usleep(200000);
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(2, p.nr_retiring);
	EXPECT_EQ(5, charge(w, 0));
	EXPECT_TRUE(sees(dev, id, 0, 0x21, PAGE));
	EXPECT_TRUE(sees(dev, id, PAGE, 0x22, PAGE));
	EXPECT_EQ(0, fill(dev, id, 0, 0x23, 2 * PAGE));
	close(dev);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES - 3));
	EXPECT_EQ(3, charge(w, 0));
}

/* ---- the module ----------------------------------------------------------- */

/* Is it in use so many times, soon? */
static bool is_used(long times)
{
	char text[32] = "";
	int k, fd;

	for (k = 0; k < 1000; k++) {
		fd = open("/sys/module/kvcache/refcnt", O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
			return false;
		close(fd);
		if (atol(text) == times)
			return true;
		usleep(5000);
	}
	printf("# in use %s", text);
	return false;
}

TEST_F(import, the_module_stays_while_a_device_has_pages)
{
	struct world *w = &self->w;
	int dev = import(self->buf, ANY_LENGTH), id;

	ASSERT_LE(0, dev);
	id = map(dev, IMPORTER_TO_DEVICE, NULL);
	ASSERT_LE(0, id);
	dev_unmap_all();
	close(self->buf);
	close(w->fd[0]);
	close(w->fd[1]);
	close(w->admin);
	w->fd[0] = -1;
	w->fd[1] = -1;
	ASSERT_TRUE(is_used(1));
	EXPECT_EQ(-1, syscall(SYS_delete_module, "kvcache", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
	EXPECT_TRUE(sees(dev, id, PAGE, 1, PAGE));
	ASSERT_EQ(0, unmap(dev, id));
	EXPECT_TRUE(is_used(1));
	close(dev);
	EXPECT_TRUE(is_used(0));
	w->admin = dev_open();
	ASSERT_LE(0, w->admin);
}

TEST_HARNESS_MAIN
