#!/usr/bin/perl
# SPDX-License-Identifier: MIT
#
# A page on /dev/kvcache: owned, published, found, given back.
#
# usage: page.pl TENANT
use strict;
use warnings;

my ($QUERY, $ATTACH, $ALLOC, $FREE, $PUBLISH, $LOOKUP) =
	(0, 1, 0x10, 0x11, 0x12, 0x13);
my $NEVER = ~0;

open(my $dev, '+<', '/dev/kvcache') or die "/dev/kvcache: $!\n";

# One command: its struct begins with its size, the rest is zeros.
sub call {
	my ($nr, $size, $head) = @_;
	my $arg = pack("La*x$size", $size, $head);

	$arg = substr($arg, 0, $size);
	ioctl($dev, 0xBD << 8 | $nr, $arg) or die "command $nr: $!\n";
	return $arg;
}

# flags, by name (2), tenant, name
call($ATTACH, 88, pack('L3a64', 0, 2, 0, $ARGV[0]));

my $query = call($QUERY, 3112, '');
my ($pool, undef, $page_size, $nr_pages) = unpack('LLQQ', substr($query, 40));

# flags, pool, two pages, no waiting
my ($page, $other) = unpack('QQ', substr(
	call($ALLOC, 2096, pack('L3Q', 0, $pool, 2, 0)), 32));

# One entry: the page under one key, which vouches for 16 tokens.
my $key = pack('a32', 'perl');
my $entry = pack('QL4Qa32a32L2', $page, 0, 1, 35, 0, $NEVER, '', $key, 16, 0);
my $done = call($PUBLISH, 11544, pack('L5', 0, $pool, 1, 0, 0) . $entry);
my ($now, $result) = unpack('QL', substr($done, 24 + 704));

# flags, pool, one key, one key a page, no tail
my $found = call($LOOKUP, 12336, pack('L5x8a32', 0, $pool, 1, 1, 0, $key));
my ($same, $fill, $domain) = unpack('QL2', substr($found, 32 + 8192));
printf("page %d of %d: found, %d tokens\n", $same & 0xffffffff, $nr_pages,
       $fill);

# A reference of the publisher, one of the finder, and the page not used.
call($FREE, 2064, pack('L3Q3', 0, $pool, 3, $now, $same, $other));
