"""A mail server's certificate: why it is not trusted, and how long one that is goes on to be."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

from config.provider import Endpoint
from server.amounts import counted
from server.doctor.finding import Finding, fail, ok, warn

SOON = timedelta(days=14)
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED, _SELF_SIGNED_ROOT = 9, 10, 18, 19
_NAMES_DIFFER = (62, 64)


def untrusted(
    error: ssl.SSLCertVerificationError, shown: x509.Certificate | None, endpoint: Endpoint, about: str
) -> Finding:
    """What is wrong with a certificate that was not accepted. shown: the certificate, where it could be had."""
    expected = endpoint.server_name or endpoint.host
    if error.verify_code in _NAMES_DIFFER:
        names = _names(shown)
        return fail(
            "certificate-name",
            about,
            f"the certificate is for {', '.join(names) or 'nobody'}, not for {expected}",
            f'connect to a name in it, or set server_name = "{names[0]}" when this is the right server'
            if names
            else "the server needs a certificate with its name in it",
        )
    if error.verify_code == _EXPIRED:
        ended = "" if shown is None else f" since {shown.not_valid_after_utc:%Y-%m-%d}"
        return fail(
            "certificate-expired", about, f"the certificate has expired{ended}", "the server's operator must renew it"
        )
    if error.verify_code == _NOT_YET_VALID:
        return fail(
            "certificate-not-yet-valid",
            about,
            f"the certificate is not valid yet; this machine says it is {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            "set the clock of this machine (timedatectl set-ntp true), unless it is right",
        )
    if error.verify_code == _SELF_SIGNED:
        return fail(
            "certificate-self-signed",
            about,
            f"the certificate is signed by nobody but itself{_fingerprint(shown)}",
            "save it as a file, compare the fingerprint with the server's operator, and set ca_file to it",
        )
    return _unknown_issuer(error, shown, endpoint, about)


def _unknown_issuer(
    error: ssl.SSLCertVerificationError, shown: x509.Certificate | None, endpoint: Endpoint, about: str
) -> Finding:
    issuer = "an unknown authority" if shown is None else f"“{_common_name(shown.issuer)}”"
    if error.verify_code == _SELF_SIGNED_ROOT or shown is None or not _names_its_issuer(shown):
        if endpoint.ca_file is not None:
            fix = f"put the certificate of that authority into {endpoint.ca_file}"
        else:
            fix = "get the authority's certificate from the server's operator, and set ca_file to it"
        return fail("certificate-authority", about, f"it is signed by {issuer}, whom nobody here trusts", fix)
    return fail(
        "certificate-chain",
        about,
        f"the server does not send the intermediate certificate of {issuer}",
        "the server's operator must install the full chain (fullchain.pem); until then ca_file can have it",
    )


def check_certificate(shown: x509.Certificate, about: str) -> Iterator[Finding]:
    """Of a certificate that was accepted."""
    left = shown.not_valid_after_utc - datetime.now(UTC)
    if left < SOON:
        yield warn(
            "certificate-ends-soon",
            about,
            f"the certificate ends in {counted(left.days, 'day')}",
            "the server's operator should have renewed it by now: ask",
        )
    else:
        yield ok("certificate", about, f"valid until {shown.not_valid_after_utc:%Y-%m-%d}")


def _names_its_issuer(shown: x509.Certificate) -> bool:
    """Whether it says where its issuer's certificate is, as those of public authorities do (RFC 5280 4.2.2.1)."""
    try:
        access = shown.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    except x509.ExtensionNotFound:
        return False
    return any(each.access_method == AuthorityInformationAccessOID.CA_ISSUERS for each in access)


def _names(shown: x509.Certificate | None) -> list[str]:
    if shown is None:
        return []
    try:
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string()


def _fingerprint(shown: x509.Certificate | None) -> str:
    return "" if shown is None else f" (SHA-256 {shown.fingerprint(SHA256()).hex(':')})"
