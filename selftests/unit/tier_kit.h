/* SPDX-License-Identifier: MIT */
/*
 * tier_kit.h - a cache over tiers, and a folder that goes with the test.
 */
#ifndef TIER_KIT_H
#define TIER_KIT_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "kit.h"
#include "tier.h"

#define TIER_SEC 1000000000ULL

struct tier_kit {
	struct kit k;
	struct kvc_tier *t;
	char dir[64];
};

static inline void tier_folder(struct tier_kit *w)
{
	const char *base = getenv("TMPDIR");

	snprintf(w->dir, sizeof(w->dir), "%.40s/kvc-tier-XXXXXX",
		 base && strlen(base) < 40 ? base : "/tmp");
	ASSERT_NE(NULL, mkdtemp(w->dir));
}

/* Is it a page's file, or a temporary one's? */
static inline bool tier_is_page(const char *name)
{
	return strlen(name) == 64;
}

/* Files of pages, or with @tmp those that are being written; their bytes. */
static inline uint32_t tier_files(const struct tier_kit *w, bool tmp,
				  uint64_t *bytes)
{
	DIR *d = opendir(w->dir);
	struct dirent *e;
	uint32_t n = 0;
	struct stat st;

	if (bytes)
		*bytes = 0;
	ASSERT_NE(NULL, d);
	while ((e = readdir(d))) {
		if (tmp ? strncmp(e->d_name, "tmp.", 4) :
			  !tier_is_page(e->d_name))
			continue;
		n++;
		if (bytes && !fstatat(dirfd(d), e->d_name, &st, 0))
			*bytes += st.st_size;
	}
	closedir(d);
	return n;
}

/* Call @fn with each page's path. */
static inline void tier_each(const struct tier_kit *w,
			     void (*fn)(const char *path, uint32_t i))
{
	DIR *d = opendir(w->dir);
	struct dirent *e;
	char path[400];
	uint32_t i = 0;

	ASSERT_NE(NULL, d);
	while ((e = readdir(d))) {
		if (!tier_is_page(e->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", w->dir, e->d_name);
		fn(path, i++);
	}
	closedir(d);
}

static inline void tier_remove(const struct tier_kit *w)
{
	DIR *d = opendir(w->dir);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	rmdir(w->dir);
}

static inline void tier_begin(struct tier_kit *w, const struct kit_spec *spec,
			      const struct kvc_tier_file *how,
			      const struct kvc_tier_opts *opts, uint32_t policy)
{
	struct kvc_tier_file f = { 0 };

	if (how)
		f = *how;
	f.sz = sizeof(f);
	if (!f.path)
		f.path = w->dir;
	kit_open(&w->k, spec);
	ASSERT_EQ(0, kvc_tier_file_open(&f, opts, &w->t));
	ASSERT_EQ(0, kvc_cache_tier(w->k.c, w->t, policy));
}

static inline void tier_end(struct tier_kit *w)
{
	struct kvc_tier_stats st;

	EXPECT_EQ(0, kit_used(&w->k));
	/* Nothing is left of what was on its way. */
	EXPECT_EQ(0, kvc_tier_flush(w->t, kvc_now_ns() + 20 * TIER_SEC));
	kit_close(&w->k);
	pthread_mutex_lock(&w->t->lock);
	for (struct kvc_req *r = w->t->ready; r; r = r->next) {
		EXPECT_TRUE(r->left);
		w->t->st.memory -= r->len;
	}
	EXPECT_EQ(0, w->t->st.memory);
	for (struct kvc_req *r = w->t->ready; r; r = r->next)
		w->t->st.memory += r->len;
	pthread_mutex_unlock(&w->t->lock);
	kvc_tier_stats(w->t, &st);
	kvc_tier_close(w->t);
	w->t = NULL;
}

static inline struct kvc_tier_stats tier_stats(struct tier_kit *w)
{
	struct kvc_tier_stats st;

	EXPECT_EQ(0, kvc_tier_flush(w->t, kvc_now_ns() + 20 * TIER_SEC));
	kvc_tier_stats(w->t, &st);
	return st;
}

/* Every page of the pool is taken from whoever can spare it, and given back. */
static inline void tier_empty_pool(struct tier_kit *w)
{
	struct kvcache_alloc a = { .nr = kit_pool(&w->k).nr_free };
	struct kvcache_pool_info p = kit_pool(&w->k);
	struct kvcache_free f = { 0 };

	a.nr = p.nr_pages - p.nr_shared - p.nr_private;
	/* Volatile ones, too. */
	while (a.nr < p.nr_pages) {
		struct kvcache_alloc check = a;

		check.nr++;
		check.flags = KVCACHE_ALLOC_CHECK;
		if (kvc_call(w->k.ctx, KVCACHE_NR_ALLOC, &check))
			break;
		a.nr++;
	}
	ASSERT_EQ(0, kvc_call(w->k.ctx, KVCACHE_NR_ALLOC, &a));
	f.nr = a.nr;
	memcpy(f.pages, a.out_pages, a.nr * sizeof(*f.pages));
	ASSERT_EQ(0, kvc_call(w->k.ctx, KVCACHE_NR_FREE, &f));
}

#endif /* TIER_KIT_H */
