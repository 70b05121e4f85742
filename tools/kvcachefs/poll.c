// SPDX-License-Identifier: MIT
/*
 * poll.c - "events" is no longer what was read: POLLPRI, as in cgroupfs.
 *
 * A queue of the ledger's events is for members of a tenant, and one that has
 * members cannot be removed. So the counters are looked at, while somebody
 * waits for them and no longer.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"

#define LOOK_MS 100	/* between two looks for who polls */
#define READY (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM)

/* Gone is another thing than what was read, too. */
static bool has_changed(struct fs *fs, const struct fs_open *o)
{
	size_t len = 0;
	char *text = NULL;
	bool same;

	if (!o->text || fs_begin(fs) || text_make(fs, &o->node, &text, &len))
		return true;
	same = len == o->len && !memcmp(text, o->text, len);
	free(text);
	return !same;
}

static void drop(struct fs *fs, struct fs_open *o)
{
	struct fs_open **at;

	if (!o->ph)
		return;
	for (at = &fs->polled; *at != o; at = &(*at)->next)
		;
	*at = o->next;
	fuse_pollhandle_destroy(o->ph);
	o->ph = NULL;
}

void poll_forget(struct fs *fs, struct fs_open *o)
{
	drop(fs, o);
}

unsigned int poll_file(struct fs *fs, struct fs_open *o,
		       struct fuse_pollhandle *ph)
{
	bool changed;

	if (strcmp(node_file(o->node.kind, o->node.file - 1), "events")) {
		if (ph)
			fuse_pollhandle_destroy(ph);
		return READY;
	}
	changed = has_changed(fs, o);
	drop(fs, o);
	o->ph = ph;
	if (ph) {
		o->next = fs->polled;
		fs->polled = o;
	}
	return changed ? READY | POLLPRI | POLLERR : READY;
}

int poll_look(struct fs *fs)
{
	bool attached = fs->kvc;
	struct fs_open *o, *next;
	uint64_t now = fs_now();

	if (!fs->polled)
		return -1;
	if (now < fs->look_at)
		return (fs->look_at - now) / 1000000 + 1;
	for (o = fs->polled; o; o = next) {
		next = o->next;
		if (!has_changed(fs, o))
			continue;
		fuse_lowlevel_notify_poll(o->ph);
		drop(fs, o);
	}
	/* Who only waits for events is a member no longer than it takes to look. */
	if (!fs->admin && !attached)
		ask_close(fs);
	fs_end(fs);
	fs->look_at = fs_now() + LOOK_MS * 1000000ULL;
	return LOOK_MS;
}
