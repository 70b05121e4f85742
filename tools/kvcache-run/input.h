/* SPDX-License-Identifier: MIT */
/*
 * input.h - prompts and requests become conversations.
 */
#ifndef RUN_INPUT_H
#define RUN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conv;
struct engine;
struct ids;

/**
 * struct input_list - the conversations that the options ask for
 * @v: in the order of the command line
 * @n: their number
 * @arrivals: conversations, and turns of them, that have come so far
 * @live: more come on standard input while these run
 * @system: system message of all, or NULL
 * @system_len: its bytes
 */
struct input_list {
	struct conv **v;
	unsigned int n;
	uint32_t arrivals;
	bool live;
	char *system;
	size_t system_len;
};

/**
 * input_read() - all conversations; with --chat only the system message
 * @e: the engine, opened
 * @l: the list, zeroed
 *
 * Return: 0, or -1 after a complaint.
 */
int input_read(const struct engine *e, struct input_list *l);
void input_free(struct input_list *l);

/*
 * What makes up a conversation. @what names the input in a complaint; all but
 * input_add() return 0, or -1 after a complaint.
 */
int input_need_text(const struct engine *e);
void input_add(struct input_list *l, struct conv *c);
/* Free one of the list. */
void input_drop(struct input_list *l, struct conv *c);
/* The system message, or without one what the model begins with by itself. */
int input_system(const struct engine *e, struct ids *ids, const char *system,
		 size_t len, const char *what);
/* Ids are a whole conversation: a system message given beside is refused. */
int input_no_system(const struct engine *e, const char *what);
/* The user's text, and what makes the model answer. */
int input_user(const struct engine *e, struct ids *ids, const char *text,
	       size_t len, const char *what);
/* Not empty, and within the context. */
int input_check(const struct engine *e, const struct conv *c, const char *what);

/**
 * input_turn() - one more message of the user's, in an ongoing conversation
 * @e: the engine
 * @l: for the system message
 * @c: the conversation, empty before its first turn
 * @text: @len bytes
 *
 * Return: 0, or -1 after a complaint; the tokens are as they were then.
 */
int input_turn(const struct engine *e, const struct input_list *l,
	       struct conv *c, const char *text, size_t len);

#endif /* RUN_INPUT_H */
