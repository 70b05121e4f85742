// SPDX-License-Identifier: MIT
/*
 * doctor_reach.c - can this user open what there is: the device, a broker, FUSE?
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <kvcache/kvcache.h>

#include "doctor.h"
#include "util.h"

#define GROUPS		1024
#define CAP_SYS_ADMIN	21

/* ---- beforehand ----------------------------------------------------------- */

/* Connect: a descriptor or -errno. */
static int reach(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/*
 * Where brokers listen: the one that was named, or the user's and the system's;
 * the number of them, each to be freed.
 */
static int sockets(const struct doctor *d, char *path[2])
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	int n = 0;

	if (d->named) {
		if (stat(d->named, &st) || !S_ISCHR(st.st_mode))
			path[n++] = xasprintf("%s", d->named);
		return n;
	}
	if (run && *run == '/')
		path[n++] = below(d, "%s/kvcache/broker", run);
	path[n++] = below(d, "/run/kvcache/broker");
	return n;
}

void doctor_look(struct doctor *d)
{
	char *modules = text_of(d, "/proc/modules"), *path[2];
	int n = sockets(d, path), fd;

	d->loaded = modules && (!strncmp(modules, "kvcache ", 8) ||
				strstr(modules, "\nkvcache "));
	free(modules);
	while (n--) {
		fd = reach(path[n]);
		d->serves |= fd >= 0;
		if (fd >= 0)
			close(fd);
		free(path[n]);
	}
}

/* ---- who may ---------------------------------------------------------------- */

static bool in_group(gid_t gid)
{
	gid_t list[GROUPS];
	int n = getgroups(GROUPS, list);

	while (n > 0)
		if (list[--n] == gid)
			return true;
	return getegid() == gid;
}

/* Is the user in the group, although this session is not? */
static bool joined(const struct group *gr)
{
	const struct passwd *pw = getpwuid(geteuid());

	for (char **m = gr ? gr->gr_mem : NULL; pw && m && *m; m++)
		if (!strcmp(*m, pw->pw_name))
			return true;
	return false;
}

/* May not be opened: is it that the user is not in its group? */
static void no_access(struct doctor *d, const char *check, const char *path,
		      const struct stat *st, const char *remedy)
{
	const struct passwd *pw = getpwuid(geteuid());
	const struct group *gr = getgrgid(st->st_gid);
	char group[64], cause[32], join[192];

	snprintf(group, sizeof(group), "%u", st->st_gid);
	if (gr)
		snprintf(group, sizeof(group), "%s", gr->gr_name);
	/* Nobody is to join root's. */
	if ((st->st_mode & 0060) == 0060 && st->st_gid &&
	    !in_group(st->st_gid)) {
		snprintf(cause, sizeof(cause), "%s-group", check);
		if (joined(gr))
			snprintf(join, sizeof(join),
				 "log in again: sessions keep the groups that they began with");
		else
			snprintf(join, sizeof(join),
				 "usermod -aG %s %s, then log in again", group,
				 pw ? pw->pw_name : "USER");
		found(d, LEVEL_WRONG, check, cause, join,
		      "%s is for group %s, and this process is not in it",
		      shown(d, path), group);
		return;
	}
	snprintf(cause, sizeof(cause), "%s-permission", check);
	found(d, LEVEL_WRONG, check, cause, remedy,
	      "%s has owner %u, group %s and mode %04o: user %u may not open it",
	      shown(d, path), st->st_uid, group, st->st_mode & 07777,
	      geteuid());
}

/* What helps where the library cannot open what is there. */
static const char *remedy_of(int err, bool node)
{
	switch (err) {
	case -EACCES:
	case -EPERM:
		return node ? "its mode lets this user in: a mount with nodev or a container's rules do not: let the device in" :
			      "its mode lets this user in: a security module or a container's rules do not: see its log";
	case -ENXIO:
	case -ENODEV:
		return "remove the node, and let udev make it (udevadm trigger --subsystem-match=misc), or mknod with the numbers in /sys/class/misc/kvcache/dev";
	case -EINVAL:
		return node ? "name the device that the module made, /dev/kvcache" :
			      "name the socket that kvcache-broker made";
	case -ETIMEDOUT:
		return "let it go on if it is stopped (kill -CONT), else end it and start it anew";
	case -ENOTCONN:
		return "see the broker's log: it has too many clients, or ends";
	}
	return node ? "unload the module and load it again; its log is the kernel's (dmesg)" :
		      "start the broker anew; its log says more";
}

