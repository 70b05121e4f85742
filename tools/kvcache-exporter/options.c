// SPDX-License-Identifier: MIT
/*
 * options.c - the command line.
 */
#include <getopt.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter.h"
#include "util.h"

static const char help[] =
"Usage: kvcache-exporter [OPTION]...\n"
"Show pools and tenants to Prometheus, and to whatever else reads OpenMetrics.\n"
"\n"
"  -d, --device PATH     a device or a broker's socket; else what KVCACHE says, else\n"
"                        the first there is\n"
"  -t, --tenant NAME     whose member to be, if the user may not administer\n"
"  -l, --listen WHERE    PORT of loopback, ADDRESS:PORT or unix:PATH; may be repeated\n"
"                        (127.0.0.1:9961 and [::1]:9961)\n"
"      --allow-remote    take addresses that other machines reach, too: whoever can\n"
"                        connect is answered\n"
"      --mode MODE       who may connect to unix:PATH (0660)\n"
"      --group GROUP     whose members those are (of the user who runs it)\n"
"      --max-tenants N   series of their own for so many tenants only; the others are\n"
"                        summed up as tenant \"(rest)\"\n"
"      --once            print metrics and end\n"
"  -o, --output FILE     with --once: replace a file, as a whole\n"
"      --format FORMAT   with --once: text, which node_exporter reads, or openmetrics\n"
"                        (text)\n"
"  -h, --help            show this\n"
"  -V, --version         show the version\n"
"\n"
"Metrics are at /metrics; /healthz says that the exporter itself is alive.\n"
"Exit status: 0; 1 refused or failed; 2 usage.\n";

enum { OPT_REMOTE = 256, OPT_MODE, OPT_GROUP, OPT_MAX_TENANTS, OPT_ONCE, OPT_FORMAT };

static const struct option longopts[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "tenant", required_argument, NULL, 't' },
	{ "listen", required_argument, NULL, 'l' },
	{ "allow-remote", no_argument, NULL, OPT_REMOTE },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "max-tenants", required_argument, NULL, OPT_MAX_TENANTS },
	{ "once", no_argument, NULL, OPT_ONCE },
	{ "output", required_argument, NULL, 'o' },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 }
};

static int set_mode(struct options *o, const char *s)
{
	char *end;
	unsigned long v = strtoul(s, &end, 8);

	if (*s < '0' || *s > '7' || *end || v & ~0666UL || !v)
		return complain("--mode \"%s\": give 0600 for the own user, 0660 for its group, too, or 0666 for all",
				s);
	o->mode = v;
	return 0;
}

static int set_group(struct options *o, const char *s)
{
	struct group *gr = getgrnam(s);
	uint64_t id;

	if (!gr && !parse_u64(s, 0, UINT32_MAX - 1, &id))
		return complain("--group \"%s\": no such group", s);
	o->group = gr ? gr->gr_gid : id;
	o->has_group = true;
	return 0;
}

static int set_format(struct options *o, const char *s)
{
	if (!strcmp(s, "text"))
		o->metrics.format = METRICS_PROMETHEUS;
	else if (!strcmp(s, "openmetrics"))
		o->metrics.format = METRICS_OPENMETRICS;
	else
		return complain("--format \"%s\": give text or openmetrics", s);
	return 0;
}

static int set(struct exporter *x, int opt, const char *arg)
{
	struct options *o = &x->opts;

	switch (opt) {
	case 'd':
		x->src.where = arg;
		return *arg ? 0 : complain("--device \"\": give the path of a device or of a broker's socket");
	case 't':
		x->src.as = arg;
		if (*arg && strlen(arg) < KVCACHE_NAME_LEN)
			return 0;
		return complain("--tenant \"%s\": give the name of a tenant, 1 to %d characters",
				arg, KVCACHE_NAME_LEN - 1);
	case 'l':
		if (o->nr_listen == EXPORTER_LISTENERS)
			return complain("--listen %s: %d are enough", arg,
					EXPORTER_LISTENERS);
		o->listen[o->nr_listen++] = arg;
		return 0;
	case OPT_REMOTE:
		o->remote = true;
		return 0;
	case OPT_MODE:
		return set_mode(o, arg);
	case OPT_GROUP:
		return set_group(o, arg);
	case OPT_MAX_TENANTS:
		if (parse_u64(arg, 1, UINT32_MAX, &o->metrics.max_tenants))
			return 0;
		return complain("--max-tenants \"%s\": give a whole number from 1",
				arg);
	case OPT_ONCE:
		o->once = true;
		return 0;
	case 'o':
		o->output = arg;
		return *arg ? 0 : complain("--output \"\": give a file");
	case OPT_FORMAT:
		return set_format(o, arg);
	}
	return -1;	/* getopt_long() has said why */
}

int options_parse(int argc, char **argv, struct exporter *x)
{
	bool format = false;
	int opt;

	x->opts = (struct options){
		.mode = 0660, .metrics.format = METRICS_PROMETHEUS,
	};
	while ((opt = getopt_long(argc, argv, "d:t:l:o:hV", longopts,
				  NULL)) != -1) {
		if (opt == 'h') {
			fputs(help, stdout);
			return 1;
		}
		if (opt == 'V') {
			puts("kvcache-exporter " KVC_VERSION);
			return 1;
		}
		if (set(x, opt, optarg))
			return -1;
		format |= opt == OPT_FORMAT;
	}
	if (optind < argc)
		return complain("%s: not an option: see --help", argv[optind]);
	if (!x->opts.once && (x->opts.output || format))
		return complain("--%s: is of one print: give --once, too",
				format ? "format" : "output");
	if (x->opts.once && x->opts.nr_listen)
		return complain("--listen %s: --once listens nowhere: leave out one of them",
				x->opts.listen[0]);
	return 0;
}
