/* SPDX-License-Identifier: MIT */
/*
 * dev_pin.h - what keeps memory beyond a mapping's end: a pipe that has it in it
 * (vmsplice), a ring that has it as a fixed buffer (io_uring), and a disk that
 * is still to read into it (O_DIRECT). The disk is a network block device, so
 * that the test decides when a request is done.
 */
#ifndef DEV_PIN_H
#define DEV_PIN_H

#include <arpa/inet.h>
#include <endian.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <linux/nbd.h>
#include <pthread.h>

#include "dev_mem.h"

/* How a test that is skipped while it is set up tells the harness. */
#define SKIPPED		255

/* ---- a disk -------------------------------------------------------------- */

#define DISK		"/dev/nbd0"
#define DISK_BYTES	(1 << 20)
#define DISK_HELD	(DISK_BYTES / 2)	/* reads from here on wait */
#define DISK_REQUESTS	16

/**
 * struct disk - a disk that this process serves
 * @fd: the device, for its administration
 * @sock: ours and the kernel's end
 * @ctl: what disk_answer() says to the server
 * @held: requests that wait
 * @nr_held: their number
 * @wrote: the first byte of what was written last, or -1
 */
struct disk {
	int fd;
	int sock[2];
	int ctl[2];
	struct nbd_request held[DISK_REQUESTS];
	volatile int nr_held;
	volatile int wrote;
	pthread_t server, kernel;
};

static inline void disk_reply(struct disk *d, const struct nbd_request *q,
			      int fill)
{
	struct nbd_reply r = { .magic = htonl(NBD_REPLY_MAGIC) };
	static char data[DISK_BYTES];
	size_t n = ntohl(q->len);

	memcpy(r.handle, q->handle, sizeof(r.handle));
	send(d->sock[0], &r, sizeof(r), MSG_NOSIGNAL);
	if (ntohl(q->type) != NBD_CMD_READ)
		return;
	memset(data, fill, n);
	send(d->sock[0], data, n, MSG_NOSIGNAL);
}

/* One request of the kernel; false at the end. */
static inline bool disk_request(struct disk *d)
{
	struct nbd_request q;
	static char data[DISK_BYTES];

	if (recv(d->sock[0], &q, sizeof(q), MSG_WAITALL) != sizeof(q) ||
	    ntohl(q.type) == NBD_CMD_DISC)
		return false;
	if (ntohl(q.type) == NBD_CMD_WRITE) {
		if (recv(d->sock[0], data, ntohl(q.len), MSG_WAITALL) !=
		    (ssize_t)ntohl(q.len))
			return false;
		d->wrote = data[0];
	}
	if (ntohl(q.type) == NBD_CMD_READ && be64toh(q.from) >= DISK_HELD &&
	    d->nr_held < DISK_REQUESTS)
		d->held[d->nr_held++] = q;
	else
		disk_reply(d, &q, 0x11);
	return true;
}

static inline void *disk_serve(void *arg)
{
	struct disk *d = arg;
	struct pollfd p[2] = {
		{ .fd = d->sock[0], .events = POLLIN },
		{ .fd = d->ctl[0], .events = POLLIN },
	};
	unsigned char fill;

	while (poll(p, 2, -1) > 0) {
		if (p[0].revents && !disk_request(d))
			break;
		if (p[1].revents && read(d->ctl[0], &fill, 1) == 1)
			while (d->nr_held)
				disk_reply(d, &d->held[--d->nr_held], fill);
	}
	return NULL;
}

static inline void *disk_run(void *arg)
{
	struct disk *d = arg;

	if (ioctl(d->fd, NBD_DO_IT))
		printf("# " DISK ": %s\n", strerror(errno));
	return NULL;
}

/* 0, or -errno: -ENOENT if the kernel has none. */
static inline int disk_start(struct disk *d)
{
	int k;

	memset(d, 0, sizeof(*d));
	d->wrote = -1;
	d->fd = open(DISK, O_RDWR | O_CLOEXEC);
	if (d->fd < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, d->sock) ||
	    pipe2(d->ctl, O_CLOEXEC) ||
	    ioctl(d->fd, NBD_SET_BLKSIZE, 4096UL) ||
	    ioctl(d->fd, NBD_SET_SIZE_BLOCKS, DISK_BYTES / 4096UL) ||
	    ioctl(d->fd, NBD_SET_SOCK, d->sock[1]) ||
	    pthread_create(&d->server, NULL, disk_serve, d) ||
	    pthread_create(&d->kernel, NULL, disk_run, d))
		return -EIO;
	for (k = 0; k < 1000; k++) {
		if (lseek(d->fd, 0, SEEK_END) == DISK_BYTES)
			return 0;
		usleep(2000);
	}
	return -ETIMEDOUT;
}

/* What waits, and is to come, is read as these bytes. */
static inline void disk_answer(struct disk *d, char fill)
{
	if (write(d->ctl[1], &fill, 1) != 1)
		abort();
}

static inline bool disk_holds(const struct disk *d)
{
	int k;

	for (k = 0; k < 1000 && !d->nr_held; k++)
		usleep(2000);
	return d->nr_held;
}

static inline void disk_stop(struct disk *d)
{
	ioctl(d->fd, NBD_DISCONNECT);
	pthread_join(d->server, NULL);
	close(d->sock[0]);
	pthread_join(d->kernel, NULL);
	ioctl(d->fd, NBD_CLEAR_SOCK);
	close(d->sock[1]);
	close(d->ctl[0]);
	close(d->ctl[1]);
	close(d->fd);
}

/* ---- a ring -------------------------------------------------------------- */

