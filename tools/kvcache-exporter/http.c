// SPDX-License-Identifier: MIT
/*
 * http.c - requests and their answers.
 *
 * Each connection is for one request and ends within EXPORTER_DEADLINE_S,
 * whatever its client does; there are EXPORTER_CONNECTIONS of them at a socket,
 * and others wait until the kernel lets them in. So nobody who is slow keeps
 * others out for longer than that.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "exporter.h"
#include "service.h"
#include "util.h"

/**
 * struct link - a connection
 * @fd: its socket
 * @since: when it began
 * @cut: it was cut off
 * @next: in http.links
 * @at: what points to it
 */
struct link {
	int fd;
	double since;
	bool cut;
	struct link *next;
	struct link **at;
};

/**
 * struct http - what is answered
 * @x: with what
 * @daemon: one for each socket, @nr of them
 * @nr: their number
 * @links: connections
 * @ended: one of them has ended
 */
struct http {
	struct exporter *x;
	struct MHD_Daemon *daemon[EXPORTER_LISTENERS];
	unsigned int nr;
	struct link *links;
	bool ended;
};

/* ---- answers ---------------------------------------------------------- */

static enum MHD_Result reply(struct MHD_Connection *c, unsigned int status,
			     const char *type, struct MHD_Response *r)
{
	enum MHD_Result ret = MHD_NO;

	if (!r)
		return MHD_NO;
	if (MHD_add_response_header(r, "Content-Type", type) == MHD_YES &&
	    MHD_add_response_header(r, "Connection", "close") == MHD_YES &&
	    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") ==
	    MHD_YES && (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
			MHD_add_response_header(r, "Allow", "GET, HEAD") ==
			MHD_YES))
		ret = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return ret;
}

static enum MHD_Result reply_text(struct MHD_Connection *c, unsigned int status,
				  const char *text)
{
	char *line = xasprintf("%s\n", text);
	struct MHD_Response *r;

	r = MHD_create_response_from_buffer(strlen(line), line,
					    MHD_RESPMEM_MUST_FREE);
	if (!r)
		free(line);
	return reply(c, status, "text/plain; charset=utf-8", r);
}

static enum MHD_Result reply_metrics(struct http *h, struct MHD_Connection *c)
{
	const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND,
							 "Accept");
	enum metrics_format format = accept_format(accept);
	struct buffer b = { 0 };
	struct MHD_Response *r;

	if (scrape(h->x, format, &b))
		return reply_text(c, MHD_HTTP_SERVICE_UNAVAILABLE,
				  h->x->src.why);
	r = MHD_create_response_from_buffer(b.len, b.s, MHD_RESPMEM_MUST_FREE);
	if (!r)
		free(b.s);
	return reply(c, MHD_HTTP_OK, format == METRICS_OPENMETRICS ?
		     METRICS_TYPE_OPENMETRICS : METRICS_TYPE_PROMETHEUS, r);
}

/* What comes with a request is not read: it ends with the connection. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *c,
			      const char *url, const char *method,
			      const char *version, const char *data,
			      size_t *len, void **state)
{
	struct http *h = arg;

	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return reply_text(c, MHD_HTTP_METHOD_NOT_ALLOWED,
				  "there is nothing to be changed here: use GET");
	if (!strcmp(url, "/metrics"))
		return reply_metrics(h, c);
	if (!strcmp(url, "/healthz") || !strcmp(url, "/-/healthy"))
		return reply_text(c, MHD_HTTP_OK, "ok");
	if (!strcmp(url, "/"))
		return reply_text(c, MHD_HTTP_OK,
				  "kvcache-exporter " KVC_VERSION ": metrics are at /metrics");
	return reply_text(c, MHD_HTTP_NOT_FOUND,
			  "there is no such page: metrics are at /metrics");
}

/* ---- connections ------------------------------------------------------ */

