/* SPDX-License-Identifier: MIT */
/*
 * calibrate.h - scales of keys and values, measured on a text.
 */
#ifndef RUN_CALIBRATE_H
#define RUN_CALIBRATE_H

struct run;

/* --calibrate: measure them on the texts that were given. 0, or -1. */
int run_calibrate(struct run *r);

#endif /* RUN_CALIBRATE_H */
