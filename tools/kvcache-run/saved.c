// SPDX-License-Identifier: MIT
/*
 * saved.c - one conversation that comes from a file, or goes to one.
 *
 * The library keeps its tokens, keys and values. What it does not know goes
 * with them: how the next token is chosen, which tokens have no keys and values
 * yet, and by what the weights were called.
 */
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <kvattn.h>
#include <kvcache/kvcache.h>

#include "conv.h"
#include "run.h"
#include "sample.h"
#include "saved.h"
#include "tokenizer.h"
#include "util.h"

#define APP_MAGIC "KVRN\1\0\0\0"
#define NAME_LEN 64

/* What this program adds; all numbers are little-endian, ids follow. */
struct app {
	char magic[8];
	char model[NAME_LEN];		/* file, without its folder */
	char weights[8];
	uint64_t temp;			/* bits of a double */
	uint64_t top_p;
	uint64_t min_p;
	uint64_t seed;
	uint64_t state[4];
	uint32_t npending;
	uint32_t zero;
};

static uint64_t bits(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof(u));
	return htole64(u);
}

static double real(uint64_t u)
{
	double d;

	u = le64toh(u);
	memcpy(&d, &u, sizeof(d));
	return d;
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- before anything is computed -------------------------------------- */

static int check_target(const char *path)
{
	const char *name = file_name(path);
	char *folder = xasprintf("%.*s", (int)(name - path), path);
	struct stat st;
	int ret = 0;

	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		ret = complain("--save %s: no regular file: give another name",
			       path);
	else if (access(*folder ? folder : ".", W_OK | X_OK))
		ret = complain("--save %s: %s: give a name in a folder that can be written to",
			       path, strerror(errno));
	free(folder);
	return ret;
}

int saved_check(const struct run *r)
{
	/* A file too large is an answer of write(), not the end. */
	signal(SIGXFSZ, SIG_IGN);
	return r->opts.save ? check_target(r->opts.save) : 0;
}

/* ---- load ------------------------------------------------------------- */

/* What the library's reason leaves to be said. */
static void complain_load(const struct run *r, int err,
			  const struct kvc_saved *s, const struct app *app)
{
	const struct engine *e = &r->engine;
	char remedy[256] = "";

	if (err == -EMEDIUMTYPE)
		snprintf(remedy, sizeof(remedy), ": give one that --save wrote");
	else if (err == -EXDEV && app &&
		 strncmp(app->weights, weights_name(e->opts->weights),
			 sizeof(app->weights)))
		snprintf(remedy, sizeof(remedy), ": give --weights %.*s, as it was saved with",
			 (int)sizeof(app->weights), app->weights);
	else if (err == -EXDEV && app)
		snprintf(remedy, sizeof(remedy), ": give the model that it was saved with, %.*s",
			 NAME_LEN, app->model);
	else if (err == -EKEYEXPIRED)
		snprintf(remedy, sizeof(remedy), ": begin it anew, or give --epoch %llu if they have not",
			 (unsigned long long)s->epoch);
	else if (err == -EPROTOTYPE)
		snprintf(remedy, sizeof(remedy), ": give --kv-k %s --kv-v %s",
			 kva_type_name(s->groups[0].k_type),
			 kva_type_name(s->groups[0].v_type));
	else if (err == -EKEYREJECTED)
		snprintf(remedy, sizeof(remedy), ": load it with the program that saved it");
	complain("--load %s: %s%s", e->opts->load, kvc_errmsg(e->kvc), remedy);
}

/* This program's own part, or NULL if it is another's, or there is none. */
static const struct app *own_part(const uint8_t *buf, uint64_t len)
{
	const struct app *app = (const void *)buf;

	if (len < sizeof(*app) ||
	    memcmp(app->magic, APP_MAGIC, sizeof(app->magic)))
		return NULL;
	if (le32toh(app->npending) != (len - sizeof(*app)) / sizeof(uint32_t) ||
	    (len - sizeof(*app)) % sizeof(uint32_t))
		return NULL;
	return app;
}

/* As it was saved, but for what the command line says. */
static int set_sampler(const struct run *r, struct conv *c,
		       const struct app *app)
{
	unsigned int given = r->opts.given, i;
	struct sample_opts o;
	uint64_t state[4];

	sampler_get(c->sampler, &o, state);
	if (!(given & GIVEN_TEMP))
		o.temperature = real(app->temp);
	if (!(given & GIVEN_TOP_P))
		o.top_p = real(app->top_p);
	if (!(given & GIVEN_MIN_P))
		o.min_p = real(app->min_p);
	if (!(given & GIVEN_SEED))
		o.seed = le64toh(app->seed);
	sampler_destroy(c->sampler);
	c->sampler = NULL;
	if (sampler_create(&o, r->engine.info.vocab, &c->sampler))
		return -1;
	if (given & GIVEN_SEED)
		return 0;
	for (i = 0; i < 4; i++)
		state[i] = le64toh(app->state[i]);
	return sampler_set(c->sampler, state);
}

/* Its tokens, those without keys and values last. */
static int take_ids(const struct run *r, struct conv *c, const struct app *app)
{
	const uint8_t *pending = app ? (const uint8_t *)(app + 1) : NULL;
	uint32_t vocab = r->engine.info.vocab, i, id;

	for (i = 0; i < kvc_seq_len(c->seq); i++)
		ids_push(&c->ids, kvc_seq_tokens(c->seq)[i]);
	for (i = 0; app && i < le32toh(app->npending); i++) {
		memcpy(&id, pending + i * sizeof(id), sizeof(id));
		ids_push(&c->ids, le32toh(id));
	}
	for (i = 0; i < c->ids.n; i++)
		if (c->ids.v[i] >= vocab)
			return complain("--load %s: token %u of a model with %u: give the model that it was saved with",
					r->opts.load, c->ids.v[i], vocab);
	if (app && set_sampler(r, c, app))
		return complain("--load %s: its settings cannot be: take another copy",
				r->opts.load);
	return 0;
}

static int append_file(struct run *r, struct conv *c, const char *path)
{
	size_t len;
	char *text = read_file(path, &len);
	int ret;

	if (!text)
		return -1;
	ret = input_turn(&r->engine, &r->inputs, c, text, len);
	free(text);
	return ret;
}

/* Nothing is added: is there a next token to be chosen? */
static int goes_on(const struct run *r, const struct conv *c)
{
	const struct engine *e = &r->engine;

	if (c->ids.n == kvc_seq_len(c->seq))
		return complain("--load %s: all of its tokens have been computed: give a prompt to go on with",
				r->opts.load);
	if (e->tok && !r->opts.ignore_end &&
	    tokenizer_is_end(e->tok, c->ids.v[c->ids.n - 1]))
		return complain("--load %s: its text has ended: give another turn with -p, or --ignore-end",
				r->opts.load);
	return input_check(e, c, "--load");
}

static int append_input(struct run *r, struct conv *c)
{
	const struct options *o = &r->opts;
	const char *v = o->ninputs ? o->inputs[0].value : NULL;

	/* A chat takes its turns one by one. */
	if (o->chat)
		return 0;
	if (!v)
		return goes_on(r, c);
	if (o->inputs[0].kind == INPUT_TOKENS) {
		if (ids_parse(&c->ids, v, r->engine.info.vocab, "--tokens"))
			return -1;
		return input_check(&r->engine, c, "--tokens");
	}
	if (o->inputs[0].kind == INPUT_FILE)
		return append_file(r, c, v);
	return input_turn(&r->engine, &r->inputs, c, v, strlen(v));
}

/* Others may give back the pages that it takes. */
static uint64_t deadline(const struct run *r)
{
	double secs = r->opts.wait_s;
	struct timespec ts;

	if (engine_local(&r->engine) || secs == 0)
		return 0;
	if (secs < 0)
		return KVCACHE_TIME_NEVER;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec + (uint64_t)(secs * 1e9);
}

static int restore(struct run *r, struct conv *c, uint8_t *buf)
{
	struct kvc_saved saved;
	const struct kvc_restore_opts o = {
		.sz = sizeof(o),
		.deadline_ns = deadline(r),
		.app = buf,
		.app_room = KVC_SAVE_APP_MAX,
		.saved = &saved,
	};
	const struct app *app;
	double begin = now();
	int ret;

	ret = kvc_seq_restore_file(r->engine.cache, r->opts.load, &o, &c->seq);
	app = own_part(buf, saved.app_len);
	if (ret) {
		complain_load(r, ret, &saved, app);
		return -1;
	}
	r->report.loaded = (struct kept_file){
		.path = r->opts.load,
		.tokens = saved.tokens,
		.bytes = saved.bytes,
		.secs = now() - begin,
	};
	return take_ids(r, c, app);
}

int saved_load(struct run *r)
{
	uint8_t *buf = xcalloc(KVC_SAVE_APP_MAX, 1);
	struct conv *c;
	int ret;

	c = conv_create(xasprintf(r->opts.chat ? "chat" : "1"),
			&r->opts.sampling, &r->engine);
	input_add(&r->inputs, c);
	ret = restore(r, c, buf);
	if (!ret)
		ret = append_input(r, c);
	free(buf);
	return ret;
}

/* ---- save ------------------------------------------------------------- */

static struct app *make_part(const struct run *r, const struct conv *c,
			     size_t *len)
{
	uint32_t stored = kvc_seq_len(c->seq), n = c->ids.n - stored, i, id;
	struct sample_opts o;
	uint64_t state[4];
	struct app *app;

	*len = sizeof(*app) + n * sizeof(id);
	app = xcalloc(*len, 1);
	memcpy(app->magic, APP_MAGIC, sizeof(app->magic));
	snprintf(app->model, NAME_LEN, "%s", file_name(r->opts.model));
	snprintf(app->weights, sizeof(app->weights), "%s",
		 weights_name(r->opts.weights));
	sampler_get(c->sampler, &o, state);
	app->temp = bits(o.temperature);
	app->top_p = bits(o.top_p);
	app->min_p = bits(o.min_p);
	app->seed = htole64(o.seed);
	for (i = 0; i < 4; i++)
		app->state[i] = htole64(state[i]);
	app->npending = htole32(n);
	for (i = 0; i < n; i++) {
		id = htole32(c->ids.v[stored + i]);
		memcpy((uint8_t *)(app + 1) + i * sizeof(id), &id, sizeof(id));
	}
	return app;
}

/* It was idle: what others took of it meanwhile is saved as tokens only. */
static int wake(struct run *r, struct conv *c)
{
	const struct kvc_seq_opts so = { .sz = sizeof(so) };
	int ret;

	if (!c->seq)
		ret = kvc_seq_create(r->engine.cache, &so, &c->seq);
	else
		ret = kvc_seq_wake(c->seq);
	if (ret >= 0)
		return 0;
	return complain("--save %s: nothing is saved: %s", r->opts.save,
			kvc_errmsg(r->engine.kvc));
}

int saved_save(struct run *r, struct conv *c)
{
	struct kvc_save_opts o = { .sz = sizeof(o) };
	struct kept_file k = { .path = r->opts.save };
	double begin = now();
	struct app *app;
	int ret;

	if (!k.path)
		return 0;
	if (c->finish == FINISH_NONE || c->finish == FINISH_FAILED ||
	    c->finish == FINISH_REFUSED)
		return complain("--save %s: nothing is saved: the conversation did not run",
				k.path);
	if (wake(r, c))
		return -1;
	app = make_part(r, c, &o.app_len);
	o.app = app;
	ret = kvc_save_size(c->seq, &o, &k.bytes);
	if (!ret)
		ret = kvc_seq_save_file(c->seq, k.path, &o);
	free(app);
	if (ret)
		return complain("--save %s: nothing is saved: %s%s", k.path,
				kvc_errmsg(r->engine.kvc),
				ret == -ENOSPC || ret == -EDQUOT ||
				ret == -EFBIG ?
				": make room, or give another file" : "");
	k.tokens = kvc_seq_len(c->seq);
	k.secs = now() - begin;
	r->report.saved = k;
	return 0;
}
