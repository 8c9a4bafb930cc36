# SPDX-License-Identifier: Apache-2.0
"""A candidate image, booted in a machine of its own: prepared, run, heard."""
