// SPDX-License-Identifier: MIT
/*
 * pretok.c - pre-tokenizers as PCRE2 expressions.
 *
 * The expressions are those of the models' own tokenizers; only \s is spelled
 * out, because PCRE2's has U+180E too, which stopped being a space in
 * Unicode 6.3. That leaves nothing that depends on PCRE2_UCP.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pretok.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define STAGES_MAX 4

#define WS "\\x09-\\x0d\\x{85}\\p{Z}"
#define SPACES "[" WS "]+(?![^" WS "])|[" WS "]+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" \
	" ?[^" WS "\\p{L}\\p{N}]+|" SPACES
/* With the longest run of digits as a parameter. */
#define LLAMA3(digits) "(?i:'s|'t|'re|'ve|'m|'ll|'d)|" \
	"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" \
	" ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|[" WS "]*[\\r\\n]+|" SPACES

/**
 * struct pretok_kind - what a name stands for
 * @name: in model files
 * @stages: expressions; each one cuts the pieces that the one before left,
 *          into its matches and what is between them
 * @whole_words: see pretok_whole_words()
 * @add_bos: see pretok_add_bos()
 */
struct pretok_kind {
	const char *name;
	const char *stages[STAGES_MAX];
	bool whole_words;
	bool add_bos;
};

static const struct pretok_kind kinds[] = {
	{ .name = "smollm", .stages = { "\\p{N}", GPT2 } },
	{ .name = "gpt-2", .stages = { GPT2 } },
	{
		.name = "default",
		.stages = {
			"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9]{3}",
		},
	},
	{
		.name = "llama-bpe",
		.stages = { LLAMA3("\\p{N}{1,3}") },
		.whole_words = true,
		.add_bos = true,
	},
	{ .name = "qwen2", .stages = { LLAMA3("\\p{N}") } },
};

struct pretok {
	const struct pretok_kind *kind;
	pcre2_code *code[STAGES_MAX];
};

/* One call of pretok_split(). */
struct split {
	const struct pretok *p;
	pcre2_match_data *match;
	pcre2_match_context *limits;
	int (*piece)(void *arg, const char *s, size_t len);
	void *arg;
};

int pretok_create(const char *name, size_t len, struct pretok **out)
{
	const struct pretok_kind *kind = NULL;
	PCRE2_SIZE where;
	struct pretok *p;
	unsigned int i;
	int error;

	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (strlen(kinds[i].name) == len &&
		    !memcmp(kinds[i].name, name, len))
			kind = &kinds[i];
	if (!kind)
		return -EOPNOTSUPP;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->kind = kind;
	for (i = 0; i < STAGES_MAX && kind->stages[i]; i++) {
		p->code[i] = pcre2_compile((PCRE2_SPTR)kind->stages[i],
					   PCRE2_ZERO_TERMINATED,
					   PCRE2_UTF, &error, &where, NULL);
		if (!p->code[i]) {
			pretok_destroy(p);
			return -ENOMEM;
		}
		/* Where there is no JIT, matches are interpreted. */
		pcre2_jit_compile(p->code[i], PCRE2_JIT_COMPLETE);
	}
	*out = p;
	return 0;
}

void pretok_destroy(struct pretok *p)
{
	unsigned int i;

	if (!p)
		return;
	for (i = 0; i < STAGES_MAX; i++)
		pcre2_code_free(p->code[i]);
	free(p);
}

const char *pretok_name(unsigned int i)
{
	return i < ARRAY_LEN(kinds) ? kinds[i].name : NULL;
}

bool pretok_whole_words(const struct pretok *p)
{
	return p->kind->whole_words;
}

bool pretok_add_bos(const struct pretok *p)
{
	return p->kind->add_bos;
}

static int run_stage(const struct split *s, unsigned int stage,
		     const char *text, size_t len)
{
	const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->match);
	size_t pos = 0, start, end;
	int ret;

	if (stage == STAGES_MAX || !s->p->code[stage])
		return s->piece(s->arg, text, len);
	while (pos < len) {
		/* The text is known to be UTF-8: checking it at each match
		 * would cost the square of its length. */
		ret = pcre2_match(s->p->code[stage], (PCRE2_SPTR)text, len,
				  pos, PCRE2_NO_UTF_CHECK, s->match,
				  s->limits);
		if (ret < 0 && ret != PCRE2_ERROR_NOMATCH)
			return -ENOMEM;
		start = ret < 0 ? len : at[0];
		end = ret < 0 ? len : at[1];
		if (start > pos) {
			ret = run_stage(s, stage + 1, text + pos, start - pos);
			if (ret)
				return ret;
		}
		if (end > start) {
			ret = run_stage(s, stage + 1, text + start,
					end - start);
			if (ret)
				return ret;
		}
		pos = end;
	}
	return 0;
}

int pretok_split(const struct pretok *p, const char *text, size_t len,
		 int (*piece)(void *arg, const char *s, size_t len),
		 void *arg)
{
	struct split s = { .p = p, .piece = piece, .arg = arg };
	int ret = -ENOMEM;

	s.match = pcre2_match_data_create(1, NULL);
	s.limits = pcre2_match_context_create(NULL);
	if (s.match && s.limits) {
		/* Backtracking over a run of spaces is counted by the space:
		 * the default limit is one of length. */
		pcre2_set_match_limit(s.limits, UINT32_MAX);
		ret = run_stage(&s, 0, text, len);
	}
	pcre2_match_context_free(s.limits);
	pcre2_match_data_free(s.match);
	return ret;
}
