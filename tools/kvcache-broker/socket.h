/* SPDX-License-Identifier: MIT */
/* socket.h - where the broker listens. */
#ifndef BROKER_SOCKET_H
#define BROKER_SOCKET_H

#include <stdbool.h>
#include <sys/stat.h>

/**
 * struct listener - a socket that we made
 * @path: where
 * @dev: the file system
 * @ino: its file
 * @lock: what keeps a second broker from making it too
 */
struct listener {
	char *path;
	dev_t dev;
	ino_t ino;
	int lock;
};

/* Where it is without --socket, to be freed; NULL after a complaint. */
char *socket_default(bool user);

/**
 * socket_make() - listen
 * @l: written
 * @path: where; one at which nobody listens is replaced
 * @user: for one user only
 *
 * Return: the socket, or -1 after a complaint.
 */
int socket_make(struct listener *l, const char *path, bool user);
/* Removes it, if it is still ours. */
void socket_remove(struct listener *l);

/* Is it a socket that we can accept from? */
bool socket_is_ours(int fd);

#endif /* BROKER_SOCKET_H */
