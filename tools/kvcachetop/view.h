/* SPDX-License-Identifier: MIT */
/*
 * view.h - what of a sample is shown, in which order, and what keys do about it.
 * None of it knows a terminal.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include <stdbool.h>

#include "canvas.h"
#include "sample.h"

enum section { TENANTS, CLIENTS, SECTIONS };

/* Columns, in the order in which they are shown. */
enum { T_TENANT, T_POOL, T_USED, T_CACHED, T_MIN, T_LOW, T_MAX, T_CLIENTS,
	T_WAIT, T_MAXED, T_LOOKUPS, T_HITS, T_NR };
enum { C_CLIENT, C_PID, C_COMMAND, C_TENANT, C_POOL, C_PRIVATE, C_SHARED,
	C_WAIT, C_NR };

/**
 * struct column - of a table
 * @name: its heading
 * @width: its characters, at least
 * @text: to the left, and sorted by the alphabet
 * @drop: 0 never; else those with the greatest go first where room is short
 */
struct column {
	const char *name;
	int width;
	bool text;
	int drop;
};

extern const struct column tenant_columns[T_NR];
extern const struct column client_columns[C_NR];

/* What keys do just now. */
enum mode { MODE_LIST, MODE_HELP, MODE_FILTER, MODE_VALUE, MODE_ASK };

/**
 * struct view - what somebody wants to see
 * @sort: the column that each section is sorted by
 * @reverse: the other way round
 * @filter: shown is what has this in its name, pool, process or number
 * @focus: the section that keys are for
 * @key: [section] the selected row: tenant or client, and pool
 * @index: [section] where it was, for when it is gone
 * @top: [section] the first row that is shown
 * @shown: [section] bit: this column is shown; set by layout_frame()
 * @pages: count pages, not bytes
 * @batch: all rows, nothing selected, no line of keys
 * @interval: seconds between two samples
 * @mode: what keys do
 * @input: what was typed
 * @change: what is about to be set
 * @old: its limit until then
 * @message: in the last line, until the next key
 */
struct view {
	int sort[SECTIONS];
	bool reverse[SECTIONS];
	char filter[64];
	enum section focus;
	uint64_t key[SECTIONS];
	size_t index[SECTIONS];
	size_t top[SECTIONS];
	uint32_t shown[SECTIONS];
	bool pages;
	bool batch;
	double interval;
	enum mode mode;
	char input[64];
	struct new_limit change;
	uint64_t old;
	char message[384];
};

/**
 * struct row - one row of a section
 * @key: tenant or client, and pool
 * @pool: its pool
 * @tenant: TENANTS: the tenant
 * @client: CLIENTS: the client
 * @name: of the tenant
 * @lookups: TENANTS: keys looked up a second; negative where unknown
 * @hits: share of them that were found; negative where there were none
 * @maxed: requests a second that met its max
 */
struct row {
	uint64_t key;
	const struct kvcache_pool_info *pool;
	const struct kvcache_tenant_info *tenant;
	const struct kvcache_client_info *client;
	char name[KVCACHE_NAME_LEN];
	double lookups;
	double hits;
	double maxed;
};

/**
 * struct frame - a sample as it is shown
 * @now: the sample
 * @before: the one before, or NULL
 * @row: [section] rows, filtered and sorted
 * @n: [section] their number
 */
struct frame {
	const struct sample *now;
	const struct sample *before;
	struct row *row[SECTIONS];
	size_t n[SECTIONS];
};

/* A sensible view to begin with. */
void view_init(struct view *v);
/* "used", "-private": sort what has this column; false if nothing does. */
bool view_sort(struct view *v, const char *column);

void frame_build(struct frame *f, struct view *v, const struct sample *now,
		 const struct sample *before);
void frame_free(struct frame *f);

/* Increase of a counter a second; negative without an earlier sample. */
double frame_rate(const struct frame *f, uint64_t was, uint64_t is);
/* The same pool in the sample before, or NULL. */
const struct kvcache_pool_info *frame_pool_before(const struct frame *f,
						  uint32_t id);

/* Requests a second that had to wait, of a pool; negative where unknown. */
double frame_waits(const struct frame *f, uint32_t pool);

/* ---- layout.c ------------------------------------------------------------- */

/* Rows that are needed for all of it. */
int layout_rows(const struct view *v, const struct frame *f);
/* Draw; moves what is shown so that the selected row is among it. */
void layout_frame(struct canvas *cv, struct view *v, const struct frame *f,
		  const char *when);
/* "64K", "1.5G", "max", or the pages if these are wanted; @buf has 32 bytes. */
const char *layout_size(const struct view *v, uint64_t pages,
			uint64_t page_size, char *buf);

/* ---- keys.c --------------------------------------------------------------- */

enum { K_UP = 0x1000, K_DOWN, K_PAGE_UP, K_PAGE_DOWN, K_HOME, K_END,
	K_BACKSPACE, K_ESCAPE };

enum action {
	ACT_NONE,	/* draw again */
	ACT_QUIT,
	ACT_SAMPLE,	/* read anew */
	ACT_SET,	/* set @change */
};

enum action key_press(struct view *v, const struct frame *f, int key);

#endif /* TOP_VIEW_H */
