/* SPDX-License-Identifier: MIT */
/* proc.h - what /proc says of a process. */
#ifndef BROKER_PROC_H
#define BROKER_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <linux/types.h>

#define PROC_CGROUPS	32

/* Is @uid the effective user of @pid? */
bool proc_is_of(pid_t pid, uid_t uid);
/* Its name, NUL-terminated; empty if it cannot be read. */
void proc_name(pid_t pid, char *name, size_t len);
/* Ids of its cgroups (version 2), the nearest first; their number. */
u32 proc_cgroups(pid_t pid, u64 ids[PROC_CGROUPS]);
/* Has the process of a pidfd ended? */
bool proc_ended(int pidfd);

#endif /* BROKER_PROC_H */
