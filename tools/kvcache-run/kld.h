/* SPDX-License-Identifier: MIT */
/*
 * kld.h - what types of keys and values do to a model's answers.
 */
#ifndef RUN_KLD_H
#define RUN_KLD_H

struct run;

/* --kld: compare with f32 keys and values. 0, or -1 after a complaint. */
int run_kld(struct run *r);

#endif /* RUN_KLD_H */
