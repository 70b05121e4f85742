// SPDX-License-Identifier: MIT
/*
 * doctor_file.c - files of the module: for which kernels there are some, and
 * what stands in them.
 */
#include <fts.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "util.h"

extern char **environ;

#define FILE_MAX	((size_t)64 << 20)
#define SIGNED		"~Module signature appended~\n"

/* "kvcache.ko", or compressed as kernels are built to take it. */
static const struct {
	const char *suffix;
	const char *program;
} forms[] = {
	{ "", NULL }, { ".xz", "xz" }, { ".zst", "zstd" }, { ".gz", "gzip" },
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

static int form_of(const char *name)
{
	size_t i;

	if (strncmp(name, "kvcache.ko", 10))
		return -1;
	for (i = 0; i < FORMS; i++)
		if (!strcmp(name + 10, forms[i].suffix))
			return i;
	return -1;
}

static char *read_all(FILE *f, size_t *len)
{
	char *buf = NULL;
	size_t n = 0, cap = 0, got;

	do {
		cap = cap ? 2 * cap : 1 << 16;
		buf = xrealloc(buf, cap, 1);
		got = fread(buf + n, 1, cap - n, f);
		n += got;
	} while (n == cap && n < FILE_MAX);
	*len = n;
	return buf;
}

/* What a program makes of it; NULL if it cannot. */
static char *unpacked(const char *program, const char *path, size_t *len)
{
	char *const argv[] = { (char *)program, "-dc", "--", (char *)path,
			       NULL };
	posix_spawn_file_actions_t to;
	char *buf = NULL;
	int p[2], status;
	pid_t pid;
	FILE *f;

	if (pipe(p))
		return NULL;
	posix_spawn_file_actions_init(&to);
	posix_spawn_file_actions_adddup2(&to, p[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&to, p[0]);
	posix_spawn_file_actions_addopen(&to, STDERR_FILENO, "/dev/null", 1, 0);
	status = posix_spawnp(&pid, program, &to, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&to);
	close(p[1]);
	f = fdopen(p[0], "r");
	if (!f)
		close(p[0]);
	else
		buf = read_all(f, len);
	if (f)
		fclose(f);
	if (status || waitpid(pid, &status, 0) != pid || status) {
		free(buf);
		return NULL;
	}
	return buf;
}

/* The value of a line of a module's .modinfo, which are ended by NULs. */
static void value_of(const char *buf, size_t len, const char *name, char *out,
		     size_t room)
{
	const char *at = memmem(buf, len, name, strlen(name));
	size_t n;

	while (at && at > buf && at[-1])
		at = memmem(at + 1, len - (at + 1 - buf), name, strlen(name));
	if (!at)
		return;
	at += strlen(name);
	n = strnlen(at, len - (at - buf));
	if (n >= room)
		n = room - 1;
	memcpy(out, at, n);
	out[n] = 0;
}

static void look_into(struct module_file *f, const char *program)
{
	size_t len = 0, end = strlen(SIGNED);
	char *buf = NULL;
	FILE *plain;

	if (program) {
		buf = unpacked(program, f->path, &len);
	} else {
		plain = fopen(f->path, "r");
		if (plain) {
			buf = read_all(plain, &len);
			fclose(plain);
		}
	}
	if (!buf)
		return;
	f->read = true;
	f->is_signed = len >= end && !memcmp(buf + len - end, SIGNED, end);
	value_of(buf, len, "vermagic=", f->vermagic, sizeof(f->vermagic));
	value_of(buf, len, "srcversion=", f->srcversion,
		 sizeof(f->srcversion));
	/* "6.1.0-57-amd64 SMP preempt mod_unload" */
	f->vermagic[strcspn(f->vermagic, " ")] = 0;
	free(buf);
}

/* The folders of kernels have links to their sources: those are not followed. */
size_t find_modules(const struct doctor *d, struct module_file **out)
{
	char *top = below(d, "/lib/modules");
	char *const tops[] = { top, NULL };
	FTS *fts = fts_open(tops, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR |
			    FTS_NOSTAT, NULL);
	struct module_file *f = NULL;
	const char *release;
	size_t n = 0;
	FTSENT *e;
	int form;

	while (fts && (e = fts_read(fts))) {
		form = e->fts_info == FTS_D ? -1 : form_of(e->fts_name);
		if (form < 0 || e->fts_level < 2)
			continue;
		f = xrealloc(f, n + 1, sizeof(*f));
		f[n] = (struct module_file){
			.path = xasprintf("%s", e->fts_path)
		};
		release = e->fts_path + strlen(top) + 1;
		snprintf(f[n].release, sizeof(f[n].release), "%.*s",
			 (int)strcspn(release, "/"), release);
		look_into(&f[n++], forms[form].program);
	}
	if (fts)
		fts_close(fts);
	free(top);
	*out = f;
	return n;
}

void free_modules(struct module_file *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(f[i].path);
	free(f);
}
