// SPDX-License-Identifier: MIT
/*
 * tier_queue.c - requests to a tier, and the thread that serves them.
 *
 * A request is a record with memory of its own; all that requests have is
 * bounded. Reads go before writes, each kind in the order it came, up to
 * KVC_TIER_BATCH together. Where reading or writing fails, that side is left
 * out: nothing is queued until its pause is over, then one request that
 * decides. Each failure doubles the pause.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tier.h"

#define SEC_NS 1000000000ULL
#define MEMORY (64ULL << 20)
#define TIMEOUT_MS 1000
#define PAUSE_MIN_NS SEC_NS
#define PAUSE_MAX_NS (60 * SEC_NS)
#define KEEP_NS (30 * SEC_NS)	/* what was read ahead; tier.h names it */
#define CLOSE_NS (10 * SEC_NS)	/* likewise */

uint64_t kvc_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC_NS + ts.tv_nsec;
}

static void wait_until(pthread_cond_t *c, pthread_mutex_t *m,
		       uint64_t deadline_ns)
{
	struct timespec ts = {
		.tv_sec = KVC_MIN(deadline_ns / SEC_NS, (uint64_t)INT32_MAX),
		.tv_nsec = deadline_ns % SEC_NS,
	};

	pthread_cond_timedwait(c, m, &ts);
}

int kvc_tier_refuse(const struct kvc_tier_opts *opts, int err,
		    const char *fmt, ...)
{
	struct kvc_tier_opts o;
	va_list ap;

	if (kvc_opts_copy(&o, sizeof(o), opts) || !o.msg || !o.msg_len)
		return err;
	va_start(ap, fmt);
	vsnprintf(o.msg, o.msg_len, fmt, ap);
	va_end(ap);
	return err;
}

int kvc_tier_init(struct kvc_tier *t, const struct kvc_tier_opts *opts)
{
	struct kvc_tier_opts o;

	if (kvc_opts_copy(&o, sizeof(o), opts))
		return -EINVAL;
	t->memory = o.memory ? o.memory : MEMORY;
	t->timeout_ns = (o.timeout_ms ? o.timeout_ms : TIMEOUT_MS) * 1000000ULL;
	return 0;
}

/* ---- what fails ------------------------------------------------------- */

static bool side_open(const struct kvc_tier *t, enum kvc_tier_op op)
{
	const struct kvc_tier_side *s = &t->side[op];

	return !s->pause_ns || (!s->probing && kvc_now_ns() >= s->until_ns);
}

static void side_failed(struct kvc_tier *t, enum kvc_tier_op op)
{
	struct kvc_tier_side *s = &t->side[op];
	uint64_t now = kvc_now_ns();

	s->probing = false;
	/* What was on its way with the first that failed says nothing new. */
	if (s->pause_ns && now < s->until_ns)
		return;
	s->pause_ns = s->pause_ns ? KVC_MIN(2 * s->pause_ns, PAUSE_MAX_NS) :
				    PAUSE_MIN_NS;
	s->until_ns = now + s->pause_ns;
}

/* Count what became of a request. */
static void judge(struct kvc_tier *t, const struct kvc_req *r)
{
	struct kvc_tier_stats *st = &t->st;
	bool failed = false;

	switch (r->rc) {
	case 0:
		*(r->op == KVC_TIER_GET ? &st->hits : &st->puts) += 1;
		*(r->op == KVC_TIER_GET ? &st->hit_bytes : &st->put_bytes) +=
			r->len;
		break;
	case -ENOENT:
		st->misses++;
		break;
	case -EEXIST:
		st->had++;
		break;
	case -EBADMSG:
		st->bad++;
		break;
	case -EFBIG:
		st->no_space++;
		break;
	case -EAGAIN:
		st->skipped++;
		t->losses += r->op == KVC_TIER_PUT;
		return;
	case -ENOSPC:
	case -EDQUOT:
		st->no_space++;
		failed = true;
		break;
	case -ETIMEDOUT:
		st->timeouts++;
		failed = true;
		break;
	case -ENOTCONN:
		st->gone++;
		failed = true;
		break;
	default:
		st->io_errors++;
		failed = true;
	}
	t->losses += r->op == KVC_TIER_PUT && r->rc && r->rc != -EEXIST;
	if (failed) {
		side_failed(t, r->op);
	} else if (!t->side[r->op].pause_ns || r->probe) {
		t->side[r->op].pause_ns = 0;
		t->side[r->op].probing = false;
	}
}

/* ---- requests --------------------------------------------------------- */

static void unlink_req(struct kvc_req **list, struct kvc_req *r)
{
	while (*list != r)
		list = &(*list)->next;
	*list = r->next;
}

