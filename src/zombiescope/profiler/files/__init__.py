# SPDX-License-Identifier: Apache-2.0
"""Captures on disk: reading any file, recording, the files that name functions. The edge."""
