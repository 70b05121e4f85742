/* SPDX-License-Identifier: MIT */
/*
 * screen.h - a canvas on a terminal.
 */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include <stdbool.h>

struct canvas;

/* 0, or -1 after a complaint. */
int screen_open(bool colour);
void screen_close(void);
/* Its size as it is now. */
void screen_size(int *rows, int *cols);
void screen_show(const struct canvas *cv);
/* A key, as key_press() has them; 0 for a resize, -1 for none in that time. */
int screen_key(double seconds);

#endif /* TOP_SCREEN_H */
