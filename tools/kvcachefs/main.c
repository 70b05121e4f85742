// SPDX-License-Identifier: MIT
/*
 * main.c - kvcachefs: mount, and answer until it is unmounted.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs.h"
#include "name.h"
#include "util.h"

#define FS_USAGE	2
#define BEGIN_NS	30000000000ULL	/* for a broker that is being started */

/**
 * struct options - the command line
 * @device: of -d, of -o device, or as the first argument, as mount(8) does it
 * @tenant: of -t or -o tenant
 * @foreground: stay
 * @nonempty: hide what is in the folder
 * @allow_other: asked for
 * @mount: what is for libfuse
 * @where: the folder
 */
struct options {
	const char *device;
	const char *tenant;
	bool foreground;
	bool nonempty;
	bool allow_other;
	struct fuse_args mount;
	const char *where;
};

static void help(void)
{
	puts("Usage: kvcachefs [OPTION]... [SOURCE] FOLDER\n"
	     "Show pools, tenants and clients as files, and take limits from them.\n\n"
	     "  -d, --device PATH    a device or a broker's socket; else SOURCE if that is a\n"
	     "                       path, else what KVCACHE says, else the first there is\n"
	     "  -t, --tenant NAME    whose member to be, if the user may not administer\n"
	     "  -f, --foreground     stay in the foreground\n"
	     "  -o OPTION[,...]      device=PATH, tenant=NAME, nonempty (the folder may have\n"
	     "                       files, which are hidden), and what fuse(8) knows\n"
	     "  -h, --help           show this\n"
	     "  -V, --version        show the version\n\n"
	     "Mounted by root it serves all users, else the user alone. It is unmounted by\n"
	     "umount or fusermount3 -u. Exit status: 0; 1 refused or failed; 2 usage.");
}

/* One of a list behind -o. False: of no concern here. */
static bool own_option(struct options *o, const char *s)
{
	if (!strncmp(s, "device=", 7))
		o->device = s + 7;
	else if (!strncmp(s, "tenant=", 7))
		o->tenant = s + 7;
	else if (!strcmp(s, "nonempty"))
		o->nonempty = true;
	else if (!strcmp(s, "allow_other"))
		o->allow_other = true;
	else
		return !strcmp(s, "default_permissions") || !*s;
	return true;
}

static int mount_option(struct options *o, const char *s)
{
	return fuse_opt_add_arg(&o->mount, "-o") ||
	       fuse_opt_add_arg(&o->mount, s) ? complain("out of memory") : 0;
}

/* The list lives as long as the program: values point into it. */
static int option_list(struct options *o, char *list)
{
	char *s;

	while ((s = strsep(&list, ",")))
		if (!own_option(o, s) && mount_option(o, s))
			return -1;
	return 0;
}

/* 0, 1 if there is nothing left to do, FS_USAGE after a complaint. */
static int parse(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "tenant", required_argument, NULL, 't' },
		{ "foreground", no_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 }
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":d:t:o:fhV", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			o->device = optarg;
			break;
		case 't':
			o->tenant = optarg;
			break;
		case 'f':
			o->foreground = true;
			break;
		case 'o':
			if (option_list(o, optarg))
				return FS_USAGE;
			break;
		case 'h':
			help();
			return 1;
		case 'V':
			puts("kvcachefs " KVC_VERSION);
			return 1;
		case ':':
			complain("%s: give a value behind it", argv[optind - 1]);
			return FS_USAGE;
		default:
			complain("%s: no option of kvcachefs: --help shows them",
				 argv[optind - 1]);
			return FS_USAGE;
		}
	}
	if (o->tenant && !name_ok(o->tenant)) {
		complain("--tenant \"%s\": give " NAME_RULE, o->tenant,
			 KVCACHE_NAME_LEN - 1);
		return FS_USAGE;
	}
	if (argc - optind != 1 && argc - optind != 2) {
		complain("%s: give the folder to mount on, or SOURCE and the folder",
			 optind == argc ? "no folder" : "too much");
		return FS_USAGE;
	}
	/* As mount(8) has it: a source that is no path only has a name. */
	if (argc - optind == 2 && argv[optind][0] == '/' && !o->device)
		o->device = argv[optind];
	o->where = argv[argc - 1];
	return 0;
}

/* ---- before it is mounted --------------------------------------------- */

/* Its line about options, which it says in pieces, and not the manual below. */
static char said[256];
static bool listens;

static void fuse_says(enum fuse_log_level level, const char *fmt, va_list ap)
{
	size_t n = strlen(said);
	char line[512];

	if (listens) {
		if (!memchr(said, '\n', n))
			vsnprintf(said + n, sizeof(said) - n, fmt, ap);
		return;
	}
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = 0;
	complain("%s", line);
}

/* The rest of -o is libfuse's to understand. NULL after a complaint. */
static struct fuse_session *new_session(struct fs *fs, struct options *o)
{
	struct fuse_session *se;

	listens = true;
	se = fuse_session_new(&o->mount, &fs_ops, sizeof(fs_ops), fs);
	listens = false;
	said[strcspn(said, "\n")] = 0;
	if (!se)
		complain("-o: %s: --help shows what it takes",
			 *said ? said : "not understood");
	return se;
}

