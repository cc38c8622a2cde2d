"""Records as they are in real topics: JSON values of an exact size that codecs shrink three- to fivefold, keys,
headers.

In: a random number generator and a size. Out: bytes. The same seed gives the same records.
"""

from __future__ import annotations

import random

_ACTIONS = ("view", "cart", "order", "refund", "login", "search")
_COUNTRIES = ("DE", "FR", "PL", "IT", "ES", "NL", "SE", "AT")
_WORDS = (
    *("delivered", "pending", "customer", "address", "warehouse", "invoice", "returned", "partial"),
    *("express", "standard", "payment", "confirmed", "the", "of", "and", "to", "with", "for", "was", "not"),
)
_SMALLEST_EVENT = 100  # bytes; below, a value is a sensor's reading
_LARGEST_EVENT = 2**23  # above, a value repeats one so large: further than codecs look back


def value(chance: random.Random, size: int) -> bytes:
    """A JSON object of exactly `size` bytes (a very large one: of objects, the last cut short)."""
    if size < _SMALLEST_EVENT:
        reading = f'{{"s":{chance.randrange(1000):03d},"v":{chance.gauss(21, 3):6.2f}}}'
        return reading[:size].ljust(size).encode()
    if size > _LARGEST_EVENT:
        block = value(chance, _LARGEST_EVENT)
        return (block * (size // _LARGEST_EVENT + 1))[:size]
    event = (
        f'{{"id":{chance.randrange(10**8):08d},"user":"u-{chance.randrange(50_000)}","action":"{chance.choice(_ACTIONS)}"'
        f',"country":"{chance.choice(_COUNTRIES)}","amount":{chance.randrange(100, 99_999) / 100}'
    )
    items: list[str] = []
    left = size - len(event) - 2 * _SMALLEST_EVENT
    while left > 0:
        items.append(_item(chance))
        left -= len(items[-1])
    if items:
        event += f',"items":[{",".join(items)}]'
    event += ',"note":"'
    return (event + _words(chance, size - len(event) - 2) + '"}').encode()


def key(chance: random.Random) -> bytes:
    """A key of ten bytes."""
    return f"user-{chance.randrange(50_000):05d}".encode()


def headers(chance: random.Random) -> tuple[tuple[bytes, bytes], ...]:
    """A trace id and a source, as tracing libraries add them."""
    return (b"trace-id", f"{chance.getrandbits(64):016x}".encode()), (b"source", b"checkout-service")


def _item(chance: random.Random) -> str:
    sku, quantity, price = chance.randrange(10_000), chance.randrange(1, 9), chance.randrange(100, 9_999) / 100
    reference = f"{chance.getrandbits(24):06x}"
    return (
        f'{{"sku":"SKU-{sku:05d}","quantity":{quantity},"price":{price}'
        f',"ref":"{reference}","state":"{chance.choice(_WORDS[:8])}"}}'
    )


def _words(chance: random.Random, size: int) -> str:
    text = ""
    while len(text) < size:
        text += f"{chance.choice(_WORDS)} "
    return text[: max(size, 0)].ljust(max(size, 0))
