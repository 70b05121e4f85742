/* SPDX-License-Identifier: MIT */
/*
 * listener.h - a Unix socket that a service makes, and sockets that were passed.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include <stdbool.h>
#include <sys/stat.h>

/**
 * struct listener_how - what kind of socket
 * @who: what we are, for complaints: "broker"
 * @option: how another path is given, for complaints: "--socket PATH"
 * @type: SOCK_SEQPACKET or SOCK_STREAM
 * @mode: who may connect
 * @has_group: it is to be @group's
 * @group: whose members are those of @mode
 * @folder_mode: of the folder that it is in, if that is made
 */
struct listener_how {
	const char *who;
	const char *option;
	int type;
	mode_t mode;
	bool has_group;
	gid_t group;
	mode_t folder_mode;
};

/**
 * struct listener - a socket that we made
 * @path: where
 * @dev: the file system
 * @ino: its file
 * @lock: what keeps a second one of us from making it too
 */
struct listener {
	char *path;
	dev_t dev;
	ino_t ino;
	int lock;
};

/**
 * listener_make() - listen
 * @l: written
 * @path: where; one at which nobody listens is replaced
 * @how: of what kind
 *
 * Return: the socket, or -1 after a complaint.
 */
int listener_make(struct listener *l, const char *path,
		  const struct listener_how *how);
/* Removes it, if it is still ours. */
void listener_remove(struct listener *l);

/* Is it a socket of this kind that we can accept from? It no longer blocks. */
bool listener_is(int fd, int domain, int type);

#endif /* LISTENER_H */
