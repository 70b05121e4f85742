/* SPDX-License-Identifier: MIT */
/*
 * harness.h - tests in the form of the kernel's kselftest harness, for
 * programs that do not need the kernel's headers.
 *
 *	TEST(name) { ASSERT_EQ(0, f()); }
 *	FIXTURE(f) { int fd; };  FIXTURE_SETUP(f) {}  FIXTURE_TEARDOWN(f) {}
 *	TEST_F(f, name) { EXPECT_NE(-1, self->fd); }
 *	TEST_HARNESS_MAIN
 *
 * Each test runs in a child process. TAP 13 goes to standard output; the exit
 * status is 0, or 1 if a test failed, or 4 if all were skipped. -l lists, -t
 * NAME runs the tests whose name contains NAME, -n runs in this process.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HT_PASS 0
#define HT_FAIL 1
#define HT_SKIP 4
/* Seconds for a test that names no limit; sanitizers are slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HT_SANITIZED 1
#define HT_TIMEOUT 600
#else
#define HT_SANITIZED 0
#define HT_TIMEOUT 120
#endif

struct ht_test {
	const char *name;
	void (*fn)(void);
	unsigned int timeout;
	struct ht_test *next;
};

static struct ht_test *ht_first, **ht_last = &ht_first;
static int ht_failed;		/* of the running test */
static const char *ht_current;

static inline void ht_add(struct ht_test *t)
{
	*ht_last = t;
	ht_last = &t->next;
}

__attribute__((format(printf, 1, 2), unused))
static void ht_log(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}
#define TH_LOG ht_log

