/* SPDX-License-Identifier: MIT */
/*
 * crc32c.h - the checksum of what leaves this process and comes back.
 */
#ifndef KVC_CRC32C_H
#define KVC_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/**
 * kvc_crc32c() - CRC-32C (Castagnoli) of some bytes
 * @crc: of what comes before them; 0 if nothing does
 * @p: the bytes
 * @n: their number
 *
 * Return: the checksum of what comes before and of these.
 */
uint32_t kvc_crc32c(uint32_t crc, const void *p, size_t n);

#endif /* KVC_CRC32C_H */