struct ring {
	int fd;
	size_t bytes;
	struct io_uring_params p;
	char *rings;
	struct io_uring_sqe *sqe;
};

static inline int ring_open(struct ring *r)
{
	memset(r, 0, sizeof(*r));
	r->fd = syscall(SYS_io_uring_setup, 4, &r->p);
	if (r->fd < 0)
		return -errno;
	r->bytes = r->p.cq_off.cqes + r->p.cq_entries *
		sizeof(struct io_uring_cqe) + r->p.sq_off.array + 4096;
	r->rings = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			r->fd, IORING_OFF_SQ_RING);
	r->sqe = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
		      IORING_OFF_SQES);
	return r->rings == MAP_FAILED || r->sqe == MAP_FAILED ? -errno : 0;
}

/* What is mapped of it would keep it, and what it has pinned. */
static inline void ring_close(struct ring *r)
{
	munmap(r->rings, r->bytes);
	munmap(r->sqe, 4096);
	close(r->fd);
}

static inline int ring_register(const struct ring *r, void *at, size_t n)
{
	struct iovec v = { .iov_base = at, .iov_len = n };

	return syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS,
		       &v, 1) ? -errno : 0;
}

/* Reads from the descriptor into the fixed buffer: bytes or -errno. */
static inline int ring_read(struct ring *r, int fd, void *at, size_t n)
{
	unsigned int *tail = (void *)(r->rings + r->p.sq_off.tail);
	unsigned int *array = (void *)(r->rings + r->p.sq_off.array);
	unsigned int *head = (void *)(r->rings + r->p.cq_off.head);
	unsigned int mask = r->p.cq_entries - 1;
	struct io_uring_cqe *cqe = (void *)(r->rings + r->p.cq_off.cqes);

	memset(r->sqe, 0, sizeof(*r->sqe));
	r->sqe->opcode = IORING_OP_READ_FIXED;
	r->sqe->fd = fd;
	r->sqe->addr = (uintptr_t)at;
	r->sqe->len = n;
	r->sqe->off = -1;
	array[*tail & (r->p.sq_entries - 1)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS,
		    NULL, 0) < 0)
		return -errno;
	cqe += *head & mask;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return cqe->res;
}

/* ---- a pin of one kind --------------------------------------------------- */

enum pin_kind { PIN_PIPE, PIN_RING, PIN_DISK };

struct pin {
	enum pin_kind kind;
	char *at;
	int pipe[2];
	struct ring ring;
	struct disk *disk;
	int fd;
	aio_context_t aio;
	struct iocb cb;
};

static inline int pin_from_disk(struct pin *p)
{
	struct iocb *cb = &p->cb;

	p->fd = open(DISK, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (p->fd < 0 || syscall(SYS_io_setup, 1, &p->aio))
		return -errno;
	memset(cb, 0, sizeof(*cb));
	cb->aio_lio_opcode = IOCB_CMD_PREAD;
	cb->aio_fildes = p->fd;
	cb->aio_buf = (uintptr_t)p->at;
	cb->aio_nbytes = 4096;
	cb->aio_offset = DISK_HELD;
	return syscall(SYS_io_submit, p->aio, 1, &cb) == 1 ? 0 : -errno;
}

/* Pins 4 KiB; @disk: for PIN_DISK. 0 or -errno. */
static inline int pin_take(struct pin *p, enum pin_kind kind, struct disk *disk,
			   char *at)
{
	struct iovec v = { .iov_base = at, .iov_len = 4096 };
	int err;

	memset(p, 0, sizeof(*p));
	p->kind = kind;
	p->disk = disk;
	p->at = at;
	switch (kind) {
	case PIN_PIPE:
		return pipe(p->pipe) || vmsplice(p->pipe[1], &v, 1, 0) != 4096 ?
		       -errno : 0;
	case PIN_RING:
		err = pipe(p->pipe) ? -errno : ring_open(&p->ring);
		return err ? err : ring_register(&p->ring, at, 4096);
	case PIN_DISK:
		err = pin_from_disk(p);
		if (!err && !disk_holds(disk))
			err = -ETIMEDOUT;
		return err;
	}
	return -EINVAL;
}

/*
 * Uses what is pinned, for the last time in the disk's case: writes these bytes
 * there, or, out of a pipe, reads what was there when it was pinned. True if
 * that worked.
 */
static inline bool pin_use(struct pin *p, char fill, char was)
{
	struct io_event ev;
	char data[4096];

	memset(data, fill, sizeof(data));
	switch (p->kind) {
	case PIN_PIPE:
		return read(p->pipe[0], data, 4096) == 4096 &&
		       all_are(data, was, 4096);
	case PIN_RING:
		return write(p->pipe[1], data, 4096) == 4096 &&
		       ring_read(&p->ring, p->pipe[0], p->at, 4096) == 4096;
	case PIN_DISK:
		disk_answer(p->disk, fill);
		return syscall(SYS_io_getevents, p->aio, 1, 1, &ev, NULL) == 1 &&
		       ev.res == 4096;
	}
	return false;
}

static inline void pin_drop(struct pin *p)
{
	switch (p->kind) {
	case PIN_RING:
		/* Closing it alone would do so later. */
		syscall(SYS_io_uring_register, p->ring.fd,
			IORING_UNREGISTER_BUFFERS, NULL, 0);
		ring_close(&p->ring);
		/* fall through */
	case PIN_PIPE:
		close(p->pipe[0]);
		close(p->pipe[1]);
		break;
	case PIN_DISK:
		syscall(SYS_io_destroy, p->aio);
		close(p->fd);
		break;
	}
}

#endif /* DEV_PIN_H */
