// SPDX-License-Identifier: MIT
/*
 * chat.c - ChatML: messages between <|im_start|> and <|im_end|>.
 */
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "gguf.h"
#include "ids.h"
#include "tokenizer.h"
#include "util.h"

#define START "<|im_start|>"
#define END "<|im_end|>"

/*
 * A template that has a default system message spells it out, as it is, behind
 * the header of a system message: a literal without Jinja's braces.
 */
static char *default_system(struct gguf_str tmpl)
{
	static const char *const heads[] = {
		START "system\n", START "system\\n",
	};
	const char *from, *to;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		from = memmem(tmpl.s, tmpl.len, heads[i], strlen(heads[i]));
		if (!from)
			continue;
		from += strlen(heads[i]);
		to = memmem(from, tmpl.s + tmpl.len - from, END, strlen(END));
		if (to && to > from && !memchr(from, '{', to - from) &&
		    !memchr(from, '\'', to - from))
			return strndup(from, to - from);
	}
	return NULL;
}

bool chat_init(struct chat *c, const struct gguf *g, const struct tokenizer *t)
{
	struct gguf_str tmpl;

	c->tok = t;
	c->start = tokenizer_special(t, START);
	c->end = tokenizer_special(t, END);
	c->system = NULL;
	if (c->start == TOKEN_NONE || c->end == TOKEN_NONE ||
	    gguf_string(g, "tokenizer.chat_template", &tmpl) ||
	    !memmem(tmpl.s, tmpl.len, START, strlen(START)))
		return false;
	c->system = default_system(tmpl);
	return true;
}

void chat_free(struct chat *c)
{
	free(c->system);
}

static int body(const struct chat *c, struct ids *ids, const char *role,
		const char *text, size_t len, const char *what)
{
	size_t head = strlen(role) + 1;
	char *s;
	int ret;

	if (ids_check(text, len, what))
		return -1;
	s = xrealloc(NULL, head + len, 1);
	/* One text: a merge may reach over the newline behind the role. */
	memcpy(s, role, head - 1);
	s[head - 1] = '\n';
	memcpy(s + head, text, len);
	ids_push(ids, c->start);
	ret = ids_text(ids, c->tok, s, head + len, false, what);
	free(s);
	return ret;
}

void chat_close(const struct chat *c, struct ids *ids)
{
	if (!ids->n || ids->v[ids->n - 1] != c->end)
		ids_push(ids, c->end);
	ids_text(ids, c->tok, "\n", 1, false, "newline");
}

int chat_message(const struct chat *c, struct ids *ids, const char *role,
		 const char *text, size_t len, const char *what)
{
	if (body(c, ids, role, text, len, what))
		return -1;
	ids_push(ids, c->end);
	return ids_text(ids, c->tok, "\n", 1, false, what);
}

void chat_answer(const struct chat *c, struct ids *ids)
{
	body(c, ids, "assistant", "", 0, "assistant");
}
