# SPDX-License-Identifier: Apache-2.0
"""One watch per subject of a running machine, whoever drives it: `doctor`, `top`, `verify` or the agent."""
