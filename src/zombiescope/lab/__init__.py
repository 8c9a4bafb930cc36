# SPDX-License-Identifier: Apache-2.0
"""Makes real zombies in a subtree of its own, with a known truth, and removes them. Opened by its command and by tests."""
