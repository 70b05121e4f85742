/* SPDX-License-Identifier: MIT */
/*
 * exporter.h - kvcache-exporter: metrics over HTTP.
 *
 * main.c begins and ends, options.c has the command line, scrape.c looks at the
 * ledger, looker.c does so in a thread of its own, sockets.c is where it listens,
 * http.c answers, links.c has who is connected, text.c what they are sent, and
 * accept.c decides which of it. One thread does all but looking.
 */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "listener.h"
#include "metrics.h"
#include "source.h"

#define EXPORTER_PORT		9961
#define EXPORTER_LISTENERS	16	/* sockets at most */
#define EXPORTER_CONNECTIONS	512	/* at all of them */
/* Of a connection: until it has asked, is answered, is at its end. */
#define EXPORTER_ASK_S		1
#define EXPORTER_ANSWER_S	5
#define EXPORTER_DEADLINE_S	10
#define EXPORTER_NO_ANSWER \
	"the module or broker has not answered for seconds: see whether it was stopped"
#define EXPORTER_TEXTS		(64 << 20)	/* bytes of them on their way */
/* After a look, this many times what it took before the next, and no more. */
#define EXPORTER_PAUSE		20
#define EXPORTER_PAUSE_S	1
#define EXPORTER_HEADER		8192	/* bytes of a request at most */

/**
 * struct options - the command line
 * @listen: places, @nr_listen of them; none: both addresses of loopback
 * @nr_listen: their number
 * @remote: addresses that others reach may be among them
 * @mode: who may connect to a Unix socket
 * @has_group: a Unix socket is to be @group's
 * @group: which
 * @once: print and end
 * @output: with @once: the file, or NULL
 * @metrics: how they are written; the format with @once only
 */
struct options {
	const char *listen[EXPORTER_LISTENERS];
	unsigned int nr_listen;
	bool remote;
	mode_t mode;
	bool has_group;
	gid_t group;
	bool once;
	const char *output;
	struct metrics_opts metrics;
};

/**
 * struct exporter - one run
 * @src: the ledger
 * @opts: the command line
 * @inconsistent: looks that were not of one moment
 * @gone: the last look failed, and that was said
 * @stuck: a look has not ended: @src is still in use
 */
struct exporter {
	struct source src;
	struct options opts;
	uint64_t inconsistent;
	bool gone;
	bool stuck;
};

/* 0, 1 if there is nothing left to do, or -1 after a complaint. */
int options_parse(int argc, char **argv, struct exporter *x);

/* ---- scrape.c --------------------------------------------------------- */

/*
 * Text of now, in each of @formats (1 << METRICS_*), to be freed, in
 * @text[METRICS_FORMATS]; and how long it took to look: 0, or -errno, and
 * @x->src.why says why.
 */
int scrape(struct exporter *x, unsigned int formats, struct buffer *text,
	   double *took);
/* Into the file or to standard output: 0, or -1 after a complaint. */
int scrape_once(struct exporter *x);

/* ---- looker.c --------------------------------------------------------- */

/**
 * struct looker - a thread that looks
 * @x: at what
 * @thread: which
 * @lock: of @wanted and @end; the results are of the thread while @wanted is not
 *        0, and else of who asked
 * @wake: one of them has changed
 * @fd: can be read from when a look is over
 * @wanted: formats, 1 << METRICS_*; 0: nothing
 * @end: no more
 * @text: what was seen, to be freed by whoever takes it
 * @err: or why nothing was, and @x->src.why
 * @took: seconds
 */
struct looker {
	struct exporter *x;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int fd;
	unsigned int wanted;
	bool end;
	struct buffer text[METRICS_FORMATS];
	int err;
	double took;
};

/* 0, or -1 after a complaint. */
int looker_start(struct looker *k, struct exporter *x);
/* Once the last one is over. */
void looker_look(struct looker *k, unsigned int formats);
/* One has ended: its results are there. */
bool looker_done(struct looker *k);
/* False if it is still looking, and stays so. */
bool looker_stop(struct looker *k);

/* ---- accept.c --------------------------------------------------------- */

/* What a client wants that sends this header, which may be NULL. */
enum metrics_format accept_format(const char *accept);
/* Does this Host header mean an address of loopback, whoever is asked? */
bool accept_host(const char *host);

/* ---- sockets.c -------------------------------------------------------- */

/**
 * struct sockets - where we listen
 * @fd: sockets, @nr of them
 * @loopback: [@nr] only this machine reaches it, and each of its users
 * @nr: their number
 * @made: Unix sockets that we made, @nr_made of them
 * @nr_made: their number
 */
struct sockets {
	int fd[EXPORTER_LISTENERS];
	bool loopback[EXPORTER_LISTENERS];
	unsigned int nr;
	struct listener made[EXPORTER_LISTENERS];
	unsigned int nr_made;
};

/* 0, or -1 after a complaint; sockets_close() in any case. */
int sockets_open(struct sockets *s, const struct options *o);
void sockets_close(struct sockets *s);

/* ---- http.c ----------------------------------------------------------- */

/*
 * Answers at all sockets, which it closes, until a signal sets *@stop, which
 * comes only while nothing is being answered: with @mask. 0, or -1 after a
 * complaint.
 */
int http_serve(struct exporter *x, struct sockets *s, const sigset_t *mask,
	       volatile sig_atomic_t *stop);

#endif /* EXPORTER_H */
