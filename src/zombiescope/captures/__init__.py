# SPDX-License-Identifier: Apache-2.0
"""Captures on disk: importing files, the ring of recorded segments, the recorder."""
