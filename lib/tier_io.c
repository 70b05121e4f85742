// SPDX-License-Identifier: MIT
/*
 * tier_io.c - whole records to and from files: all at once by io_uring, or where
 * that is not to be had (built without liburing, forbidden by seccomp or
 * kernel.io_uring_disabled, no memory to lock) by a few threads.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef KVC_HAVE_URING
#include <liburing.h>
#endif

#include "tier.h"

#define THREADS 4

/**
 * struct kvc_io - who reads and writes
 * @ring: io_uring, if @uring
 * @uring: it is used
 * @thread: [@nthreads] else, threads beside the caller
 * @nthreads: their number
 * @lock: of what follows
 * @work: there are operations, or it ends
 * @done: the last one is done
 * @ops: operations
 * @n: their number
 * @next: the first that nobody has taken
 * @left: those that are not done
 * @stop: the threads are to end
 */
struct kvc_io {
#ifdef KVC_HAVE_URING
	struct io_uring ring;
#endif
	bool uring;
	pthread_t thread[THREADS];
	unsigned int nthreads;
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t done;
	struct kvc_io_op *ops;
	unsigned int n;
	unsigned int next;
	unsigned int left;
	bool stop;
};

/* What is left of an operation after its first @at bytes. */
static int transfer(struct kvc_io_op *op, size_t at)
{
	ssize_t k;

	while (at < op->len) {
		if (op->write)
			k = pwrite(op->fd, op->buf + at, op->len - at, at);
		else
			k = pread(op->fd, op->buf + at, op->len - at, at);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (!k)
			return op->write ? -EIO : -EBADMSG;
		at += k;
	}
	return op->write && op->sync && fdatasync(op->fd) ? -errno : 0;
}

static void work(struct kvc_io *io)
{
	struct kvc_io_op *op;
	int rc;

	/* With the lock held. */
	while (io->next < io->n) {
		op = &io->ops[io->next++];
		pthread_mutex_unlock(&io->lock);
		rc = transfer(op, 0);
		pthread_mutex_lock(&io->lock);
		op->rc = rc;
		if (!--io->left)
			pthread_cond_signal(&io->done);
	}
}

static void *run(void *arg)
{
	struct kvc_io *io = arg;

	pthread_mutex_lock(&io->lock);
	while (!io->stop) {
		work(io);
		if (!io->stop)
			pthread_cond_wait(&io->work, &io->lock);
	}
	pthread_mutex_unlock(&io->lock);
	return NULL;
}

static void run_threads(struct kvc_io *io, struct kvc_io_op *ops,
			unsigned int n)
{
	pthread_mutex_lock(&io->lock);
	io->ops = ops;
	io->n = n;
	io->next = 0;
	io->left = n;
	pthread_cond_broadcast(&io->work);
	work(io);
	while (io->left)
		pthread_cond_wait(&io->done, &io->lock);
	io->n = 0;
	pthread_mutex_unlock(&io->lock);
}

#ifdef KVC_HAVE_URING
/* The first try by the ring; what is left of it, which is rare, as it comes. */
static void run_uring(struct kvc_io *io, struct kvc_io_op *ops, unsigned int n)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	unsigned int i, sent = 0;
	int rc;

	for (i = 0; i < n; i++) {
		ops[i].rc = -EINPROGRESS;
		sqe = io_uring_get_sqe(&io->ring);
		if (ops[i].write)
			io_uring_prep_write(sqe, ops[i].fd, ops[i].buf,
					    ops[i].len, 0);
		else
			io_uring_prep_read(sqe, ops[i].fd, ops[i].buf,
					   ops[i].len, 0);
		io_uring_sqe_set_data(sqe, &ops[i]);
	}
	while (sent < n) {
		rc = io_uring_submit(&io->ring);
		if (rc > 0)
			sent += rc;
		else if (rc != -EINTR && rc != -EAGAIN)
			break;
	}
	for (i = 0; i < sent; i++) {
		struct kvc_io_op *op;

		do {
			rc = io_uring_wait_cqe(&io->ring, &cqe);
		} while (rc == -EINTR);
		if (rc)
			break;
		op = io_uring_cqe_get_data(cqe);
		op->rc = cqe->res;
		io_uring_cqe_seen(&io->ring, cqe);
	}
	for (i = 0; i < n; i++) {
		rc = ops[i].rc;
		if (rc == -EINTR || rc == -EAGAIN)
			rc = 0;
		/* An O_DIRECT transfer goes on where it can: at a block. */
		ops[i].rc = rc < 0 ? rc : transfer(&ops[i], rc & ~4095);
	}
}

static bool ring_create(struct kvc_io *io)
{
	return !io_uring_queue_init(KVC_TIER_BATCH, &io->ring, 0);
}

static void ring_destroy(struct kvc_io *io)
{
	io_uring_queue_exit(&io->ring);
}
#else
static void run_uring(struct kvc_io *io, struct kvc_io_op *ops, unsigned int n)
{
}

static bool ring_create(struct kvc_io *io)
{
	return false;
}

static void ring_destroy(struct kvc_io *io)
{
}
#endif

struct kvc_io *kvc_io_create(bool threads)
{
	struct kvc_io *io = calloc(1, sizeof(*io));
	sigset_t all, old;

	if (!io)
		return NULL;
	io->uring = !threads && ring_create(io);
	if (io->uring)
		return io;
	pthread_mutex_init(&io->lock, NULL);
	pthread_cond_init(&io->work, NULL);
	pthread_cond_init(&io->done, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* Fewer are slower, and none is the caller alone. */
	while (io->nthreads < THREADS &&
	       !pthread_create(&io->thread[io->nthreads], NULL, run, io))
		io->nthreads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return io;
}

void kvc_io_destroy(struct kvc_io *io)
{
	if (!io)
		return;
	if (io->uring) {
		ring_destroy(io);
		free(io);
		return;
	}
	pthread_mutex_lock(&io->lock);
	io->stop = true;
	pthread_cond_broadcast(&io->work);
	pthread_mutex_unlock(&io->lock);
	for (unsigned int i = 0; i < io->nthreads; i++)
		pthread_join(io->thread[i], NULL);
	pthread_mutex_destroy(&io->lock);
	pthread_cond_destroy(&io->work);
	pthread_cond_destroy(&io->done);
	free(io);
}

bool kvc_io_uring(const struct kvc_io *io)
{
	return io->uring;
}

void kvc_io_run(struct kvc_io *io, struct kvc_io_op *ops, unsigned int n)
{
	if (!n)
		return;
	if (io->uring)
		run_uring(io, ops, n);
	else
		run_threads(io, ops, n);
}
