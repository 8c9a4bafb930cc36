# SPDX-License-Identifier: Apache-2.0
"""Strangers' files, mutated: what is mutated, and who reads it."""
