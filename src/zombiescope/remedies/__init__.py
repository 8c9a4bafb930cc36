# SPDX-License-Identifier: Apache-2.0
"""What could be done, as data: findings in, one ordered plan out. Nothing here touches a machine."""
