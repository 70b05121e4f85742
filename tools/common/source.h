/* SPDX-License-Identifier: MIT */
/*
 * source.h - a device or a broker that is looked at again and again, and found
 * again when it was started anew.
 */
#ifndef SOURCE_H
#define SOURCE_H

#include <kvcache/kvcache.h>

/**
 * struct source - what is looked at
 * @where: device or socket; NULL for what the library finds
 * @as: tenant to attach to where that is needed, or NULL
 * @kvc: once it is open
 * @why: why the last call failed
 */
struct source {
	const char *where;
	const char *as;
	struct kvc *kvc;
	char why[256];
};

/* All of them: 0, or -errno, and @why has a sentence. */

/* Opens what is not open. */
int source_open(struct source *src);
void source_close(struct source *src);
/*
 * One command of the ABI, with a struct source as @arg: a records_call. Who is
 * not privileged sees what its tenant does, and is attached to it.
 */
int source_ask(void *arg, unsigned int nr, void *cmd);
/* Sets @why; returns @err. */
__attribute__((format(printf, 3, 4)))
int source_because(struct source *src, int err, const char *fmt, ...);

#endif /* SOURCE_H */
