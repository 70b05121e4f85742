/* SPDX-License-Identifier: MIT */
/*
 * windows.h - texts in windows of equal length, each from its first token, through
 * the pages of one cache or of several side by side.
 */
#ifndef RUN_WINDOWS_H
#define RUN_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct kvc_batch;
struct kvc_cache;
struct kvc_seq;
struct run;

#define WINDOW_TOKENS 1024

/**
 * struct windows - where in which text
 * @r: the run, whose conversations are the texts
 * @what: what goes on, for the line of progress
 * @len: tokens in a window; a text that is shorter is one, otherwise what is
 *       left at its end is not used
 * @max: windows to do
 * @done: windows begun
 * @text: the text
 * @first: tokens of it that are used
 * @ids: [@n] the window
 * @n: its tokens
 * @at: tokens of it that are done
 * @step: tokens of the step that comes next
 */
struct windows {
	const struct run *r;
	const char *what;
	uint32_t len;
	uint32_t max;
	uint32_t done;
	unsigned int text;
	uint32_t first;
	uint32_t *ids;
	uint32_t n;
	uint32_t at;
	uint32_t step;
};

/**
 * struct lane - one cache that windows go through
 * @e: the engine
 * @cache: the cache, the caller's
 * @batch: its steps
 * @seq: the window
 * @logits: [steps' rows][vocab], of the last step
 */
struct lane {
	const struct engine *e;
	struct kvc_cache *cache;
	struct kvc_batch *batch;
	struct kvc_seq *seq;
	float *logits;
};

void windows_begin(struct windows *w, const struct run *r, const char *what);
/* Go to the next window, and to its first step; false: there is none. */
bool windows_next(struct windows *w);
/* The step is done. */
void windows_step(struct windows *w);
void windows_end(struct windows *w);
/* 0, or -1 after a complaint: there is not one window. */
int windows_check(const struct run *r);

/* These return 0, or -1 after a complaint. lane_close() in any case. */
int lane_open(struct lane *l, const struct engine *e, struct kvc_cache *cache);
/* A new window. */
int lane_window(struct lane *l);
/* A step of it; with @logits those of all its rows. */
int lane_step(struct lane *l, const struct windows *w, bool logits);
void lane_close(struct lane *l);

#endif /* RUN_WINDOWS_H */
