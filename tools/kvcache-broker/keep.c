// SPDX-License-Identifier: MIT
/*
 * keep.c - what a broker leaves to the next one, and what it finds of the last.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "keep.h"
#include "server.h"
#include "store.h"
#include "util.h"

static int page_fd(void *arg, uint32_t pool, uint64_t handle)
{
	const struct mem *m = page_mem(arg, pool, handle);

	return m && m->fd >= 0 ? m->fd : -ENOENT;
}

void keep_save(struct broker *b)
{
	int rc = store_save(b->ledger, clock_ns(), page_fd, b);

	if (rc >= 0)
		complain("%d published pages are left to the next broker", rc);
	else if (rc != -ENOENT)
		complain("not all is left to the next broker: %s",
			 strerror(-rc));
}

/* ---- the next one -------------------------------------------------------- */

struct keep {
	struct broker *b;
	struct store *store;
};

static int admin(void *arg, unsigned int nr, void *cmd)
{
	struct keep *k = arg;

	return broker_admin(k->b, nr, cmd);
}

static int adopt(void *arg, uint32_t pool, uint64_t handle,
		 const struct state_saved *saved)
{
	struct keep *k = arg;
	int fd = store_take(k->store, saved->inode,
			    k->b->pool[pool]->page_size);

	if (fd < 0)
		return -ENOENT;
	return page_adopt(k->b, pool, handle, fd, saved->shared);
}

static void settle(void *arg, uint32_t pool)
{
	struct keep *k = arg;

	while (pages_work(k->b))
		;
}

int keep_load(struct broker *b, struct store *store)
{
	static const struct state_ops ops = {
		.admin = admin, .adopt = adopt, .settle = settle,
	};
	struct keep k = { b, store };
	uint32_t pages, lost;
	FILE *f;
	int err;

	if (store->state < 0)
		return 0;
	/* Where it was written to is where the writer stood, too. */
	if (lseek(store->state, 0, SEEK_SET) < 0)
		return complain("state: %s", strerror(errno));
	f = fdopen(dup(store->state), "r");
	if (!f)
		return complain("state: %s", strerror(errno));
	err = state_load(b->ledger, f, clock_ns(), &ops, &k, &pages, &lost);
	fclose(f);
	if (err)
		complain("state: %s: what comes after page %u of it is lost",
			 strerror(-err), pages + lost);
	complain("%u pages of the last broker are cached, %u are lost", pages,
		 lost);
	return 1;
}
