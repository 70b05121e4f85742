/* SPDX-License-Identifier: MIT */
/*
 * exporter.h - kvcache-exporter: metrics over HTTP.
 *
 * main.c begins and ends, options.c has the command line, scrape.c looks at the
 * ledger, sockets.c is where it listens, http.c answers, accept.c decides in
 * which text. One thread does all of it.
 */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "listener.h"
#include "metrics.h"
#include "source.h"

#define EXPORTER_PORT		9961
#define EXPORTER_LISTENERS	16	/* sockets at most */
#define EXPORTER_CONNECTIONS	32	/* at each of them */
/* From its beginning to its end, whoever is slow. */
#define EXPORTER_DEADLINE_S	10
#define EXPORTER_HEADER		8192	/* bytes of a request at most */

/**
 * struct options - the command line
 * @listen: places, @nr_listen of them; none: both addresses of loopback
 * @nr_listen: their number
 * @remote: addresses that others reach may be among them
 * @mode: who may connect to a Unix socket
 * @once: print and end
 * @output: with @once: the file, or NULL
 * @metrics: how they are written; the format with @once only
 */
struct options {
	const char *listen[EXPORTER_LISTENERS];
	unsigned int nr_listen;
	bool remote;
	mode_t mode;
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
 */
struct exporter {
	struct source src;
	struct options opts;
	uint64_t inconsistent;
	bool gone;
};

/* 0, 1 if there is nothing left to do, or -1 after a complaint. */
int options_parse(int argc, char **argv, struct exporter *x);

/* ---- scrape.c --------------------------------------------------------- */

/* Text of now, to be freed; 0, or -errno, and @x->src.why says why. */
int scrape(struct exporter *x, enum metrics_format format, struct buffer *out);
/* Into the file or to standard output: 0, or -1 after a complaint. */
int scrape_once(struct exporter *x);

/* ---- accept.c --------------------------------------------------------- */

/* What a client wants that sends this header, which may be NULL. */
enum metrics_format accept_format(const char *accept);

/* ---- sockets.c -------------------------------------------------------- */

/**
 * struct sockets - where we listen
 * @fd: sockets, @nr of them
 * @nr: their number
 * @made: Unix sockets that we made, @nr_made of them
 * @nr_made: their number
 */
struct sockets {
	int fd[EXPORTER_LISTENERS];
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
