"""Options of object stores: their names, and their values by one name each.

Two spellings are known. Those of the library `object_store`, as Polars and delta-rs users know them: `aws_region`,
`azure_storage_account_name`, `google_service_account`. Those of Hadoop, as Spark users know them:
`fs.s3a.endpoint`, and `fs.s3a.bucket.NAME.endpoint` for one bucket. Names are case-insensitive. What an option does not
say, the environment does, and then the instance or the pod: the default chain of each store.

A value may be a secret. So no error names a value, and the `repr` of `Settings` has names only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from kafka_segment_source.errors import OptionError
from kafka_segment_source.storage.secrets import IN_HOST, OWN_PREFIXES, find_secret, is_secret

# What the HTTP client takes, for each store
_CLIENT = ("allow_http", "allow_invalid_certificates", "ca_bundle", "connect_timeout", "proxy_url", "timeout")

_AWS = (
    *("access_key_id", "secret_access_key", "session_token", "token", "profile", "skip_signature"),
    *("region", "default_region", "endpoint", "endpoint_url", "endpoint_url_s3", "virtual_hosted_style_request"),
    *("role_arn", "role_session_name", "web_identity_token_file", "sts_endpoint", "endpoint_url_sts"),
    *("container_credentials_relative_uri", "container_credentials_full_uri", "container_authorization_token_file"),
    *("metadata_endpoint", "imdsv1_fallback", "request_payer", "s3_express", "unsigned_payload", "conditional_put"),
    *("server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled", "sse_customer_key_base64"),
)
_AZURE = (
    *("storage_account_name", "storage_account_key", "storage_access_key", "storage_master_key"),
    *("storage_client_id", "client_id", "storage_client_secret", "client_secret", "credential_type"),
    *("storage_tenant_id", "tenant_id", "storage_authority_id", "authority_id", "storage_authority_host"),
    *("authority_host", "storage_sas_key", "storage_sas_token", "storage_token", "storage_use_emulator"),
    *("storage_endpoint", "endpoint", "msi_endpoint", "identity_endpoint", "object_id", "msi_resource_id"),
    *("federated_token_file", "use_azure_cli", "use_fabric_endpoint", "skip_signature"),
)
_GOOGLE = (
    *("service_account", "service_account_path", "service_account_key", "application_credentials"),
    *("bearer_token", "base_url", "skip_signature"),
)
_KNOWN = frozenset(
    f"{prefix}_{name}"
    for prefix, names in (("aws", _AWS), ("azure", _AZURE), ("google", _GOOGLE))
    for name in (*names, *_CLIENT)
)

# Other names of the same value, as object_store knows them
_ALIASES = {
    "aws_default_region": "aws_region",
    "aws_endpoint": "aws_endpoint_url",
    "aws_endpoint_url_s3": "aws_endpoint_url",
    "aws_token": "aws_session_token",
}

HADOOP = {
    "endpoint": "aws_endpoint_url",
    "endpoint.region": "aws_region",
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "path.style.access": "",
    "connection.ssl.enabled": "",
    "aws.credentials.provider": "",
}
"""The options of Hadoop's S3A that have a meaning here, after `fs.s3a.`. An empty one is not one value of a store."""

_HADOOP_PREFIX = "fs.s3a."
_HADOOP_NAME = re.compile(r"fs\.s3a\.(?:bucket\.(?P<bucket>[a-z0-9.-]+?)\.)?(?P<name>" + "|".join(HADOOP) + ")")
_ANONYMOUS = "anonymousawscredentialsprovider"


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The options of object stores of one read: names, in small letters, and their texts, sorted by name."""

    texts: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Settings({', '.join(name for name, _ in self.texts)})"

    def of_bucket(self, bucket: str) -> dict[str, str]:
        """Returns the values for one bucket by object_store's names. A value for that bucket alone comes first.

        Of the two spellings, object_store's comes first.
        """
        general: dict[str, str] = {}
        own: dict[str, str] = {}
        direct: dict[str, str] = {}
        for name, text in self.texts:
            hadoop = _HADOOP_NAME.fullmatch(name)
            if hadoop is None:
                direct[_ALIASES.get(name, name)] = text
            elif hadoop["bucket"] in (None, bucket):
                (general if hadoop["bucket"] is None else own)[hadoop["name"]] = text
        return _from_hadoop(general | own) | direct

    @property
    def secrets(self) -> list[str]:
        """The texts that nobody may see."""
        return [text for name, text in self.texts if is_secret(name) and text]


def make_settings(texts: Mapping[str, str]) -> Settings:
    """Returns the settings of option texts. Raises OptionError for a name that no store knows.

    The error may suggest a name. It has no value.
    """
    settings: dict[str, str] = {}
    for name, text in texts.items():
        key = name.lower()
        if not is_setting(key):
            raise OptionError(f"storage option {name!r} is unknown{suggest(key)}")
        if settings.setdefault(key, text) != text:
            raise OptionError(f"storage option {name!r} is given twice, with two values")
    return Settings(tuple(sorted(settings.items())))


def environment_of(prefix: str) -> dict[str, str]:
    """Returns what the environment says about one store (`aws_`, `azure_`, `google_`), by object_store's names."""
    names = sorted(name for name in _KNOWN if name.startswith(prefix) and name.upper() in os.environ)
    return {_ALIASES.get(name, name): os.environ[name.upper()] for name in names}


def find_endpoint_fault(url: str, bucket: str) -> str | None:
    """Returns what is wrong with the URL of a server, after its option's name and without the URL. None if nothing."""
    scheme, separator, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if not separator or scheme.lower() not in ("http", "https"):
        return "has no scheme: expected https://HOST, or http://HOST for a server without TLS"
    if find_secret("aws_endpoint_url", url) == IN_HOST:
        return "has a user name in it: credentials are options of their own, and no part of a URL"
    if "?" in rest or "#" in rest:
        return "has a query or a fragment: expected https://HOST"
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:\d{1,5})?", host):
        return "names no host: expected https://HOST or https://HOST:PORT"
    if path.rstrip("/") == bucket:
        return f"ends in the bucket {bucket!r}: leave it out there, as the path names it"
    return None


def is_setting(name: str) -> bool:
    """Whether a store knows an option of that name, in small letters."""
    return name in _KNOWN or _HADOOP_NAME.fullmatch(name) is not None


def looks_like_setting(name: str) -> bool:
    """Whether a name, in small letters, can only be one of an object store."""
    return name.startswith(OWN_PREFIXES)


def suggest(name: str) -> str:
    """Returns words that suggest the nearest known name. They are empty if none is near."""
    known = [*_KNOWN, *(_HADOOP_PREFIX + name for name in HADOOP)]
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if not near:
        # people leave out the prefix of the store
        near = sorted(key for key in _KNOWN if key.partition("_")[2] == name)[:1]
    return f"; did you mean {near[0]!r}?" if near else ""


def _from_hadoop(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns object_store's names and values for those of S3A."""
    settings = {HADOOP[name]: text for name, text in texts.items() if HADOOP[name] and text.strip()}
    endpoint = settings.get("aws_endpoint_url")
    if endpoint is not None:
        if "://" not in endpoint:
            plain = texts.get("connection.ssl.enabled", "true").strip().lower() == "false"
            endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        settings["aws_endpoint_url"] = endpoint
        if endpoint.startswith("http://"):
            settings["aws_allow_http"] = "true"
    providers = [
        provider.strip().rpartition(".")[2] for provider in texts.get("aws.credentials.provider", "").split(",")
    ]
    if [provider.lower() for provider in providers] == [_ANONYMOUS]:
        settings["aws_skip_signature"] = "true"
    return settings
