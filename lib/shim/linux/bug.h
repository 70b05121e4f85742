/* SPDX-License-Identifier: MIT */
/* A broken invariant ends the program: there is no log to write it to. */
#ifndef SHIM_LINUX_BUG_H
#define SHIM_LINUX_BUG_H

#include <stdlib.h>

#define WARN_ON_ONCE(c) ({						\
	bool bug_c = (c);						\
	if (__builtin_expect(bug_c, 0))					\
		abort();						\
	bug_c;								\
})

#endif /* SHIM_LINUX_BUG_H */
