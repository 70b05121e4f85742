// SPDX-License-Identifier: MIT
/*
 * test_form.c - the form of commands: numbers, sizes, flags, reserved members,
 * memory that cannot be read or written, and who may call; the same for all.
 */
#include <grp.h>
#include <termios.h>

#include "form.h"

static struct one one;
static union any any;

static void set_word(union any *a, uint32_t offset, uint32_t word)
{
	memcpy(&a->b[offset], &word, sizeof(word));
}

static void any_of(uint32_t size)
{
	memset(&any, 0, sizeof(any));
	any.size = size;
}

#define FOR_EACH_ROW(r) for (r = rows; r < rows + NR_ROWS; r++)

TEST_F(dev, numbers_that_are_no_command)
{
	struct world *w = &self->w;
	const struct row *r;
	unsigned int nr, known = 0;

	any_of(sizeof(any));
	for (nr = 0; nr < 0x100; nr++) {
		for (r = rows; r < rows + NR_ROWS && r->nr != nr; r++)
			;
		if (r < rows + NR_ROWS)
			known++;
		else
			REFUSED(w, ENOTTY, w->fd[0], nr, any);
	}
	EXPECT_EQ(NR_ROWS, known);
}

static int call_raw(int fd, unsigned long cmd)
{
	return ioctl(fd, cmd, &any) < 0 ? -errno : 0;
}

TEST_F(dev, numbers_of_another_type_size_or_direction)
{
	struct world *w = &self->w;
	const struct row *r;

	FOR_EACH_ROW(r) {
		any_of(r->size);
		UNCHANGED(w,
			EXPECT_EQ(-ENOTTY, call_raw(w->fd[0],
						    _IO(0xbc, r->nr)));
			EXPECT_EQ(-ENOTTY, call_raw(w->fd[0], _IO(0, r->nr)));
			EXPECT_EQ(-ENOTTY, call_raw(w->fd[0],
				_IOC(_IOC_READ | _IOC_WRITE, KVCACHE_IOC_TYPE,
				     r->nr, r->size)));
			EXPECT_EQ(-ENOTTY, call_raw(w->fd[0],
				_IOC(_IOC_NONE, KVCACHE_IOC_TYPE, r->nr, 4))));
	}
	EXPECT_EQ(-ENOTTY, call_raw(w->fd[0], TCGETS));
	EXPECT_EQ(-ENOTTY, call_raw(w->fd[0], 0xffffffff));
}

TEST_F(dev, structs_too_short_or_with_an_unknown_tail)
{
	struct world *w = &self->w;
	const struct row *r;

	FOR_EACH_ROW(r) {
		int fd = r->who == ATTACHED ? w->fd[0] : w->admin;

		any_of(0);
		REFUSED(w, EINVAL, fd, r->nr, any);
		any_of(4);
		REFUSED(w, EINVAL, fd, r->nr, any);
		any_of(r->min - 1);
		REFUSED(w, EINVAL, fd, r->nr, any);
		any_of(r->size + 1);
		any.b[r->size] = 1;
		REFUSED(w, E2BIG, fd, r->nr, any);
		any_of(SIZE_LIMIT);
		any.b[SIZE_LIMIT - 1] = 1;
		REFUSED(w, E2BIG, fd, r->nr, any);
		any_of(SIZE_LIMIT + 1);
		REFUSED(w, E2BIG, fd, r->nr, any);
		any_of(~0U);
		REFUSED(w, E2BIG, fd, r->nr, any);
	}
}

/* Of an older header, of this one, and of newer ones whose tails are zero. */
TEST_F(dev, structs_of_other_versions)
{
	struct world *w = &self->w;
	const struct row *r;
	uint32_t k, n;

	FOR_EACH_ROW(r) {
		const uint32_t sizes[] = {
			r->min, r->size, r->size + 1, SIZE_LIMIT,
		};

		for (k = 0; k < 4; k++) {
			ASSERT_EQ(0, one_make(w, r, &one));
			one.a.size = sizes[k];
			/* What lies beyond is not the command's. */
			memset(&one.a.b[sizes[k]], 0xcc,
			       sizeof(one.a) - sizes[k]);
			ASSERT_EQ(one_expect(&one),
				  dev_call(one.fd, r->nr, &one.a))
				TH_LOG("%s of %u bytes", r->name, sizes[k]);
			EXPECT_EQ(sizes[k], one.a.size);
			for (n = r->size; n < sizes[k]; n++)
				ASSERT_EQ(0, one.a.b[n]);
			for (n = sizes[k]; n < sizeof(one.a); n++)
				ASSERT_EQ(0xcc, one.a.b[n]);
			ASSERT_EQ(0, one_undo(w, &one, !r->none))
				TH_LOG("%s", r->name);
		}
	}
}

