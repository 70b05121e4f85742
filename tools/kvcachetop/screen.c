// SPDX-License-Identifier: MIT
/*
 * screen.c - all that knows ncurses.
 */
#include <ncurses.h>
#include <stdlib.h>
#include <unistd.h>

#include "canvas.h"
#include "screen.h"
#include "util.h"
#include "view.h"

#define ESCAPE_MS 50	/* a key that begins with Escape comes at once */

/* Without colours letters tell bars apart, and these the rest. */
static const struct {
	short fg;
	short bg;
	attr_t with;
	attr_t without;
} inks[INK_NR] = {
	[INK_PLAIN] = { -1, -1, A_NORMAL, A_NORMAL },
	[INK_TITLE] = { -1, -1, A_BOLD, A_BOLD },
	[INK_HEAD] = { COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_REVERSE },
	[INK_SORT] = { COLOR_BLACK, COLOR_GREEN, A_NORMAL,
		       A_REVERSE | A_BOLD },
	[INK_SELECTED] = { -1, -1, A_REVERSE, A_REVERSE },
	[INK_WARN] = { COLOR_RED, -1, A_BOLD, A_BOLD },
	[INK_FREE] = { -1, -1, A_DIM, A_NORMAL },
	[INK_PRIVATE] = { COLOR_BLACK, COLOR_YELLOW, A_NORMAL, A_NORMAL },
	[INK_SHARED] = { COLOR_BLACK, COLOR_GREEN, A_NORMAL, A_NORMAL },
	[INK_CACHED] = { COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_NORMAL },
	[INK_RETIRING] = { COLOR_WHITE, COLOR_RED, A_NORMAL, A_NORMAL },
	[INK_MARK] = { COLOR_WHITE, COLOR_BLUE, A_BOLD, A_BOLD },
};

static attr_t attrs[INK_NR];

int screen_open(bool colour)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return complain("no terminal: --batch prints frames without one");
	/* initscr() would end the program without a word of ours. */
	if (!newterm(NULL, stdout, stdin))
		return complain("TERM \"%s\": a terminal that is not known: set another, or use --batch",
				getenv("TERM") ? getenv("TERM") : "");
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	colour = colour && has_colors() && start_color() == OK;
	if (colour)
		use_default_colors();
	for (int i = 0; i < INK_NR; i++) {
		attrs[i] = colour ? inks[i].with : inks[i].without;
		if (!colour || (inks[i].fg < 0 && inks[i].bg < 0))
			continue;
		init_pair(i + 1, inks[i].fg, inks[i].bg);
		attrs[i] |= COLOR_PAIR(i + 1);
	}
	return 0;
}

void screen_close(void)
{
	endwin();
}

void screen_size(int *rows, int *cols)
{
	getmaxyx(stdscr, *rows, *cols);
}

void screen_show(const struct canvas *cv)
{
	const char *ch = cv->ch;
	const unsigned char *ink = cv->ink;

	erase();
	for (int row = 0; row < cv->rows; row++)
		for (int col = 0; col < cv->cols; col++, ch++, ink++)
			mvaddch(row, col, (unsigned char)*ch | attrs[*ink]);
	refresh();
}

int screen_key(double seconds)
{
	int key;

	timeout(seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
	key = getch();
	switch (key) {
	case ERR: return -1;
	case KEY_RESIZE: return 0;
	case KEY_UP: return K_UP;
	case KEY_DOWN: return K_DOWN;
	case KEY_PPAGE: return K_PAGE_UP;
	case KEY_NPAGE: return K_PAGE_DOWN;
	case KEY_HOME: return K_HOME;
	case KEY_END: return K_END;
	case KEY_BACKSPACE:
	case 127:
	case '\b': return K_BACKSPACE;
	case KEY_ENTER: return '\n';
	case 27: return K_ESCAPE;
	}
	return key;
}
