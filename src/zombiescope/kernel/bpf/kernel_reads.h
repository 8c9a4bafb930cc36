/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0) */
/* Reads of kernel memory that cannot fault: what is not there reads as 0. */
#pragma once

#define OFFSET(type, field) bpf_core_field_offset(struct type, field)

static __always_inline u64 load(u64 address)
{
	u64 value = 0;
	bpf_probe_read_kernel(&value, sizeof value, (void *)address);
	return value;
}

static __always_inline u32 load32(u64 address)
{
	u32 value = 0;
	bpf_probe_read_kernel(&value, sizeof value, (void *)address);
	return value;
}