TEST_F(dev, undefined_flags_and_reserved_members)
{
	struct world *w = &self->w;
	const struct row *r;
	uint32_t bit;

	FOR_EACH_ROW(r) {
		ASSERT_EQ(0, one_make(w, r, &one));
		for (bit = 0; bit < 32; bit++) {
			if (r->flags & 1U << bit)
				continue;
			set_word(&one.a, 4, 1U << bit);
			REFUSED(w, EOPNOTSUPP, one.fd, r->nr, one.a);
		}
		set_word(&one.a, 4, 0);
		for (bit = 0; r->reserved && bit < 32; bit += 31) {
			set_word(&one.a, r->reserved, 1U << bit);
			REFUSED(w, EOPNOTSUPP, one.fd, r->nr, one.a);
		}
		ASSERT_EQ(0, one_undo(w, &one, false));
	}
}

TEST_F(dev, reserved_members_of_published_pages)
{
	static const uint32_t at[] = {
		offsetof(struct kvcache_publish_page, __reserved),
		offsetof(struct kvcache_publish_page, __reserved2),
		offsetof(struct kvcache_publish_page, keys[0].__reserved),
	};
	struct world *w = &self->w;
	uint32_t k, bit;

	ASSERT_EQ(0, one_make(w, row_of(KVCACHE_NR_PUBLISH), &one));
	for (k = 0; k < 3; k++) {
		set_word(&one.a, offsetof(struct kvcache_publish, pages) +
			 at[k], 1);
		REFUSED(w, EOPNOTSUPP, one.fd, one.row->nr, one.a);
		set_word(&one.a, offsetof(struct kvcache_publish, pages) +
			 at[k], 0);
	}
	for (bit = 3; bit < 32; bit++)
		REFUSED_WITH(w, EOPNOTSUPP, one.fd, one.row->nr, one.a.publish,
			     pages[0].flags, 1U << bit);
	/* What is not in use is not looked at. */
	memset(&one.a.publish.pages[1], 0xcc, sizeof(one.a.publish.pages[1]));
	memset(&one.a.publish.pages[0].keys[1], 0xcc,
	       sizeof(struct kvcache_key));
	EXPECT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
	ASSERT_EQ(0, one_undo(w, &one, true));
}

/* ---- memory ------------------------------------------------------------ */

/* Memory of which the upper half has another protection. */
static char *two_halves(int upper)
{
	char *at = mmap(NULL, 128 << 10, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + (64 << 10), 64 << 10, upper))
		return NULL;
	return at + (64 << 10);
}

/*
 * The command's struct at @at, of which the kernel can use less than all: it
 * is as if it had not been given.
 */
#define FAULTS(w, at)							\
	UNCHANGED(w, EXPECT_EQ(-EFAULT, dev_call(one.fd, one.row->nr, at)) \
		TH_LOG("%s", one.row->name))

TEST_F(dev, structs_that_cannot_be_written_change_nothing)
{
	struct world *w = &self->w;
	char *edge = two_halves(PROT_READ), *at;
	const struct row *r;

	ASSERT_NE(NULL, edge);
	FOR_EACH_ROW(r) {
		ASSERT_EQ(0, one_make(w, r, &one));
		/* Nothing of it, and all but its last byte. */
		ASSERT_EQ(0, mprotect(edge, 64 << 10, PROT_READ | PROT_WRITE));
		memcpy(edge, &one.a, r->size);
		ASSERT_EQ(0, mprotect(edge, 64 << 10, PROT_READ));
		FAULTS(w, edge);
		EXPECT_EQ(0, memcmp(edge, &one.a, r->size));
		at = edge - r->size + 1;
		ASSERT_EQ(0, mprotect(edge, 64 << 10, PROT_READ | PROT_WRITE));
		memcpy(at, &one.a, r->size);
		ASSERT_EQ(0, mprotect(edge, 64 << 10, PROT_READ));
		FAULTS(w, at);
		EXPECT_EQ(0, memcmp(at, &one.a, r->size));
		ASSERT_EQ(0, one_undo(w, &one, false));
	}
}

TEST_F(dev, structs_that_cannot_be_read)
{
	struct world *w = &self->w;
	char *edge = two_halves(PROT_NONE), *at;
	const struct row *r;

	ASSERT_NE(NULL, edge);
	FOR_EACH_ROW(r) {
		ASSERT_EQ(0, one_make(w, r, &one));
		FAULTS(w, NULL);
		FAULTS(w, edge);
		FAULTS(w, (void *)0xffff888000000000UL);
		FAULTS(w, (void *)0x00007ffffffff000UL);
		FAULTS(w, (void *)~7UL);
		/* Its size, half of it; all but its last byte. */
		FAULTS(w, edge - 2);
		at = edge - r->size + 1;
		memcpy(at, &one.a, r->size - 1);
		FAULTS(w, at);
		ASSERT_EQ(0, one_undo(w, &one, false));
	}
}

