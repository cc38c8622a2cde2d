"""What an object store's failure means, in one sentence for users: what to check, and no secret.

Comes in: an exception of obstore, and the bucket that was asked. Goes out: an OSError of `store.py`. obstore's own text
has the answer of the server in it, which may repeat credentials. So nothing of it is passed on but codes and numbers.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from kafka_segment_source.storage.store import ReplacedError, ServiceError

_STATUS = re.compile(r"status(?: code)?: (\d{3})\b")
_CODE = re.compile(r"<Code>(\w{1,80})</Code>|\"code\": ?\"(\w{1,80})\"")
_URL = re.compile(r"\b(https?://)(?!docs\.rs/)(?:[^/\s?\"]*@)?([^/\s?\"]+)")  # rustls explains its errors there
_KEY = re.compile(r'\bpath: ("(?:[^"\\]|\\.)*")')
_TRIES = re.compile(r"after (\d+) retries")
_METADATA = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "fd00:ec2::254")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_WRONG_KEY = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed", "InvalidAuthenticationInfo")
_OLD_TOKEN = ("ExpiredToken", "InvalidToken", "ExpiredTokenException", "TokenRefreshRequired")
_REDIRECTS = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_KEYS = {
    "s3": "aws_access_key_id, aws_secret_access_key (and aws_session_token)",
    "gs": "google_service_account",
    "az": "azure_storage_account_name, azure_storage_account_key",
    "abfss": "azure_storage_account_key",
}
_ENDPOINT = {
    "s3": "aws_region and aws_endpoint_url",
    "gs": "google_base_url",
    "az": "azure_storage_account_name and azure_storage_endpoint",
    "abfss": "the account in the path and azure_storage_endpoint",
}
_PREFIX = {"s3": "aws", "gs": "google", "az": "azure", "abfss": "azure"}
_THROTTLES = ("SlowDown", "ServerBusy", "TooManyRequests", "RequestLimitExceeded")

_NOT_FOUND, _FORBIDDEN, _UNAUTHORIZED, _RANGE, _CONFLICT, _PRECONDITION, _TOO_MANY = 404, 403, 401, 416, 409, 412, 429
_BAD_REQUEST, _UNAVAILABLE = 400, 503
_MOVED = (301, 302, 307, 308)

_FAULTS = (
    (
        ("Failed to read token file",),
        "the file of the web identity token (aws_web_identity_token_file) cannot be read",
        errno.EACCES,
    ),
    (
        ("NotPartial", "UnexpectedRange"),
        "{where} does not answer with the range that was asked for: check {endpoint}, and any proxy",
        errno.EIO,
    ),
    (("error following redirect",), "{where} redirects without an end: check {endpoint}", errno.EIO),
    (("BadScheme",), "{where} is without TLS: give {prefix}_allow_http=true if that is meant", errno.EPROTO),
    (("dns error",), "the host of {where} is not known{after}: check {endpoint}, and the DNS", errno.EHOSTUNREACH),
    (
        ("ertificate", "UnknownIssuer"),
        "the certificate of {where} is not trusted: give the file of its authority as {prefix}_ca_bundle",
        errno.EPROTO,
    ),
    (("ConnectionRefused",), "nothing listens at {where}{after}: check {endpoint}", errno.ECONNREFUSED),
    (("InvalidContentType", "InvalidMessage"), "{where} does not speak TLS: check {endpoint}", errno.EPROTO),
    (
        ("Timeout", "TimedOut", "timed out"),
        "{where} does not answer in time{after}: check {endpoint} and the network",
        errno.ETIMEDOUT,
    ),
)
"""What the library's text has in it, the reason for users, and the number, for faults of the network."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """What the text of an error of obstore says.

    status, code: of the server's answer.
    endpoint: the URL of the server.
    """

    kind: str
    text: str
    status: int | None
    code: str | None
    endpoint: str

    @property
    def answer(self) -> str:
        """The server's answer, in words."""
        return " ".join(str(part) for part in (self.status, self.code) if part is not None) or "no answer"


def endpoint_options(path: str) -> str:
    """Returns the names of the options that say where the store of a path is."""
    return _ENDPOINT[path.partition("://")[0]]


def is_past_end(error: BaseException) -> bool:
    """Whether the error says that a range begins at or after the end of an object."""
    return _read(error).status == _RANGE


def is_missing_bucket(error: BaseException) -> bool:
    """Whether the error says that the bucket itself does not exist."""
    return _read(error).code in _NO_BUCKET


