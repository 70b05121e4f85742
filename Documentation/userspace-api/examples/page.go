// SPDX-License-Identifier: MIT

// A page on /dev/kvcache: owned, written, published, found and read.
//
// usage: page TENANT TEXT
package main

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

const (
	nrQuery   = 0x00
	nrAttach  = 0x01
	nrAlloc   = 0x10
	nrFree    = 0x11
	nrPublish = 0x12
	nrLookup  = 0x13
	never     = ^uint64(0)
)

type attach struct {
	size, flags, by, tenant uint32
	name                    [64]byte
	outTenant, outClient    uint32
}

type poolInfo struct {
	id, kind                              uint32
	pageSize, nrPages                     uint64
	free, private, shared, cached         uint64
	retiring, waiters, rwOffset, roOffset uint64
	allocs, reclaims, lookups, hits       uint64
	draining, capacity                    uint32
	name                                  [64]byte
}

type query struct {
	size, flags, version, nrPools uint32
	features, seq                 uint64
	client, tenant                uint32
	pools                         [16]poolInfo
}

type alloc struct {
	size, flags, pool, nr uint32
	deadline, missing     uint64
	pages                 [256]uint64
	available, limit      uint64
}

type free struct {
	size, flags, pool, nr uint32
	pages                 [256]uint64
}

type key struct {
	key            [32]byte
	fill, reserved uint32
}

type publishPage struct {
	handle                            uint64
	flags, nrKeys, priority, reserved uint32
	ttl                               uint64
	parent                            [32]byte
	keys                              [16]key
	outHandle                         uint64
	outResult, reserved2              uint32
}

type publish struct {
	size, flags, pool, nr, domain, reserved uint32
	pages                                   [16]publishPage
}

type found struct {
	handle       uint64
	fill, domain uint32
}

type lookup struct {
	size, flags, pool, nrKeys uint32
	keysPerPage, tail         uint32
	outPages, outKeys         uint32
	keys                      [256][32]byte
	found                     [256]found
	idle, available           uint64
}

// One command: its struct begins with its size.
func call(fd int, nr uintptr, arg unsafe.Pointer) {
	_, _, err := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd),
		0xBD<<8|nr, uintptr(arg))
	if err != 0 {
		fmt.Fprintf(os.Stderr, "command %#x: %v\n", nr, err)
		os.Exit(1)
	}
}

func main() {
	text := os.Args[2]
	fd, err := syscall.Open("/dev/kvcache", syscall.O_RDWR, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "/dev/kvcache:", err)
		os.Exit(1)
	}

	a := attach{by: 2} // by name
	a.size = uint32(unsafe.Sizeof(a))
	copy(a.name[:63], os.Args[1])
	call(fd, nrAttach, unsafe.Pointer(&a))

	q := query{}
	q.size = uint32(unsafe.Sizeof(q))
	call(fd, nrQuery, unsafe.Pointer(&q))
	pool := q.pools[0]
	size := int(pool.pageSize)

	m := alloc{pool: pool.id, nr: 1}
	m.size = uint32(unsafe.Sizeof(m))
	call(fd, nrAlloc, unsafe.Pointer(&m))

	at := func(window uint64, page uint64) int64 {
		return int64(window + (page&0xffffffff)*pool.pageSize)
	}
	rw, err := syscall.Mmap(fd, at(pool.rwOffset, m.pages[0]), size,
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mmap:", err)
		os.Exit(1)
	}
	copy(rw, text)

	p := publish{pool: pool.id, nr: 1}
	p.size = uint32(unsafe.Sizeof(p))
	p.pages[0] = publishPage{handle: m.pages[0], nrKeys: 1, priority: 35,
		ttl: never}
	copy(p.pages[0].keys[0].key[:], "go")
	p.pages[0].keys[0].fill = 16
	call(fd, nrPublish, unsafe.Pointer(&p))

	l := lookup{pool: pool.id, nrKeys: 1, keysPerPage: 1}
	l.size = uint32(unsafe.Sizeof(l))
	copy(l.keys[0][:], "go")
	call(fd, nrLookup, unsafe.Pointer(&l))
	page := l.found[0].handle
	ro, err := syscall.Mmap(fd, at(pool.roOffset, page), size,
		syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mmap:", err)
		os.Exit(1)
	}
	fmt.Printf("page %d: %q, %d tokens\n", page&0xffffffff,
		string(ro[:len(text)]), l.found[0].fill)

	f := free{pool: pool.id, nr: 2}
	f.size = uint32(unsafe.Sizeof(f))
	f.pages[0], f.pages[1] = p.pages[0].outHandle, page
	call(fd, nrFree, unsafe.Pointer(&f))
}
