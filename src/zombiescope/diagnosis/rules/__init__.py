# SPDX-License-Identifier: Apache-2.0
"""One rule a file, named as its finding."""
