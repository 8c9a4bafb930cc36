# SPDX-License-Identifier: Apache-2.0
"""One rule a file, named as its finding; those about what holds zombies are together."""
