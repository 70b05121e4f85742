/* SPDX-License-Identifier: MIT */
/*
 * doctor.h - what kvcachectl doctor looks at. Each check looks at files below
 * one folder, and says what it finds by found().
 */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* How bad it is. */
enum level {
	LEVEL_OK,
	LEVEL_NOTE,	/* works without, slower or with less */
	LEVEL_WRONG,
};

/**
 * struct doctor - one examination
 * @root: before each path that is looked at: "", or for tests what
 *        $KVCACHE_DOCTOR_ROOT says
 * @named: the device or the socket of --device or $KVCACHE, or NULL
 * @loaded: the module is loaded
 * @serves: somebody listens at a broker's socket
 * @pool_bytes: of the largest pool of what could be opened, or 0
 * @json: what was found
 * @level: [enum level] how many of each
 */
struct doctor {
	const char *root;
	const char *named;
	bool loaded;
	bool serves;
	uint64_t pool_bytes;
	json_t *json;
	unsigned int level[LEVEL_WRONG + 1];
};

/**
 * found() - tell what a check found
 * @check: the check
 * @cause: a word for programs; what is in order has "ok"
 * @remedy: what helps, or NULL
 * @fmt: what there is
 */
__attribute__((format(printf, 6, 7)))
void found(struct doctor *d, enum level level, const char *check,
	   const char *cause, const char *remedy, const char *fmt, ...);

/* A path below the root, to be freed. */
__attribute__((format(printf, 2, 3)))
char *below(const struct doctor *d, const char *fmt, ...);
/* A small file as a text without its last newline, to be freed; or NULL. */
__attribute__((format(printf, 2, 3)))
char *text_of(const struct doctor *d, const char *fmt, ...);
/* The path as it is without the root. */
const char *shown(const struct doctor *d, const char *path);

/* Has this process the capability of that number? */
bool has_capability(const struct doctor *d, unsigned int cap);

/* Beforehand: is the module loaded, does a broker serve? */
void doctor_look(struct doctor *d);

/* In the order in which they are told. */
void check_module(struct doctor *d);
void check_node(struct doctor *d);
void check_broker(struct doctor *d);
void check_fuse(struct doctor *d);
void check_memlock(struct doctor *d);
void check_huge_pages(struct doctor *d);
void check_cpu(struct doctor *d);
void check_gpu(struct doctor *d);

/* ---- doctor_file.c: the files of modules --------------------------------- */

/**
 * struct module_file - one file of the module
 * @path: with the root
 * @release: of the kernel in whose folder it is
 * @vermagic: release of the kernel that it was built for; "" if unknown
 * @srcversion: of its source; "" if unknown
 * @is_signed: it has a signature
 * @read: it could be read
 */
struct module_file {
	char *path;
	char release[128];
	char vermagic[128];
	char srcversion[64];
	bool is_signed;
	bool read;
};

/* All of them: their number, in an array to be freed by free_modules(). */
size_t find_modules(const struct doctor *d, struct module_file **out);
void free_modules(struct module_file *f, size_t n);

#endif /* CTL_DOCTOR_H */
