# SPDX-License-Identifier: Apache-2.0
"""Zombiescope finds, explains, removes and prevents zombie memory cgroups."""

__version__ = "0.1.0"