/* Absolute, as a process in the background is somewhere else. */
static int check_folder(const struct options *o, char *path)
{
	const struct dirent *e;
	int nr = 0;
	DIR *d;

	d = opendir(o->where);
	if (!d && errno == ENOTCONN)
		return complain("%s: a kvcachefs was killed here: fusermount3 -u %s, and try again",
				o->where, o->where);
	if (!d)
		return complain("%s: %s: give a folder that is yours", o->where,
				strerror(errno));
	while ((e = readdir(d)))
		nr++;
	closedir(d);
	if (nr > 2 && !o->nonempty)
		return complain("%s: is not empty, and what is in it would be hidden: give an empty folder, or -o nonempty",
				o->where);
	if (!realpath(o->where, path))
		return complain("%s: %s", o->where, strerror(errno));
	return 0;
}

/* At boot a broker may begin only now, because of this question. */
static int check_backend(struct fs *fs)
{
	const char *named = fs->device ? fs->device : getenv("KVCACHE");
	const struct timespec pause = { .tv_nsec = 200000000 };
	uint64_t until = fs_now() + BEGIN_NS;
	char why[256] = "";
	int err;

	if (fs->device && !*fs->device)
		return complain("--device \"\": give the path of a device or of a broker's socket");
	if (named && !strncmp(named, "local", 5))
		return complain("\"%s\": the pages of one process are seen by it alone: name a device or a broker's socket",
				named);
	while ((err = fs_try(fs, why, sizeof(why))) == -ETIMEDOUT &&
	       fs_now() < until)
		nanosleep(&pause, NULL);
	return err ? complain("%s", *why ? why : strerror(-err)) : 0;
}

/* A relative one would be looked for in / later. */
static int absolute(const char **path, char *buf)
{
	if (!*path || **path == '/' || !**path || !strncmp(*path, "local", 5))
		return 0;
	if (!realpath(*path, buf))
		return complain("%s: %s: give the path of a device or of a broker's socket",
				*path, strerror(errno));
	*path = buf;
	return 0;
}

/* ---- mounted ---------------------------------------------------------- */

/* What is to be done by the clock, whatever is asked; and when again, or -1. */
static int due(struct fs *fs)
{
	int look = poll_look(fs), idle = fs_idle(fs);

	return look < 0 || (idle >= 0 && idle < look) ? idle : look;
}

/*
 * Until it is unmounted, or a signal comes, which it does only while nothing is
 * being answered, or the backend is waited for.
 */
static int serve(struct fs *fs, struct fuse_session *se)
{
	struct pollfd p = { .fd = fuse_session_fd(se), .events = POLLIN };
	struct fuse_buf buf = { .mem = NULL };
	struct timespec ts;
	sigset_t block;
	int n = 0, ms;

	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGHUP);
	sigprocmask(SIG_BLOCK, &block, &fs->signals);
	fs->se = se;
	while (!fuse_session_exited(se)) {
		ms = due(fs);
		ts.tv_sec = ms / 1000;
		ts.tv_nsec = ms % 1000 * 1000000L;
		n = ppoll(&p, 1, ms < 0 ? NULL : &ts, &fs->signals);
		if (n < 0 && errno != EINTR)
			break;
		if (n <= 0)
			continue;
		n = fuse_session_receive_buf(se, &buf);
		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			break;
		fuse_session_process_buf(se, &buf);
	}
	free(buf.mem);
	return n < 0 && n != -ENODEV && !fuse_session_exited(se) ? -1 : 0;
}

static int mount_and_serve(struct fs *fs, struct options *o, const char *path)
{
	struct fuse_session *se = new_session(fs, o);
	int ret = -1;

	if (!se)
		return FS_USAGE;
	if (fuse_set_signal_handlers(se)) {
		complain("signals: %s", strerror(errno));
	} else if (fuse_session_mount(se, path)) {
		complain("%s: not mounted: is there a /dev/fuse (modprobe fuse), and is fusermount3 installed?",
			 path);
	} else if (fuse_daemonize(o->foreground)) {
		complain("background: %s", strerror(errno));
		fuse_session_unmount(se);
	} else {
		ret = serve(fs, se);
		ask_end(fs);
		fuse_session_unmount(se);
	}
	fuse_remove_signal_handlers(se);
	fuse_session_destroy(se);
	return ret;
}

static int run(struct options *o)
{
	static struct fs fs;
	char path[PATH_MAX], device[PATH_MAX];

	fs.device = o->device;
	fs.tenant = o->tenant;
	fs.uid = geteuid();
	fs.gid = getegid();
	fs.shared = !fs.uid;
	clock_gettime(CLOCK_REALTIME, &fs.mounted);
	if (o->allow_other && !fs.shared)
		return complain("-o allow_other: others would have your rights: root's mount is for all users");
	if (absolute(&fs.device, device) || check_backend(&fs) ||
	    check_folder(o, path))
		return -1;
	/* Who is alone in it sees what the backend shows. */
	if (fs.shared && mount_option(o, "allow_other,default_permissions"))
		return -1;
	return mount_and_serve(&fs, o, path);
}

int main(int argc, char **argv)
{
	struct options o = { .mount = FUSE_ARGS_INIT(0, NULL) };
	int ret;

	fuse_set_log_func(fuse_says);
	if (fuse_opt_add_arg(&o.mount, argv[0]) ||
	    mount_option(&o, "fsname=kvcachefs,subtype=kvcachefs,noexec"))
		return 1;
	ret = parse(&o, argc, argv);
	if (!ret)
		ret = run(&o);
	else if (ret == 1)
		ret = 0;	/* --help, --version */
	else
		ret = FS_USAGE;
	fuse_opt_free_args(&o.mount);
	return ret == FS_USAGE ? FS_USAGE : ret ? 1 : 0;
}
