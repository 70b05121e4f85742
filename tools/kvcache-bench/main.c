// SPDX-License-Identifier: MIT
/*
 * main.c - kvcache-bench: each part of kvcache against the physical limit that
 * bounds it.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"

static const struct bench_command commands[] = {
	{ "attn", bench_attn, "the attention kernels" },
	{ "ioctl", bench_ioctl, "commands of the device, and touching its pages" },
	{ "ledger", bench_ledger, "the ledger, by pages and tenants" },
	{ "products", bench_products, "matrix products by library and weights" },
	{ "step", bench_step, "a decode step, with and without the cache" },
	{ "waste", bench_waste, "slots held but unused, by page size" },
};

static void usage(FILE *f)
{
	size_t i;

	fprintf(f, "Usage: kvcache-bench COMMAND [OPTION]...\n"
		   "Measure a part of kvcache against what bounds it.\n\n");
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].help);
	fprintf(f, "\nEach command takes --help.\n");
}

int main(int argc, char **argv)
{
	size_t i;

	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("kvcache-bench " KVC_VERSION);
		return 0;
	}
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].fn(argc - 1, argv + 1);
	fprintf(stderr, "kvcache-bench: no command is called '%s'\n", argv[1]);
	usage(stderr);
	return 2;
}
