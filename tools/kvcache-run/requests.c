// SPDX-License-Identifier: MIT
/*
 * requests.c - conversations from a file with one JSON object a line.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "conv.h"
#include "engine.h"
#include "input.h"
#include "requests.h"
#include "text.h"
#include "util.h"

/* One line: where it is, for complaints, and what it says. */
struct line {
	const struct engine *e;
	struct input_list *l;
	char *what;
	json_t *obj;
};

static int real(const struct line *ln, const char *key, double min, double max,
		double *out)
{
	json_t *v = json_object_get(ln->obj, key);

	if (!v)
		return 0;
	if (!json_is_number(v) || json_number_value(v) < min ||
	    json_number_value(v) > max)
		return complain("%s: %s: give a number from %g to %g",
				ln->what, key, min, max);
	*out = json_number_value(v);
	return 0;
}

static int whole(const struct line *ln, const char *key, int64_t max,
		 int64_t *out)
{
	json_t *v = json_object_get(ln->obj, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    json_integer_value(v) > max)
		return complain("%s: %s: give a whole number from 0 to %lld",
				ln->what, key, (long long)max);
	*out = json_integer_value(v);
	return 0;
}

static int sampling(const struct line *ln, struct sampling *s)
{
	const char *key = json_object_get(ln->obj, "n") ? "n" : NULL;
	int64_t n = s->max_new, seed = s->seed;

	if (key && json_object_get(ln->obj, "max_tokens"))
		return complain("%s: n and max_tokens: give one of them",
				ln->what);
	if (json_object_get(ln->obj, "max_tokens"))
		key = "max_tokens";
	if ((key && whole(ln, key, INT32_MAX, &n)) ||
	    whole(ln, "seed", INT64_MAX, &seed) ||
	    real(ln, "temperature", 0, 100, &s->temp) ||
	    real(ln, "top_p", MIN_TOP_P, 1, &s->top_p) ||
	    real(ln, "min_p", 0, 1, &s->min_p))
		return -1;
	s->max_new = n;
	s->max_new_key = key;
	s->seed = seed;
	return 0;
}

/* A name stands on terminals and in tables: it must not steer them. */
static bool printable(const char *s, size_t len)
{
	int n;

	for (; len; s += n, len -= n) {
		n = shown_char(s, len);
		if (n < 0)
			return false;
	}
	return true;
}

static int check_id(const struct line *ln)
{
	json_t *id = json_object_get(ln->obj, "id");

	if (id && !json_is_string(id) && !json_is_integer(id))
		return complain("%s: id: give a string or a whole number",
				ln->what);
	if (json_is_string(id) && !printable(json_string_value(id),
					      json_string_length(id)))
		return complain("%s: id: has a control character: leave it out",
				ln->what);
	return 0;
}

/* The name that the request gives, or the conversation's number. */
static char *name(const struct line *ln)
{
	json_t *id = json_object_get(ln->obj, "id");

	if (json_is_string(id))
		return xasprintf("%s", json_string_value(id));
	if (json_is_integer(id))
		return xasprintf("%lld", (long long)json_integer_value(id));
	return xasprintf("%u", ln->l->arrivals + 1);
}

static int known_keys(const struct line *ln, const char *const *keys,
		      unsigned int n)
{
	const char *key;
	unsigned int i;
	json_t *v;

	json_object_foreach(ln->obj, key, v) {
		for (i = 0; i < n; i++)
			if (!strcmp(key, keys[i]))
				break;
		if (i == n)
			return complain("%s: \"%s\" is not known: give prompt, messages or tokens, and id, system, n, max_tokens, temperature, top_p, min_p, seed, keep",
					ln->what, key);
	}
	return 0;
}

static int system_message(const struct line *ln, struct ids *ids)
{
	json_t *v = json_object_get(ln->obj, "system");

	if (!v)
		return input_system(ln->e, ids, ln->l->system,
				    ln->l->system_len, ln->what);
	if (!json_is_string(v))
		return complain("%s: system: give a string", ln->what);
	return input_system(ln->e, ids, json_string_value(v),
			    json_string_length(v), ln->what);
}

static int tokens(const struct line *ln, struct ids *ids, json_t *list)
{
	json_int_t id;
	json_t *v;
	size_t i;

	if (!json_is_array(list))
		return complain("%s: tokens: give an array of ids", ln->what);
	json_array_foreach(list, i, v) {
		id = json_integer_value(v);
		if (!json_is_integer(v) || id < 0 || id >= ln->e->info.vocab)
			return complain("%s: tokens: element %zu is not an id from 0 to %u",
					ln->what, i, ln->e->info.vocab - 1);
		ids_push(ids, id);
	}
	return 0;
}

