# SPDX-License-Identifier: Apache-2.0
"""The commands of `zombiescope profile`, loaded one by one."""
