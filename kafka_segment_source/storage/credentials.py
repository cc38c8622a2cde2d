"""AWS profiles: the files in `~/.aws`, which boto3 reads and obstore does not.

The order is that of AWS's own tools. Keys in the options come first, then those in the environment, then the identity
of a pod, then a profile, then the instance. boto3 is asked only for a profile: one that the user names, or the default
one where its file exists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_segment_source.errors import OptionError

_BEFORE_PROFILES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_OPTIONS = {name.lower() for name in _BEFORE_PROFILES} | {"aws_skip_signature"}


def find_credentials(profile: str | None, config: Mapping[str, str]) -> tuple[Any | None, str | None]:
    """Returns what gives a client its credentials, and a region. None for what obstore finds itself.

    profile: the one that the options name. config: the other options, by object_store's names. Raises OptionError if a
    profile is named, and boto3 is not installed or does not find it.
    """
    named = profile
    if named is None:
        if _OPTIONS & config.keys() or any(os.environ.get(name) for name in _BEFORE_PROFILES):
            return None, None
        named = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    if named is None and not _has_files():
        return None, None
    try:
        import boto3  # noqa: PLC0415
        import botocore.exceptions  # noqa: PLC0415
    except ImportError:
        if named is None:
            return None, None
        raise OptionError(
            f"the AWS profile {named!r} is named, but only boto3 reads profiles: pip install boto3"
        ) from None
    try:
        session = boto3.Session(profile_name=named)
        credentials = session.get_credentials()
    except botocore.exceptions.BotoCoreError as error:
        raise OptionError(f"the AWS profile {named!r} cannot be used: {type(error).__name__}") from None
    if credentials is None:
        if named is not None:
            raise OptionError(f"the AWS profile {named!r} has no credentials")
        return None, session.region_name
    return _make_provider(session), None if os.environ.get("AWS_REGION") else session.region_name


def _has_files() -> bool:
    names = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
    return any(Path(os.environ.get(name, path)).expanduser().is_file() for name, path in names.items())


def _make_provider(session: Any) -> Any:
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415

    return Boto3CredentialProvider(session)