#define HT_REG(sym, label, secs)					\
	static struct ht_test sym##_t = {				\
		.name = label, .fn = sym, .timeout = secs		\
	};								\
	__attribute__((constructor)) static void sym##_reg(void)	\
	{								\
		ht_add(&sym##_t);					\
	}

#define TEST_TIMEOUT(n, secs)						\
	static void ht_##n(void);					\
	HT_REG(ht_##n, #n, secs)					\
	static void ht_##n(void)
#define TEST(n) TEST_TIMEOUT(n, HT_TIMEOUT)

#define FIXTURE(f) struct ht_fix_##f
#define FIXTURE_DATA(f) struct ht_fix_##f
#define FIXTURE_SETUP(f) \
	static void ht_setup_##f(struct ht_fix_##f *self)
#define FIXTURE_TEARDOWN(f) \
	static void ht_teardown_##f(struct ht_fix_##f *self)
#define TEST_F_TIMEOUT(f, n, secs)					\
	static void ht_##f##_##n##_body(struct ht_fix_##f *self);	\
	static void ht_##f##_##n(void)					\
	{								\
		struct ht_fix_##f self;					\
									\
		memset(&self, 0, sizeof(self));				\
		ht_setup_##f(&self);					\
		if (!ht_failed)						\
			ht_##f##_##n##_body(&self);			\
		ht_teardown_##f(&self);					\
	}								\
	HT_REG(ht_##f##_##n, #f "." #n, secs)				\
	static void ht_##f##_##n##_body(struct ht_fix_##f *self)
#define TEST_F(f, n) TEST_F_TIMEOUT(f, n, HT_TIMEOUT)

#define SKIP(stmt, ...)							\
	do {								\
		printf("# SKIP ");					\
		printf(__VA_ARGS__);					\
		printf("\n");						\
		fflush(stdout);						\
		exit(ht_failed ? HT_FAIL : HT_SKIP);			\
		stmt;							\
	} while (0)

/* A value as text: "%g" of floats, "%lld" of all others, pointers included. */
#define HT_IS_FP(x) \
	_Generic((x), float: 1, double: 1, long double: 1, default: 0)
#define HT_FP(x) \
	_Generic((x), float: (x), double: (x), long double: (x), default: 0.0)
#define HT_INT(x) ((long long)_Generic((x), float: 0, double: 0,		\
				       long double: 0, default: (x)))
#define HT_SHOW(buf, x)							\
	(HT_IS_FP(x) ? snprintf(buf, sizeof(buf), "%.9g", (double)HT_FP(x)) : \
		       snprintf(buf, sizeof(buf), "%lld", HT_INT(x)))

#define HT_CMP(a, op, b, on_fail)					\
	do {								\
		__typeof__(a) ht_a = (a);				\
		__typeof__(b) ht_b = (b);				\
		if (!(ht_a op ht_b)) {					\
			char ht_as[32], ht_bs[32];			\
									\
			HT_SHOW(ht_as, ht_a);				\
			HT_SHOW(ht_bs, ht_b);				\
			ht_log("%s:%d: expected %s (%s) %s %s (%s)",	\
			       __FILE__, __LINE__, #a, ht_as, #op, #b,	\
			       ht_bs);					\
			ht_failed = 1;					\
			on_fail;					\
		}							\
	} while (0)
#define HT_STR(a, b, want, on_fail)					\
	do {								\
		const char *ht_a = (a), *ht_b = (b);			\
		if ((strcmp(ht_a, ht_b) == 0) != (want)) {		\
			ht_log("%s:%d: %s is \"%s\", %s is \"%s\"",	\
			       __FILE__, __LINE__, #a, ht_a, #b, ht_b);	\
			ht_failed = 1;					\
			on_fail;					\
		}							\
	} while (0)
#define HT_TRUE(c, want, on_fail)					\
	do {								\
		if (((c) ? 1 : 0) != (want)) {				\
			ht_log("%s:%d: %s is %s", __FILE__, __LINE__,	\
			       #c, (want) ? "false" : "true");		\
			ht_failed = 1;					\
			on_fail;					\
		}							\
	} while (0)

/* ASSERT ends the test (teardown is skipped: the process ends), EXPECT not. */
#define HT_STOP exit(HT_FAIL)
#define HT_GO ((void)0)
#define ASSERT_EQ(a, b) HT_CMP(a, ==, b, HT_STOP)
#define ASSERT_NE(a, b) HT_CMP(a, !=, b, HT_STOP)
#define ASSERT_LT(a, b) HT_CMP(a, <, b, HT_STOP)
#define ASSERT_LE(a, b) HT_CMP(a, <=, b, HT_STOP)
#define ASSERT_GT(a, b) HT_CMP(a, >, b, HT_STOP)
#define ASSERT_GE(a, b) HT_CMP(a, >=, b, HT_STOP)
#define ASSERT_TRUE(c) HT_TRUE(c, 1, HT_STOP)
#define ASSERT_FALSE(c) HT_TRUE(c, 0, HT_STOP)
#define ASSERT_STREQ(a, b) HT_STR(a, b, 1, HT_STOP)
#define ASSERT_STRNE(a, b) HT_STR(a, b, 0, HT_STOP)
#define EXPECT_EQ(a, b) HT_CMP(a, ==, b, HT_GO)
#define EXPECT_NE(a, b) HT_CMP(a, !=, b, HT_GO)
#define EXPECT_LT(a, b) HT_CMP(a, <, b, HT_GO)
#define EXPECT_LE(a, b) HT_CMP(a, <=, b, HT_GO)
#define EXPECT_GT(a, b) HT_CMP(a, >, b, HT_GO)
#define EXPECT_GE(a, b) HT_CMP(a, >=, b, HT_GO)
#define EXPECT_TRUE(c) HT_TRUE(c, 1, HT_GO)
#define EXPECT_FALSE(c) HT_TRUE(c, 0, HT_GO)
#define EXPECT_STREQ(a, b) HT_STR(a, b, 1, HT_GO)
#define EXPECT_STRNE(a, b) HT_STR(a, b, 0, HT_GO)

/* Run one test in a child; returns HT_PASS, HT_FAIL or HT_SKIP. */
static int ht_run(const struct ht_test *t, int here)
{
	int status;
	pid_t pid;

	ht_current = t->name;
	ht_failed = 0;
	if (here) {
		t->fn();
		return ht_failed ? HT_FAIL : HT_PASS;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(t->timeout);
		t->fn();
		fflush(stdout);
		exit(ht_failed ? HT_FAIL : HT_PASS);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return HT_FAIL;
	if (WIFSIGNALED(status)) {
		if (WTERMSIG(status) == SIGALRM)
			ht_log("timed out after %u s", t->timeout);
		else
			ht_log("killed by signal %d", WTERMSIG(status));
		return HT_FAIL;
	}
	return WEXITSTATUS(status) == HT_SKIP ? HT_SKIP :
	       WEXITSTATUS(status) ? HT_FAIL : HT_PASS;
}

static int ht_main(int argc, char **argv)
{
	int n = 0, i = 0, bad = 0, skipped = 0, here = 0, opt, r;
	const char *want = NULL;
	struct ht_test *t;

	while ((opt = getopt(argc, argv, "lnt:")) != -1) {
		if (opt == 'l') {
			for (t = ht_first; t; t = t->next)
				puts(t->name);
			return 0;
		}
		if (opt == 'n')
			here = 1;
		else if (opt == 't')
			want = optarg;
		else
			return 2;
	}
	for (t = ht_first; t; t = t->next)
		n += !want || strstr(t->name, want);
	if (want && !n) {
		fprintf(stderr, "no test has '%s' in its name\n", want);
		return 2;
	}
	printf("TAP version 13\n1..%d\n", n);
	for (t = ht_first; t; t = t->next) {
		if (want && !strstr(t->name, want))
			continue;
		r = ht_run(t, here);
		printf("%s %d %s%s\n", r == HT_FAIL ? "not ok" : "ok", ++i,
		       t->name, r == HT_SKIP ? " # SKIP" : "");
		fflush(stdout);
		bad += r == HT_FAIL;
		skipped += r == HT_SKIP;
	}
	return bad ? HT_FAIL : n && skipped == n ? HT_SKIP : HT_PASS;
}

#define TEST_HARNESS_MAIN						\
	int main(int argc, char **argv)					\
	{								\
		return ht_main(argc, argv);				\
	}

#endif /* HARNESS_H */
