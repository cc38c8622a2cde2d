"""The keys of encrypted tiers: the option `tieredKeys`, data keys, and chunks.

Each segment has a data key of its own (AES-256). The manifest has it wrapped by RSA: OAEP with SHA3-512, and MGF1 with
SHA3-512. The library `cryptography` refuses this hash in OAEP. So the padding is taken off here, after one `pow`. The
time that this takes depends on the key. That is no matter here, as nobody can measure a reader's keys through a file.

A private key is read where data is decoded, so executors need the PEM file too. No key, no text of a PEM file and no
path of one is in a `repr`, a plan, a warning or an error.

Source: Aiven's tiered-storage-for-apache-kafka, RsaEncryptionProvider, AesEncryptionProvider.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_segment_source.errors import OptionError, UnsupportedError

OPTION = "tieredKeys"
IV_BYTES = 12
ENCRYPTION_BYTES = 28  # a chunk has an IV of 12 bytes before its text, and a tag of 16 after it
_DATA_KEY_BYTES = 32
_MOST_PEM = 64 * 1024
_MOST_KEPT = 4096  # data keys of a process; a segment has one
_PEM = "-----BEGIN"
_EXPECTED = 'expected JSON of key ids and paths of PEM files, like {"key1": "/etc/keys/tier.pem"}'


@dataclass(frozen=True, slots=True, repr=False)
class TierKeys:
    """Paths of PEM files by key id, sorted."""

    paths: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"TierKeys({', '.join(key_id for key_id, _ in self.paths)})"


NO_KEYS = TierKeys()


class Encryption(NamedTuple):
    """What a manifest says.

    key_id: of the key that wraps the data key.
    data_key: wrapped.
    aad: the additional data of each chunk.
    """

    key_id: str
    data_key: bytes
    aad: bytes


# of this process; a fork takes a copy, which stays right
_private_keys: dict[tuple[str, int, int], tuple[int, int]] = {}
_data_keys: dict[tuple[str, Encryption], Any] = {}


class WrongTextError(Exception):
    """Encrypted bytes do not have the tag that they carry."""


def parse_keys(text: str) -> TierKeys:
    """Returns the value of the option. Raises OptionError, whose text never has a part of the value."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise OptionError(f"option {OPTION!r} is no JSON: {_EXPECTED}", options=(OPTION,)) from None
    if not isinstance(parsed, dict):
        raise OptionError(f"option {OPTION!r} is no JSON object: {_EXPECTED}", options=(OPTION,))
    paths = {}
    for key_id, path in parsed.items():
        if _PEM in key_id:
            raise OptionError(
                f"option {OPTION!r} has a key itself where a key id should be: {_EXPECTED}", options=(OPTION,)
            )
        if not isinstance(path, str) or not path.strip():
            raise OptionError(f"option {OPTION!r} has no path for key {key_id!r}: {_EXPECTED}", options=(OPTION,))
        if _PEM in path or "\n" in path.strip():
            raise OptionError(f"option {OPTION!r} has a key itself for key {key_id!r}: {_EXPECTED}", options=(OPTION,))
        paths[key_id] = os.path.abspath(os.path.expanduser(path.strip()))
    return TierKeys(tuple(sorted(paths.items())))


def find_cipher(encryption: Encryption, keys: TierKeys, path: str) -> Any:
    """Returns the cipher of a segment.

    path: of its manifest, for messages. Raises OptionError if its key is not given, cannot be read, or is another one.
    Raises UnsupportedError if the library is not installed.
    """
    named = dict(keys.paths)
    if encryption.key_id not in named:
        given = f"has {', '.join(map(repr, named))}" if named else "is not given"
        raise OptionError(
            f"{path!r} is encrypted with key {encryption.key_id!r}, but option {OPTION!r} {given}: {_EXPECTED}",
            options=(OPTION,),
        )
    pem = named[encryption.key_id]
    known = _data_keys.get((pem, encryption))
    if known is not None:
        return known
    data_key = _unwrap(encryption.data_key, *_read_private_key(pem, encryption.key_id))
    if data_key is None or len(data_key) != _DATA_KEY_BYTES:
        raise OptionError(
            f"{path!r} cannot be decrypted with key {encryption.key_id!r} of option {OPTION!r}: it was encrypted with"
            " another key of that name",
            options=(OPTION,),
        )
    cipher = _load_library().AESGCM(data_key)
    if len(_data_keys) >= _MOST_KEPT:
        _data_keys.clear()
    _data_keys[pem, encryption] = cipher
    return cipher


def decrypt(cipher: Any, data: bytes | memoryview, aad: bytes) -> bytes:
    """Returns the text of a chunk: IV, encrypted text, tag. Raises WrongTextError if the tag is not its own."""
    from cryptography.exceptions import InvalidTag

    if len(data) < ENCRYPTION_BYTES:
        raise WrongTextError
    view = memoryview(data)
    try:
        return cipher.decrypt(view[:IV_BYTES], view[IV_BYTES:], aad)  # type: ignore[no-any-return]
    except InvalidTag:
        raise WrongTextError from None


def _load_library() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        raise UnsupportedError(
            "an encrypted tier is read with the package cryptography: pip install 'kafka-segment-source[tiered]'"
        ) from None
    return aead


def _read_private_key(path: str, key_id: str) -> tuple[int, int]:
    """Returns modulus and private exponent of the key in a PEM file."""
    _load_library()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        state = os.stat(path)
        known = path, state.st_size, state.st_mtime_ns
        if known in _private_keys:
            return _private_keys[known]
        with open(path, "rb") as file:
            data = file.read(_MOST_PEM + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no path"
        raise OptionError(
            f"the file of key {key_id!r} in option {OPTION!r} cannot be read: {reason}", options=(OPTION,)
        ) from None
    numbers = None
    if len(data) <= _MOST_PEM:
        try:
            private: Any = load_pem_private_key(data, None).private_numbers()  # type: ignore[union-attr]
            numbers = private.public_numbers.n, private.d
        except Exception:  # the library's error may quote the file
            numbers = None
    if numbers is None:
        raise OptionError(
            f"the file of key {key_id!r} in option {OPTION!r} has no private RSA key: expected PEM without a password",
            options=(OPTION,),
        )
    _private_keys[known] = numbers
    return numbers


def _unwrap(wrapped: bytes, modulus: int, exponent: int) -> bytes | None:
    """Returns the text of RSA/OAEP with SHA3-512 (RFC 8017, 7.1.2), or None if it was made with another key."""
    size = (modulus.bit_length() + 7) // 8
    digest = hashlib.sha3_512().digest_size
    if len(wrapped) != size or size < 2 * digest + 2:
        return None
    number = int.from_bytes(wrapped, "big")
    if number >= modulus:
        return None
    block = pow(number, exponent, modulus).to_bytes(size, "big")
    masked_seed, masked = block[1 : 1 + digest], block[1 + digest :]
    seed = _xor(masked_seed, _mask(masked, digest))
    plain = _xor(masked, _mask(seed, len(masked)))
    text = plain[digest:].lstrip(b"\0")
    is_right = block[0] == 0 and hmac.compare_digest(plain[:digest], hashlib.sha3_512(b"").digest())
    return text[1:] if is_right and text[:1] == b"\x01" else None


def _mask(seed: bytes, size: int) -> bytes:
    """Returns the mask of MGF1 with SHA3-512."""
    rounds = -(-size // hashlib.sha3_512().digest_size)
    return b"".join(hashlib.sha3_512(seed + at.to_bytes(4, "big")).digest() for at in range(rounds))[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")
