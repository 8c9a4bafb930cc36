# SPDX-License-Identifier: Apache-2.0
"""Observe: one reader an interface. Read-only; what cannot be read is a gap."""
