# SPDX-License-Identifier: Apache-2.0
"""The command line: takes orders, calls the pipeline, prints."""
