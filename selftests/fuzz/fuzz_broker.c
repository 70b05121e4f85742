// SPDX-License-Identifier: MIT
/*
 * fuzz_broker.c - bytes as what two clients send to a broker, which lives in
 * this program. It ends with books that are right, and with nothing left.
 *
 * An input is a list of messages. Each begins with a byte that says who sends
 * it, what kind it is, and how much of it is filled in properly; a byte of its
 * command; and the number of bytes that follow.
 */
#include <stdlib.h>

/* A small ledger is made sooner. */
#define MAX_TENANTS	8
#define MAX_CLIENTS	8

#include "../../tools/kvcache-broker/broker.c"
#include "../../tools/kvcache-broker/flight.c"
#include "../../tools/kvcache-broker/page.c"
#include "../../tools/kvcache-broker/peer.c"
#include "../../tools/kvcache-broker/proc.c"
#include "../../tools/kvcache-broker/publish.c"
#include "../../tools/kvcache-broker/send.c"
#include "../../tools/kvcache-broker/serve.c"
#include "../../tools/kvcache-broker/timer.c"
#include "../../tools/kvcache-broker/wait.c"

#define FUZZ_RAW	(1 << 1)	/* no head, no size */
#define FUZZ_READ	(1 << 2)	/* the client reads what there is */
#define FUZZ_LATER	(1 << 3)	/* time goes by */
#define FUZZ_WHOLE	(1 << 4)	/* as long as the command's struct */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void settle(struct broker *b)
{
	struct client *c;
	int turns = 0;

	list_for_each_entry(c, &b->clients, link) {
		c->readable = true;
		if (!listed(&c->ready))
			list_add_tail(&c->ready, &b->ready);
	}
	while (follow(b) && ++turns < 10000)
		;
	timers_run(b);
}

static void drain(int fd)
{
	static char bytes[KVCB_MSG_MAX];

	/* Descriptors that come with it are dropped. */
	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static u32 whole_size(u32 nr)
{
	size_t frame = kvl_cmd_frame_size(nr);

	return nr == KVCB_NR_MAP ? sizeof(struct kvcb_map) :
	       nr == KVCB_NR_EVENTS ? sizeof(struct kvcb_events) :
	       nr == KVCB_NR_CANCEL ? sizeof(struct kvcb_cancel) :
	       frame ? frame - offsetof(struct kvl_cmd_frame, arg) : 0;
}

/* One message: bytes of the input that it took. */
static size_t play(struct broker *b, const int *fd, const uint8_t *data,
		   size_t size)
{
	static struct {
		struct kvcb_head head;
		char body[KVCB_MSG_MAX];
	} m;
	u32 how, len, said;

	if (size < 3)
		return size;
	how = data[0];
	len = min_t(size_t, data[2], size - 3);
	memset(&m, 0, sizeof(m));
	m.head.magic = KVCB_MAGIC;
	m.head.nr = data[1];
	m.head.cookie = data[1];
	if (how & FUZZ_RAW) {
		send(fd[how & 1], data + 3, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	} else {
		memcpy(m.body + sizeof(said), data + 3, len);
		said = sizeof(said) + len;
		if (how & FUZZ_WHOLE)
			said = whole_size(m.head.nr);
		memcpy(m.body, &said, sizeof(said));
		send(fd[how & 1], &m, sizeof(m.head) + said,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	if (how & FUZZ_LATER)
		b->now += SEC_NS;
	settle(b);
	if (how & FUZZ_READ)
		drain(fd[how & 1]);
	return 3 + len;
}

static void make(struct broker *b)
{
	struct kvcache_pool_set pool = {
		.size = sizeof(pool), .op = KVCACHE_POOL_CREATE,
		.page_size = KVCACHE_PAGE_SIZE_MIN, .nr_pages = 8, .name = "p",
	};
	struct kvcache_tenant_set tenant = {
		.size = sizeof(tenant), .name = "t",
		.set = KVCACHE_SET_OWNER, .uid = geteuid(), .mode = 0444,
	};

	if (broker_admin(b, KVCACHE_NR_POOL_SET, &pool) ||
	    broker_admin(b, KVCACHE_NR_TENANT_CREATE, &tenant))
		abort();
}

static void check_books(struct broker *b)
{
	char why[256];

	if (!kvl_verify(b->ledger, why, sizeof(why)) &&
	    !pages_verify(b, why, sizeof(why)))
		return;
	fprintf(stderr, "%s\n", why);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct broker *b = broker_new();
	int pair[2], fd[2], k;
	size_t at;

	if (!b)
		abort();
	make(b);
	for (k = 0; k < 2; k++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
			abort();
		fd[k] = pair[0];
		client_new(b, pair[1]);
	}
	for (at = 0; at < size;)
		at += play(b, fd, data + at, size - at);
	check_books(b);
	close(fd[0]);
	settle(b);
	close(fd[1]);
	settle(b);
	check_books(b);
	if (b->nr_clients || listed(&b->graves))
		abort();
	broker_free(b);
	return 0;
}
