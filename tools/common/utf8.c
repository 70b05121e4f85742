// SPDX-License-Identifier: MIT
/*
 * utf8.c - check and read UTF-8.
 */
#include <errno.h>
#include <string.h>

#include "utf8.h"

int utf8_decode(const char *s, size_t len, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	unsigned int n, i;
	uint32_t c = p[0];

	if (c < 0x80) {
		*cp = c;
		return 1;
	}
	n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (c < 0xc2 || c > 0xf4 || len < n)
		return -EILSEQ;
	c &= 0x7f >> n;
	for (i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return -EILSEQ;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return -EILSEQ;
	*cp = c;
	return n;
}

bool utf8_valid(const char *s, size_t len)
{
	uint64_t word;
	uint32_t cp;
	int n;

	while (len) {
		/* Most text is ASCII: eight bytes at a time. */
		if (len >= sizeof(word)) {
			memcpy(&word, s, sizeof(word));
			if (!(word & 0x8080808080808080)) {
				s += sizeof(word);
				len -= sizeof(word);
				continue;
			}
		}
		n = utf8_decode(s, len, &cp);
		if (n < 0)
			return false;
		s += n;
		len -= n;
	}
	return true;
}
