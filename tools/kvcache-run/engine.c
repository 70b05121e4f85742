// SPDX-License-Identifier: MIT
/*
 * engine.c - the model file, its tokenizer, the pool, the cache, the weights.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <kvattn.h>
#include <kvcache/threads.h>
#include <nettle/sha2.h>

#include "engine.h"
#include "gguf.h"
#include "progress.h"
#include "scales.h"
#include "tokenizer.h"
#include "util.h"

int engine_open(struct engine *e, const struct options *opts)
{
	char err[256] = "";

	*e = (struct engine){ .opts = opts };
	if (gguf_open(opts->model, &e->gguf, err, sizeof(err)))
		return complain("%s", err);
	if (model_probe(e->gguf, &e->info, err, sizeof(err)) ||
	    model_check(e->gguf, opts->weights, err, sizeof(err)))
		return complain("%s: %s", opts->model, err);
	if (tokenizer_create(e->gguf, &e->tok, e->tok_err,
			     sizeof(e->tok_err)))
		e->tok = NULL;
	if (e->tok && tokenizer_size(e->tok) > e->info.vocab)
		return complain("%s: the tokenizer has %u tokens, the model %u: convert the model again",
				opts->model, tokenizer_size(e->tok),
				e->info.vocab);
	e->has_chat = e->tok && !opts->raw &&
		      chat_init(&e->chat, e->gguf, e->tok);
	e->ctx_len = opts->ctx ? opts->ctx : e->info.context;
	if (e->ctx_len > e->info.context)
		return complain("--ctx %u: the model was made for %u tokens: give no more",
				opts->ctx, e->info.context);
	if (opts->shift && opts->keep > e->ctx_len / 2)
		return complain("--keep %u: more than half of a context of %u tokens: give less",
				opts->keep, e->ctx_len);
	return 0;
}

/*
 * What the keys of cached pages begin with: other weights make other keys and
 * values of the same tokens, and so does arithmetic in another type.
 */
static int weights_id(struct engine *e, uint8_t id[32])
{
	const char *type = weights_name(e->opts->weights);
	FILE *f = fopen(e->opts->model, "r");
	struct sha256_ctx sha, file;
	uint8_t buf[1 << 16];
	uint64_t done = 0;
	struct stat st;
	size_t n;

	if (!f)
		return complain("%s: %s: give a file that can be read",
				e->opts->model, strerror(errno));
	sha256_init(&sha);
	if (fstat(fileno(f), &st))
		st.st_size = 0;
	while ((n = fread(buf, 1, sizeof(buf), f))) {
		sha256_update(&sha, n, buf);
		done += n;
		if (done <= (uint64_t)st.st_size)
			progress("identifying the weights",
				 (double)done / st.st_size);
	}
	progress_clear();
	fclose(f);
	file = sha;
	sha256_digest(&file, 32, e->file_id);
	sha256_update(&sha, strlen(type), (const uint8_t *)type);
	sha256_digest(&sha, 32, id);
	return 0;
}

/* What was asked of a pool that is not this program's. */
static int not_ours(const struct engine *e)
{
	const struct options *o = e->opts;
	const char *opt = o->pool ? "--pool" :
			  o->page_size ? "--page-size" :
			  o->max_pages ? "--max-pages" : NULL;

	if (!opt || engine_local(e))
		return 0;
	return complain("%s: the %s has its own pool and limits: leave it out, or set KVCACHE=local",
			opt, kvc_backend(e->kvc));
}

static int open_backend(struct engine *e)
{
	const struct options *o = e->opts;
	char why[256] = "";
	const struct kvc_open_opts open = {
		.sz = sizeof(open),
		.flags = KVC_OPEN_LOCAL,
		.tenant = o->tenant,
		.local_bytes = o->pool,
		.local_page_size = o->page_size,
		.local_max = o->max_pages,
		.msg = why,
		.msg_len = sizeof(why),
	};
	struct kvcache_query q = { .flags = 0 };
	int ret = kvc_open(NULL, &open, &e->kvc);

	if (ret)
		return complain("no pool: %s", why[0] ? why : strerror(-ret));
	if (not_ours(e))
		return -1;
	ret = kvc_call(e->kvc, KVCACHE_NR_QUERY, &q);
	if (ret)
		return complain("no pool: %s", kvc_errmsg(e->kvc));
	e->page_size = q.out_pools[0].page_size;
	return 0;
}

