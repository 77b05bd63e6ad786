"""The query that was probably meant, for the mistakes that people and language models make."""


def himalaya_suggestion(text: str) -> str:
    """A query to show as the corrected one, or "" when nothing comes to mind. It may still be invalid."""
    return ""
