// SPDX-License-Identifier: MIT
/*
 * config.c - which variants there are, and which one this CPU gets. The only
 * place that chooses.
 */
#include <errno.h>
#include <stdlib.h>

#include "kva.h"

/* Every CPU with AVX2 converts f16, but compilers cannot all ask for F16C. */
static enum kva_isa best_isa(void)
{
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return KVA_SCALAR;
	if (!__builtin_cpu_supports("avx512f") ||
	    !__builtin_cpu_supports("avx512bw") ||
	    !__builtin_cpu_supports("avx512vl") ||
	    !__builtin_cpu_supports("avx512dq"))
		return KVA_AVX2;
	return KVA_AVX512;
}

static const struct variant {
	const struct kva_ops *ops;
	enum kva_isa isa;
} variants[] = {
	{ &kva_ops_avx512, KVA_AVX512 },
	{ &kva_ops_avx2, KVA_AVX2 },
	{ &kva_ops_scalar, KVA_SCALAR },
	{ &kva_ops_ref, KVA_SCALAR },
};

#define NR_VARIANTS (sizeof(variants) / sizeof(variants[0]))

const struct kva_ops *kva_variant(unsigned int i, int *runnable)
{
	if (i >= NR_VARIANTS)
		return NULL;
	if (runnable)
		*runnable = variants[i].isa <= best_isa();
	return variants[i].ops;
}

static const struct variant *choose(void)
{
	const char *want = getenv("KVATTN_ISA");
	enum kva_isa best = best_isa();
	size_t i;

	for (i = 0; i < NR_VARIANTS; i++)
		if (variants[i].isa <= best &&
		    (!want || !*want || !strcmp(want, variants[i].ops->name)))
			return &variants[i];
	return NULL;
}

int kva_isa(void)
{
	const struct variant *v = choose();

	return v ? (int)v->isa : -EOPNOTSUPP;
}

const struct kva_ops *kva_config(void)
{
	const struct variant *v = choose();

	return v ? v->ops : NULL;
}
