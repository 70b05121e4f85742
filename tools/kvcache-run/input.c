// SPDX-License-Identifier: MIT
/*
 * input.c - prompts of the command line become conversations.
 */
#include <stdlib.h>
#include <string.h>

#include "conv.h"
#include "engine.h"
#include "input.h"
#include "requests.h"
#include "tokenizer.h"
#include "util.h"

int input_need_text(const struct engine *e)
{
	if (e->tok)
		return 0;
	return complain("%s; or give --tokens instead of text", e->tok_err);
}

int input_check(const struct engine *e, const struct conv *c, const char *what)
{
	if (!c->ids.n)
		return complain("%s: the prompt is empty: give it some text",
				what);
	if (c->ids.n >= e->ctx_len && !options_windows(e->opts))
		return complain("%s: a prompt of %u tokens does not fit a context of %u: shorten it%s",
				what, c->ids.n, e->ctx_len,
				e->ctx_len < e->info.context ?
				" or raise --ctx" : "");
	return 0;
}

void input_add(struct input_list *l, struct conv *c)
{
	c->arrival = l->arrivals++;
	l->v = xrealloc(l->v, l->n + 1, sizeof(*l->v));
	l->v[l->n++] = c;
}

void input_drop(struct input_list *l, struct conv *c)
{
	unsigned int i;

	for (i = 0; l->v[i] != c; i++)
		;
	l->n--;
	memmove(l->v + i, l->v + i + 1, (l->n - i) * sizeof(*l->v));
	conv_free(c);
}

/* What comes before a raw text. */
static void begin_raw(const struct engine *e, struct ids *ids)
{
	if (tokenizer_add_bos(e->tok) && tokenizer_bos(e->tok) != TOKEN_NONE)
		ids_push(ids, tokenizer_bos(e->tok));
}

int input_system(const struct engine *e, struct ids *ids, const char *system,
		 size_t len, const char *what)
{
	if (!e->has_chat) {
		begin_raw(e, ids);
		return system ? ids_text(ids, e->tok, system, len, true, what)
			      : 0;
	}
	if (!system) {
		if (!e->chat.system)
			return 0;
		system = e->chat.system;
		len = strlen(system);
	}
	return chat_message(&e->chat, ids, "system", system, len, what);
}

int input_no_system(const struct engine *e, const char *what)
{
	const struct options *o = e->opts;

	if (!o->system && !o->system_file)
		return 0;
	return complain("%s: ids are taken as they are, without %s: leave that out, or begin the ids with its tokens",
			what, o->system ? "--system" : "--system-file");
}

int input_user(const struct engine *e, struct ids *ids, const char *text,
	       size_t len, const char *what)
{
	if (!len)
		return complain("%s: the prompt is empty: give it some text",
				what);
	if (!e->has_chat)
		return ids_text(ids, e->tok, text, len, true, what);
	if (chat_message(&e->chat, ids, "user", text, len, what))
		return -1;
	chat_answer(&e->chat, ids);
	return 0;
}

static int add_text(const struct engine *e, struct input_list *l,
		    const char *text, size_t len, const char *what)
{
	struct conv *c;

	if (input_need_text(e))
		return -1;
	c = conv_create(xasprintf("%u", l->arrivals + 1), &e->opts->sampling, e);
	input_add(l, c);
	if (input_system(e, &c->ids, l->system, l->system_len, "--system"))
		return -1;
	c->common = c->ids.n;
	if (input_user(e, &c->ids, text, len, what))
		return -1;
	return input_check(e, c, what);
}

static int add_file(const struct engine *e, struct input_list *l,
		    const char *path)
{
	size_t len;
	char *text = read_file(path, &len);
	int ret;

	if (!text)
		return -1;
	ret = add_text(e, l, text, len, path);
	free(text);
	return ret;
}

static int add_tokens(const struct engine *e, struct input_list *l,
		      const char *s)
{
	struct conv *c;

	c = conv_create(xasprintf("%u", l->arrivals + 1), &e->opts->sampling, e);
	input_add(l, c);
	if (input_no_system(e, "--tokens") ||
	    ids_parse(&c->ids, s, e->info.vocab, "--tokens"))
		return -1;
	return input_check(e, c, "--tokens");
}

static int read_system(const struct engine *e, struct input_list *l)
{
	const struct options *o = e->opts;

	if (o->system) {
		l->system = xasprintf("%s", o->system);
		l->system_len = strlen(o->system);
	} else if (o->system_file) {
		l->system = read_file(o->system_file, &l->system_len);
		if (!l->system)
			return -1;
	}
	return 0;
}

int input_read(const struct engine *e, struct input_list *l)
{
	const struct options *o = e->opts;
	unsigned int i;
	int ret = 0;

	if (read_system(e, l))
		return -1;
	if (o->chat)
		return input_need_text(e);
	/* It is added to what was saved, when that is there. */
	if (o->load)
		return o->ninputs && o->inputs[0].kind != INPUT_TOKENS ?
		       input_need_text(e) : 0;
	for (i = 0; i < o->ninputs && !ret; i++) {
		const char *v = o->inputs[i].value;

		switch (o->inputs[i].kind) {
		case INPUT_TEXT:
			ret = add_text(e, l, v, strlen(v), "-p");
			break;
		case INPUT_FILE:
			ret = add_file(e, l, v);
			break;
		case INPUT_TOKENS:
			ret = add_tokens(e, l, v);
			break;
		case INPUT_REQUESTS:
			/* A score has nothing to say before the end. */
			if (strcmp(v, "-") || o->score || options_windows(o))
				ret = requests_read(e, l, v);
			else
				l->live = true;
			break;
		}
	}
	return ret;
}

int input_turn(const struct engine *e, const struct input_list *l,
	       struct conv *c, const char *text, size_t len)
{
	uint32_t before = c->ids.n;
	int ret = 0;

	if (!before)
		ret = input_system(e, &c->ids, l->system, l->system_len,
				   "--system");
	else if (e->has_chat)
		chat_close(&e->chat, &c->ids);
	if (!ret && !before)
		c->common = c->ids.n;
	if (!ret)
		ret = input_user(e, &c->ids, text, len, "turn");
	/* Of what was said before, something can be forgotten. */
	if (!ret && !(before && e->opts->shift &&
		      c->ids.n - before < e->ctx_len))
		ret = input_check(e, c, "turn");
	if (ret)
		c->ids.n = before;
	return ret;
}

void input_free(struct input_list *l)
{
	unsigned int i;

	for (i = 0; i < l->n; i++)
		conv_free(l->v[i]);
	free(l->v);
	free(l->system);
}
