# SPDX-License-Identifier: Apache-2.0
"""Captures of many nodes as Parquet files, in a folder or an S3 bucket, and questions over all of them."""
