// SPDX-License-Identifier: MIT
/*
 * tokenizer_load.c - make a tokenizer from a model file's keys.
 *
 * Byte-level vocabularies are written with a printable character for each
 * byte, others with U+2581 for a space; here that is undone once, and
 * everything else works on bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"
#include "pretok.h"
#include "tokenizer_priv.h"
#include "utf8.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define KEY(name) "tokenizer.ggml." name
#define OTHER_MODEL "use a model whose tokenizer is \"gpt2\" or \"llama\""
#define CONVERT "convert the model again"

/* Bytes that are printable stand for themselves, the other 68 for U+0100 to
 * U+0143 in their order. */
#define CHARS 0x144

struct loader {
	const struct gguf *g;
	struct tokenizer *t;
	char *err;
	size_t errlen;
	bool by_score;			/* characters join, not bytes */
	int16_t byte_of[CHARS];		/* or -1 */
};

#define fail(l, error, ...) \
	gguf_fail((l)->g, error, (l)->err, (l)->errlen, __VA_ARGS__)

static int no_memory(struct loader *l)
{
	return fail(l, -ENOMEM, "no memory for the tokenizer; free some");
}

static void map_bytes(struct loader *l)
{
	int b, next = 0x100;

	memset(l->byte_of, -1, sizeof(l->byte_of));
	for (b = 0; b < 256; b++) {
		if ((b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) ||
		    b >= 0xae)
			l->byte_of[b] = b;
		else
			l->byte_of[next++] = b;
	}
}

/* Undo the printable form; characters that have none stay. @out has room for
 * @len bytes. Return: bytes written, or -EILSEQ. */
static ssize_t to_bytes(const struct loader *l, const char *s, size_t len,
			char *out)
{
	char *start = out;
	uint32_t cp;
	int n;

	for (; len; s += n, len -= n) {
		n = utf8_decode(s, len, &cp);
		if (n < 0)
			return n;
		if (cp < CHARS && l->byte_of[cp] >= 0) {
			*out++ = l->byte_of[cp];
		} else {
			memcpy(out, s, n);
			out += n;
		}
	}
	return out - start;
}

static int unknown_pre(struct loader *l, const struct gguf_str *s)
{
	char known[128] = "";
	unsigned int i;
	size_t n = 0;

	for (i = 0; pretok_name(i) && n < sizeof(known); i++)
		n += snprintf(known + n, sizeof(known) - n, "%s%s",
			      i ? ", " : "", pretok_name(i));
	return fail(l, -EOPNOTSUPP,
		    KEY("pre") " is \"%.*s\", which is not known; use a model with one of %s",
		    s->len < 32 ? (int)s->len : 32, s->s, known);
}

static int check_model(struct loader *l)
{
	struct gguf_str s;
	int ret;

	ret = gguf_string(l->g, KEY("model"), &s);
	if (ret)
		return fail(l, -EINVAL,
			    "no key " KEY("model") ": no tokenizer; "
			    OTHER_MODEL);
	l->by_score = s.len == 5 && !memcmp(s.s, "llama", 5);
	if (l->by_score)
		return 0;
	if (s.len != 4 || memcmp(s.s, "gpt2", 4))
		return fail(l, -EOPNOTSUPP,
			    KEY("model") " is \"%.*s\", which is not known; "
			    OTHER_MODEL, s.len < 32 ? (int)s.len : 32, s.s);
	ret = gguf_string(l->g, KEY("pre"), &s);
	if (ret)
		return fail(l, -EINVAL,
			    "no key " KEY("pre") ": how texts are cut is not known; "
			    CONVERT);
	ret = pretok_create(s.s, s.len, &l->t->pretok);
	if (ret == -EOPNOTSUPP)
		return unknown_pre(l, &s);
	return ret ? no_memory(l) : 0;
}

/* Return: enum token_kind or -EINVAL. */
static int token_kind(struct loader *l, uint32_t id, bool typed)
{
	int64_t v = TOKEN_NORMAL;
	int ret = 0;

	if (typed)
		ret = gguf_array_i64(l->g, KEY("token_type"), id, &v);
	if (ret || v < TOKEN_NORMAL || v > TOKEN_BYTE)
		return fail(l, -EINVAL, KEY("token_type")
			    ": the type of token %u is not 1 to 6; " CONVERT,
			    id);
	return v;
}