static int message(const struct line *ln, struct ids *ids, json_t *m,
		   bool first)
{
	const char *role = json_string_value(json_object_get(m, "role"));
	json_t *content = json_object_get(m, "content");

	if (!role || !json_is_string(content))
		return complain("%s: messages: each needs a role and a content, both strings",
				ln->what);
	if (strcmp(role, "system") && strcmp(role, "user") &&
	    strcmp(role, "assistant"))
		return complain("%s: messages: role \"%s\": give system, user or assistant",
				ln->what, role);
	if (first && !strcmp(role, "system") &&
	    json_object_get(ln->obj, "system"))
		return complain("%s: system: the messages begin with one: give one of them",
				ln->what);
	if (first && strcmp(role, "system") && system_message(ln, ids))
		return -1;
	return chat_message(&ln->e->chat, ids, role, json_string_value(content),
			    json_string_length(content), ln->what);
}

static int messages(const struct line *ln, struct ids *ids, json_t *list)
{
	json_t *m;
	size_t i;

	if (!ln->e->has_chat)
		return complain("%s: messages: the model has no chat template that is known (ChatML is), or --raw is given: give a prompt",
				ln->what);
	if (!json_array_size(list))
		return complain("%s: messages: give an array that is not empty",
				ln->what);
	json_array_foreach(list, i, m)
		if (message(ln, ids, m, !i))
			return -1;
	chat_answer(&ln->e->chat, ids);
	return 0;
}

static int content(const struct line *ln, struct ids *ids, uint32_t *common)
{
	json_t *prompt = json_object_get(ln->obj, "prompt");
	json_t *msgs = json_object_get(ln->obj, "messages");
	json_t *toks = json_object_get(ln->obj, "tokens");

	if (!!prompt + !!msgs + !!toks != 1)
		return complain("%s: give one of prompt, messages and tokens",
				ln->what);
	if (toks && json_object_get(ln->obj, "system"))
		return complain("%s: system: tokens are taken as they are: leave it out",
				ln->what);
	if (toks)
		return input_no_system(ln->e, ln->what) ? -1 :
		       tokens(ln, ids, toks);
	if (input_need_text(ln->e))
		return -1;
	if (msgs)
		return messages(ln, ids, msgs);
	if (!json_is_string(prompt))
		return complain("%s: prompt: give a string", ln->what);
	if (system_message(ln, ids))
		return -1;
	/* A system message of its own is its own. */
	if (!json_object_get(ln->obj, "system"))
		*common = ids->n;
	return input_user(ln->e, ids, json_string_value(prompt),
			  json_string_length(prompt), ln->what);
}

static int keep(const struct line *ln, struct conv *c)
{
	json_t *v = json_object_get(ln->obj, "keep");

	if (v && !json_is_boolean(v))
		return complain("%s: keep: give true or false", ln->what);
	if (v)
		c->keep = json_is_true(v);
	return 0;
}

/* The conversation of that name, which has been answered and kept. */
static struct conv *kept(const struct line *ln, const char *id)
{
	const struct input_list *l = ln->l;
	struct conv *c;
	unsigned int i;

	for (i = l->n; i; i--) {
		c = l->v[i - 1];
		if (!c->keep || strcmp(c->name, id))
			continue;
		if (c->state != CONV_DONE)
			complain("%s: continue: %s is not answered yet: wait for that",
				 ln->what, id);
		else if (c->finish == FINISH_STOP || c->finish == FINISH_LENGTH)
			return c;
		else
			complain("%s: continue: %s has no answer to go on from: begin anew",
				 ln->what, id);
		return NULL;
	}
	complain("%s: continue: no conversation %s is kept: give keep with its first request",
		 ln->what, id);
	return NULL;
}

static int turn(struct line *ln, struct conv **out)
{
	static const char *const keys[] = {
		"continue", "prompt", "tokens", "n", "max_tokens", "keep",
	};
	json_t *id = json_object_get(ln->obj, "continue");
	json_t *prompt = json_object_get(ln->obj, "prompt");
	json_t *toks = json_object_get(ln->obj, "tokens");
	struct sampling s = ln->e->opts->sampling;
	struct conv *c;
	uint32_t before;
	int ret;

	if (known_keys(ln, keys, sizeof(keys) / sizeof(*keys)) ||
	    sampling(ln, &s))
		return -1;
	if (!json_is_string(id))
		return complain("%s: continue: give the id of a conversation",
				ln->what);
	if (!json_is_string(prompt) == !toks)
		return complain("%s: give one of prompt, a string, and tokens",
				ln->what);
	c = kept(ln, json_string_value(id));
	if (!c)
		return -1;
	before = c->ids.n;
	if (toks)
		ret = tokens(ln, &c->ids, toks) || input_check(ln->e, c,
							       ln->what);
	else
		ret = input_need_text(ln->e) ||
		      input_turn(ln->e, ln->l, c, json_string_value(prompt),
				 json_string_length(prompt));
	if (ret || keep(ln, c)) {
		c->ids.n = before;
		return -1;
	}
	c->max_new = s.max_new;
	c->max_new_key = s.max_new_key;
	c->arrival = ln->l->arrivals++;
	*out = c;
	return 0;
}

