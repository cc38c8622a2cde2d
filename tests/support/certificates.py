"""A certificate for a server on this machine, and the authority that signed it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_certificate(folder: Path) -> Path:
    """Makes `server.pem`, with the key and the certificate of 127.0.0.1, and `authority.pem`. The path of the first."""
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _start("authority of a test", root_key, "authority of a test")
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    leaf = _start("server of a test", key, "authority of a test")
    leaf = leaf.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    pem = serialization.Encoding.PEM
    (folder / "authority.pem").write_bytes(root.sign(root_key, hashes.SHA256()).public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(secret + leaf.sign(root_key, hashes.SHA256()).public_bytes(pem))
    return folder / "server.pem"


def _start(name: str, key: ec.EllipticCurvePrivateKey, issuer: str) -> x509.CertificateBuilder:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer)).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
