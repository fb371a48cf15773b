"""What can go wrong on the trusted side of the wall.

    SandboxError
    ├── SandboxUnavailable   this host cannot isolate; names the cause and the remedy
    ├── SandboxFailed        the sandbox broke: says nothing about the draft
    ├── InvalidJob           the job cannot be placed: a bad path, too many bytes, an unknown library set
    ├── BindingError         `tools.toml` does not say what it must
    ├── DependencyMissing    no wheel here has a hash that the manifest lists
    ├── DependencyUnusable   a wheel cannot be unpacked safely
    ├── ShelfUnusable        the folder of allowed wheels, or its list of pins, does not say what it must
    ├── UnusableSchema       a JSON Schema that is malformed, or that cannot be evaluated safely
    └── ToolError            a tool's own error, delivered to the skill as such
        └── Uncovered        no recording answers the call

A *command* that fails is no exception: it is a `JobResult`.
"""

from __future__ import annotations


class SandboxError(Exception):
    """Base of every error of this package."""


class SandboxUnavailable(SandboxError):
    """This host cannot isolate. There is no fallback that runs the code anyway."""

    def __init__(self, backend: str, cause: str, remedy: str) -> None:
        self.backend, self.cause, self.remedy = backend, cause, remedy
        super().__init__(backend, cause, remedy)

    def __str__(self) -> str:
        return f"the {self.backend} sandbox is unavailable: {self.cause}. {self.remedy}"


class SandboxFailed(SandboxError):
    """The sandbox itself broke before or while the job ran. The job may be tried again; the draft is not to blame."""

    def __init__(self, backend: str, reason: str) -> None:
        self.backend, self.reason = backend, reason
        super().__init__(backend, reason)

    def __str__(self) -> str:
        return f"the {self.backend} sandbox failed: {self.reason}"


class InvalidJob(SandboxError):
    """A job that no back end can place. `field` is the part of the job that is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(field, reason)

    def __str__(self) -> str:
        return f"job {self.field}: {self.reason}"


class BindingError(SandboxError):
    """A section of `tools.toml` cannot be used."""

    def __init__(self, file: str, section: str, reason: str, remedy: str = "") -> None:
        self.file, self.section, self.reason, self.remedy = file, section, reason, remedy
        super().__init__(file, section, reason, remedy)

    def __str__(self) -> str:
        where = f"{self.file}: [{self.section}]" if self.section else self.file
        return f"{where}: {self.reason}" + (f". {self.remedy}" if self.remedy else "")


class DependencyMissing(SandboxError):
    """No file in the wheel folder is the pinned one. Wheels are never fetched while a skill runs."""

    def __init__(self, name: str, version: str, folder: str) -> None:
        self.name, self.version, self.folder = name, version, folder
        super().__init__(name, version, folder)

    def __str__(self) -> str:
        return f"no wheel of {self.name} {self.version} in {self.folder} has a pinned hash; download it there first"


class DependencyUnusable(SandboxError):
    """A pinned wheel that is no archive, or would write outside its folder."""

    def __init__(self, name: str, version: str, reason: str) -> None:
        self.name, self.version, self.reason = name, version, reason
        super().__init__(name, version, reason)

    def __str__(self) -> str:
        return f"the wheel of {self.name} {self.version} cannot be unpacked: {self.reason}"


class ShelfUnusable(SandboxError):
    """Which wheels are allowed cannot be told: the list of pins, or a file that it names, is not as it must be."""

    def __init__(self, file: str, reason: str, remedy: str) -> None:
        self.file, self.reason, self.remedy = file, reason, remedy
        super().__init__(file, reason, remedy)

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}. {self.remedy}"


class UnusableSchema(SandboxError):
    """A JSON Schema that is malformed, or asks for more than is evaluated on the trusted side."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class ToolError(SandboxError):
    """A tool answered with an error of its own. The skill sees the message and may handle it."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)

    def __str__(self) -> str:
        return self.message


class Uncovered(ToolError):
    """Nobody recorded an answer to this call. Not the skill's error, and not the tool's."""

    def __init__(self, tool: str, arguments: str) -> None:
        self.tool, self.arguments = tool, arguments
        super().__init__(f"no recording answers {tool}({arguments})")
        self.args = (tool, arguments)
