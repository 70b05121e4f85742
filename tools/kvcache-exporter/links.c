// SPDX-License-Identifier: MIT
/*
 * links.c - who is connected, and for how long.
 *
 * Each connection is for one request. Who says nothing, or takes nothing, is cut
 * off in time, and at once where there are too many: the oldest of those that have
 * not asked, then of those that have their answer, and last of those that wait for
 * it. Who comes now and asks is so let in, however many others are silent.
 */
#include <stdlib.h>
#include <sys/socket.h>

#include "http.h"
#include "util.h"

struct link *link_of(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

void link_ready(struct link *l, struct text *t)
{
	l->state = LINK_READY;
	l->text = text_get(t);
	MHD_resume_connection(l->c);
}

/* What is suspended would not notice. */
static void cut_off(struct link *l)
{
	l->cut = true;
	if (l->state == LINK_WAITS)
		link_ready(l, NULL);
	else
		shutdown(l->fd, SHUT_RDWR);
}

static struct link *oldest(struct http *h, enum link_state state)
{
	struct link *l;

	TAILQ_FOREACH(l, &h->links, list)
		if (!l->cut && l->state == state)
			return l;
	return NULL;
}

static void one_too_many(struct http *h)
{
	static const enum link_state order[] = {
		LINK_SILENT, LINK_ANSWERED, LINK_WAITS
	};
	struct link *l = NULL;
	size_t i;

	for (i = 0; !l && i < sizeof(order) / sizeof(order[0]); i++)
		l = oldest(h, order[i]);
	if (l)
		cut_off(l);
}

static void begins(struct http *h, struct MHD_Connection *c, void **state)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct link *l;

	if (!info)
		return;
	if (h->nr_links >= EXPORTER_CONNECTIONS)
		one_too_many(h);
	l = xcalloc(1, sizeof(*l));
	l->c = c;
	l->fd = info->connect_fd;
	l->since = now();
	TAILQ_INSERT_TAIL(&h->links, l, list);
	h->nr_links++;
	*state = l;
}

static void ends(struct http *h, void **state)
{
	struct link *l = *state;

	if (!l)
		return;
	TAILQ_REMOVE(&h->links, l, list);
	h->nr_links--;
	text_put(l->text);
	free(l);
	*state = NULL;
	h->ended = true;
}

void links_notified(void *arg, struct MHD_Connection *c, void **state,
		    enum MHD_ConnectionNotificationCode code)
{
	struct door *d = arg;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		begins(d->h, c, state);
	else
		ends(d->h, state);
}

/* The library bounds only how long a client says nothing at all. */
void links_late(struct http *h)
{
	struct text *late = NULL;
	double t = now();
	struct link *l;

	TAILQ_FOREACH(l, &h->links, list) {
		if (l->cut)
			continue;
		if (l->state == LINK_WAITS) {
			if (t - l->asked < EXPORTER_ANSWER_S)
				continue;
			if (!late)
				late = text_line(MHD_HTTP_SERVICE_UNAVAILABLE,
						 EXPORTER_NO_ANSWER);
			link_ready(l, late);
		} else if (t - l->since >= (l->state == LINK_SILENT ?
					    EXPORTER_ASK_S :
					    EXPORTER_DEADLINE_S)) {
			cut_off(l);
		}
	}
	text_put(late);
}

void links_make_room(struct http *h, struct text *const *keep)
{
	struct link *l;

	while (h->texts > EXPORTER_TEXTS) {
		TAILQ_FOREACH(l, &h->links, list)
			if (!l->cut && l->state == LINK_ANSWERED && l->text &&
			    l->text->total && l->text != keep[0] &&
			    l->text != keep[1])
				break;
		if (!l)
			return;
		cut_off(l);
		http_run(h);
	}
}
