// SPDX-License-Identifier: MIT
/*
 * crc32c.c - CRC-32C (RFC 3720), by the CPU's instruction where it has one.
 */
#include <string.h>

#include "crc32c.h"

#define POLY 0x82f63b78U	/* bits reversed */

static uint32_t by_bits(uint32_t crc, const uint8_t *p, size_t n)
{
	static const uint32_t nibble[16] = {
#define STEP(c) ((c) >> 1 ^ ((c) & 1 ? POLY : 0))
#define NIBBLE(i) STEP(STEP(STEP(STEP((uint32_t)(i)))))
		NIBBLE(0), NIBBLE(1), NIBBLE(2), NIBBLE(3),
		NIBBLE(4), NIBBLE(5), NIBBLE(6), NIBBLE(7),
		NIBBLE(8), NIBBLE(9), NIBBLE(10), NIBBLE(11),
		NIBBLE(12), NIBBLE(13), NIBBLE(14), NIBBLE(15),
	};

	while (n--) {
		crc ^= *p++;
		crc = crc >> 4 ^ nibble[crc & 15];
		crc = crc >> 4 ^ nibble[crc & 15];
	}
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2")))
static uint32_t by_cpu(uint32_t crc, const uint8_t *p, size_t n)
{
	uint64_t c = crc, v;

	for (; n >= sizeof(v); p += sizeof(v), n -= sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		c = __builtin_ia32_crc32di(c, v);
	}
	crc = c;
	while (n--)
		crc = __builtin_ia32_crc32qi(crc, *p++);
	return crc;
}
#endif

uint32_t kvc_crc32c(uint32_t crc, const void *p, size_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return ~by_cpu(~crc, p, n);
#endif
	return ~by_bits(~crc, p, n);
}
