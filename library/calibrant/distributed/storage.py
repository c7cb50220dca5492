"""Files below a root: in a folder, from which no symbolic link leads out, or in any file system of pyarrow."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from calibrant.core.errors import (
    EmptyBatch,
    InvalidOption,
    RefusedPath,
    SourceTooLarge,
    SourceUnreadable,
    TargetExists,
    requires,
)
from calibrant.core.progress import check
from calibrant.io.errors import needed_pyarrow
from calibrant.io.roots import SCHEMES, WILD, check_root

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

# --- Files, in a folder or anywhere that pyarrow reads

#: The most files of a path; a list of them takes about 100 MB.
MOST_FILES = 100_000


@dataclass(frozen=True)
class StoredFile:
    """A file: its path below the root, its size in bytes, and a text that changes with its content."""

    path: str
    size: int
    version: str


class Storage(ABC):
    """Files below a root; names that begin with a dot or an underscore are hidden, unless they have ``=``."""

    @abstractmethod
    def below(self, folder: str) -> Iterator[StoredFile]:
        """Yield every file below a folder that is not hidden; none for a folder that does not exist."""

    @abstractmethod
    def file(self, path: str) -> StoredFile | None:
        """Return the file with this path, or None if there is none."""

    @abstractmethod
    def open(self, path: str) -> Any:
        """Open a file for reading at any position."""

    @abstractmethod
    def create(self, path: str) -> contextlib.AbstractContextManager[Any]:
        """Open a new file for writing; other readers see it when the block has ended without an error."""

    @abstractmethod
    def publish(self, staged: str, folder: str, names: Sequence[str]) -> None:
        """Move a folder of files to another path, the files ``names`` in this order; repeated after an interruption.

        Raises ``TargetExists`` if something is there.
        """

    @abstractmethod
    def withdraw(self, folder: str, names: Sequence[str]) -> None:
        """Remove the files of a folder whose publication was interrupted, if it can be."""

    @abstractmethod
    def remove(self, folder: str) -> bool:
        """Remove a folder of files; return whether it existed."""

    @abstractmethod
    def location(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the URL of a folder and the options of its store, for a reader that opens files itself."""

    def files(self, pattern: str) -> list[StoredFile]:
        """Return the files of a path, a pattern or a folder, sorted; raises ``EmptyBatch`` without any.

        As in a shell, a star does not match a slash; ``**`` matches any number of folders.
        """
        pattern = pattern.rstrip("/")
        wild = WILD.search(pattern)
        with reading():
            if wild is None:
                single = self.file(pattern) if pattern else None
                listed = iter([single]) if single is not None else self.below(pattern)
            else:
                base = pattern[: pattern.rfind("/", 0, wild.start()) + 1].rstrip("/")
                listed = (file for file in self.below(base) if _matches(file.path.split("/"), pattern.split("/")))
            files = list(islice(listed, MOST_FILES + 1))
        if not files:
            raise EmptyBatch.at("/source", "has no files")
        if len(files) > MOST_FILES:
            raise SourceTooLarge.at("/path", f"matches more than {MOST_FILES:,} files; name fewer, or a folder of them")
        return sorted(files, key=lambda file: file.path)

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file, or None if there is none."""
        if self.file(path) is None:
            return None
        with self.open(path) as file:
            content: bytes = file.read()
            return content

    def write(self, path: str, content: bytes) -> None:
        """Write a small file."""
        with self.create(path) as file:
            file.write(content)


def _matches(names: list[str], pattern: list[str]) -> bool:
    """Return whether the names of a path match a pattern name by name, with ``**`` for any number of folders."""
    if not pattern or not names:
        return not pattern and not names
    if pattern[0] == "**":
        return _matches(names, pattern[1:]) or _matches(names[1:], pattern)
    return fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])


def _hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Convert errors of a storage that would only recur to ``SourceUnreadable``, without names and addresses."""
    try:
        yield
    except FileNotFoundError:
        raise SourceUnreadable("a file or the root of the source does not exist") from None
    except PermissionError:
        raise SourceUnreadable("a file of the source may not be read") from None
    except OSError as error:
        code = re.search(r"AWS Error ([A-Z_]+)", str(error))
        if code is None or code[1] not in _LASTING:
            raise
        raise SourceUnreadable(f"the object store answered {code[1]}") from None