static void append_req(struct kvc_req **list, struct kvc_req *r)
{
	while (*list)
		list = &(*list)->next;
	r->next = NULL;
	*list = r;
}

/* With the lock held. */
static void release(struct kvc_tier *t, struct kvc_req *r)
{
	t->st.memory -= r->len;
	free(r->buf);
	free(r);
	pthread_cond_broadcast(&t->done);
}

/* Drop what was read ahead: all that is too old, and the oldest if @more. */
static bool drop_left(struct kvc_tier *t, bool more)
{
	uint64_t now = kvc_now_ns();
	struct kvc_req *r, *next;

	for (r = t->ready; r; r = next) {
		next = r->next;
		if (!r->left || (!more && now - r->born_ns < KEEP_NS))
			continue;
		unlink_req(&t->ready, r);
		release(t, r);
		if (more)
			return true;
	}
	return false;
}

/* Room for @len bytes, with the lock held. */
static bool get_memory(struct kvc_tier *t, enum kvc_tier_op op, size_t len,
		       uint64_t deadline_ns)
{
	uint64_t begin = kvc_now_ns();
	bool waited = false;

	drop_left(t, false);
	while (t->st.memory + len > t->memory) {
		/* What is read ahead does not push out what was. */
		if (deadline_ns && drop_left(t, true))
			continue;
		if (len > t->memory || kvc_now_ns() >= deadline_ns) {
			t->st.full++;
			if (waited) {
				t->st.timeouts++;
				side_failed(t, op);
				t->st.wait_ns += kvc_now_ns() - begin;
			}
			return false;
		}
		waited = true;
		wait_until(&t->done, &t->lock, deadline_ns);
	}
	if (waited)
		t->st.wait_ns += kvc_now_ns() - begin;
	t->st.memory += len;
	t->st.peak_memory = KVC_MAX(t->st.peak_memory, t->st.memory);
	return true;
}

struct kvc_req *kvc_req_new(struct kvc_tier *t, enum kvc_tier_op op,
			    size_t len, uint64_t deadline_ns)
{
	struct kvc_req *r = calloc(1, sizeof(*r));
	bool ok;

	if (!r)
		return NULL;
	r->op = op;
	r->len = len;
	r->born_ns = kvc_now_ns();
	pthread_mutex_lock(&t->lock);
	ok = side_open(t, op);
	if (!ok)
		t->st.skipped++;
	else
		ok = get_memory(t, op, len, deadline_ns);
	if (ok && t->side[op].pause_ns) {
		r->probe = true;
		t->side[op].probing = true;
	}
	pthread_mutex_unlock(&t->lock);
	if (!ok) {
		free(r);
		return NULL;
	}
	r->buf = aligned_alloc(4096, len);
	if (!r->buf) {
		kvc_req_free(t, r);
		return NULL;
	}
	return r;
}

void kvc_req_free(struct kvc_tier *t, struct kvc_req *r)
{
	pthread_mutex_lock(&t->lock);
	if (r->probe && r->state == KVC_REQ_QUEUED)
		t->side[r->op].probing = false;
	release(t, r);
	pthread_mutex_unlock(&t->lock);
}

void kvc_req_submit(struct kvc_tier *t, struct kvc_req *r)
{
	pthread_mutex_lock(&t->lock);
	append_req(&t->queue[r->op], r);
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
}

static struct kvc_req *search(struct kvc_req *list, enum kvc_tier_op op,
			      const uint8_t *key)
{
	for (; list; list = list->next)
		if (list->op == op && !list->orphan &&
		    !memcmp(list->key, key, KVCACHE_KEY_LEN) &&
		    (op == KVC_TIER_PUT || list->left))
			return list;
	return NULL;
}

static struct kvc_req *search_all(struct kvc_tier *t, enum kvc_tier_op op,
				  const uint8_t *key)
{
	struct kvc_req *r = search(t->queue[op], op, key);

	if (!r)
		r = search(t->active, op, key);
	if (!r && op == KVC_TIER_GET)
		r = search(t->ready, op, key);
	return r;
}

static uint64_t beginning(const uint8_t *key)
{
	uint64_t v;

	memcpy(&v, key, sizeof(v));
	return v;
}

int kvc_req_begun(struct kvc_tier *t, const uint8_t *key)
{
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = search_all(t, KVC_TIER_GET, key) ||
	     search_all(t, KVC_TIER_PUT, key);
	for (uint32_t i = 0; !rc && i < KVC_TIER_MISSED; i++)
		if (t->missed[i] == beginning(key))
			rc = -ENOENT;
	pthread_mutex_unlock(&t->lock);
	return rc;
}

