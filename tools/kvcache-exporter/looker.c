// SPDX-License-Identifier: MIT
/*
 * looker.c - looks at the ledger in a thread of its own.
 *
 * A broker that was stopped, or a module that hangs, answers late or never, and
 * no call of the library ends before its answer. Whoever waits for this thread
 * can give up at any time, and the thread is left to itself.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "exporter.h"
#include "util.h"

static void *looks(void *arg)
{
	struct looker *k = arg;
	const uint64_t one = 1;

	pthread_mutex_lock(&k->lock);
	for (;;) {
		while (!k->wanted && !k->end)
			pthread_cond_wait(&k->wake, &k->lock);
		if (k->end)
			break;
		pthread_mutex_unlock(&k->lock);
		k->err = scrape(k->x, k->wanted, k->text, &k->took);
		pthread_mutex_lock(&k->lock);
		k->wanted = 0;
		if (write(k->fd, &one, sizeof(one)) < 0)
			complain("eventfd: %s", strerror(errno));
	}
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

int looker_start(struct looker *k, struct exporter *x)
{
	int err;

	*k = (struct looker){
		.x = x, .lock = PTHREAD_MUTEX_INITIALIZER,
		.wake = PTHREAD_COND_INITIALIZER,
	};
	k->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (k->fd < 0)
		return complain("eventfd: %s", strerror(errno));
	err = pthread_create(&k->thread, NULL, looks, k);
	if (!err)
		return 0;
	close(k->fd);
	return complain("a thread: %s", strerror(err));
}

void looker_look(struct looker *k, unsigned int formats)
{
	pthread_mutex_lock(&k->lock);
	k->wanted = formats;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&k->lock);
}

bool looker_done(struct looker *k)
{
	uint64_t n;
	bool done = read(k->fd, &n, sizeof(n)) == sizeof(n);

	/* What the thread wrote before is seen now. */
	pthread_mutex_lock(&k->lock);
	pthread_mutex_unlock(&k->lock);
	return done;
}

bool looker_stop(struct looker *k)
{
	bool idle;
	unsigned int i;

	pthread_mutex_lock(&k->lock);
	idle = !k->wanted;
	k->end = true;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&k->lock);
	if (!idle) {
		pthread_detach(k->thread);
		return false;
	}
	pthread_join(k->thread, NULL);
	if (looker_done(k))
		for (i = 0; i < METRICS_FORMATS; i++)
			free(k->text[i].s);
	close(k->fd);
	return true;
}
