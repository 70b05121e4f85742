/* SPDX-License-Identifier: MIT */
/*
 * service.h - the service manager: what it passed, and what it is told, which is
 * one datagram each.
 */
#ifndef SERVICE_H
#define SERVICE_H

#include <stdint.h>

#define SERVICE_FIRST_FD	3
#define SERVICE_FDS		64	/* descriptors in one message */
#define SERVICE_PATIENCE_MS	20000	/* until the manager has taken them */

/* A socket that is connected to the manager; -ENOENT there is none. */
int service_manager(void);
/* Text, and up to SERVICE_FDS descriptors: 0 or -errno. */
int service_tell(int to, const char *text, const int *fds, uint32_t nr);
/* Tells the manager something ("READY=1"), if there is one. */
void service_notify(const char *text);

/*
 * Descriptors that were passed to this process, from SERVICE_FIRST_FD on, as
 * LISTEN_FDS says; 0 none.
 */
uint32_t service_fds(void);
/* They are no child's. */
void service_fds_taken(void);

#endif /* SERVICE_H */
