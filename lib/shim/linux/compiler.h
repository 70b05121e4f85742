/* SPDX-License-Identifier: MIT */
/* Attributes with the kernel's names. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define __aligned(n)	__attribute__((aligned(n)))
#define __user

#endif /* SHIM_LINUX_COMPILER_H */
