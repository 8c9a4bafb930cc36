# SPDX-License-Identifier: Apache-2.0
"""Other tools' profiles, in and out: one format a file."""