/* A conversation of the list, or another turn of one. */
static int request(struct line *ln, const char *text, size_t len,
		   struct conv **out)
{
	static const char *const keys[] = {
		"id", "prompt", "messages", "tokens", "system", "n",
		"max_tokens", "temperature", "top_p", "min_p", "seed", "keep",
	};
	struct sampling s = ln->e->opts->sampling;
	json_error_t err;

	if (ids_check(text, len, ln->what))
		return -1;
	ln->obj = json_loadb(text, len, JSON_REJECT_DUPLICATES, &err);
	if (!ln->obj)
		return complain("%s: %s: give one JSON object a line",
				ln->what, err.text);
	if (!json_is_object(ln->obj))
		return complain("%s: not an object: give one JSON object a line",
				ln->what);
	if (ln->l->live && json_object_get(ln->obj, "continue"))
		return turn(ln, out);
	if (known_keys(ln, keys, sizeof(keys) / sizeof(*keys)) ||
	    check_id(ln) || sampling(ln, &s))
		return -1;
	*out = conv_create(name(ln), &s, ln->e);
	input_add(ln->l, *out);
	if (!content(ln, &(*out)->ids, &(*out)->common) && !keep(ln, *out) &&
	    !input_check(ln->e, *out, ln->what))
		return 0;
	input_drop(ln->l, *out);
	return -1;
}

static bool blank(const char *s, size_t n)
{
	return strspn(s, " \t\r") >= n;
}

/* One line, not blank; the text behind it is readable. */
static int one(struct line *ln, const char *path, unsigned int row,
	       const char *text, size_t n, struct conv **out)
{
	int ret;

	ln->what = xasprintf("%s:%u", path, row);
	ret = request(ln, text, n, out);
	json_decref(ln->obj);
	ln->obj = NULL;
	free(ln->what);
	return ret;
}

int requests_read(const struct engine *e, struct input_list *l,
		  const char *path)
{
	struct line ln = { .e = e, .l = l };
	unsigned int before = l->n, row = 0;
	const char *at, *nl;
	struct conv *c;
	size_t len, n;
	char *text;
	int ret = 0;

	text = read_file(path, &len);
	if (!text)
		return -1;
	for (at = text; at < text + len && !ret; at += n + 1) {
		nl = memchr(at, '\n', text + len - at);
		n = nl ? (size_t)(nl - at) : (size_t)(text + len - at);
		row++;
		if (!blank(at, n))
			ret = one(&ln, path, row, at, n, &c);
	}
	free(text);
	if (!ret && l->n == before)
		ret = complain("%s: no request: give one JSON object a line",
			       path);
	return ret;
}

/* Take what has come: 1; 0 nothing has, or the end; -1 after a complaint. */
static int take(struct feed *f, bool wait)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n;

	if (f->end || poll(&p, 1, wait ? -1 : 0) <= 0)
		return 0;
	if (f->len == FEED_MAX)
		return complain("-:%u: longer than %u MiB: give less text",
				f->row + 1, FEED_MAX >> 20);
	if (f->len + 1 >= f->cap) {
		f->cap = f->cap ? 2 * f->cap : 1 << 16;
		f->buf = xrealloc(f->buf, f->cap, 1);
	}
	n = f->cap - 1 - f->len;
	if (n > FEED_MAX - f->len)
		n = FEED_MAX - f->len;
	n = read(STDIN_FILENO, f->buf + f->len, n);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 :
		       complain("standard input: %s", strerror(errno));
	f->end = !n;
	f->len += n;
	return 1;
}

/* The next line, without its end; false: there is no whole one. */
static bool next_line(struct feed *f, size_t *n, size_t *used)
{
	char *nl = f->len > f->seen ?
		   memchr(f->buf + f->seen, '\n', f->len - f->seen) : NULL;

	if (!nl && (!f->end || !f->len)) {
		f->seen = f->len;
		return false;
	}
	*n = nl ? (size_t)(nl - f->buf) : f->len;
	*used = *n + !!nl;
	f->buf[*n] = '\0';
	f->seen = 0;
	f->row++;
	return true;
}

int feed_next(struct feed *f, const struct engine *e, struct input_list *l,
	      bool wait, struct conv **out)
{
	struct line ln = { .e = e, .l = l };
	size_t n, used;
	int ret;

	for (;;) {
		if (!next_line(f, &n, &used)) {
			if (f->end)
				return FEED_END;
			ret = take(f, wait);
			if (ret <= 0)
				return ret ? ret : FEED_NONE;
			continue;
		}
		ret = blank(f->buf, n) ? FEED_NONE :
		      one(&ln, "-", f->row, f->buf, n, out) ? FEED_BAD :
		      FEED_ONE;
		f->len -= used;
		memmove(f->buf, f->buf + used, f->len);
		if (ret != FEED_NONE)
			return ret;
	}
}
