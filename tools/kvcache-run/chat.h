/* SPDX-License-Identifier: MIT */
/*
 * chat.h - ChatML: messages between <|im_start|> and <|im_end|>.
 */
#ifndef RUN_CHAT_H
#define RUN_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct ids;
struct tokenizer;

/**
 * struct chat - the template of an instruct model
 * @tok: the tokenizer
 * @start: id of <|im_start|>
 * @end: id of <|im_end|>
 * @system: system message that the model's own template puts before a
 *          conversation without one, or NULL
 */
struct chat {
	const struct tokenizer *tok;
	uint32_t start;
	uint32_t end;
	char *system;
};

/* False: the file does not describe a ChatML model. */
bool chat_init(struct chat *c, const struct gguf *g, const struct tokenizer *t);
void chat_free(struct chat *c);

/**
 * chat_message() - append one message
 * @c: the template
 * @ids: where to
 * @role: "system", "user" or "assistant"
 * @text: @len bytes; special tokens in it are plain text
 * @what: name of the message, for a complaint
 *
 * Return: 0, or -1 after a complaint.
 */
int chat_message(const struct chat *c, struct ids *ids, const char *role,
		 const char *text, size_t len, const char *what);
/* Append what makes the model answer. */
void chat_answer(const struct chat *c, struct ids *ids);
/* After an answer: close it, for the next message. */
void chat_close(const struct chat *c, struct ids *ids);

#endif /* RUN_CHAT_H */
