// SPDX-License-Identifier: MIT
/*
 * publish.c - a program that uses the library: publish a page, or find it again.
 *
 *	publish NUMBER		make a page of that key
 *	publish -f NUMBER	is it there?
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvcache/kvcache.h>

static int fail(struct kvc *kvc, const char *what, int err)
{
	fprintf(stderr, "publish: %s: %s: %s\n", what, strerror(-err),
		kvc ? kvc_errmsg(kvc) : "");
	return 1;
}

static int find(struct kvc *kvc, unsigned int number)
{
	struct kvcache_lookup find = {
		.flags = KVCACHE_LOOKUP_PEEK, .nr_keys = 1, .keys_per_page = 1,
	};
	int err;

	memset(find.keys[0], number, sizeof(find.keys[0]));
	err = kvc_call(kvc, KVCACHE_NR_LOOKUP, &find);
	if (err)
		return fail(kvc, "lookup", err);
	puts(find.out_nr_pages ? "found" : "not found");
	return !find.out_nr_pages;
}

static int make(struct kvc *kvc, unsigned int number)
{
	struct kvcache_alloc alloc = { .nr = 1 };
	struct kvcache_publish pub = { .nr = 1 };
	int err;

	err = kvc_call(kvc, KVCACHE_NR_ALLOC, &alloc);
	if (err)
		return fail(kvc, "alloc", err);
	pub.pages[0].handle = alloc.out_pages[0];
	pub.pages[0].nr_keys = 1;
	pub.pages[0].priority = KVCACHE_PRIO_DEFAULT;
	pub.pages[0].ttl_ns = KVCACHE_TIME_NEVER;
	pub.pages[0].keys[0].fill = 1;
	memset(pub.pages[0].keys[0].key, number,
	       sizeof(pub.pages[0].keys[0].key));
	err = kvc_call(kvc, KVCACHE_NR_PUBLISH, &pub);
	return err ? fail(kvc, "publish", err) : 0;
}

int main(int argc, char **argv)
{
	unsigned int number = argc > 1 ? atoi(argv[argc - 1]) : 1;
	char why[256] = "";
	struct kvc_open_opts opts = {
		.sz = sizeof(opts), .msg = why, .msg_len = sizeof(why),
	};
	struct kvc *kvc;
	int err;

	err = kvc_open(NULL, &opts, &kvc);
	if (err) {
		fprintf(stderr, "publish: %s: %s\n", strerror(-err), why);
		return 1;
	}
	err = argc > 2 ? find(kvc, number) : make(kvc, number);
	kvc_close(kvc);
	return err;
}
