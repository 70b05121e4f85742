/* SPDX-License-Identifier: MIT */
/*
 * map.h - a pool as a picture: what map.c finds out, and map_draw.c draws.
 */
#ifndef CTL_MAP_H
#define CTL_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <kvcache/kvcache.h>

#define MAP_KINDS	64	/* 62 letters, what is free, and all others */

/**
 * struct map_kind - pages that look the same
 * @letter: how a terminal shows them
 * @colour: background on a terminal, 0 none
 * @rgb: in SVG
 * @name: what they are
 * @pages: their number
 */
struct map_kind {
	char letter;
	int colour;
	uint32_t rgb;
	char name[KVCACHE_NAME_LEN + 16];
	uint64_t pages;
};

/**
 * struct map - a pool
 * @pool: the pool
 * @by: what tells kinds apart, "tenant" or "state"
 * @kind: [@nkinds] the kinds, the first of them free pages
 * @of: [pages of the pool] which kind each is
 * @seq: the ledger's sequence number of the first reply
 * @last: of the last; the same if the picture is of one moment
 */
struct map {
	struct kvcache_pool_info pool;
	const char *by;
	struct map_kind kind[MAP_KINDS];
	int nkinds;
	uint8_t *of;
	uint64_t seq;
	uint64_t last;
};

/* Pages in a cell, so that no more than @cells are needed. */
uint64_t map_group(const struct map *m, uint64_t cells);
/*
 * The kind of cell @i of @group pages each: that of most of its pages, and
 * rather one that is in use.
 */
int map_cell(const struct map *m, uint64_t i, uint64_t group);
/* Cells of @group pages each. */
uint64_t map_cells(const struct map *m, uint64_t group);

/* As text, @columns wide, with colours or without. */
void map_text(const struct map *m, unsigned int columns, bool colour, FILE *f);
void map_svg(const struct map *m, FILE *f);

#endif /* CTL_MAP_H */
