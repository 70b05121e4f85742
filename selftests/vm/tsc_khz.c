// SPDX-License-Identifier: MIT
/*
 * tsc_khz.c - how fast this machine's time stamp counter runs, in kHz. QEMU
 * shows it to emulated machines, which cannot measure it when they are not
 * always running.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct point {
	uint64_t ticks;
	uint64_t ns;
};

/* Both at one time: the closest pair of several. */
static struct point look(void)
{
	struct point best = { 0 };
	uint64_t least = UINT64_MAX;

	for (int k = 0; k < 100; k++) {
		struct timespec ts;
		uint64_t a = __rdtsc(), b;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		b = __rdtsc();
		if (b - a >= least)
			continue;
		least = b - a;
		best.ticks = a + least / 2;
		best.ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
	}
	return best;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	struct point a = look(), b;

	nanosleep(&pause, NULL);
	b = look();
	printf("%llu\n", (unsigned long long)
	       ((b.ticks - a.ticks) * 1000000 / (b.ns - a.ns)));
	return 0;
}
