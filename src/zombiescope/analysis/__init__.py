# SPDX-License-Identifier: Apache-2.0
"""Numbers from facts, no judgement. Core."""
