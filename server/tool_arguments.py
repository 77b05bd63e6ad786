"""The arguments of tools: what is declared of them, what a client is told of that, and what it is told when it errs."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

_MAX_PROBLEMS = 5
_MAX_NAME_CHARS = 64


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL")
    return text


Text = Annotated[str, StringConstraints(max_length=1_000), AfterValidator(_without_nul)]
LongText = Annotated[str, StringConstraints(max_length=1_000_000), AfterValidator(_without_nul)]


class Arguments(BaseModel):
    """The arguments of a tool; one that is not declared is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def one_or_more(value: object) -> object:
    """A list, also where a client sent the one text that should be in it."""
    return [value] if isinstance(value, str) else value


def input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, as plain as models read it best.

    Without the titles that pydantic makes up; null in place of an optional argument is taken but not advertised.
    """
    schema = arguments.model_json_schema(by_alias=True)
    schema.pop("title", None)
    schema.pop("description", None)
    for member in schema.get("properties", {}).values():
        member.pop("title", None)
        match member.pop("anyOf", None):
            case [declared, {"type": "null"}]:
                member.pop("default", None)
                member.update(declared)
    return {"type": "object", "properties": {}, **schema}


def problems(tool: str, arguments: type[Arguments], error: ValidationError) -> str:
    """What is wrong with the arguments of a call, for the client to mend."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False, include_context=False)[:_MAX_PROBLEMS]:
        name = ".".join(str(part) for part in problem["loc"])[:_MAX_NAME_CHARS]
        match problem["type"]:
            case "extra_forbidden":
                lines.append(f"unknown argument {json.dumps(name)}")
            case "missing":
                lines.append(f"argument {json.dumps(name)} is required")
            case _:
                lines.append(f"argument {json.dumps(name)}: {str(problem['msg']).removeprefix('Value error, ')}")
    known = ", ".join(input_schema(arguments)["properties"]) or "no arguments"
    return f"{'; '.join(lines)}. {tool} takes {known}."
