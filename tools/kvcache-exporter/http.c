// SPDX-License-Identifier: MIT
/*
 * http.c - requests and their answers.
 *
 * An answer with metrics is of a look that began after it was asked for, and all
 * who asked before that look began get the same one, which is held in memory
 * once. Looks have pauses between them, so that no number of clients keeps the
 * ledger from those who work with it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http.h"
#include "service.h"
#include "util.h"

/* ---- answers ---------------------------------------------------------- */

/* Takes over @t. */
static enum MHD_Result reply(struct MHD_Connection *c, struct text *t)
{
	struct link *l = link_of(c);
	enum MHD_Result ret;

	if (!t)
		return MHD_NO;
	if (l)
		l->state = LINK_ANSWERED;
	ret = MHD_queue_response(c, t->status, t->r);
	text_put(t);
	return ret;
}

static enum MHD_Result reply_line(struct MHD_Connection *c, unsigned int status,
				  const char *line)
{
	return reply(c, text_line(status, line));
}

/* The first time it is asked for, and once more when it is there. */
static enum MHD_Result reply_metrics(struct http *h, struct MHD_Connection *c)
{
	const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
							 "Accept");
	struct link *l = link_of(c);

	if (!l)
		return MHD_NO;
	if (l->state == LINK_READY)
		return reply(c, text_get(l->text));
	if (h->looking && now() - h->looking >= EXPORTER_ANSWER_S)
		return reply_line(c, MHD_HTTP_SERVICE_UNAVAILABLE,
				  EXPORTER_NO_ANSWER);
	l->state = LINK_WAITS;
	l->asked = now();
	l->format = accept_format(accept);
	MHD_suspend_connection(c);
	return MHD_YES;
}

/* A page of another site that calls itself by a name of its own. */
static bool is_meant(const struct door *d, struct MHD_Connection *c)
{
	const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
						       "Host");

	return !d->loopback || !host || accept_host(host);
}

/* What comes with a request is not read: it ends with the connection. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *c,
			      const char *url, const char *method,
			      const char *version, const char *data,
			      size_t *len, void **state)
{
	struct door *d = arg;

	if (!is_meant(d, c))
		return reply_line(c, MHD_HTTP_FORBIDDEN,
				  "who asks at loopback has to mean it: ask for localhost, 127.0.0.1 or [::1], not for another name");
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return reply_line(c, MHD_HTTP_METHOD_NOT_ALLOWED,
				  "there is nothing to be changed here: use GET");
	if (!strcmp(url, "/metrics"))
		return reply_metrics(d->h, c);
	if (!strcmp(url, "/healthz") || !strcmp(url, "/-/healthy"))
		return reply_line(c, MHD_HTTP_OK, "ok");
	if (!strcmp(url, "/"))
		return reply_line(c, MHD_HTTP_OK,
				  "kvcache-exporter " KVC_VERSION ": metrics are at /metrics");
	return reply_line(c, MHD_HTTP_NOT_FOUND,
			  "there is no such page: metrics are at /metrics");
}

/* ---- looks ------------------------------------------------------------ */

/* For all who wait, and not sooner than the last one lets us. */
static void look(struct http *h)
{
	unsigned int formats = 0;
	struct link *l;

	if (h->looking || now() < h->next)
		return;
	TAILQ_FOREACH(l, &h->links, list) {
		if (l->state != LINK_WAITS)
			continue;
		l->looked = true;
		formats |= 1U << l->format;
	}
	if (!formats)
		return;
	h->looking = now();
	looker_look(h->looker, formats);
}

/* What was seen; or in both, why nothing was. */
static void take_texts(struct http *h, struct text **text)
{
	struct looker *k = h->looker;
	unsigned int f;

	for (f = 0; f < METRICS_FORMATS; f++) {
		text[f] = NULL;
		if (k->err) {
			text[f] = text_line(MHD_HTTP_SERVICE_UNAVAILABLE,
					    h->x->src.why);
		} else if (k->text[f].s) {
			text[f] = text_new(MHD_HTTP_OK,
					   f == METRICS_OPENMETRICS ?
					   METRICS_TYPE_OPENMETRICS :
					   METRICS_TYPE_PROMETHEUS,
					   k->text[f].s, k->text[f].len);
			k->text[f].s = NULL;
			if (!text[f])
				continue;
			text[f]->total = &h->texts;
			h->texts += text[f]->len;
		}
	}
}

static void looked(struct http *h)
{
	struct text *text[METRICS_FORMATS];
	double pause = EXPORTER_PAUSE * h->looker->took;
	struct link *l;
	unsigned int f;

	h->looking = 0;
	h->next = now() + (pause < EXPORTER_PAUSE_S ? pause : EXPORTER_PAUSE_S);
	take_texts(h, text);
	TAILQ_FOREACH(l, &h->links, list) {
		if (l->state == LINK_WAITS && l->looked)
			link_ready(l, text[l->format]);
	}
	http_run(h);
	links_make_room(h, text);
	for (f = 0; f < METRICS_FORMATS; f++)
		text_put(text[f]);
}

