# SPDX-License-Identifier: Apache-2.0
"""There is no TLS in the one file. prometheus_client names these when it is imported; nothing of ours calls them."""

CERT_REQUIRED = 2
PROTOCOL_TLS_CLIENT, PROTOCOL_TLS_SERVER = 16, 17


class TLSVersion:
    pass


class Purpose:
    CLIENT_AUTH = SERVER_AUTH = None


class SSLContext:
    def __init__(self, *_, **__):
        raise OSError("the one-file build has no TLS")
