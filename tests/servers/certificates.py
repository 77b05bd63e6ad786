"""A throw-away certificate authority and one server certificate for loopback, in order or with a fault."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

Fault = Literal["", "expired", "not_yet_valid", "other_name", "self_signed", "no_intermediate"]


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of a server that speaks TLS as `localhost` and 127.0.0.1; clients trust `ca_file`."""

    ca_file: Path
    cert_file: Path
    key_file: Path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(request: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return request.add_extension(issuer, critical=False).sign(key, hashes.SHA256())


def make_certificates(folder: Path, fault: Fault = "") -> Certificates:
    """Write a new authority and server certificate into the folder.

    fault: of the server certificate. "no_intermediate": it is signed by an authority below the one in `ca_file`, and
    its file does not have that one's certificate.
    """
    now = datetime.now(UTC) + {"expired": timedelta(days=-40), "not_yet_valid": timedelta(days=9)}.get(
        fault, timedelta()
    )
    issuer = {"self_signed": "localhost", "no_intermediate": "Postmirror tests below"}.get(fault, "Postmirror tests")
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    signing_key = {"self_signed": key, "no_intermediate": ec.generate_private_key(ec.SECP256R1())}.get(fault, ca_key)

    def builder(
        subject: str, public_key: ec.EllipticCurvePublicKey, issuer: str, *, authority: bool
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(issuer))
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(_usage(authority=authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        )

    ca = _signed(builder("Postmirror tests", ca_key.public_key(), "Postmirror tests", authority=True), ca_key)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("mail.example.org")]
        if fault == "other_name"
        else [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    request = builder("localhost", key.public_key(), issuer, authority=False).add_extension(names, critical=False)
    if fault == "no_intermediate":
        where = x509.UniformResourceIdentifier("http://ca.example.org/below.der")
        place = x509.AccessDescription(AuthorityInformationAccessOID.CA_ISSUERS, where)
        request = request.add_extension(x509.AuthorityInformationAccess([place]), critical=False)
    server = _signed(request, signing_key)

    files = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    files.ca_file.write_bytes(ca.public_bytes(Encoding.PEM))
    files.cert_file.write_bytes(server.public_bytes(Encoding.PEM))
    files.key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.key_file.chmod(0o600)
    return files