/* A secret in a file: what it is made of does not matter. */
static int read_salt(const char *path, uint8_t salt[32])
{
	struct sha256_ctx sha;
	struct stat st;
	size_t len;
	char *text;

	if (!path)
		return 0;
	if (!stat(path, &st) && (st.st_mode & S_IROTH))
		return complain("%s: all can read it: a salt is a secret, make its mode 0440",
				path);
	text = read_file(path, &len);
	if (!text)
		return -1;
	if (len < 16)
		complain("%s: %zu bytes can be guessed: give it 32 of /dev/urandom",
			 path, len);
	sha256_init(&sha);
	sha256_update(&sha, len, (const uint8_t *)text);
	sha256_digest(&sha, 32, salt);
	free(text);
	return len < 16 ? -1 : 0;
}

/* The number of a tenant; only administrators see the names of others. */
static int find_commons(const struct engine *e, uint32_t *id)
{
	const char *name = e->opts->commons;
	struct kvcache_tenant_get t = { .flags = 0 };
	uint64_t number;
	uint32_t i;

	if (!name)
		return 0;
	if (parse_u64(name, 1, UINT32_MAX, &number)) {
		*id = number;
		return 0;
	}
	do {
		if (kvc_call(e->kvc, KVCACHE_NR_TENANT_GET, &t))
			return complain("--commons: %s", kvc_errmsg(e->kvc));
		for (i = 0; i < t.out_nr; i++) {
			if (strcmp(t.out_info[i].name, name))
				continue;
			*id = t.out_info[i].id;
			return 0;
		}
		t.start = t.out_next;
	} while (t.out_next);
	return complain("--commons %s: no tenant of that name is shown to this user: give its number",
			name);
}

void engine_shape(const struct engine *e, int k_type, int v_type,
		  const uint8_t *id, struct model_groups *groups,
		  struct kvc_model *out)
{
	model_cache(&e->info, k_type, v_type, id, groups, out);
	out->epoch = e->opts->epoch;
	out->k_scales = e->k_scales;
	out->v_scales = e->v_scales;
}

int engine_cache(const struct engine *e, const struct kvc_model *shape,
		 struct kvc_cache **out)
{
	const char *scales = e->opts->kv_scales;
	int ret = kvc_cache_create(e->kvc, shape, &e->copts, out);

	if (!ret)
		return 0;
	return complain("no cache: %s%s%s%s", kvc_errmsg(e->kvc),
			ret == -EAGAIN ? ": give fewer --threads" : "",
			scales ? ": --kv-scales " : "", scales ? scales : "");
}

/* All layers' scales, if there are any; whether they are enough, the library
 * looks at. */
static int read_scales(struct engine *e)
{
	if (!e->opts->kv_scales)
		return 0;
	e->k_scales = xcalloc(e->info.nlayers, sizeof(*e->k_scales));
	e->v_scales = xcalloc(e->info.nlayers, sizeof(*e->v_scales));
	return scales_read(e, e->opts->kv_scales, e->k_scales, e->v_scales);
}

