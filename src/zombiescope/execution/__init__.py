# SPDX-License-Identifier: Apache-2.0
"""What changes a machine: journal first, one small lever at a time."""