/* "<0x0A>" is the token of byte 10; its bytes are that one. */
static ssize_t byte_token(const char *s, size_t len, char *out)
{
	unsigned int b;
	int end = 0;
	char text[8] = "";

	if (len != 6)
		return -EILSEQ;
	memcpy(text, s, len);
	if (sscanf(text, "<0x%2X>%n", &b, &end) != 1 || end != 6)
		return -EILSEQ;
	*out = b;
	return 1;
}

/* A token's bytes from how the file writes them. */
static ssize_t token_text(struct loader *l, unsigned int kind,
			  const struct gguf_str *s, char *to)
{
	if (!l->by_score && (kind == TOKEN_NORMAL || kind == TOKEN_BYTE))
		return to_bytes(l, s->s, s->len, to);
	if (l->by_score && kind == TOKEN_BYTE)
		return byte_token(s->s, s->len, to);
	if (!utf8_valid(s->s, s->len))
		return -EILSEQ;
	if (l->by_score)
		return token_spaces(s->s, s->len, to);
	if (s->len)
		memcpy(to, s->s, s->len);
	return s->len;
}

/* May characters join to such a token? */
static bool is_word(const struct loader *l, unsigned int kind)
{
	if (l->by_score)
		return kind == TOKEN_NORMAL || kind == TOKEN_USER;
	return kind != TOKEN_CONTROL;
}

static int load_token(struct loader *l, uint32_t id, bool typed)
{
	struct tokenizer *t = l->t;
	char *to = t->bytes + t->start[id];
	struct gguf_str s;
	ssize_t n;
	int kind;

	kind = token_kind(l, id, typed);
	if (kind < 0)
		return kind;
	t->flags[id] = kind;
	gguf_array_string(l->g, KEY("tokens"), id, &s);
	n = token_text(l, kind, &s, to);
	if (n < 0)
		return fail(l, -EINVAL, KEY("tokens")
			    ": token %u is not %s; " CONVERT, id,
			    l->by_score && kind == TOKEN_BYTE ?
			    "a byte as <0x0A> is" : "UTF-8");
	t->start[id + 1] = t->start[id] + n;
	/* Of equal tokens the first is used. */
	if (is_word(l, kind) && n)
		strmap_add(&t->ids, to, n, id);
	return 0;
}

static int load_tokens(struct loader *l)
{
	struct tokenizer *t = l->t;
	enum gguf_value type;
	uint64_t n, ntypes, i;
	struct gguf_str s;
	size_t room = 0;
	int ret;

	ret = gguf_array(l->g, KEY("tokens"), &type, &n);
	if (ret || type != GGUF_V_STRING || !n || n > INT32_MAX)
		return fail(l, -EINVAL, "no list of tokens in key "
			    KEY("tokens") "; " OTHER_MODEL);
	ret = gguf_array(l->g, KEY("token_type"), &type, &ntypes);
	if (ret != -ENOENT && (ret || ntypes != n))
		return fail(l, -EINVAL, KEY("token_type")
			    " is not one number for each of %llu tokens; "
			    CONVERT, (unsigned long long)n);
	for (i = 0; i < n; i++) {
		gguf_array_string(l->g, KEY("tokens"), i, &s);
		room += s.len;
	}
	t->bytes = malloc(room + 1);
	t->start = calloc(n + 1, sizeof(*t->start));
	t->flags = calloc(n, sizeof(*t->flags));
	if (!t->bytes || !t->start || !t->flags || strmap_init(&t->ids, n))
		return no_memory(l);
	t->size = n;
	for (i = 0; i < n; i++) {
		int bad = load_token(l, i, !ret);

		if (bad)
			return bad;
	}
	return 0;
}

/* @buf has room for all of the string. */
static int load_merge(struct loader *l, uint64_t rank, char *buf,
		      struct bpe_merge *m)
{
	const struct strmap *ids = &l->t->ids;
	const char *space = NULL;
	ssize_t left, right;
	struct gguf_str s;

	gguf_array_string(l->g, KEY("merges"), rank, &s);
	if (s.len > 2)
		space = memchr(s.s + 1, ' ', s.len - 2);
	if (!space)
		return fail(l, -EINVAL, KEY("merges")
			    ": merge %llu is not two words; " CONVERT,
			    (unsigned long long)rank);
	left = to_bytes(l, s.s, space - s.s, buf);
	if (left < 0)
		goto unknown;
	space++;
	right = to_bytes(l, space, s.s + s.len - space, buf + left);
	if (right < 0 || !strmap_find(ids, buf, left, &m->left) ||
	    !strmap_find(ids, buf + left, right, &m->right) ||
	    !strmap_find(ids, buf, left + right, &m->result))
		goto unknown;
	return 0;

unknown:
	return fail(l, -EINVAL, KEY("merges")
		    ": merge %llu is of tokens that are not in the vocabulary; "
		    CONVERT, (unsigned long long)rank);
}