#: Codes of object stores that would only recur.
_LASTING = frozenset(
    {"ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "NO_SUCH_BUCKET", "NO_SUCH_KEY", "RESOURCE_NOT_FOUND"}
    | {"SIGNATURE_DOES_NOT_MATCH", "PERMANENT_REDIRECT", "MISSING_AUTHENTICATION_TOKEN", "INVALID_CLIENT_TOKEN_ID"}
)

# --- Folders


class Folder(Storage):
    """A folder whose files are opened name by name from its root, so that no symbolic link is followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextlib.contextmanager
    def _opened(self, folder: str, *, create: bool = False) -> Iterator[int]:
        """Open a folder below the root as a descriptor."""
        names = PurePosixPath(folder).parts
        if folder.startswith("/") or ".." in names:
            raise RefusedPath.at("/path", "must be below the root")
        at = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in names:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=at)
                with _no_links(name, at):
                    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = inner
            yield at
        finally:
            os.close(at)

    def below(self, folder: str) -> Iterator[StoredFile]:
        """Yield every file; a symbolic link raises ``RefusedPath``."""
        with contextlib.ExitStack() as stack:
            try:
                top = stack.enter_context(self._opened(folder))
            except (FileNotFoundError, NotADirectoryError):
                return
            for parent, folders, names, at in os.fwalk(".", dir_fd=top, onerror=_raise):
                inside = PurePosixPath(folder, parent)
                folders[:] = sorted(name for name in folders if not _hidden(name))
                for name in (*folders, *names):
                    if not _hidden(name):
                        try:
                            status = os.stat(name, dir_fd=at, follow_symlinks=False)
                        except FileNotFoundError:  # removed since the folder was listed
                            continue
                        if stat.S_ISLNK(status.st_mode):
                            raise _link()
                        if stat.S_ISREG(status.st_mode):
                            yield _described(str(inside / name), status)

    def file(self, path: str) -> StoredFile | None:
        """Return the file with this path."""
        try:
            with self._parent(path) as (at, name):
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(status.st_mode):
            raise _link()
        return _described(path, status) if stat.S_ISREG(status.st_mode) else None

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading."""
        with self._parent(path) as (at, name), _no_links(name, at):
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        return os.fdopen(opened, "rb")

    def location(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the path of a folder that no symbolic link leads to, whose log has none either."""
        with self._opened(path), self._opened(f"{path}/_delta_log") as log:
            for entry in os.scandir(log):
                if entry.is_symlink():
                    raise _link()
        return str(self._root.resolve() / path), {}

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[IO[bytes]]:
        """Write a file of another name, which is renamed at the end."""
        with self._parent(path, create=True) as (at, name):
            hidden = f".{name}.{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            try:
                with os.fdopen(os.open(hidden, flags, 0o666, dir_fd=at), "wb") as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(hidden, name, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(hidden, dir_fd=at)
                raise

    def publish(self, staged: str, folder: str, names: Sequence[str]) -> None:
        """Rename the folder, so that all of its files appear at once; other files in it are removed before."""
        with self._opened(staged) as at:
            others = set(os.listdir(at)) - set(names)
            for name in sorted(others, key=lambda name: (name.startswith("_"), name)):  # the record of this state last
                os.unlink(name, dir_fd=at)
        with self._parent(staged) as (source, name), self._parent(folder, create=True) as (target, published):
            try:
                os.rename(name, published, src_dir_fd=source, dst_dir_fd=target)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise
                raise TargetExists.at("/target/path", "exists; name a new path") from None

    def withdraw(self, folder: str, names: Sequence[str]) -> None:
        """Do nothing: a folder is published at once."""

    def remove(self, folder: str) -> bool:
        """Remove the files of a folder and the folder."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._parent(folder) as (parent, name):
            with self._opened(folder) as at:
                for inner in os.listdir(at):
                    os.unlink(inner, dir_fd=at)
            os.rmdir(name, dir_fd=parent)
            return True
        return False

    @contextlib.contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a path as a descriptor, with the last name of the path."""
        whole = PurePosixPath(path)
        if whole.name == "..":
            raise RefusedPath.at("/path", "must be below the root")
        with self._opened(str(whole.parent), create=create) as at:
            yield at, whole.name


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a folder that was removed since its parent was listed
        raise error


def _described(path: str, status: os.stat_result) -> StoredFile:
    return StoredFile(path, status.st_size, f"{status.st_mtime_ns}")


def _link() -> RefusedPath:
    return RefusedPath.at("/path", "leads through a symbolic link, which is not followed")


@contextlib.contextmanager
def _no_links(name: str, at: int) -> Iterator[None]:
    """Convert the error of opening a symbolic link: ELOOP, or of one that should be a folder ENOTDIR."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            raise _link() from None
        raise


# --- Object stores, and folders of the caller's own machine

#: The largest object that S3 copies with one request, in bytes; larger ones are read and written in blocks.
_MOST_COPIED, _COPIED_AT_ONCE = 5 * 10**9, 1 << 25


class Remote(Storage):
    """Files below a prefix of a file system of pyarrow."""

    def __init__(self, filesystem: FileSystem, base: str, scheme: str = "", **options: str | None) -> None:
        self._filesystem, self._base, self._scheme = filesystem, base.rstrip("/"), scheme
        self._options = {name: value for name, value in options.items() if value is not None}

    def location(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the URL of a prefix."""
        if not self._scheme:
            return self._whole(path), {}
        plain = {"AWS_ALLOW_HTTP": "true"} if self._options.get("AWS_ENDPOINT_URL", "").startswith("http:") else {}
        return f"{self._scheme}://{self._whole(path)}", self._options | plain

    def _whole(self, path: str) -> str:
        return f"{self._base}/{path}" if path else self._base or "/"

    def _described(self, info: Any) -> StoredFile:
        return StoredFile(info.path.removeprefix(f"{self._base}/"), info.size, f"{info.mtime_ns}")

    def below(self, folder: str) -> Iterator[StoredFile]:
        """Yield every file of a recursive list."""
        fs = needed_pyarrow("fs").fs
        selector = fs.FileSelector(self._whole(folder), recursive=True, allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            names = info.path.removeprefix(self._whole(folder)).split("/")
            if info.type == fs.FileType.File and not any(map(_hidden, names)):
                yield self._described(info)

    def file(self, path: str) -> StoredFile | None:
        """Return the file with this path."""
        fs = needed_pyarrow("fs").fs
        info = self._filesystem.get_file_info(self._whole(path))
        return self._described(info) if info.type == fs.FileType.File else None

    def open(self, path: str) -> Any:
        """Open a file for reading."""
        return self._filesystem.open_input_file(self._whole(path))

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        """Write a file; an object store shows it when it is closed, also after an error."""
        with self._filesystem.open_output_stream(self._whole(path)) as file:
            yield file

    def publish(self, staged: str, folder: str, names: Sequence[str]) -> None:
        """Copy the files in this order within the object store, and remove the others."""
        for name in names:
            check()
            source, target = self._whole(f"{staged}/{name}"), self._whole(f"{folder}/{name}")
            file = self.file(f"{staged}/{name}")
            if file is None:
                continue
            if file.size <= _MOST_COPIED:
                self._filesystem.copy_file(source, target)
                continue
            with self._filesystem.open_input_stream(source) as read, self._filesystem.open_output_stream(target) as new:
                while block := read.read(_COPIED_AT_ONCE):
                    check()
                    new.write(block)
        self.remove(staged)

    def withdraw(self, folder: str, names: Sequence[str]) -> None:
        """Remove the files that were copied."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.delete_file(self._whole(f"{folder}/{name}"))

    def remove(self, folder: str) -> bool:
        """Remove everything below a prefix."""
        fs = needed_pyarrow("fs").fs
        below = fs.FileSelector(self._whole(folder), recursive=True, allow_not_found=True)
        exists = bool(self._filesystem.get_file_info(below))
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.delete_dir(self._whole(folder))
        return exists


# --- Roots

#: Attempts of a request to an object store that limits its rate, and seconds to connect and without an answer.
_ATTEMPTS, _CONNECT_SECONDS, _ANSWER_SECONDS = 10, 10, 30


def storage_of(root: str, *, endpoint: str | None = None, region: str | None = None) -> Storage:
    """Return the storage of a root, with credentials from the environment or the identity of the machine.

    ``endpoint`` is the address of an object store that is not Amazon's, and ``region`` that of its buckets. A folder is
    closed: no symbolic link in it is followed.
    """
    check_root(root)
    parts = urlsplit(root)
    if parts.scheme == "file":
        return Folder(Path(unquote(parts.path)))
    return _remote(root, endpoint, region)


def opened_url(source: str, extra: str = "files") -> tuple[Storage, str]:
    """Return the storage of a path or URL of the caller's own, and the path or pattern in it.

    ``extra`` has the packages that read the files there.
    """
    with requires(extra):
        from pyarrow import fs
    if "://" not in source:
        return Remote(fs.LocalFileSystem(), ""), str(Path(source).absolute()).removeprefix("/")
    parts = urlsplit(source)
    if parts.scheme == "file":
        return Remote(fs.LocalFileSystem(), ""), unquote(parts.path).removeprefix("/")
    if parts.scheme not in SCHEMES:
        raise InvalidOption.at("/source", f"must be a path, or a URL of {', '.join(SCHEMES)}")
    # A question mark is a wildcard, unless parameters of pyarrow follow.
    path, _, query = source.partition("?") if "=" in source.rpartition("?")[2] else (source, "", "")
    parameters = {name: values[-1] for name, values in parse_qs(query).items()}
    unknown = sorted(set(parameters) - {"endpoint_override", "region", "scheme"})
    if unknown:
        raise InvalidOption.at("/source", f"has the parameter {unknown[0]}; known: endpoint_override, region, scheme")
    endpoint = parameters.get("endpoint_override")
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"{parameters.get('scheme', 'https')}://{endpoint}"
    bucket, _, inner = path.partition("://")[2].partition("/")
    return _remote(f"{parts.scheme}://{bucket}", endpoint, parameters.get("region")), inner


def opened_target(target: str) -> tuple[Storage, str]:
    """Return the storage of a new folder or prefix of the caller's own, and its path there."""
    if "://" in target and not target.startswith("file://"):
        return opened_url(target)
    path = Path(unquote(urlsplit(target).path) if "://" in target else target).absolute()
    if not path.parent.is_dir():
        raise InvalidOption.at("/target", "must be in a folder that exists")
    return Folder(path.parent), path.name


def _check_endpoint(endpoint: str, bucket: str) -> None:
    """Raise ``SourceUnreadable`` if an object store redirects requests for a bucket, which pyarrow would follow."""
    parts = urlsplit(endpoint)
    kind = HTTPConnection if parts.scheme == "http" else HTTPSConnection
    with contextlib.closing(kind(parts.netloc, timeout=_CONNECT_SECONDS)) as connection:
        try:
            connection.request("HEAD", f"/{bucket}")
            status = connection.getresponse().status
        except (OSError, HTTPException):
            return  # as pyarrow will find
    if 300 <= status < 400:
        raise SourceUnreadable("the endpoint of the source redirects to another address")


def _remote(root: str, endpoint: str | None, region: str | None) -> Remote:
    fs = needed_pyarrow("fs").fs
    parts = urlsplit(root)
    if parts.scheme == "s3":
        endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint is not None:
            _check_endpoint(endpoint, parts.netloc)
        region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        filesystem = fs.S3FileSystem(
            endpoint_override=endpoint,
            region=region,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_ANSWER_SECONDS,
            allow_bucket_creation=False,
        )
        base = f"{parts.netloc}{unquote(parts.path)}"
        return Remote(filesystem, base, "s3", AWS_ENDPOINT_URL=endpoint, AWS_REGION=region)
    opened: tuple[FileSystem, str] = fs.FileSystem.from_uri(root)
    return Remote(*opened, parts.scheme)