/* Open it as programs do, and see how large its pools are. */
static void try_open(struct doctor *d, const char *check, const char *path,
		     const char *what)
{
	struct kvcache_query q = { .flags = 0 };
	char why[256] = "", cause[32];
	const struct kvc_open_opts open = {
		.sz = sizeof(open),
		.flags = KVC_OPEN_UNATTACHED,
		.msg = why,
		.msg_len = sizeof(why),
	};
	struct kvc *kvc;
	uint64_t bytes;
	int err;

	err = kvc_open(path, &open, &kvc);
	if (err == -EPROTO) {
		snprintf(cause, sizeof(cause), "%s-abi", check);
		found(d, LEVEL_WRONG, check, cause,
		      "install both of one release, and start it again",
		      "%s speaks another version of the ABI than this program's %u",
		      shown(d, path), KVCACHE_ABI_VERSION);
		return;
	}
	if (err) {
		snprintf(cause, sizeof(cause), "%s-other", check);
		found(d, LEVEL_WRONG, check, cause,
		      remedy_of(err, !strcmp(check, "node")), "%s",
		      *why ? shown(d, why) : strerror(-err));
		return;
	}
	if (!kvc_call(kvc, KVCACHE_NR_QUERY, &q)) {
		for (uint32_t i = 0; i < q.out_nr_pools; i++) {
			bytes = q.out_pools[i].nr_pages *
				q.out_pools[i].page_size;
			if (bytes > d->pool_bytes)
				d->pool_bytes = bytes;
		}
	}
	kvc_close(kvc);
	found(d, LEVEL_OK, check, "ok", NULL, "%s %s", shown(d, path), what);
}

/* ---- the device --------------------------------------------------------------- */

void check_node(struct doctor *d)
{
	char *path = d->named ? xasprintf("%s", d->named) :
		     below(d, "/dev/kvcache");
	struct stat st;

	if (stat(path, &st)) {
		if (d->loaded)
			found(d, LEVEL_WRONG, "node", "node-absent",
			      "udevadm trigger --subsystem-match=misc, or mknod with the numbers in /sys/class/misc/kvcache/dev; in a container let the device in",
			      "the module is loaded, and there is no %s",
			      shown(d, path));
	} else if (d->named && S_ISSOCK(st.st_mode)) {
		/* A broker's */
	} else if (!d->loaded && !d->named) {
		found(d, LEVEL_WRONG, "node", "node-left",
		      "load the module (modprobe kvcache), or remove the node",
		      "%s is there without the module, and hides every broker",
		      shown(d, path));
	} else if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS)) {
		no_access(d, "node", path, &st,
			  "install the udev rule 60-kvcache.rules (make modules_install) and the group kvcache, then udevadm trigger --subsystem-match=misc");
	} else {
		try_open(d, "node", path, "can be opened");
	}
	free(path);
}

/* ---- brokers -------------------------------------------------------------------- */

/*
 * Whoever can put a socket there gets the prompts of all: it has to be root's or
 * of whom the folder belongs to, which is root or who asks; and a user's the
 * user's.
 */
static bool has_wrong_owner(const char *path, const struct stat *st, bool users,
			    uint32_t *expected)
{
	char *dir = xasprintf("%.*s", (int)(strrchr(path, '/') - path), path);
	struct stat folder;
	bool bad;

	*expected = users ? geteuid() : 0;
	if (stat(dir, &folder))
		folder = *st;
	free(dir);
	if (!users && folder.st_uid == geteuid())
		*expected = geteuid();
	bad = (folder.st_uid && folder.st_uid != geteuid()) ||
	      (st->st_uid != *expected && (users || st->st_uid));
	/* Others could replace it. */
	return bad || ((folder.st_mode & 0002) && !(folder.st_mode & S_ISVTX));
}

static void a_socket(struct doctor *d, const char *path, const struct stat *st,
		     bool users)
{
	uint32_t expected;
	int fd;

	if (!S_ISSOCK(st->st_mode)) {
		found(d, LEVEL_WRONG, "broker", "broker-no-socket",
		      "remove it, and start kvcache-broker",
		      "%s is no socket", shown(d, path));
		return;
	}
	if (has_wrong_owner(path, st, users, &expected)) {
		found(d, LEVEL_WRONG, "broker", "broker-owner",
		      "find out who listens there (ss -xlp), remove it, keep its folder closed to others, and start kvcache-broker",
		      "%s is of user %u, and should be of %u: somebody else may be listening",
		      shown(d, path), st->st_uid, expected);
		return;
	}
	fd = reach(path);
	if (fd == -ECONNREFUSED) {
		found(d, LEVEL_WRONG, "broker", "broker-stale",
		      users ? "start kvcache-broker --user, which replaces it" :
		      "systemctl restart kvcache-broker.socket, or kvcache-broker, which replaces it",
		      "%s is left of a broker that has ended: nobody listens",
		      shown(d, path));
		return;
	}
	if (fd == -EACCES || fd == -EPERM) {
		no_access(d, "broker", path, st,
			  "start a broker of your own (kvcache-broker --user), or have the folder and the socket opened");
		return;
	}
	if (fd >= 0)
		close(fd);
	try_open(d, "broker", path, "serves");
}

