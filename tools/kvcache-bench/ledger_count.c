// SPDX-License-Identifier: MIT
/*
 * ledger_count.c - instructions and cache lines of the ledger's operations. The
 * program runs itself again under callgrind, which collects inside of the calls
 * only: instructions of the ledger, and lines of its memory that a call touches.
 *
 * A line counts when a call touches it first. For that the simulated cache is
 * emptied before each call, and what is not the ledger's is put into it: the
 * argument, the stack, constants and variables of the program. It has room for
 * them and for the lines of a call, so whatever it misses is one more line.
 */
#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger.h"

#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAVE_CALLGRIND 1
#endif
#endif

#define COUNTED		512	/* pages of the sample under callgrind */
#define LINE		64
#define CACHE		"--D1=262144,16,64"
#define CACHE_BYTES	262144
#define STACK_BELOW	4096	/* more than a call of the ledger takes */
#define STACK_ABOVE	512	/* its caller's frame, and what that passes */

#ifdef HAVE_CALLGRIND

static void read_lines(const void *start, size_t size)
{
	const uintptr_t end = (uintptr_t)start + size;
	uintptr_t at = (uintptr_t)start & -LINE;

	for (; at < end; at += LINE)
		(void)*(const volatile char *)at;
}

/* Constants and variables of the program, and memcpy()'s variables. */
static int read_object(struct dl_phdr_info *o, size_t size, void *arg)
{
	const bool program = !o->dlpi_name[0];
	size_t k;

	if (!program && !strstr(o->dlpi_name, "/libc.so"))
		return 0;
	for (k = 0; k < o->dlpi_phnum; k++) {
		const ElfW(Phdr) *h = &o->dlpi_phdr[k];

		if (h->p_type == PT_LOAD && !(h->p_flags & PF_X) &&
		    (program || (h->p_flags & PF_W)))
			read_lines((void *)(o->dlpi_addr + h->p_vaddr),
				   h->p_filesz);
	}
	return 0;
}

/* Nothing is collected outside of the ledger, but the cache goes on. */
static void count_enter(const void *arg, size_t size)
{
	static char other[CACHE_BYTES] __attribute__((aligned(LINE)));
	const char *frame = __builtin_frame_address(0);

	read_lines(other, sizeof(other));
	dl_iterate_phdr(read_object, NULL);
	read_lines(arg, size);
	read_lines(frame - STACK_BELOW, STACK_BELOW + STACK_ABOVE);
	CALLGRIND_TOGGLE_COLLECT;
}

static void count_leave(void)
{
	CALLGRIND_TOGGLE_COLLECT;
}

static void count_begin(void *arg, enum ledger_op op)
{
	struct ledger_world *w = arg;

	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
	w->enter = count_enter;
	w->leave = count_leave;
}

static void count_end(void *arg, enum ledger_op op)
{
	struct ledger_world *w = arg;

	w->enter = NULL;
	w->leave = NULL;
	CALLGRIND_DUMP_STATS_AT(ledger_op_name[op]);
	CALLGRIND_STOP_INSTRUMENTATION;
}

/* What runs under callgrind: one round, each operation in a dump of its own. */
int ledger_count_here(uint32_t pages, uint32_t nr_tenants)
{
	struct ledger_world w;
	int err;

	ledger_world_make(&w, pages, nr_tenants, COUNTED);
	err = ledger_round(&w, count_begin, count_end, &w);
	ledger_world_free(&w);
	return err ? 1 : 0;
}

#else

int ledger_count_here(uint32_t pages, uint32_t nr_tenants)
{
	return 1;
}

#endif

/* Instructions and misses of the first data cache in a dump of callgrind's. */
static int read_dump(const char *path, const char *what, double *instructions,
		     double *misses)
{
	unsigned long long ir, dr, dw, i1, rmiss, wmiss;
	char line[512];
	FILE *f = fopen(path, "r");
	int err = -ENOENT;
	bool right = false;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "desc: Trigger:", 14))
			right = strstr(line, what) != NULL;
		if (right && sscanf(line, "%*[a-z]: %llu %llu %llu %llu %llu %llu",
				    &ir, &dr, &dw, &i1, &rmiss, &wmiss) == 6 &&
		    (!strncmp(line, "totals:", 7) ||
		     !strncmp(line, "summary:", 8))) {
			*instructions = ir;
			*misses = rmiss + wmiss;
			err = 0;
		}
	}
	fclose(f);
	return err;
}

static void remove_folder(const char *dir)
{
	char path[512];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static int run_callgrind(const char *dir, uint32_t pages, uint32_t nr_tenants)
{
	char self[512], out[600], count[64];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int status;
	pid_t pid;

	if (len < 0)
		return -errno;
	self[len] = 0;
	snprintf(out, sizeof(out), "--callgrind-out-file=%s/out", dir);
	snprintf(count, sizeof(count), "--count=%u,%u", pages, nr_tenants);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		/* Looking for memcpy() is nothing that the ledger does. */
		setenv("LD_BIND_NOW", "1", 1);
		/* It warns of the caches that it is told to simulate. */
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		execlp("valgrind", "valgrind", "--tool=callgrind", "-q",
		       "--instr-atstart=no", "--collect-atstart=no",
		       "--cache-sim=yes", CACHE, "--I1=32768,8,64",
		       "--LL=8388608,16,64", out, self, "ledger", count,
		       (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	if (!WIFEXITED(status))
		return -EIO;
	return WEXITSTATUS(status) == 127 ? -ENOENT :
	       WEXITSTATUS(status) ? -EIO : 0;
}

int ledger_count(uint32_t pages, uint32_t nr_tenants, double *instructions,
		 double *lines)
{
	const char *tmp = getenv("TMPDIR");
	char dir[256], path[300];
	uint32_t op, nr = COUNTED < pages / 2 ? COUNTED : pages / 2;
	int err;

	nr -= nr % LEDGER_CHAIN;
	snprintf(dir, sizeof(dir), "%s/kvcache-bench.XXXXXX",
		 tmp ? tmp : P_tmpdir);
	if (!mkdtemp(dir))
		return -errno;
	err = run_callgrind(dir, pages, nr_tenants);
	for (op = 0; op < LEDGER_NR_OPS && !err; op++) {
		const struct ledger_world w = { .sample = nr };
		uint32_t n = ledger_op_count(&w, op);

		snprintf(path, sizeof(path), "%s/out.%u", dir, op + 1);
		err = read_dump(path, ledger_op_name[op], &instructions[op],
				&lines[op]);
		instructions[op] /= n;
		lines[op] /= n;
	}
	remove_folder(dir);
	return err;
}