static void link_begins(struct http *h, struct MHD_Connection *c, void **state)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct link *l;

	if (!info)
		return;
	l = xcalloc(1, sizeof(*l));
	*l = (struct link){
		.fd = info->connect_fd, .since = now(), .next = h->links,
		.at = &h->links,
	};
	if (l->next)
		l->next->at = &l->next;
	h->links = l;
	*state = l;
}

static void link_ends(struct http *h, void **state)
{
	struct link *l = *state;

	if (!l)
		return;
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	free(l);
	*state = NULL;
	h->ended = true;
}

static void notified(void *arg, struct MHD_Connection *c, void **state,
		     enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		link_begins(arg, c, state);
	else
		link_ends(arg, state);
}

/* The library bounds only how long a client says nothing at all. */
static void cut_off(struct http *h)
{
	double t = now();
	struct link *l;

	for (l = h->links; l; l = l->next) {
		if (l->cut || t - l->since < EXPORTER_DEADLINE_S)
			continue;
		shutdown(l->fd, SHUT_RDWR);
		l->cut = true;
	}
}

/* ---- the loop --------------------------------------------------------- */

/* Clients that do not keep to HTTP are nothing to write home about. */
static void says(void *arg, const char *fmt, va_list ap)
{
}

static int begin(struct http *h, int *fd)
{
	struct MHD_Daemon *d;

	d = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL,
			     answer, h,
			     MHD_OPTION_EXTERNAL_LOGGER, says, NULL,
			     MHD_OPTION_LISTEN_SOCKET, *fd,
			     MHD_OPTION_CONNECTION_LIMIT, EXPORTER_CONNECTIONS,
			     MHD_OPTION_CONNECTION_TIMEOUT, EXPORTER_DEADLINE_S,
			     MHD_OPTION_CONNECTION_MEMORY_LIMIT,
			     (size_t)EXPORTER_HEADER,
			     MHD_OPTION_NOTIFY_CONNECTION, notified, h,
			     MHD_OPTION_END);
	if (!d)
		return complain("libmicrohttpd does not start: %s",
				strerror(errno));
	*fd = -1;
	h->daemon[h->nr++] = d;
	return 0;
}

/* Until something comes, or is late. */
static int wait_for_any(struct http *h, const sigset_t *mask)
{
	const struct timespec second = { .tv_sec = 1 }, none = { .tv_sec = 0 };
	const struct timespec *patience = h->links ? &second : NULL;
	struct pollfd p[EXPORTER_LISTENERS];
	const union MHD_DaemonInfo *info;
	MHD_UNSIGNED_LONG_LONG ms;
	unsigned int i;

	for (i = 0; i < h->nr; i++) {
		info = MHD_get_daemon_info(h->daemon[i],
					   MHD_DAEMON_INFO_EPOLL_FD);
		p[i] = (struct pollfd){
			.fd = info ? info->epoll_fd : -1, .events = POLLIN,
		};
		if (MHD_get_timeout(h->daemon[i], &ms) == MHD_YES && !ms)
			patience = &none;
	}
	return ppoll(p, h->nr, patience, mask);
}

/* Once more when one has ended: only then are others let in in its place. */
static void run(struct http *h)
{
	unsigned int i;

	do {
		h->ended = false;
		for (i = 0; i < h->nr; i++)
			MHD_run(h->daemon[i]);
	} while (h->ended);
}

int http_serve(struct exporter *x, struct sockets *s, const sigset_t *mask,
	       volatile sig_atomic_t *stop)
{
	struct http h = { .x = x };
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < s->nr; i++)
		err = begin(&h, &s->fd[i]);
	if (!err)
		service_notify("READY=1");
	while (!err && !*stop) {
		if (wait_for_any(&h, mask) < 0 && errno != EINTR)
			err = complain("poll: %s", strerror(errno));
		run(&h);
		cut_off(&h);
	}
	for (i = 0; i < h.nr; i++)
		MHD_stop_daemon(h.daemon[i]);
	return err;
}
