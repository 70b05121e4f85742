// SPDX-License-Identifier: MIT
/*
 * fuzz_tier.c - bytes as a record that a tier gave back: it is refused, or it is
 * one that could have been written.
 *
 * The first byte says whether the checksum is made right, so that what is behind
 * it is reached.
 */
#include <stdlib.h>

#include "crc32c.h"
#include "tier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char zeros[4];
	struct kvc_record rec, again;
	uint32_t crc, i;
	size_t len;
	char *buf;

	if (size < 2)
		return 0;
	/* As long as it says that it is, in half of all cases. */
	len = data[1] & 1 ? size - 2 : kvc_record_len(1 + data[1] * 50);
	buf = calloc(1, len + 1);
	memcpy(buf, data + 2, KVC_MIN(len, size - 2));
	if (data[0] & 1 && len >= KVC_RECORD_HEAD) {
		memcpy(buf + 12, zeros, 4);
		crc = kvc_crc32c(0, buf, len);
		memcpy(buf + 12, &crc, 4);
	}
	if (!kvc_record_open(buf, len, &rec)) {
		if (kvc_record_len(rec.bytes) != len || !rec.nr_keys ||
		    rec.nr_keys > KVCACHE_MAX_PAGE_KEYS)
			abort();
		kvc_record_seal(&rec, buf);
		if (kvc_record_open(buf, len, &again) ||
		    again.nr_keys != rec.nr_keys || again.bytes != rec.bytes)
			abort();
		for (i = 0; i < rec.nr_keys; i++)
			if (memcmp(&rec.keys[i], &again.keys[i],
				   sizeof(rec.keys[i])))
				abort();
	}
	free(buf);
	return 0;
}
