"""Where a secret can stand in an option: under a name that is secret, or in a URL. Nothing else in this package knows.

A URL has secrets in two places: a user with a password before its host (RFC 3986, 3.2.1), and a signature among the
parameters after `?`: a SAS token of Azure (`sig`), a presigned URL of S3 or Google Cloud Storage (`X-Amz-Signature`).
Spark writes the path of a table percent-encoded, so both are looked for behind `%40` and `%3F` too.
"""

from __future__ import annotations

import re

ENDPOINTS = frozenset(
    {
        *("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3", "aws_endpoint_url_sts", "aws_sts_endpoint"),
        *("azure_storage_endpoint", "azure_endpoint", "google_base_url"),
    }
)
"""The options that are the URL of a server, by object_store's names, in small letters."""

OWN_PREFIXES = ("aws_", "azure_", "google_", "fs.s3a.")
"""What the names of options of object stores begin with, in small letters."""

_SECRET = re.compile(r"key|secret|token|sas|password|proxy_url")
_NO_SECRET = re.compile(r".*(_token_file|_kms_key_id|_bucket_key_enabled)")
_HADOOP_ENDPOINT = re.compile(r"fs\.s3a\.(bucket\..*\.)?endpoint")

# In a text with several URLs, such as a JSON list of paths, each is looked at
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^/?#\"]*)(?P<rest>[^\"]*)", re.IGNORECASE)
_SLASHES_MISSING = re.compile(r"((?:^|\")\s*(?:s3[an]?|gc?s|az|azure|abfss?|wasbs?|https?)):/?(?=[^/])", re.IGNORECASE)
_SIGNATURE = re.compile(r"[?&;][\w-]*(sig|signature|credential|token|secret|password|key|keyid)=", re.IGNORECASE)
_WITHOUT_PORT = ("s3", "s3a", "s3n", "gs", "gcs", "az", "azure")
_WITH_ACCOUNT = ("abfs", "abfss", "wasb", "wasbs")  # container@account
_PORT = re.compile(r"(\[[^\]]*\]|[^:]*)(:\d{0,5})?")
_MOST_ENCODED = 3  # a path is encoded once by Spark's catalog, and at most twice before

IN_HOST = "a user name or a password before its host"
IN_QUERY = "a signature after '?'"


def is_secret(name: str) -> bool:
    """Whether the value of an option, whatever it is, must not be kept or shown. The name is in small letters."""
    return _SECRET.search(name) is not None and _NO_SECRET.fullmatch(name) is None and name.startswith(OWN_PREFIXES)


def find_secret(name: str, text: str) -> str | None:
    """Returns where the text of an option has a secret, in words without it. None if it has none.

    name: of any option, in capitals or small letters.
    """
    key = name.lower()
    if is_secret(key):
        return "its value"
    if key not in ENDPOINTS and _HADOOP_ENDPOINT.fullmatch(key) is None:
        return find_secret_in_url(text)
    if any("@" in plain for plain in _decode(text)):  # a server's URL has no other use for it, and may lack its scheme
        return IN_HOST
    return IN_QUERY if "?" in text else find_secret_in_url(text)


def find_secret_in_url(text: str) -> str | None:
    """Returns IN_HOST or IN_QUERY for a text with a URL, or with several, that has such a secret; else None."""
    for plain in _decode(text):
        urls = list(_URL.finditer(_SLASHES_MISSING.sub(r"\1://", plain)))
        if any(map(_has_user, urls)):
            return IN_HOST
        if any(_SIGNATURE.search(url["rest"]) for url in urls):
            return IN_QUERY
    return None


def _has_user(url: re.Match[str]) -> bool:
    """Whether a user, or the part of one that ends at a slash of its password, is where a URL has its host."""
    scheme, host = url["scheme"].lower(), url["host"]
    if scheme in _WITH_ACCOUNT:
        return ":" in host or host.count("@") > 1
    return "@" in host or (":" in host if scheme in _WITHOUT_PORT else _PORT.fullmatch(host) is None)


def hide_secrets(url: str) -> str:
    """Returns a URL for a message: without a user name, a password and a query, each of which may be a secret."""
    hidden = re.sub(r"(?<=//)([^/?]*:[^?]*|[^/?]*)@", "…@", url, count=1)
    hidden = re.sub(r"(\?|%(25)*3f).*", "?…", hidden, count=1, flags=re.DOTALL | re.IGNORECASE)
    if find_secret_in_url(hidden) is not None:  # percent-encoded, or after a single slash
        return re.sub(r":.*", "://…", hidden, count=1, flags=re.DOTALL)
    return hidden


def _decode(text: str) -> list[str]:
    """Returns a text, and what it stands for where it is percent-encoded, also more than once."""
    texts = [text]
    while "%" in texts[-1] and len(texts) <= _MOST_ENCODED:
        from urllib.parse import unquote  # noqa: PLC0415  # few paths are encoded, and it loads ipaddress

        texts.append(unquote(texts[-1]))
    return texts