/* Just what the caller knows has to be there. */
TEST_F(dev, structs_at_the_end_of_memory)
{
	struct world *w = &self->w;
	char *edge = two_halves(PROT_NONE), *at;
	const struct row *r;

	ASSERT_NE(NULL, edge);
	FOR_EACH_ROW(r) {
		ASSERT_EQ(0, one_make(w, r, &one));
		/* Where no compiler would put it. */
		at = edge - r->size;
		memcpy(at, &one.a, r->size);
		ASSERT_EQ(one_expect(&one), dev_call(one.fd, r->nr, at))
			TH_LOG("%s", r->name);
		memcpy(&one.a, at, r->size);
		ASSERT_EQ(0, one_undo(w, &one, !r->none));
	}
	EXPECT_EQ(-EFAULT, dev_call(w->fd[0], KVCACHE_NR_ALLOC, edge));
}

/* ---- who may call ------------------------------------------------------ */

TEST_F(dev, who_is_not_attached)
{
	struct world *w = &self->w;
	struct kvcache_event event;
	struct pollfd p = { .fd = w->admin, .events = POLLIN };
	const struct row *r;

	FOR_EACH_ROW(r) {
		ASSERT_EQ(0, one_make(w, r, &one));
		if (r->who == ATTACHED)
			REFUSED(w, ENOTCONN, w->admin, r->nr, one.a);
		ASSERT_EQ(0, one_undo(w, &one, false));
	}
	EXPECT_EQ(-1, read(w->admin, &event, sizeof(event)));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(POLLERR | POLLHUP, p.revents & (POLLERR | POLLHUP | POLLIN));
}

static int drop_root(void)
{
	return setgroups(0, NULL) || setgid(1000) || setuid(1000);
}

/* Which row did not say so to somebody without privileges; 0 is none. */
static int refused_rows(struct world *w, int fd, enum who who, int err)
{
	static struct one unused;
	const struct row *r;

	FOR_EACH_ROW(r) {
		if (r->who != who)
			continue;
		memset(&unused, 0, sizeof(unused));
		unused.a.size = r->size;
		unused.a.free.pool = w->pool;
		if (dev_call(fd, r->nr, &unused.a) != -err)
			return 1 + (r - rows);
	}
	return 0;
}

#define IN_CHILD(w, ...)						\
	do {								\
		pid_t pid_;						\
									\
		UNCHANGED(w,						\
			pid_ = fork();					\
			if (!pid_) {					\
				__VA_ARGS__;				\
			}						\
			EXPECT_EQ(0, CHILD_STATUS(pid_)));		\
	} while (0)

TEST_F(dev, administration_is_for_the_privileged)
{
	struct world *w = &self->w;

	/* Neither the caller nor the opener. */
	IN_CHILD(w, {
		int fd;

		if (drop_root())
			_exit(100);
		fd = dev_open();
		_exit(refused_rows(w, fd, ADMIN, EPERM));
	});
	/* The opener alone. */
	IN_CHILD(w, {
		if (drop_root())
			_exit(100);
		_exit(refused_rows(w, w->admin, ADMIN, EPERM));
	});
	/* The caller alone. */
	IN_CHILD(w, {
		int fd;

		if (setresuid(1000, 1000, 0))
			_exit(100);
		fd = dev_open();
		if (setresuid(0, 0, 0))
			_exit(101);
		_exit(refused_rows(w, fd, ADMIN, EPERM));
	});
	/* The root of a user namespace of its own. */
	IN_CHILD(w, {
		int fd;

		if (unshare(CLONE_NEWUSER))
			_exit(errno == ENOSYS || errno == EINVAL ? 0 : 100);
		fd = dev_open();
		_exit(refused_rows(w, fd, ADMIN, EPERM) ?:
		      refused_rows(w, w->admin, ADMIN, EPERM));
	});
}

TEST_F(dev, lists_are_for_the_attached_and_the_privileged)
{
	struct world *w = &self->w;

	EXPECT_EQ(0, refused_rows(w, w->admin, READER, 0));
	IN_CHILD(w, {
		int fd;

		if (drop_root())
			_exit(100);
		fd = dev_open();
		if (refused_rows(w, fd, READER, ENOTCONN))
			_exit(1);
		if (dev_attach(fd, "blue"))
			_exit(2);
		_exit(refused_rows(w, fd, READER, 0));
	});
}

/* Of the process that attached, every call; of others, none. */
TEST_F(dev, calls_of_another_process)
{
	struct world *w = &self->w;

	IN_CHILD(w, {
		enum who who;

		for (who = ANYBODY; who <= ADMIN; who++)
			if (refused_rows(w, w->fd[0], who, EPERM))
				_exit(1 + who);
		_exit(0);
	});
}

TEST_HARNESS_MAIN