/* ---- the loop --------------------------------------------------------- */

/* Clients that do not keep to HTTP are nothing to write home about. */
static void says(void *arg, const char *fmt, va_list ap)
{
}

static int begin(struct http *h, int *fd, bool loopback)
{
	struct door *d = &h->door[h->nr];

	*d = (struct door){ .h = h, .loopback = loopback };
	/* Their number is bounded in links.c, which knows whom to cut off. */
	d->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG |
				     MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
				     answer, d,
				     MHD_OPTION_EXTERNAL_LOGGER, says, NULL,
				     MHD_OPTION_LISTEN_SOCKET, *fd,
				     MHD_OPTION_CONNECTION_LIMIT,
				     EXPORTER_CONNECTIONS + 64,
				     MHD_OPTION_CONNECTION_TIMEOUT,
				     EXPORTER_DEADLINE_S,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				     (size_t)EXPORTER_HEADER,
				     MHD_OPTION_NOTIFY_CONNECTION,
				     links_notified, d,
				     MHD_OPTION_END);
	if (!d->daemon)
		return complain("libmicrohttpd does not start: %s",
				strerror(errno));
	*fd = -1;
	h->nr++;
	return 0;
}

/* At most a second, or until the next look: for ppoll(). */
static struct timespec patience(const struct http *h)
{
	double t = now(), wait = 1;
	const struct link *l;

	TAILQ_FOREACH(l, &h->links, list)
		if (l->state == LINK_WAITS && !h->looking &&
		    h->next - t < wait)
			wait = h->next - t;
	if (wait < 0)
		wait = 0;
	return (struct timespec){
		.tv_sec = wait >= 1, .tv_nsec = wait < 1 ? wait * 1e9 : 0,
	};
}

/* Until something comes, or is late. */
static int wait_for_any(struct http *h, const sigset_t *mask)
{
	struct timespec wait = patience(h);
	bool forever = TAILQ_EMPTY(&h->links);
	struct pollfd p[EXPORTER_LISTENERS + 1];
	const union MHD_DaemonInfo *info;
	MHD_UNSIGNED_LONG_LONG ms;
	unsigned int i;

	for (i = 0; i < h->nr; i++) {
		info = MHD_get_daemon_info(h->door[i].daemon,
					   MHD_DAEMON_INFO_EPOLL_FD);
		p[i] = (struct pollfd){
			.fd = info ? info->epoll_fd : -1, .events = POLLIN,
		};
		if (MHD_get_timeout(h->door[i].daemon, &ms) != MHD_YES || ms)
			continue;
		wait = (struct timespec){ .tv_sec = 0 };
		forever = false;
	}
	p[i] = (struct pollfd){ .fd = h->looker->fd, .events = POLLIN };
	return ppoll(p, h->nr + 1, forever ? NULL : &wait, mask);
}

/* Once more when one has ended: only then are others let in in its place. */
void http_run(struct http *h)
{
	unsigned int i;

	do {
		h->ended = false;
		for (i = 0; i < h->nr; i++)
			MHD_run(h->door[i].daemon);
	} while (h->ended);
}

static int serve(struct http *h, const sigset_t *mask,
		 volatile sig_atomic_t *stop)
{
	while (!*stop) {
		if (wait_for_any(h, mask) < 0 && errno != EINTR)
			return complain("poll: %s", strerror(errno));
		http_run(h);
		if (looker_done(h->looker))
			looked(h);
		links_late(h);
		look(h);
	}
	return 0;
}

int http_serve(struct exporter *x, struct sockets *s, const sigset_t *mask,
	       volatile sig_atomic_t *stop)
{
	/* Of a thread that may be left behind. */
	static struct looker looker;
	struct http h = { .x = x, .looker = &looker };
	struct link *l;
	unsigned int i;
	int err = looker_start(&looker, x);

	if (err)
		return err;
	TAILQ_INIT(&h.links);
	for (i = 0; !err && i < s->nr; i++)
		err = begin(&h, &s->fd[i], s->loopback[i]);
	if (!err)
		service_notify("READY=1");
	if (!err)
		err = serve(&h, mask, stop);
	/* The library ends with nothing that is suspended. */
	TAILQ_FOREACH(l, &h.links, list) {
		if (l->state == LINK_WAITS)
			link_ready(l, NULL);
	}
	for (i = 0; i < h.nr; i++)
		MHD_stop_daemon(h.door[i].daemon);
	x->stuck = !looker_stop(&looker);
	return err;
}