static bool there_is(const struct doctor *d, const char *dir, const char *name)
{
	char *path = below(d, "%s/%s", dir, name);
	struct stat st;
	bool is = !lstat(path, &st);

	free(path);
	return is;
}

/* There is no socket, neither the user's nor the system's: @path is that. */
static void no_broker(struct doctor *d, const char *path)
{
	static const char *const units[] = {
		"/etc/systemd/system", "/usr/local/lib/systemd/system",
		"/usr/lib/systemd/system", "/lib/systemd/system",
	};
	static const char unit[] = "kvcache-broker.socket";
	enum level level = d->loaded ? LEVEL_NOTE : LEVEL_WRONG;
	bool installed = false;

	/* Where systemd is not in charge its units are of no use. */
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		installed |= there_is(d, units[i], unit);
	installed &= !d->named && there_is(d, "/run/systemd", "system");
	if (d->loaded)
		found(d, level, "broker", "broker-absent",
		      "it is needed where the module is not",
		      "does not run: no %s", path);
	else if (!installed)
		found(d, level, "broker", "broker-absent",
		      "start kvcache-broker, or kvcache-broker --user; or load the module",
		      "does not run: no %s", path);
	else if (!there_is(d, "/etc/systemd/system/sockets.target.wants", unit))
		found(d, level, "broker", "broker-not-enabled",
		      "systemctl enable --now kvcache-broker.socket, or for you alone systemctl --user enable --now kvcache-broker.socket; or load the module",
		      "does not run: no %s, and its unit is not enabled", path);
	else
		found(d, level, "broker", "broker-stopped",
		      "systemctl start kvcache-broker.socket; systemctl status kvcache-broker says what went wrong",
		      "does not run: no %s, although its unit is enabled",
		      path);
}

void check_broker(struct doctor *d)
{
	int n, there = 0, i, err = 0;
	struct stat st;
	char *path[2];

	n = sockets(d, path);
	for (i = 0; i < n; i++) {
		if (!lstat(path[i], &st)) {
			there++;
			a_socket(d, path[i], &st, !d->named && !i && n == 2);
		} else if (errno == EACCES) {
			err = EACCES;
		}
	}
	if (!there && err)
		found(d, d->loaded ? LEVEL_NOTE : LEVEL_WRONG, "broker",
		      "broker-permission",
		      "have its folder opened, or start a broker of your own (kvcache-broker --user)",
		      "%s cannot be looked at", shown(d, path[n - 1]));
	else if (!there && !(d->named && !n))
		no_broker(d, shown(d, path[n - 1]));
	for (i = 0; i < n; i++)
		free(path[i]);
}

/* ---- FUSE ------------------------------------------------------------------------- */

static bool has_helper(const struct doctor *d, struct stat *st)
{
	static const char *const at[] = {
		"/usr/bin/fusermount3", "/bin/fusermount3",
		"/usr/local/bin/fusermount3",
	};
	bool have = false;
	char *path;

	for (size_t i = 0; !have && i < sizeof(at) / sizeof(at[0]); i++) {
		path = below(d, "%s", at[i]);
		have = !stat(path, st);
		free(path);
	}
	return have;
}

void check_fuse(struct doctor *d)
{
	char *path = below(d, "/dev/fuse");
	int fd = open(path, O_RDWR | O_CLOEXEC), err = fd < 0 ? errno : 0;
	struct stat st;

	free(path);
	if (fd >= 0)
		close(fd);
	if (err == ENOENT || err == ENODEV || err == ENXIO)
		found(d, LEVEL_NOTE, "fuse", "fuse-absent",
		      "modprobe fuse; in a container let /dev/fuse in",
		      "there is no FUSE: kvcachefs cannot be mounted");
	else if (err)
		found(d, LEVEL_NOTE, "fuse", "fuse-permission",
		      "chmod 0666 /dev/fuse, as distributions have it; in a container let the device in",
		      "/dev/fuse: %s: kvcachefs cannot be mounted",
		      strerror(err));
	else if (!geteuid() && !has_capability(d, CAP_SYS_ADMIN))
		found(d, LEVEL_NOTE, "fuse", "fuse-capability",
		      "let the container have it (--cap-add SYS_ADMIN), or mount outside and share the mount",
		      "root has no CAP_SYS_ADMIN here: kvcachefs cannot be mounted");
	else if (!geteuid())
		found(d, LEVEL_OK, "fuse", "ok", NULL, "can be mounted");
	else if (!has_helper(d, &st))
		found(d, LEVEL_NOTE, "fuse", "fuse-helper",
		      "install the package fuse3",
		      "no fusermount3: users cannot mount kvcachefs");
	else if (!(st.st_mode & S_ISUID))
		found(d, LEVEL_NOTE, "fuse", "fuse-helper-mode",
		      "chmod u+s it, as the package fuse3 has it",
		      "fusermount3 is not setuid: users cannot mount kvcachefs");
	else
		found(d, LEVEL_OK, "fuse", "ok", NULL, "users can mount");
}