def is_missing(error: BaseException) -> bool:
    """Whether the error says that an object does not exist."""
    return isinstance(error, FileNotFoundError) or _read(error).status == _NOT_FOUND


def is_refusal(error: BaseException) -> bool:
    """Whether the server refused the request itself, without a reason."""
    failure = _read(error)
    return failure.status in (_BAD_REQUEST, _FORBIDDEN) and failure.code is None


def is_broken_listing(error: BaseException) -> bool:
    """Whether the error says that the answer to a listing began and did not end.

    Where an answer has no length, only its XML shows that a part is missing.
    """
    return any(words in str(error) for words in ("list response body", "InvalidListResponse"))


def translate(error: BaseException, root: str, tries: int = 1) -> OSError:
    """Returns the OSError for an error of obstore.

    root: the URL of the bucket. tries: how often the request was sent, if that is more often than the error says.
    """
    failure = _read(error)
    bucket = root.partition("://")[2]
    scheme = root.partition("://")[0]
    if failure.code in _NO_BUCKET:
        return ServiceError(f"there is no bucket {bucket!r} at {failure.endpoint}", errno.ENOENT, is_wrong_name=True)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no object has that key")
    if failure.kind in ("PreconditionError", "AlreadyExistsError") or failure.status in (_PRECONDITION, _CONFLICT):
        return ReplacedError("it is another version now")
    if failure.kind == "InvalidPathError":
        key = _KEY.search(failure.text)
        named = f"the key {key[1]}" if key else "a key"
        return ServiceError(
            f"{named} in bucket {bucket!r} has an empty part, '.' or '..' between two slashes, or a control character,"
            " and the client lists no directory that has such a key",
            errno.EINVAL,
            is_wrong_name=True,
        )
    reason, number = _explain(failure, scheme, tries)
    return ServiceError(reason, number)


def _explain(failure: _Failure, scheme: str, tries: int) -> tuple[str, int]:
    """Returns the reason and the number of an error that is no fault of a path."""
    keys = _KEYS[scheme]
    if any(host in failure.endpoint for host in _METADATA):
        files = "; boto3 reads the files in ~/.aws, where it is installed" if scheme == "s3" else ""
        return f"no credentials are known: give {keys} as options or in the environment{files}", errno.EACCES
    if "POST REDACTED" in failure.text:  # object_store hides the URL, which has the token in it
        return (
            f"the service that gives temporary credentials (STS) gave none ({failure.answer}): check"
            " aws_endpoint_url_sts, aws_role_arn, and the network",
            errno.EACCES,
        )
    if failure.code in _WRONG_KEY or failure.status == _UNAUTHORIZED:
        return f"the store does not accept the credentials ({failure.answer}): check {keys}", errno.EACCES
    if failure.code in _OLD_TOKEN:
        return f"the credentials are no longer valid ({failure.answer}): renew them", errno.EACCES
    if failure.status == _FORBIDDEN:
        return (
            f"the store does not allow it ({failure.answer}): check the credentials, and that they may list the bucket"
            " and get its objects",
            errno.EACCES,
        )
    return _explain_network(failure, scheme, tries)


def _explain_network(failure: _Failure, scheme: str, tries: int) -> tuple[str, int]:
    if failure.code in _REDIRECTS or failure.status in _MOVED or "Received redirect" in failure.text:
        answer = "a redirect" if failure.status is None else failure.answer
        return f"the bucket is in another region ({answer}): check {_ENDPOINT[scheme]}", errno.EIO
    where = failure.endpoint or "the store"
    retries = _TRIES.search(failure.text)
    tries = max(tries, int(retries[1]) + 1 if retries else 1)
    after = f", after {tries} tries" if tries > 1 else ""
    fill = {"where": where, "endpoint": _ENDPOINT[scheme], "prefix": _PREFIX[scheme], "after": after}
    for words, reason, number in _FAULTS:
        if any(word in failure.text for word in words):
            return reason.format(**fill), number
    if failure.status is None:
        return f"the connection to {where} broke{after}", errno.ECONNRESET
    if failure.status in (_TOO_MANY, _UNAVAILABLE) or failure.code in _THROTTLES:
        return f"{where} throttles ({failure.answer}{after}): ask for less at a time", errno.EBUSY
    return f"{where} answered {failure.answer}{after}", errno.EIO


def _read(error: BaseException) -> _Failure:
    text = str(error)
    status, code, url = _STATUS.search(text), _CODE.search(text), _URL.search(text)
    return _Failure(
        type(error).__name__,
        text,
        int(status[1]) if status else None,
        (code[1] or code[2]) if code else None,
        url[1] + url[2] if url else "",
    )