int engine_pool(struct engine *e)
{
	const struct options *o = e->opts;
	bool keeps = options_keep(o);
	int k_type = o->calibrate ? KVA_F32 : o->k_type;
	int v_type = o->calibrate ? KVA_F32 : o->v_type;
	double begin = now();
	uint8_t id[32];

	e->copts = (struct kvc_cache_opts){
		.sz = sizeof(e->copts),
		.threads = o->threads,
		.no_reuse = o->no_reuse || o->no_share,
		.isa = o->isa,
		.step = o->chunk,
		/* All rows of a window are looked at. */
		.keep_all = o->keep_window || o->calibrate,
	};
	/* Keys of the commons are others even where there are no secrets. */
	strcpy((char *)e->copts.commons_salt, "commons");
	if (open_backend(e) || find_commons(e, &e->copts.commons) ||
	    read_salt(o->salt, e->copts.salt) ||
	    read_salt(o->commons_salt, e->copts.commons_salt))
		return -1;
	/* Where nothing is kept, there is nothing to mistake. */
	if ((keeps || o->kv_scales || o->calibrate) && weights_id(e, id))
		return -1;
	if (keeps)
		e->id_s = now() - begin;
	if (read_scales(e))
		return -1;
	engine_shape(e, k_type, v_type, keeps ? id : NULL, &e->groups,
		     &e->shape);
	if (engine_cache(e, &e->shape, &e->cache))
		return -1;
	return tiers_open(e);
}

static void loading(void *arg, double done)
{
	progress("loading", done);
}

int engine_load(struct engine *e)
{
	const struct model_opts mopts = {
		.weights = e->opts->weights,
		.progress = loading,
	};
	char err[256] = "";
	int ret;

	ret = model_load(e->gguf, &mopts, kvc_cache_threads(e->cache),
			 &e->model, err, sizeof(err));
	progress_clear();
	if (ret)
		return complain("%s: %s", e->opts->model, err);
	e->info = *model_info(e->model);
	return 0;
}

void engine_close(struct engine *e)
{
	if (e->model)
		model_free(e->model);
	if (e->cache)
		kvc_cache_destroy(e->cache);
	tiers_close(e);
	if (e->kvc)
		kvc_close(e->kvc);
	if (e->has_chat)
		chat_free(&e->chat);
	if (e->tok)
		tokenizer_destroy(e->tok);
	if (e->gguf)
		gguf_close(e->gguf);
	free(e->k_scales);
	free(e->v_scales);
}

bool engine_local(const struct engine *e)
{
	return !strcmp(kvc_backend(e->kvc), "local");
}

/* The tenant's own entry, or false. */
static bool own_tenant(const struct engine *e, uint32_t id,
		       struct kvcache_tenant_info *out)
{
	struct kvcache_tenant_get t = { .flags = 0 };

	/* The list may have others: it is asked to begin here. */
	t.start = id;
	if (kvc_call(e->kvc, KVCACHE_NR_TENANT_GET, &t) || !t.out_nr ||
	    t.out_info[0].id != id)
		return false;
	*out = t.out_info[0];
	return true;
}

uint64_t engine_excess(const struct engine *e)
{
	struct kvcache_query q = { .flags = 0 };
	struct kvcache_tenant_info t;
	uint64_t used;

	if (kvc_call(e->kvc, KVCACHE_NR_QUERY, &q) ||
	    !own_tenant(e, q.out_tenant, &t))
		return 0;
	used = t.cur - t.nr_cached;
	return used > t.max ? used - t.max : 0;
}

void engine_limits(const struct engine *e, struct limits *out)
{
	struct kvcache_query q = { .flags = 0 };
	struct kvcache_tenant_info t;

	kvc_call(e->kvc, KVCACHE_NR_QUERY, &q);
	*out = (struct limits){
		.pool_pages = q.out_pools[0].nr_pages,
		.max_pages = KVCACHE_LIMIT_MAX,
	};
	if (!own_tenant(e, q.out_tenant, &t))
		return;
	out->max_pages = t.max;
	strcpy(out->tenant, t.name);
}

void engine_pages(const struct engine *e, uint64_t *held, uint64_t *cached,
		  uint64_t *allocs)
{
	const struct kvcache_pool_info *p;
	struct kvcache_query q = { .flags = 0 };

	kvc_call(e->kvc, KVCACHE_NR_QUERY, &q);
	p = &q.out_pools[0];
	*held = p->nr_private + p->nr_shared;
	*cached = p->nr_cached;
	*allocs = p->allocs;
}
