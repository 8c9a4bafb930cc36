# SPDX-License-Identifier: Apache-2.0
"""Full-screen views, where the extra that draws them is installed."""
