/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Log2 histograms of microseconds: bucket i holds what took less than 2^i, and not less than half of that. */
#pragma once

enum { BUCKETS = 32 };

struct times { u64 buckets[BUCKETS]; u64 longest_ns, longest_at; };

static __always_inline u32 bucket_of(u64 ns)
{
	u64 micros = ns / 1000;
	u32 bucket = 0;
	if (micros >> 32) micros = 0xffffffff;
	if (micros >> 16) { bucket += 16; micros >>= 16; }
	if (micros >> 8) { bucket += 8; micros >>= 8; }
	if (micros >> 4) { bucket += 4; micros >>= 4; }
	if (micros >> 2) { bucket += 2; micros >>= 2; }
	bucket += micros >> 1 ? 2 : micros;
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static __always_inline void note(struct times *t, u64 from, u64 to)
{
	u64 ns = to > from ? to - from : 0;
	t->buckets[bucket_of(ns)]++;
	if (ns > t->longest_ns) {
		t->longest_ns = ns;
		t->longest_at = from;
	}
}