/* What is being written need not be read back: a copy of it, with the lock. */
static struct kvc_req *copy_of(struct kvc_tier *t, const struct kvc_req *put)
{
	struct kvc_req *r = calloc(1, sizeof(*r));

	if (r)
		r->buf = aligned_alloc(4096, put->len);
	if (!r || !r->buf) {
		free(r);
		return NULL;
	}
	/* The image alone: the thread may be writing what is around it. */
	memcpy(r->buf + KVC_RECORD_HEAD, put->buf + KVC_RECORD_HEAD,
	       put->rec.bytes);
	memcpy(r->key, put->key, KVCACHE_KEY_LEN);
	r->op = KVC_TIER_GET;
	r->len = put->len;
	r->state = KVC_REQ_DONE;
	/* Above the bound for a moment, rather than not at all. */
	t->st.memory += r->len;
	t->st.peak_memory = KVC_MAX(t->st.peak_memory, t->st.memory);
	t->st.hits++;
	t->st.hit_bytes += r->len;
	append_req(&t->ready, r);
	return r;
}

struct kvc_req *kvc_req_find(struct kvc_tier *t, const uint8_t *key,
			     size_t len)
{
	struct kvc_req *r, *put;

	pthread_mutex_lock(&t->lock);
	r = search_all(t, KVC_TIER_GET, key);
	if (r && r->len != len)
		r = NULL;
	if (!r) {
		put = search_all(t, KVC_TIER_PUT, key);
		if (put && put->len == len)
			r = copy_of(t, put);
	}
	if (r)
		r->left = false;
	pthread_mutex_unlock(&t->lock);
	return r;
}

int kvc_req_wait(struct kvc_tier *t, struct kvc_req *r, uint64_t deadline_ns)
{
	uint64_t begin = kvc_now_ns();
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	while (r->state != KVC_REQ_DONE && kvc_now_ns() < deadline_ns)
		wait_until(&t->done, &t->lock, deadline_ns);
	if (r->state == KVC_REQ_DONE) {
		unlink_req(&t->ready, r);
	} else {
		rc = -ETIMEDOUT;
		t->st.timeouts++;
		side_failed(t, r->op);
		r->orphan = true;
		if (r->state == KVC_REQ_QUEUED) {
			unlink_req(&t->queue[r->op], r);
			release(t, r);
		}
	}
	t->st.wait_ns += kvc_now_ns() - begin;
	pthread_mutex_unlock(&t->lock);
	return rc;
}

/* ---- the thread ------------------------------------------------------- */

/* Up to KVC_TIER_BATCH of one kind, with the lock held. */
static unsigned int take(struct kvc_tier *t, struct kvc_req **batch)
{
	enum kvc_tier_op op = t->queue[KVC_TIER_GET] ? KVC_TIER_GET :
						       KVC_TIER_PUT;
	unsigned int n = 0;
	struct kvc_req *r;

	while (n < KVC_TIER_BATCH && t->queue[op]) {
		r = t->queue[op];
		t->queue[op] = r->next;
		r->state = KVC_REQ_ACTIVE;
		append_req(&t->active, r);
		batch[n++] = r;
	}
	return n;
}

/* Queued before the tier failed: it is not asked again for each of them. */
static bool hopeless(struct kvc_tier *t, const struct kvc_req *r)
{
	return t->side[r->op].pause_ns && !r->probe &&
	       kvc_now_ns() < t->side[r->op].until_ns;
}

/* Without the lock. */
static void serve(struct kvc_tier *t, struct kvc_req **batch, unsigned int n)
{
	struct kvc_record rec;
	unsigned int i;

	for (i = 0; i < n; i++) {
		batch[i]->rc = 0;
		if (batch[i]->op == KVC_TIER_PUT)
			kvc_record_seal(&batch[i]->rec, batch[i]->buf);
	}
	t->ops->serve(t, batch, n);
	if (batch[0]->op == KVC_TIER_PUT)
		return;
	for (i = 0; i < n; i++) {
		struct kvc_req *r = batch[i];

		if (!r->rc && (kvc_record_open(r->buf, r->len, &rec) ||
			       memcmp(kvc_record_key(&rec), r->key,
				      KVCACHE_KEY_LEN)))
			r->rc = -EBADMSG;
		if (r->rc == -EBADMSG)
			t->ops->forget(t, r->key);
	}
}

/* With the lock held. */
static void finish(struct kvc_tier *t, struct kvc_req *r)
{
	unlink_req(&t->active, r);
	judge(t, r);
	r->state = KVC_REQ_DONE;
	if (r->op == KVC_TIER_PUT || r->orphan) {
		release(t, r);
		return;
	}
	if (r->left && r->rc) {
		t->missed[t->nmissed++ % KVC_TIER_MISSED] = beginning(r->key);
		release(t, r);
		return;
	}
	append_req(&t->ready, r);
}

