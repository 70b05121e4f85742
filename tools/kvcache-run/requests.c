// SPDX-License-Identifier: MIT
/*
 * requests.c - conversations from a file with one JSON object a line.
 */
#include <stdlib.h>
#include <string.h>

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
	return xasprintf("%u", ln->l->n + 1);
}

static int known_keys(const struct line *ln)
{
	static const char *const keys[] = {
		"id", "prompt", "messages", "tokens", "system", "n",
		"max_tokens", "temperature", "top_p", "min_p", "seed",
	};
	const char *key;
	unsigned int i;
	json_t *v;

	json_object_foreach(ln->obj, key, v) {
		for (i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			if (!strcmp(key, keys[i]))
				break;
		if (i == sizeof(keys) / sizeof(*keys))
			return complain("%s: \"%s\" is not known: give prompt, messages or tokens, and id, system, n, max_tokens, temperature, top_p, min_p, seed",
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
		return complain("%s: messages: the model has no chat template, or --raw is given: give a prompt",
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

static int content(const struct line *ln, struct ids *ids)
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
	return input_user(ln->e, ids, json_string_value(prompt),
			  json_string_length(prompt), ln->what);
}

static int request(struct line *ln, const char *text, size_t len)
{
	struct sampling s = ln->e->opts->sampling;
	json_error_t err;
	struct conv *c;

	if (ids_check(text, len, ln->what))
		return -1;
	ln->obj = json_loadb(text, len, JSON_REJECT_DUPLICATES, &err);
	if (!ln->obj)
		return complain("%s: %s: give one JSON object a line",
				ln->what, err.text);
	if (!json_is_object(ln->obj))
		return complain("%s: not an object: give one JSON object a line",
				ln->what);
	if (known_keys(ln) || check_id(ln) || sampling(ln, &s))
		return -1;
	c = conv_create(name(ln), &s, ln->e);
	input_add(ln->l, c);
	if (content(ln, &c->ids))
		return -1;
	return input_check(ln->e, c, ln->what);
}

int requests_read(const struct engine *e, struct input_list *l,
		  const char *path)
{
	struct line ln = { .e = e, .l = l };
	unsigned int before = l->n, row = 0;
	const char *at, *nl;
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
		if (strspn(at, " \t\r") >= n)
			continue;
		ln.what = xasprintf("%s:%u", path, row);
		ret = request(&ln, at, n);
		json_decref(ln.obj);
		ln.obj = NULL;
		free(ln.what);
	}
	free(text);
	if (!ret && l->n == before)
		ret = complain("%s: no request: give one JSON object a line",
			       path);
	return ret;
}
