"""What folders are, by what servers say of them: renamed ones, and the roles of those without SPECIAL-USE."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from config.provider import SyncRule
from mirror.listing import FolderStatus, ListedFolder
from mirror.store import FolderRow

# Names that mail programs give these folders, where the server has no SPECIAL-USE (RFC 6154).
_NAMES = {
    "\\Sent": (
        "sent", "sent items", "sent messages", "sent mail", "gesendet", "gesendete objekte", "gesendete elemente",
        "envoyés", "éléments envoyés", "messages envoyés", "enviados", "elementos enviados", "posta inviata", "inviata",
        "verzonden", "verzonden items", "skickat", "sendt", "wysłane", "отправленные", "已发送", "送信済み",
    ),
    "\\Drafts": (
        "drafts", "draft", "entwürfe", "brouillons", "borradores", "bozze", "concepten", "utkast", "kladder",
        "rascunhos", "szkice", "черновики", "草稿", "下書き",
    ),
    "\\Trash": (
        "trash", "deleted items", "deleted messages", "bin", "papierkorb", "gelöscht", "gelöschte elemente",
        "corbeille",
        "éléments supprimés", "papelera", "elementos eliminados", "cestino", "posta eliminata", "prullenbak",
        "papperskorgen", "papirkurv", "lixeira", "kosz", "корзина", "удаленные", "已删除", "ゴミ箱",
    ),
    "\\Junk": (
        "junk", "junk e-mail", "junk email", "spam", "bulk mail", "junk-e-mail", "spamverdacht", "indésirables",
        "courrier indésirable", "correo no deseado", "posta indesiderata", "ongewenste e-mail", "skräppost", "спам",
        "垃圾邮件", "迷惑メール",
    ),
    "\\Archive": ("archive", "archives", "archiv", "archivo", "archivio", "archief", "arkiv", "архив"),
}  # fmt: skip
_ROLE_BY_NAME = {name: role for role, names in _NAMES.items() for name in names}


def with_roles(listed: Sequence[ListedFolder]) -> list[ListedFolder]:
    """The same folders; a role that no folder has by SPECIAL-USE goes to the first that is named like it."""
    taken = {folder.role for folder in listed}
    found = []
    for folder in listed:
        name = folder.name
        if folder.delimiter and name.upper().startswith("INBOX" + folder.delimiter):
            name = name[len("INBOX") + len(folder.delimiter) :]
        role = _ROLE_BY_NAME.get(name.casefold(), "")
        if folder.role or not role or role in taken or not folder.selectable:
            found.append(folder)
        else:
            taken.add(role)
            found.append(replace(folder, role=role))
    return found


def with_rule(listed: Sequence[ListedFolder], rule: SyncRule) -> list[ListedFolder]:
    """The same folders, each wanted or not as the configuration says."""

    def named(folder: ListedFolder, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(folder.name, pattern) or folder.role == pattern for pattern in patterns)

    return [replace(each, wanted=named(each, rule.folders) and not named(each, rule.exclude)) for each in listed]


def renames(
    known: Sequence[FolderRow], listed: Sequence[ListedFolder], statuses: Mapping[bytes, FolderStatus]
) -> dict[int, ListedFolder]:
    """By folder id, the listed folder it is now: by MAILBOXID, else one that vanished while an equal one appeared.

    A folder vanishes too when its name has another UIDVALIDITY now. Equal is UIDVALIDITY, UIDNEXT and MESSAGES, which
    other folders may have by chance where all count alike: the caller compares the messages.
    """
    found: dict[int, ListedFolder] = {}
    by_mailbox_id = {folder.mailbox_id: folder for folder in known if folder.mailbox_id}
    settled = {
        folder.raw
        for folder in known
        if not folder.missing and folder.raw in statuses and statuses[folder.raw].uidvalidity == folder.uidvalidity
    }
    displaced = [folder for folder in known if folder.enumerated and folder.raw not in settled]
    for newcomer in listed:
        status = statuses.get(newcomer.raw)
        if status is None:
            continue
        if status.mailbox_id:
            old = by_mailbox_id.get(status.mailbox_id)
            if old is not None and old.raw != newcomer.raw and old.uidvalidity == status.uidvalidity:
                found[old.id] = newcomer
            continue
        if newcomer.raw in settled or status.messages == 0:
            continue
        same = [
            old
            for old in displaced
            if old.raw != newcomer.raw
            and (old.uidvalidity, old.uidnext, old.upstream_messages)
            == (status.uidvalidity, status.uidnext, status.messages)
        ]
        if len(same) == 1:
            displaced.remove(same[0])
            found[same[0].id] = newcomer
    return found
