# SPDX-License-Identifier: Apache-2.0
"""Data to text, JSON or markup: same data, same bytes. Core."""