static int load_merges(struct loader *l)
{
	struct bpe_merge *merges;
	enum gguf_value type;
	struct gguf_str s;
	size_t longest = 0;
	uint64_t n, i;
	char *buf;
	int ret;

	ret = gguf_array(l->g, KEY("merges"), &type, &n);
	if (ret || type != GGUF_V_STRING || !n || n > INT32_MAX)
		return fail(l, -EINVAL, "no list of merges in key "
			    KEY("merges") "; " OTHER_MODEL);
	for (i = 0; i < n; i++) {
		gguf_array_string(l->g, KEY("merges"), i, &s);
		longest = s.len > longest ? s.len : longest;
	}
	buf = malloc(longest + 1);
	merges = calloc(n, sizeof(*merges));
	if (!buf || !merges) {
		ret = no_memory(l);
		goto out;
	}
	for (i = 0; i < n; i++) {
		ret = load_merge(l, i, buf, &merges[i]);
		if (ret)
			goto out;
	}
	ret = bpe_init(&l->t->bpe, merges, n) ? no_memory(l) : 0;
	merges = NULL;
out:
	free(merges);
	free(buf);
	return ret;
}

static int load_scores(struct loader *l)
{
	struct tokenizer *t = l->t;
	enum gguf_value type;
	float *scores;
	uint64_t n, i;
	double v;
	int ret;

	ret = gguf_array(l->g, KEY("scores"), &type, &n);
	if (ret || n != t->size)
		return fail(l, -EINVAL, KEY("scores")
			    " is not one number for each of %u tokens; "
			    CONVERT, t->size);
	scores = calloc(n, sizeof(*scores));
	if (!scores)
		return no_memory(l);
	for (i = 0; !ret && i < n; i++) {
		ret = gguf_array_f64(l->g, KEY("scores"), i, &v);
		scores[i] = v;
		if (ret || scores[i] != scores[i])
			ret = fail(l, -EINVAL, KEY("scores")
				   ": that of token %u is no number; " CONVERT,
				   (uint32_t)i);
	}
	if (!ret && bpe_init_words(&t->bpe, &t->ids, scores, n))
		ret = no_memory(l);
	free(scores);
	return ret;
}

/* Tokens for what is no word, and whether a text begins with a space. */
static int load_fallback(struct loader *l)
{
	struct tokenizer *t = l->t;
	uint32_t i;
	size_t len;
	int ret;

	t->bpe.unknown = TOKEN_NONE;
	memset(t->bpe.byte_id, 0xff, sizeof(t->bpe.byte_id));
	for (i = t->size; i--;) {
		const char *bytes = token_bytes(t, i, &len);

		if ((t->flags[i] & TOKEN_KIND) == TOKEN_BYTE)
			t->bpe.byte_id[(unsigned char)*bytes] = i;
		else if ((t->flags[i] & TOKEN_KIND) == TOKEN_UNKNOWN)
			t->bpe.unknown = i;
	}
	ret = gguf_bool(l->g, KEY("add_space_prefix"), &t->space_first);
	if (ret == -ENOENT)
		t->space_first = true;
	else if (ret)
		return fail(l, -EINVAL, "key " KEY("add_space_prefix")
			    " is not true or false; " CONVERT);
	return 0;
}

static void find_bytes(struct tokenizer *t)
{
	unsigned int b;
	char c;

	for (b = 0; b < 256; b++) {
		c = b;
		if (!strmap_find(&t->ids, &c, 1, &t->bpe.byte_id[b]))
			t->bpe.byte_id[b] = TOKEN_NONE;
	}
}

static int by_bytes(const void *a, const void *b, void *arg)
{
	const struct tokenizer *t = arg;
	const char *x, *y;
	size_t m, n;
	int diff;

	x = token_bytes(t, *(const uint32_t *)a, &m);
	y = token_bytes(t, *(const uint32_t *)b, &n);
	diff = memcmp(x, y, m < n ? m : n);
	return diff ? diff : m < n ? -1 : m > n;
}