static void run_batch(struct kvc_tier *t)
{
	struct kvc_req *batch[KVC_TIER_BATCH], *live[KVC_TIER_BATCH];
	unsigned int n = take(t, batch), nlive = 0, i;
	uint64_t begin;

	for (i = 0; i < n; i++) {
		if (hopeless(t, batch[i]))
			batch[i]->rc = -EAGAIN;
		else
			live[nlive++] = batch[i];
	}
	pthread_mutex_unlock(&t->lock);
	begin = kvc_now_ns();
	if (nlive)
		serve(t, live, nlive);
	pthread_mutex_lock(&t->lock);
	*(batch[0]->op == KVC_TIER_GET ? &t->st.get_ns : &t->st.put_ns) +=
		kvc_now_ns() - begin;
	for (i = 0; i < n; i++)
		finish(t, batch[i]);
	pthread_cond_broadcast(&t->done);
}

static void tier_free(struct kvc_tier *t)
{
	struct kvc_req **lists[] = {
		&t->queue[0], &t->queue[1], &t->ready,
	};

	for (unsigned int i = 0; i < 3; i++) {
		while (*lists[i]) {
			struct kvc_req *r = *lists[i];

			*lists[i] = r->next;
			release(t, r);
		}
	}
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->work);
	pthread_cond_destroy(&t->done);
	t->ops->close(t);
}

static void *run(void *arg)
{
	struct kvc_tier *t = arg;
	bool abandoned;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		if (t->queue[KVC_TIER_GET] || t->queue[KVC_TIER_PUT])
			run_batch(t);
		else
			pthread_cond_wait(&t->work, &t->lock);
	}
	abandoned = t->abandoned;
	pthread_mutex_unlock(&t->lock);
	if (abandoned)
		tier_free(t);
	return NULL;
}

int kvc_tier_start(struct kvc_tier *t)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int rc;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, &attr);
	pthread_cond_init(&t->done, &attr);
	pthread_condattr_destroy(&attr);
	/* Signals are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t->thread, NULL, run, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		pthread_mutex_destroy(&t->lock);
		pthread_cond_destroy(&t->work);
		pthread_cond_destroy(&t->done);
	}
	return -rc;
}

/* Nothing queued and nothing with the thread; with the lock held. */
static bool settle(struct kvc_tier *t, uint64_t deadline_ns)
{
	while (t->active || t->queue[KVC_TIER_GET] || t->queue[KVC_TIER_PUT]) {
		if (kvc_now_ns() >= deadline_ns)
			return false;
		wait_until(&t->done, &t->lock, deadline_ns);
	}
	return true;
}

int kvc_tier_flush(struct kvc_tier *t, uint64_t deadline_ns)
{
	bool ok;

	pthread_mutex_lock(&t->lock);
	ok = settle(t, deadline_ns);
	pthread_mutex_unlock(&t->lock);
	return ok ? 0 : -ETIMEDOUT;
}

void kvc_tier_close(struct kvc_tier *t)
{
	bool stuck;

	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	while (t->queue[KVC_TIER_GET]) {
		struct kvc_req *r = t->queue[KVC_TIER_GET];

		t->queue[KVC_TIER_GET] = r->next;
		release(t, r);
	}
	settle(t, kvc_now_ns() + CLOSE_NS);
	t->stop = true;
	/* Whoever does not return from a disk is not waited for. */
	stuck = t->active;
	t->abandoned = stuck;
	if (stuck)
		pthread_detach(t->thread);
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
	if (stuck)
		return;
	pthread_join(t->thread, NULL);
	tier_free(t);
}

void kvc_tier_stats(struct kvc_tier *t, struct kvc_tier_stats *out)
{
	uint64_t now = kvc_now_ns();

	pthread_mutex_lock(&t->lock);
	*out = t->st;
	for (unsigned int i = 0; i < 2; i++)
		out->down |= t->side[i].pause_ns && now < t->side[i].until_ns;
	pthread_mutex_unlock(&t->lock);
}

void kvc_tier_count_used(struct kvc_tier *t, uint64_t pages)
{
	pthread_mutex_lock(&t->lock);
	t->st.used += pages;
	pthread_mutex_unlock(&t->lock);
}

uint64_t kvc_tier_losses(struct kvc_tier *t)
{
	uint64_t n;

	pthread_mutex_lock(&t->lock);
	n = t->losses;
	pthread_mutex_unlock(&t->lock);
	return n;
}
