/* SPDX-License-Identifier: MIT */
/*
 * sys.h - what a backend is: the commands of the ABI, and addresses of pages.
 *
 * One implementation a file: sys_local.c (this process), sys_dev.c (the kernel
 * module), sys_broker.c. ctx.c holds the only caller of ->call().
 */
#ifndef KVC_SYS_H
#define KVC_SYS_H

#include <stdbool.h>
#include <kvcache/kvcache.h>

struct kvc_sys;

/**
 * struct kvc_sys_ops - one kind of backend
 * @name: "local", "device" or "broker"
 * @call: one command; struct in, struct out, 0 or -errno
 * @events: up to n event records; with a deadline_ns, the first is waited for
 *          until then. 0: none; -EINTR a signal ended the wait
 * @pending: NULL, or a cheap look: whether events() could have something. What
 *           happened a moment ago it may miss
 * @window: base address of a pool, page i at i x page size. Every page that
 *          the client holds can be read in the window of @writable 0, and its
 *          PRIVATE pages written in the one of @writable 1; a backend may
 *          have one window for both
 * @close: everything the client holds is dropped
 */
struct kvc_sys_ops {
	const char *name;
	int (*call)(struct kvc_sys *s, unsigned int nr, void *arg);
	int (*events)(struct kvc_sys *s, struct kvcache_event *ev,
		      unsigned int n, uint64_t deadline_ns);
	bool (*pending)(struct kvc_sys *s);
	void *(*window)(struct kvc_sys *s, uint32_t pool, int writable);
	void (*close)(struct kvc_sys *s);
};

/**
 * struct kvc_sys - the first member of each backend's own struct
 * @ops: what kind it is
 * @hint: why the last command failed and what would help, or NULL: its errno
 *        says so
 */
struct kvc_sys {
	const struct kvc_sys_ops *ops;
	const char *hint;
};

/* In-process. Attaches nothing. -EINVAL, -ENOMEM. */
int kvc_sys_local_open(const struct kvc_open_opts *opts, struct kvc_sys **out);

/*
 * The device at @path. -ENOTTY another kind of device, -EPROTO another version
 * of the ABI, or why it cannot be opened.
 */
int kvc_sys_dev_open(const char *path, struct kvc_sys **out);

/*
 * The broker whose socket is @path. -EPROTO another version of the ABI, or why
 * it cannot be reached.
 */
int kvc_sys_broker_open(const char *path, struct kvc_sys **out);

#endif /* KVC_SYS_H */
