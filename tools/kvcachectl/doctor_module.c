// SPDX-License-Identifier: MIT
/*
 * doctor_module.c - is the module there, is it for this kernel, may it be
 * loaded, and is it the one that these programs are of?
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "util.h"

/**
 * struct state - what there is of the module
 * @release: of this kernel
 * @file: [@n] all its files
 * @n: their number
 * @mine: the first for this kernel, or NULL
 * @here: files for this kernel
 * @lock: why only signed ones are taken, or NULL
 */
struct state {
	const char *release;
	struct module_file *file;
	size_t n;
	const struct module_file *mine;
	size_t here;
	const char *lock;
};

/* Without a module that a broker stands in for nothing is wrong. */
static enum level level_of(const struct doctor *d)
{
	return d->serves ? LEVEL_NOTE : LEVEL_WRONG;
}

/* "none [integrity] confidentiality" */
static const char *who_locks(const struct doctor *d)
{
	char *lock = text_of(d, "/sys/kernel/security/lockdown");
	char *enforce = text_of(d, "/sys/module/module/parameters/sig_enforce");
	const char *why = NULL;

	if (lock && strchr(lock, '[') && !strstr(lock, "[none]"))
		why = "the kernel is locked down";
	else if (enforce && *enforce == 'Y')
		why = "module.sig_enforce is set";
	free(lock);
	free(enforce);
	return why;
}

/* A kernel that cannot load any has no such file. */
static bool takes_modules(const struct doctor *d)
{
	char *modules = text_of(d, "/proc/modules");

	free(modules);
	return modules;
}

static void not_loaded(struct doctor *d, const struct state *s)
{
	enum level level = level_of(d);

	if (!takes_modules(d)) {
		found(d, level, "module", "module-none",
		      "use kvcache-broker",
		      "this kernel takes no modules");
	} else if (!s->n) {
		found(d, level, "module", "module-absent",
		      "install kvcache-dkms, or make modules modules_install, then modprobe kvcache; or use kvcache-broker",
		      "is not installed");
	} else if (!s->mine || (*s->mine->vermagic &&
				strcmp(s->mine->vermagic, s->release))) {
		const struct module_file *f = s->mine ? s->mine : s->file;

		found(d, level, "module", "module-other-kernel",
		      "install this kernel's linux-headers, then dkms autoinstall, or make modules modules_install",
		      "is built for %s, and the kernel is %s",
		      *f->vermagic ? f->vermagic : f->release, s->release);
	} else if (s->lock && s->mine->read && !s->mine->is_signed) {
		found(d, level, "module", "module-unsigned",
		      "sign it (make modules_sign KEY= CERT=) with a key that the firmware knows (mokutil --import)",
		      "%s is unsigned, and %s", shown(d, s->mine->path),
		      s->lock);
	} else {
		found(d, level, "module", "module-not-loaded",
		      "modprobe kvcache; dmesg says why if that fails",
		      "is installed, but not loaded");
	}
}

static void is_loaded(struct doctor *d, const struct state *s)
{
	char *version = text_of(d, "/sys/module/kvcache/version");
	char *src = text_of(d, "/sys/module/kvcache/srcversion");

	if (version && strcmp(version, KVC_VERSION))
		found(d, LEVEL_WRONG, "module", "module-version",
		      "install both of one release, then modprobe -r kvcache && modprobe kvcache",
		      "%s is loaded, and this program is %s", version,
		      KVC_VERSION);
	else if (src && s->mine && *s->mine->srcversion &&
		 strcmp(src, s->mine->srcversion))
		found(d, LEVEL_NOTE, "module", "module-stale",
		      "modprobe -r kvcache && modprobe kvcache",
		      "another build is loaded than %s",
		      shown(d, s->mine->path));
	else
		found(d, LEVEL_OK, "module", "ok", NULL, "%s is loaded",
		      version ? version : "some version");
	free(version);
	free(src);
}

static void copies(struct doctor *d, const struct state *s)
{
	const struct module_file *other = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->file[i].release, s->release))
			other = &s->file[i];
	found(d, LEVEL_WRONG, "module", "module-copies",
	      "remove all but one (dkms remove, or rm), then depmod",
	      "%zu copies for this kernel, %s and %s: which one is loaded is chance",
	      s->here, shown(d, s->mine->path), shown(d, other->path));
}

void check_module(struct doctor *d)
{
	char *release = text_of(d, "/proc/sys/kernel/osrelease");
	struct state s = { .release = release ? release : "?" };

	s.n = find_modules(d, &s.file);
	s.lock = who_locks(d);
	for (size_t i = 0; i < s.n; i++) {
		if (strcmp(s.file[i].release, s.release))
			continue;
		if (!s.here++)
			s.mine = &s.file[i];
	}
	if (d->loaded)
		is_loaded(d, &s);
	else
		not_loaded(d, &s);
	if (s.here > 1)
		copies(d, &s);
	free_modules(s.file, s.n);
	free(release);
}
