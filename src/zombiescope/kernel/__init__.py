# SPDX-License-Identifier: Apache-2.0
"""What plain files cannot tell: system calls made by hand, for probes alone."""
