// SPDX-License-Identifier: MIT
/*
 * main.c - kvcache-exporter: begin, and end.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter.h"
#include "service.h"
#include "util.h"

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = 1;
}

/* Signals come only while nothing is being answered: @mask is for that time. */
static void catch_signals(sigset_t *mask)
{
	const int ends[] = { SIGTERM, SIGINT, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t block;
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&block);
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		sigaddset(&block, ends[i]);
		sigaction(ends[i], &sa, NULL);
	}
	sigprocmask(SIG_BLOCK, &block, mask);
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigdelset(mask, ends[i]);
}

static int serve(struct exporter *x)
{
	struct sockets s;
	sigset_t mask;
	int err;

	catch_signals(&mask);
	err = sockets_open(&s, &x->opts);
	if (!err) {
		complain("started: %u socket%s", s.nr, s.nr == 1 ? "" : "s");
		err = http_serve(x, &s, &mask, &stop);
	}
	service_notify("STOPPING=1");
	sockets_close(&s);
	return err;
}

int main(int argc, char **argv)
{
	static struct exporter x;	/* beyond a thread that is stuck */
	const char *named;
	int err = options_parse(argc, argv, &x);

	if (err)
		return err < 0 ? 2 : 0;
	named = x.src.where ? x.src.where : getenv("KVCACHE");
	if (named && !strncmp(named, "local", 5)) {
		complain("\"%s\": the pages of one process are seen by it alone: name a device or a broker's socket",
			 named);
		return 1;
	}
	/* Texts of megabytes go back to the system, as soon as they are sent. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	err = x.opts.once ? scrape_once(&x) : serve(&x);
	if (!x.stuck)
		source_close(&x.src);
	return err ? 1 : 0;
}
