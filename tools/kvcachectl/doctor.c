// SPDX-License-Identifier: MIT
/*
 * doctor.c - why kvcache does not work here, or not as well as it could.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "doctor.h"
#include "json_out.h"
#include "util.h"

static const char *const levels[] = { "ok", "note", "wrong" };

void found(struct doctor *d, enum level level, const char *check,
	   const char *cause, const char *remedy, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->level[level]++;
	if (d->json) {
		json_array_append_new(d->json, json_pack(
			"{s:s, s:s, s:s, s:o, s:s?}", "check", check,
			"status", levels[level], "cause", cause,
			"text", json_outside(text), "remedy", remedy));
		return;
	}
	printf("%-6s %-10s ", levels[level], check);
	put_shown(text, stdout);
	printf("%s%s\n", remedy ? ": " : "", remedy ? remedy : "");
}

char *below(const struct doctor *d, const char *fmt, ...)
{
	char path[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return xasprintf("%s%s", d->root, path);
}

const char *shown(const struct doctor *d, const char *path)
{
	size_t n = strlen(d->root);

	return strncmp(path, d->root, n) ? path : path + n;
}

char *text_of(const struct doctor *d, const char *fmt, ...)
{
	char path[4096], *at, *text;
	va_list ap;
	size_t n;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	at = xasprintf("%s%s", d->root, path);
	f = fopen(at, "r");
	free(at);
	if (!f)
		return NULL;
	/* Those of /proc and /sys have no size; /proc/modules is the longest. */
	text = xcalloc(1, 1 << 18);
	n = fread(text, 1, (1 << 18) - 1, f);
	fclose(f);
	if (n && text[n - 1] == '\n')
		text[n - 1] = 0;
	return text;
}

static int conclude(const struct doctor *d)
{
	const unsigned int *level = d->level;

	if (d->json)
		return json_print(json_pack("{s:i, s:i, s:O}",
					    "wrong", level[LEVEL_WRONG],
					    "notes", level[LEVEL_NOTE],
					    "checks", d->json), stdout);
	if (level[LEVEL_WRONG])
		printf("\n%u wrong, %u could be better.\n", level[LEVEL_WRONG],
		       level[LEVEL_NOTE]);
	else if (level[LEVEL_NOTE])
		printf("\nNothing is wrong, %u could be better.\n",
		       level[LEVEL_NOTE]);
	else
		printf("\nNothing is wrong.\n");
	return 0;
}

int cmd_doctor(struct ctl *c)
{
	/*
	 * For tests only: a folder with the files of a system that is not well.
	 * What a process cannot be told by files (its user, its groups) is
	 * that of this one.
	 */
	const char *root = getenv("KVCACHE_DOCTOR_ROOT");
	const char *named = c->value[OPT_DEVICE];
	struct doctor d = { .root = root ? root : "" };

	if (!named && !root)
		named = getenv("KVCACHE");
	if (named && strchr(named, '/')) {
		d.named = named;
	} else if (named && *named && strncmp(named, "local", 5)) {
		complain("%s \"%s\": give the path of a device or a socket, with a \"/\" in it",
			 c->value[OPT_DEVICE] ? "--device" : "KVCACHE", named);
		return CTL_USAGE;
	}
	d.json = c->value[OPT_JSON] ? json_array() : NULL;
	doctor_look(&d);
	check_module(&d);
	check_node(&d);
	check_broker(&d);
	check_fuse(&d);
	check_memlock(&d);
	check_huge_pages(&d);
	check_cpu(&d);
	check_gpu(&d);
	if (conclude(&d))
		d.level[LEVEL_WRONG]++;
	json_decref(d.json);
	return d.level[LEVEL_WRONG] ? -1 : 0;
}
