# SPDX-License-Identifier: Apache-2.0
"""perf.data to a capture, without perf: records, processes, symbols. Pure."""
