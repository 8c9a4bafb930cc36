# SPDX-License-Identifier: Apache-2.0
"""Makes dist/release: everything that a person can install, with checksums, a bill of materials and release notes."""
