/* SPDX-License-Identifier: MIT */
/* keep.h - what a broker leaves to the next one. */
#ifndef BROKER_KEEP_H
#define BROKER_KEEP_H

struct broker;
struct store;

/* Leaves ledger and published pages to the next one, if somebody keeps them. */
void keep_save(struct broker *b);
/* 1: what the last one left is there; 0 it left nothing; -1 after a complaint. */
int keep_load(struct broker *b, struct store *store);

#endif /* BROKER_KEEP_H */
