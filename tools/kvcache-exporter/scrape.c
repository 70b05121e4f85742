// SPDX-License-Identifier: MIT
/*
 * scrape.c - look at the ledger, and write down what is there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exporter.h"
#include "util.h"

static int look(struct exporter *x, struct look *l)
{
	int err = source_open(&x->src);

	if (!err)
		err = look_read(source_ask, &x->src, METRICS_LOOK,
				METRICS_TRIES, l);
	if (err == -EPROTO)
		source_because(&x->src, err,
			       "a reply that cannot be: use a backend of the same release");
	else if (err == -ENOMEM)
		source_because(&x->src, err, "no memory");
	/* One that is gone does not come back by itself. */
	if (err)
		source_close(&x->src);
	return err;
}

/* What there was to say is said once, not at every scrape. */
static void say(struct exporter *x, int err)
{
	if (x->gone == !!err)
		return;
	x->gone = err;
	if (!x->opts.once)
		complain("%s", err ? x->src.why : "the backend is there again");
}

static int write_texts(struct exporter *x, const struct look *l,
		       unsigned int formats, struct buffer *text)
{
	struct metrics_opts o = x->opts.metrics;
	unsigned int f;
	int err = 0;

	o.inconsistent = x->inconsistent;
	for (f = 0; !err && f < METRICS_FORMATS; f++) {
		o.format = f;
		if (formats & 1U << f)
			err = metrics_write(l, &o, &text[f]);
	}
	for (f = 0; err && f < METRICS_FORMATS; f++) {
		free(text[f].s);
		text[f] = (struct buffer){ 0 };
	}
	return err ? source_because(&x->src, err, "no memory") : 0;
}

int scrape(struct exporter *x, unsigned int formats, struct buffer *text,
	   double *took)
{
	bool fresh = !x->src.kvc;
	static struct look l;
	double begin = now();
	int err = look(x, &l);

	/* That connection was to one that may have been started anew. */
	if (err && !fresh)
		err = look(x, &l);
	*took = now() - begin;
	say(x, err);
	memset(text, 0, METRICS_FORMATS * sizeof(*text));
	if (err)
		return err;
	if (!look_is_one(&l))
		x->inconsistent++;
	err = write_texts(x, &l, formats, text);
	look_free(&l);
	return err;
}

/* ---- once ------------------------------------------------------------- */

static int write_all(int fd, const char *s, size_t len)
{
	ssize_t n;

	for (; len; s += n, len -= n) {
		n = write(fd, s, len);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return -1;
	}
	return 0;
}

/* Whoever reads it meanwhile has the last one, or this one. */
static int replace(const char *path, const struct buffer *b)
{
	char *new = xasprintf("%s.XXXXXX", path);
	int fd = mkstemp(new), err = 0;

	if (fd < 0 || write_all(fd, b->s, b->len) || fchmod(fd, 0644) ||
	    fsync(fd) || rename(new, path))
		err = errno;
	if (err && fd >= 0)
		unlink(new);
	if (fd >= 0)
		close(fd);
	free(new);
	return err ? complain("%s: %s: give --output a file in a folder that can be written",
			      path, strerror(err)) : 0;
}

int scrape_once(struct exporter *x)
{
	const enum metrics_format f = x->opts.metrics.format;
	struct buffer text[METRICS_FORMATS];
	double took;
	int err = scrape(x, 1U << f, text, &took);

	if (err)
		return complain("%s", x->src.why);
	if (x->opts.output)
		err = replace(x->opts.output, &text[f]);
	else if (write_all(STDOUT_FILENO, text[f].s, text[f].len))
		err = complain("standard output: %s", strerror(errno));
	free(text[f].s);
	return err;
}
