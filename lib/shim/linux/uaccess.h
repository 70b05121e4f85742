/* SPDX-License-Identifier: MIT */
/* The caller's memory, where it is this process's own. */
#ifndef SHIM_LINUX_UACCESS_H
#define SHIM_LINUX_UACCESS_H

#include <errno.h>
#include <string.h>
#include <linux/types.h>

static inline unsigned long copy_from_user(void *to, const void *from,
					   unsigned long n)
{
	memcpy(to, from, n);
	return 0;
}

static inline unsigned long copy_to_user(void *to, const void *from,
					 unsigned long n)
{
	memcpy(to, from, n);
	return 0;
}

/* What the caller does not have is zero; -E2BIG if what we do not have is not. */
static inline int copy_struct_from_user(void *dst, size_t ksize,
					const void *src, size_t usize)
{
	const char *bytes = src;
	size_t k;

	for (k = ksize; k < usize; k++)
		if (bytes[k])
			return -E2BIG;
	if (usize > ksize)
		usize = ksize;
	memcpy(dst, src, usize);
	memset((char *)dst + usize, 0, ksize - usize);
	return 0;
}

#endif /* SHIM_LINUX_UACCESS_H */
