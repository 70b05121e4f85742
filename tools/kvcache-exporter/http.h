/* SPDX-License-Identifier: MIT */
/*
 * http.h - what http.c, links.c and text.c share.
 */
#ifndef HTTP_H
#define HTTP_H

#include <sys/queue.h>

#include <microhttpd.h>

#include "exporter.h"

/**
 * struct text - an answer, for one client or for many
 * @r: which
 * @status: 200 or another one
 * @len: bytes
 * @refs: who holds it
 * @total: where @len is counted, or NULL
 */
struct text {
	struct MHD_Response *r;
	unsigned int status;
	size_t len;
	unsigned int refs;
	size_t *total;
};

/* How far a connection is. */
enum link_state {
	LINK_SILENT,		/* its request is not there */
	LINK_WAITS,		/* for a look: it is suspended */
	LINK_READY,		/* to be given @text, or to be cut off */
	LINK_ANSWERED,
};

/**
 * struct link - a connection
 * @c: which
 * @fd: its socket
 * @state: how far it is
 * @cut: it was cut off
 * @since: when it began
 * @asked: when it began to wait
 * @format: for what
 * @looked: a look was begun after it asked
 * @text: its answer, or NULL
 * @list: in http.links, the oldest one first
 */
struct link {
	struct MHD_Connection *c;
	int fd;
	enum link_state state;
	bool cut;
	double since;
	double asked;
	enum metrics_format format;
	bool looked;
	struct text *text;
	TAILQ_ENTRY(link) list;
};

struct http;

/**
 * struct door - a socket that clients come in by
 * @h: whither
 * @daemon: who lets them in
 * @loopback: it is of loopback
 */
struct door {
	struct http *h;
	struct MHD_Daemon *daemon;
	bool loopback;
};

/**
 * struct http - what is answered
 * @x: with what
 * @looker: who looks
 * @looking: since when, or 0
 * @next: not before that it looks again
 * @door: sockets, @nr of them
 * @nr: their number
 * @links: connections, @nr_links of them
 * @nr_links: their number
 * @ended: one of them has ended
 * @texts: bytes of metrics that are held
 */
struct http {
	struct exporter *x;
	struct looker *looker;
	double looking;
	double next;
	struct door door[EXPORTER_LISTENERS];
	unsigned int nr;
	TAILQ_HEAD(, link) links;
	unsigned int nr_links;
	bool ended;
	size_t texts;
};

/* Lets all sockets do what they can. */
void http_run(struct http *h);

/* ---- text.c ----------------------------------------------------------- */

/*
 * An answer of one holder, with @s, which is freed with it; NULL if there is no
 * memory.
 */
struct text *text_new(unsigned int status, const char *type, char *s,
		      size_t len);
/* A sentence. */
struct text *text_line(unsigned int status, const char *line);
struct text *text_get(struct text *t);
void text_put(struct text *t);

/* ---- links.c ---------------------------------------------------------- */

/* A connection began or ended: for the library. */
void links_notified(void *arg, struct MHD_Connection *c, void **state,
		    enum MHD_ConnectionNotificationCode code);
struct link *link_of(struct MHD_Connection *c);
/* It waits no more: @t is its answer, or NULL, and it is cut off. */
void link_ready(struct link *l, struct text *t);
/* Those that are late. */
void links_late(struct http *h);
/* Those that hold other texts than @keep, until there is room. */
void links_make_room(struct http *h, struct text *const *keep);

#endif /* HTTP_H */
