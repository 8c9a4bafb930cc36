# SPDX-License-Identifier: Apache-2.0
"""Builds dist/zombiescope-x86_64 and dist/zombiescope-aarch64: one static file each, for hosts with an old Python or none."""
