// SPDX-License-Identifier: MIT
/*
 * config.c - which variants there are, and which one this CPU gets. The only
 * place that chooses.
 */
#include <stdlib.h>

#include "kva.h"

static int has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("fma");
}

/* Every CPU with AVX2 converts f16, but compilers cannot all ask for F16C. */
static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int has_any(void)
{
	return 1;
}

static const struct {
	const struct kva_ops *ops;
	int (*runnable)(void);
} variants[] = {
	{ &kva_ops_avx512, has_avx512 },
	{ &kva_ops_avx2, has_avx2 },
	{ &kva_ops_scalar, has_any },
	{ &kva_ops_ref, has_any },
};

const struct kva_ops *kva_variant(unsigned int i, int *runnable)
{
	if (i >= sizeof(variants) / sizeof(variants[0]))
		return NULL;
	if (runnable)
		*runnable = variants[i].runnable();
	return variants[i].ops;
}

const struct kva_ops *kva_config(void)
{
	const char *want = getenv("KVATTN_ISA");
	const struct kva_ops *ops;
	unsigned int i;
	int runnable;

	for (i = 0; (ops = kva_variant(i, &runnable)); i++)
		if (runnable && (!want || !*want || !strcmp(want, ops->name)))
			return ops;
	return NULL;
}
