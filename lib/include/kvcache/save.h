/* SPDX-License-Identifier: MIT */
/*
 * save.h - libkvcache: conversations in files. For <kvcache/kvcache.h>.
 */
#ifndef KVCACHE_SAVE_H
#define KVCACHE_SAVE_H

#include <kvcache/kvcache.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* ---- saved ------------------------------------------------------------ */

/**
 * DOC: conversations in files
 *
 * A sequence is saved with its tokens and the rows of all layers, in an order
 * that no page size, backend or CPU has a part in: kvcache-save(5) describes
 * it. It is restored into whatever pages there are, by any process that has a
 * cache of the same model, KV types and windows. At the same page size and
 * split a sequence goes on from there bit for bit as it would have gone on.
 *
 * Whoever can write such a file decides what the conversation's past is. So
 * what is restored is found by nobody, unless KVC_RESTORE_PUBLISH says that the
 * file is to be trusted, and it is never published into the commons. A sequence
 * that published nothing when it was saved publishes nothing in any case.
 */

#define KVC_SAVE_APP_MAX	(1U << 20)	/* bytes of a program's own */

/**
 * struct kvc_stream - where a saved sequence goes to, or comes from
 * @sz: sizeof(struct kvc_stream)
 * @fd: a file descriptor, if the function that is wanted is NULL
 * @write: takes all @n bytes; 0 or -errno
 * @read: gives up to @n bytes: their number, 0 at the end, or -errno
 * @arg: for both
 *
 * The functions call nothing of the context. No byte is read that is not the
 * saved sequence's, and no position is set: pipes and sockets will do.
 */
struct kvc_stream {
	size_t sz;
	int fd;
	int (*write)(void *arg, const void *buf, size_t n);
	int64_t (*read)(void *arg, void *buf, size_t n);
	void *arg;
};

/**
 * struct kvc_save_opts - how to save
 * @sz: sizeof(struct kvc_save_opts)
 * @app: bytes of the program's own, such as a sampler's state; or NULL
 * @app_len: their number, up to KVC_SAVE_APP_MAX
 */
struct kvc_save_opts {
	size_t sz;
	const void *app;
	size_t app_len;
};

/**
 * kvc_save_size() - how long will it be
 * @s: the sequence
 * @opts: as for kvc_seq_save(), or NULL
 * @bytes: exactly what kvc_seq_save() will write
 *
 * Return: 0; -EINVAL bad options; -EBUSY as kvc_seq_save(); -EOVERFLOW.
 */
int kvc_save_size(const struct kvc_seq *s, const struct kvc_save_opts *opts,
		  uint64_t *bytes);

/**
 * kvc_seq_save() - write a sequence
 * @s: the sequence, unchanged
 * @to: where to
 * @opts: options, or NULL
 *
 * Takes memory for 256 rows of one head, whatever the sequence's length. What
 * was written before a failure is no saved sequence: its end is missing.
 * Return: 0; what @to says (-ENOSPC, -EPIPE, -EIO...); -EBUSY the sequence is
 * in a planned batch, or idle; -ESTALE pages of it were revoked; -EINVAL bad
 * options; -ENOMEM.
 */
int kvc_seq_save(const struct kvc_seq *s, const struct kvc_stream *to,
		 const struct kvc_save_opts *opts);

/**
 * kvc_seq_save_file() - write a sequence to a file, whole or not at all
 * @s: the sequence, unchanged
 * @path: the file
 * @opts: options, or NULL
 *
 * It is written beside @path, brought to the disk, and only then takes its
 * name; what was there before is gone then, and untouched in any other case.
 * Nobody but its owner can read it (mode 0600): it is a conversation.
 * Return: 0; what the file system says (-ENOSPC, -EDQUOT, -EFBIG, -EACCES,
 * -ENOENT...); -EINVAL @path is there and no regular file; or as
 * kvc_seq_save().
 */
int kvc_seq_save_file(const struct kvc_seq *s, const char *path,
		      const struct kvc_save_opts *opts);

/**
 * struct kvc_saved - what a saved sequence is
 * @version: of the format
 * @tokens: its length
 * @bytes: of all of it
 * @app_len: bytes of the program's own
 * @publishes: it published what it had
 * @epoch: of struct kvc_model
 * @id: likewise
 * @nlayers: likewise
 * @ngroups: likewise
 * @groups: [@ngroups] likewise
 */
struct kvc_saved {
	uint32_t version;
	uint32_t tokens;
	uint64_t bytes;
	uint64_t app_len;
	uint32_t publishes;
	uint32_t nlayers;
	uint64_t epoch;
	uint8_t id[32];
	uint32_t ngroups;
	struct kvc_group groups[KVC_MAX_GROUPS];
};

#define KVC_RESTORE_PUBLISH	(1U << 0)	/* the file is trusted */

/**
 * struct kvc_restore_opts - how to restore
 * @sz: sizeof(struct kvc_restore_opts)
 * @flags: KVC_RESTORE_*
 * @seq: as for kvc_seq_create(), or NULL; of @common nothing is taken. @extra
 *       must be what the saved sequence had
 * @deadline_ns: for its pages, as in struct kvcache_alloc
 * @app: room for the program's own bytes, or NULL
 * @app_room: bytes at @app; of more, the first ones are stored
 * @saved: NULL, or filled in as far as it is known, in case of a refusal too;
 *         version 0: nothing is
 */
struct kvc_restore_opts {
	size_t sz;
	uint32_t flags;
	const struct kvc_seq_opts *seq;
	uint64_t deadline_ns;
	void *app;
	size_t app_room;
	struct kvc_saved *saved;
};

/**
 * kvc_seq_restore() - a sequence that was saved
 * @c: the cache
 * @from: where from
 * @opts: options, or NULL
 * @out: the sequence, for kvc_seq_free()
 *
 * Trusts nothing that it reads. Takes all pages as soon as the length is known
 * and everything that is asked for fits together, and gives them back if
 * anything behind that is not as it should be: there is no sequence then, and
 * no page or counter of @c is another. Cached pages may have made room for it.
 *
 * Each reason for a refusal has an errno of its own.
 *
 * Return: 0; -EMEDIUMTYPE this is no saved sequence; -EPROTONOSUPPORT it is of
 * a version of the format that is not known; -ENODATA it ends too early;
 * -EBADMSG it was altered, or something follows it; -EXDEV it is of another
 * model, shape or window; -EKEYEXPIRED of another epoch of this model;
 * -EPROTOTYPE its keys or values have another type; -EKEYREJECTED it had other
 * extra bytes (struct kvc_seq_opts); -EDQUOT, -ENOSPC, -E2BIG, -ETIMEDOUT,
 * -EINTR, -ERANGE as kvc_seq_reserve(); -ESTALE its pages were revoked while they were
 * filled; -EINVAL bad options; -ENOMEM; or what @from says.
 */
int kvc_seq_restore(struct kvc_cache *c, const struct kvc_stream *from,
		    const struct kvc_restore_opts *opts, struct kvc_seq **out);

/**
 * kvc_seq_restore_file() - a sequence that was saved in a file
 * @c: the cache
 * @path: the file
 * @opts: options, or NULL
 * @out: the sequence, for kvc_seq_free()
 *
 * Nothing may follow the sequence in the file. Return: as kvc_seq_restore(), or
 * why the file cannot be opened.
 */
int kvc_seq_restore_file(struct kvc_cache *c, const char *path,
			 const struct kvc_restore_opts *opts,
			 struct kvc_seq **out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* KVCACHE_SAVE_H */
