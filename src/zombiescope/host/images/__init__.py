# SPDX-License-Identifier: Apache-2.0
"""Image archives and raw images as trees of files: read once, never unpacked to disk, never mounted."""
