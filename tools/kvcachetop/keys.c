// SPDX-License-Identifier: MIT
/*
 * keys.c - what a key does to the view.
 */
#include <stdio.h>
#include <string.h>

#include "units.h"
#include "view.h"

#define PAGE		10
#define INTERVAL_MIN	0.1
#define INTERVAL_MAX	3600

static void say(struct view *v, const char *s)
{
	snprintf(v->message, sizeof(v->message), "%s", s);
}

static void move(struct view *v, const struct frame *f, long by)
{
	size_t n = f->n[v->focus], *i = &v->index[v->focus];

	if (!n)
		return;
	if (by < 0 && (size_t)-by > *i)
		*i = 0;
	else if (by > 0 && *i + by >= n)
		*i = n - 1;
	else
		*i += by;
	v->key[v->focus] = f->row[v->focus][*i].key;
}

/* The next column that is shown, or none if none is. */
static void sort_by(struct view *v, int by)
{
	int n = v->focus == TENANTS ? (int)T_NR : (int)C_NR;
	int *s = &v->sort[v->focus], i;

	for (i = 1; i <= n; i++) {
		int k = ((*s + by * i) % n + n) % n;

		if (v->shown[v->focus] & 1U << k) {
			*s = k;
			return;
		}
	}
}

/* A limit of the selected tenant is to be changed. */
static void begin_change(struct view *v, const struct frame *f, char which)
{
	const struct kvcache_tenant_info *t;
	const struct row *r;

	if (v->focus != TENANTS || !f->n[TENANTS]) {
		say(v, "select a tenant first (Tab)");
		return;
	}
	r = &f->row[TENANTS][v->index[TENANTS]];
	t = r->tenant;
	v->change = (struct new_limit){
		.tenant = t->id, .pool = t->pool, .which = which,
	};
	v->old = which == 'm' ? t->min : which == 'l' ? t->low : t->max;
	strcpy(v->change.name, t->name);
	v->input[0] = 0;
	v->mode = MODE_VALUE;
}

/* What was typed is a limit: ask. */
static void end_value(struct view *v, const struct frame *f)
{
	const struct kvcache_pool_info *p = sample_pool(f->now, v->change.pool);
	struct limit l;

	v->mode = MODE_LIST;
	if (!*v->input)
		return;
	if (!p) {
		say(v, "this pool is gone");
	} else if (!parse_limit(v->input, &l)) {
		snprintf(v->message, sizeof(v->message),
			 "\"%s\": give a size such as 64M, max, or a share such as 25%%",
			 v->input);
	} else if (l.kind == LIMIT_MAX && v->change.which == 'm') {
		say(v, "\"max\": nobody can be promised everything");
	} else if (!limit_pages(&l, p->page_size, p->nr_pages,
				&v->change.pages)) {
		snprintf(v->message, sizeof(v->message),
			 "\"%s\": less than a page: give 0, or more", v->input);
	} else {
		v->mode = MODE_ASK;
	}
}

/* A line is typed; true at its end. */
static bool edit(struct view *v, int key)
{
	size_t n = strlen(v->input);

	if (key == '\n' || key == '\r')
		return true;
	if (key == K_BACKSPACE && n)
		v->input[n - 1] = 0;
	else if (key > ' ' && key <= '~' && n + 1 < sizeof(v->input)) {
		v->input[n] = key;
		v->input[n + 1] = 0;
	}
	return false;
}

static void interval(struct view *v, double by)
{
	v->interval *= by;
	if (v->interval < INTERVAL_MIN)
		v->interval = INTERVAL_MIN;
	if (v->interval > INTERVAL_MAX)
		v->interval = INTERVAL_MAX;
}

static enum action list_key(struct view *v, const struct frame *f, int key)
{
	switch (key) {
	case 'q':
		return ACT_QUIT;
	case 'h':
	case '?':
		v->mode = MODE_HELP;
		break;
	case '\t':
		v->focus = v->focus == TENANTS ? CLIENTS : TENANTS;
		break;
	case K_UP:
	case 'k':
		move(v, f, -1);
		break;
	case K_DOWN:
	case 'j':
		move(v, f, 1);
		break;
	case K_PAGE_UP:
		move(v, f, -PAGE);
		break;
	case K_PAGE_DOWN:
		move(v, f, PAGE);
		break;
	case K_HOME:
		move(v, f, -(long)f->n[v->focus]);
		break;
	case K_END:
		move(v, f, f->n[v->focus]);
		break;
	case '<':
		sort_by(v, -1);
		break;
	case '>':
		sort_by(v, 1);
		break;
	case 'r':
		v->reverse[v->focus] = !v->reverse[v->focus];
		break;
	case '/':
		strcpy(v->input, v->filter);
		v->mode = MODE_FILTER;
		break;
	case 'm':
	case 'l':
	case 'M':
		begin_change(v, f, key);
		break;
	case 'u':
		v->pages = !v->pages;
		break;
	case '+':
		interval(v, 2);
		break;
	case '-':
		interval(v, 0.5);
		break;
	case ' ':
		return ACT_SAMPLE;
	}
	return ACT_NONE;
}

enum action key_press(struct view *v, const struct frame *f, int key)
{
	v->message[0] = 0;
	if (v->mode != MODE_LIST && key == K_ESCAPE) {
		v->mode = MODE_LIST;
		return ACT_NONE;
	}
	switch (v->mode) {
	case MODE_HELP:
		v->mode = MODE_LIST;
		return key == 'q' ? ACT_QUIT : ACT_NONE;
	case MODE_FILTER:
		if (edit(v, key)) {
			strcpy(v->filter, v->input);
			v->mode = MODE_LIST;
		}
		return ACT_NONE;
	case MODE_VALUE:
		if (edit(v, key))
			end_value(v, f);
		return ACT_NONE;
	case MODE_ASK:
		v->mode = MODE_LIST;
		if (key == 'y' || key == 'Y')
			return ACT_SET;
		say(v, "nothing was changed");
		return ACT_NONE;
	default:
		return list_key(v, f, key);
	}
}
