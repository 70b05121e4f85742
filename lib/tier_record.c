// SPDX-License-Identifier: MIT
/*
 * tier_record.c - a page as tiers keep it: a head of fixed size, the image,
 * zeros to the next 4,096 bytes.
 *
 * The checksum covers all of it, so a record is whole or it is none. All
 * numbers are little-endian, and so is what pages hold: a machine of the other
 * order finds records that are wrong.
 */
#include <endian.h>
#include <string.h>

#include "crc32c.h"
#include "tier.h"

#define MAGIC "KVCPAGE\n"
#define VERSION 1

/* The head, as it is stored; zeros follow it. */
struct head {
	char magic[8];
	uint32_t version;
	uint32_t crc;		/* of the whole record, this being 0 */
	uint64_t bytes;
	uint32_t nr_keys;
	uint32_t order;		/* of bytes in elements of a page */
	uint8_t parent[KVCACHE_KEY_LEN];
	struct {
		uint8_t key[KVCACHE_KEY_LEN];
		uint32_t fill;
		uint32_t zero;
	} keys[KVCACHE_MAX_PAGE_KEYS];
};

_Static_assert(sizeof(struct head) <= KVC_RECORD_HEAD, "the head fits");

void kvc_record_seal(const struct kvc_record *r, char *buf)
{
	size_t len = kvc_record_len(r->bytes);
	struct head h = { .magic = MAGIC, .version = htole32(VERSION) };

	h.bytes = htole64(r->bytes);
	h.nr_keys = htole32(r->nr_keys);
	h.order = htole32(__BYTE_ORDER);
	memcpy(h.parent, r->parent, sizeof(h.parent));
	for (uint32_t i = 0; i < r->nr_keys; i++) {
		memcpy(h.keys[i].key, r->keys[i].key, KVCACHE_KEY_LEN);
		h.keys[i].fill = htole32(r->keys[i].fill);
	}
	memset(buf, 0, KVC_RECORD_HEAD);
	memcpy(buf, &h, sizeof(h));
	memset(buf + KVC_RECORD_HEAD + r->bytes, 0,
	       len - KVC_RECORD_HEAD - r->bytes);
	h.crc = htole32(kvc_crc32c(0, buf, len));
	memcpy(buf + offsetof(struct head, crc), &h.crc, sizeof(h.crc));
}

int kvc_record_open(const char *buf, size_t len, struct kvc_record *out)
{
	static const char zeros[4];
	uint32_t crc, fill = 0;
	struct head h;
	size_t at = offsetof(struct head, crc) + sizeof(h.crc);

	if (len < KVC_RECORD_HEAD)
		return -EBADMSG;
	memcpy(&h, buf, sizeof(h));
	if (memcmp(h.magic, MAGIC, sizeof(h.magic)) ||
	    le32toh(h.version) != VERSION ||
	    le32toh(h.order) != __BYTE_ORDER)
		return -EBADMSG;
	out->bytes = le64toh(h.bytes);
	out->nr_keys = le32toh(h.nr_keys);
	if (!out->bytes || out->bytes > len || kvc_record_len(out->bytes) != len ||
	    !out->nr_keys || out->nr_keys > KVCACHE_MAX_PAGE_KEYS)
		return -EBADMSG;
	crc = kvc_crc32c(0, buf, offsetof(struct head, crc));
	crc = kvc_crc32c(crc, zeros, sizeof(zeros));
	if (kvc_crc32c(crc, buf + at, len - at) != le32toh(h.crc))
		return -EBADMSG;
	memcpy(out->parent, h.parent, sizeof(h.parent));
	for (uint32_t i = 0; i < out->nr_keys; i++) {
		if (le32toh(h.keys[i].fill) <= fill)
			return -EBADMSG;
		fill = le32toh(h.keys[i].fill);
		memcpy(out->keys[i].key, h.keys[i].key, KVCACHE_KEY_LEN);
		out->keys[i].fill = fill;
		out->keys[i].__reserved = 0;
	}
	return 0;
}