static int sort_special(struct loader *l)
{
	struct tokenizer *t = l->t;
	uint32_t i, n = 0, kept = 0;
	unsigned int b, kind;
	size_t len;

	t->special = calloc(t->size, sizeof(*t->special));
	if (!t->special)
		return no_memory(l);
	for (i = 0; i < t->size; i++) {
		kind = t->flags[i] & TOKEN_KIND;
		token_bytes(t, i, &len);
		if ((kind == TOKEN_CONTROL || kind == TOKEN_USER) && len)
			t->special[n++] = i;
	}
	qsort_r(t->special, n, sizeof(*t->special), by_bytes, t);
	for (i = 0; i < n; i++)
		if (!i || by_bytes(&t->special[i - 1], &t->special[i], t))
			t->special[kept++] = t->special[i];
	t->nspecial = kept;
	for (b = 0, i = 0; b <= 256; b++) {
		while (i < kept && (unsigned char)
		       *token_bytes(t, t->special[i], &len) < b)
			i++;
		t->first[b] = i;
	}
	return 0;
}

/* An id that the file may leave out. */
static int load_id(struct loader *l, const char *key, uint32_t *out)
{
	uint64_t id;
	int ret;

	*out = TOKEN_NONE;
	ret = gguf_u64(l->g, key, &id);
	if (ret == -ENOENT)
		return 0;
	if (ret || id >= l->t->size)
		return fail(l, -EINVAL, "key %s is not one of %u tokens; "
			    CONVERT, key, l->t->size);
	*out = id;
	return 0;
}

static int load_ends(struct loader *l)
{
	/* Ends of turns and texts of well-known chat formats: files often
	 * name only one of theirs. */
	static const char * const texts[] = {
		"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
		"<|end_of_text|>", "<|end|>", "<end_of_turn>",
	};
	static const char * const keys[] = {
		KEY("eot_token_id"), KEY("eom_token_id"),
	};
	struct tokenizer *t = l->t;
	uint32_t id;
	size_t i;
	int ret;

	for (i = 0; i < ARRAY_LEN(texts); i++) {
		id = tokenizer_special(t, texts[i]);
		if (id != TOKEN_NONE)
			t->flags[id] |= TOKEN_END;
	}
	for (i = 0; i < ARRAY_LEN(keys); i++) {
		ret = load_id(l, keys[i], &id);
		if (ret)
			return ret;
		if (id != TOKEN_NONE)
			t->flags[id] |= TOKEN_END;
	}
	if (t->eos != TOKEN_NONE)
		t->flags[t->eos] |= TOKEN_END;
	return 0;
}

static int load_bos(struct loader *l)
{
	struct tokenizer *t = l->t;
	int ret;

	ret = gguf_bool(l->g, KEY("add_bos_token"), &t->add_bos);
	if (ret == -ENOENT)
		t->add_bos = l->by_score || pretok_add_bos(t->pretok);
	else if (ret)
		return fail(l, -EINVAL, "key " KEY("add_bos_token")
			    " is not true or false; " CONVERT);
	if (t->add_bos && t->bos == TOKEN_NONE)
		return fail(l, -EINVAL,
			    "texts are to begin with BOS, but there is no key "
			    KEY("bos_token_id") "; " CONVERT);
	return 0;
}

static int load_all(struct loader *l)
{
	int ret;

	map_bytes(l);
	ret = check_model(l);
	if (!ret)
		ret = load_tokens(l);
	if (!ret)
		ret = l->by_score ? load_scores(l) : load_merges(l);
	if (ret)
		return ret;
	if (l->by_score)
		ret = load_fallback(l);
	else
		find_bytes(l->t);
	if (!ret)
		ret = sort_special(l);
	if (!ret)
		ret = load_id(l, KEY("bos_token_id"), &l->t->bos);
	if (!ret)
		ret = load_id(l, KEY("eos_token_id"), &l->t->eos);
	if (!ret)
		ret = load_ends(l);
	return ret ? ret : load_bos(l);
}

int tokenizer_create(const struct gguf *g, struct tokenizer **out, char *err,
		     size_t errlen)
{
	struct loader l = { .g = g, .err = err, .errlen = errlen };
	int ret;

	l.t = calloc(1, sizeof(*l.t));
	if (!l.t)
		return no_memory(&l);
	ret = load_all(&l);
	if (ret) {
		tokenizer_destroy(l.t);
		return ret;
	}
	*out = l.t;
	return 0;
}

void tokenizer_destroy(struct tokenizer *t)
{
	if (!t)
		return;
	pretok_destroy(t->pretok);
	bpe_free(&t->bpe);
	strmap_free(&t->ids);
	free(t->special);
	free(t->flags);
	free(t->start);
	free(t->bytes);
	free(t);
}
