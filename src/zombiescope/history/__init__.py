# SPDX-License-Identifier: Apache-2.0
"""What the agent remembers: an append log of the current hour and column chunks of the hours before. Edge."""
