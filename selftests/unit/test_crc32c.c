// SPDX-License-Identifier: MIT
/*
 * test_crc32c.c - the checksum: published values, pieces, and that the CPU's
 * instruction and the table say the same.
 */
#include "harness.h"

#include "../../lib/crc32c.c"

/* RFC 3720, B.4, and the check value of the catalogue of CRCs. */
TEST(published)
{
	uint8_t buf[32];
	unsigned int i;

	EXPECT_EQ(0xe3069283, kvc_crc32c(0, "123456789", 9));
	memset(buf, 0, sizeof(buf));
	EXPECT_EQ(0x8a9136aa, kvc_crc32c(0, buf, sizeof(buf)));
	memset(buf, 0xff, sizeof(buf));
	EXPECT_EQ(0x62a8ab43, kvc_crc32c(0, buf, sizeof(buf)));
	for (i = 0; i < sizeof(buf); i++)
		buf[i] = i;
	EXPECT_EQ(0x46dd794e, kvc_crc32c(0, buf, sizeof(buf)));
	EXPECT_EQ(0, kvc_crc32c(0, buf, 0));
}

TEST(pieces_and_paths)
{
	uint8_t buf[257];
	uint32_t whole;
	unsigned int i, from;

	for (i = 0; i < sizeof(buf); i++)
		buf[i] = i * 7 ^ i >> 3;
	for (from = 0; from < 9; from++) {
		whole = kvc_crc32c(0, buf + from, sizeof(buf) - from);
		EXPECT_EQ(whole, ~by_bits(~0U, buf + from,
					  sizeof(buf) - from));
		for (i = from; i < sizeof(buf); i++)
			EXPECT_EQ(whole, kvc_crc32c(kvc_crc32c(0, buf + from,
							       i - from),
						    buf + i, sizeof(buf) - i));
	}
}

TEST_HARNESS_MAIN
