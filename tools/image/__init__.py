# SPDX-License-Identifier: Apache-2.0
"""Writes dist/image/zombiescope-image.tar: one OCI image for amd64 and arm64, from the one-file build, with its bill."""
