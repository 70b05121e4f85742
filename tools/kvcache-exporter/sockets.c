// SPDX-License-Identifier: MIT
/*
 * sockets.c - where the exporter listens.
 *
 * There is no authentication: whoever can connect is told who uses how much. So
 * addresses that only this machine reaches are taken, and others when the user
 * has said so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporter.h"
#include "service.h"
#include "util.h"

#define BACKLOG		SOMAXCONN
#define SEND_BUFFER	(128 << 10)

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage room;
};

static bool is_loopback(const union address *a)
{
	switch (a->any.sa_family) {
	case AF_UNIX:
		return true;
	case AF_INET:
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	case AF_INET6:
		return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
	}
	return false;
}

/* What nobody reads is then here once, as text, and not again in the kernel. */
static int add(struct sockets *s, int fd)
{
	const int room = SEND_BUFFER;
	union address a;
	socklen_t len = sizeof(a);

	s->loopback[s->nr] = !getsockname(fd, &a.any, &len) &&
			     a.any.sa_family != AF_UNIX && is_loopback(&a);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	s->fd[s->nr++] = fd;
	return 0;
}

/* ---- TCP -------------------------------------------------------------- */

static socklen_t size_of(const union address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

/* A socket, or -errno. */
static int listen_at(const union address *a)
{
	int fd = socket(a->any.sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int one = 1;
	int err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (!bind(fd, &a->any, size_of(a)) && !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static void loopback(union address *a, int family, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (family == AF_INET)
		a->v4 = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_port = htons(port),
			.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		};
	else
		a->v6 = (struct sockaddr_in6){
			.sin6_family = AF_INET6, .sin6_port = htons(port),
			.sin6_addr = IN6ADDR_LOOPBACK_INIT,
		};
}

/* Both addresses of loopback, of which a machine may have one only. */
static int listen_loopback(struct sockets *s, uint16_t port)
{
	union address a;
	int fd, first;

	loopback(&a, AF_INET, port);
	first = listen_at(&a);
	if (first >= 0)
		add(s, first);
	loopback(&a, AF_INET6, port);
	fd = listen_at(&a);
	if (fd >= 0)
		return add(s, fd);
	if (first >= 0 && (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT))
		return 0;
	return complain("port %u of loopback: %s: end what listens there, or give --listen PORT",
			port, strerror(first < 0 ? -first : -fd));
}

/* "ADDRESS:PORT", with an address in numbers, which of IPv6 is in brackets. */
static bool parse_address(const char *where, union address *a)
{
	const char *colon = strrchr(where, ':');
	char host[INET6_ADDRSTRLEN + 2];
	size_t len = colon ? colon - where : 0;
	uint64_t port;

	memset(a, 0, sizeof(*a));
	if (!len || len >= sizeof(host) ||
	    !parse_u64(colon + 1, 1, 65535, &port))
		return false;
	memcpy(host, where, len);
	host[len] = 0;
	if (*host == '[' && host[len - 1] == ']') {
		host[len - 1] = 0;
		a->v6.sin6_family = AF_INET6;
		a->v6.sin6_port = htons(port);
		return inet_pton(AF_INET6, host + 1, &a->v6.sin6_addr) == 1;
	}
	a->v4.sin_family = AF_INET;
	a->v4.sin_port = htons(port);
	return inet_pton(AF_INET, host, &a->v4.sin_addr) == 1;
}

static int listen_address(struct sockets *s, const char *where, bool remote)
{
	union address a;
	uint64_t port;
	int fd;

	if (parse_u64(where, 1, 65535, &port))
		return listen_loopback(s, port);
	if (!parse_address(where, &a))
		return complain("--listen \"%s\": give a PORT, such as %u, an ADDRESS:PORT, such as 127.0.0.1:%u or [::1]:%u, or unix:PATH",
				where, EXPORTER_PORT, EXPORTER_PORT,
				EXPORTER_PORT);
	if (!remote && !is_loopback(&a))
		return complain("--listen %s: other machines reach this address, and nobody is asked who he is: give one of loopback, or --allow-remote",
				where);
	fd = listen_at(&a);
	if (fd < 0)
		return complain("--listen %s: %s: end what listens there, or give another one",
				where, strerror(-fd));
	return add(s, fd);
}

/* ---- Unix ------------------------------------------------------------- */

static int listen_path(struct sockets *s, const char *path,
		       const struct options *o)
{
	const struct listener_how how = {
		.who = "exporter",
		.option = "--listen unix:PATH",
		.type = SOCK_STREAM,
		.mode = o->mode,
		.has_group = o->has_group,
		.group = o->group,
		.folder_mode = 0755,
	};
	int fd;

	if (!*path)
		return complain("--listen unix:: give a path");
	fd = listener_make(&s->made[s->nr_made], path, &how);
	if (fd < 0)
		return -1;
	s->nr_made++;
	return add(s, fd);
}

/* ---- passed ----------------------------------------------------------- */

static int take_passed(struct sockets *s, const struct options *o, uint32_t nr)
{
	union address a;
	socklen_t len;
	uint32_t k;
	int fd;

	if (o->nr_listen)
		return complain("--listen %s: sockets were passed (LISTEN_FDS): leave it out",
				o->listen[0]);
	if (nr > EXPORTER_LISTENERS)
		return complain("%u sockets were passed (LISTEN_FDS): %d are enough",
				nr, EXPORTER_LISTENERS);
	for (k = 0; k < nr; k++) {
		fd = SERVICE_FIRST_FD + k;
		len = sizeof(a);
		if (getsockname(fd, &a.any, &len) ||
		    !listener_is(fd, a.any.sa_family, SOCK_STREAM))
			return complain("descriptor %d: no listening stream socket: say ListenStream=",
					fd);
		if (!o->remote && !is_loopback(&a))
			return complain("descriptor %d: other machines reach its address, and nobody is asked who he is: say ListenStream= with one of loopback, or give --allow-remote",
					fd);
		add(s, fd);
	}
	service_fds_taken();
	return 0;
}

int sockets_open(struct sockets *s, const struct options *o)
{
	uint32_t passed = service_fds();
	unsigned int i;
	int err = 0;

	*s = (struct sockets){ .nr = 0 };
	if (passed)
		return take_passed(s, o, passed);
	if (!o->nr_listen)
		return listen_loopback(s, EXPORTER_PORT);
	for (i = 0; !err && i < o->nr_listen; i++) {
		/* A port of loopback is two sockets. */
		if (s->nr + 2 > EXPORTER_LISTENERS)
			return complain("--listen %s: %d sockets are enough",
					o->listen[i], EXPORTER_LISTENERS);
		if (!strncmp(o->listen[i], "unix:", 5))
			err = listen_path(s, o->listen[i] + 5, o);
		else
			err = listen_address(s, o->listen[i], o->remote);
	}
	return err;
}

void sockets_close(struct sockets *s)
{
	unsigned int i;

	for (i = 0; i < s->nr_made; i++)
		listener_remove(&s->made[i]);
	for (i = 0; i < s->nr; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
	s->nr = 0;
	s->nr_made = 0;
}
