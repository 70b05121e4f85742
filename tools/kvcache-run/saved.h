/* SPDX-License-Identifier: MIT */
/*
 * saved.h - one conversation that comes from a file, or goes to one.
 */
#ifndef RUN_SAVED_H
#define RUN_SAVED_H

struct conv;
struct run;

/* The files that the options name can be used. 0, or -1 after a complaint. */
int saved_check(const struct run *r);

/**
 * saved_load() - the conversation of --load, and what the options add to it
 * @r: the run, its pool opened; the conversation is added to its inputs
 *
 * Return: 0, or -1 after a complaint.
 */
int saved_load(struct run *r);

/**
 * saved_save() - write a conversation that has ended, if there is a --save
 * @r: the run, for its report
 * @c: the conversation, kept
 *
 * Return: 0, or -1 after a complaint.
 */
int saved_save(struct run *r, struct conv *c);

#endif /* RUN_SAVED_H */
