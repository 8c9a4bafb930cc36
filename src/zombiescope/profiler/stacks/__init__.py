# SPDX-License-Identifier: Apache-2.0
"""Samples with stacks, and the questions asked of them. Pure."""
