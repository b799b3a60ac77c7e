"""An object store in a folder: the embedded default.

What always holds: an object appears by a link or a rename of a file that is whole and synced, so a crash leaves no
half of one; writes of a key are serialised by a lock on a side file, so that a conditional write has one winner among
threads and processes of this machine. The store's own files lie in `.tmp` and `.locks`, which no key can name. A lock
and a link hold on one machine: a folder that several machines share is not offered as safe.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from geocairn.failure import FatalFailure
from geocairn.stores.objects import Conflict, Info, Missing, Stored, check_key, check_prefix
from geocairn.stores.refusals import refusal
from geocairn.stores.scratch import Scratch

_CLOCK_AGE = 30.0
_MILLISECOND = 1_000_000
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class FolderObjects:
    """Objects in a folder.

    Parameters
    ----------
    root : the folder; made when something is first written.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(os.path.realpath(Path(root).expanduser()))
        self._scratch = Scratch(self.root / ".tmp")
        self._clock: tuple[float, float] | None = None  # monotonic time of measurement, store time less monotonic time

    @property
    def url(self) -> str:
        """The folder as a `file://` address."""
        return self.root.as_uri()

    def __repr__(self) -> str:
        return f"FolderObjects({str(self.root)!r})"

    # Reading

    def read(self, key: str) -> Stored | None:
        """Return an object with its tag, or None where there is none."""
        path = self._path(key)
        with self._refusing("read", path):
            try:
                with path.open("rb") as file:
                    data = file.read()
                    return Stored(data, _tag(os.fstat(file.fileno()), data))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def head(self, key: str) -> Info | None:
        """Return size, tag and time of an object, or None where there is none."""
        path = self._path(key)
        with self._refusing("look at", path):
            return self._info(key, path)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Info]:
        """Yield the objects whose key begins with `prefix` and comes behind `after`, in the order of their bytes."""
        check_prefix(prefix)
        with self._refusing("list", self.root / prefix):
            for key in self._walk(prefix.rpartition("/")[0], prefix, after):
                info = self._info(key, self.root / key)
                if info is not None:
                    yield info

    def _walk(self, folder: str, prefix: str, after: str | None) -> Iterator[str]:
        try:
            entries = [(e.name + "/" if e.is_dir() else e.name) for e in os.scandir(self.root / folder)]
        except (FileNotFoundError, NotADirectoryError):
            return
        base = folder + "/" if folder else ""
        # A folder sorts with its slash, as S3 sorts whole keys.
        for name in sorted((name for name in entries if not name.startswith(".")), key=_bytes):
            key = base + name
            if name.endswith("/"):
                wanted = key.startswith(prefix) or prefix.startswith(key)
                passed = after is not None and _bytes(key) < _bytes(after) and not after.startswith(key)
                if wanted and not passed:
                    yield from self._walk(key[:-1], prefix, after)
            elif key.startswith(prefix) and (after is None or _bytes(key) > _bytes(after)):
                yield key

    def _info(self, key: str, path: Path) -> Info | None:
        try:
            seen = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not os.path.isfile(path):
            return None
        data = None
        if _is_coarse(seen):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
        return Info(key, seen.st_size, _tag(seen, data), seen.st_mtime)

    # Writing

    def write(self, key: str, data: bytes, *, if_absent: bool = False, if_tag: str | None = None) -> str:
        """Write an object, whole or not at all, and return its tag. Raises `Conflict` where the condition fails."""
        if if_absent and if_tag is not None:
            raise ValueError("if_absent and if_tag exclude each other")
        path = self._path(key)
        with self._refusing("write", path):
            temporary = self._temporary(data)
            try:
                tag = _tag(temporary.stat(), data)
                self._place(key, temporary, if_absent=if_absent, if_tag=if_tag)
            finally:
                temporary.unlink(missing_ok=True)
            return tag

    def delete(self, key: str, *, if_tag: str | None = None) -> bool:
        """Delete an object; false where there was none. Raises `Conflict` where `if_tag` does not hold."""
        path = self._path(key)
        with self._refusing("delete", path), self._locked(key):
            seen = self._info(key, path)
            if seen is None:
                return False
            if if_tag is not None and seen.tag != if_tag:
                raise Conflict("it was written by another in the meantime", where=str(path))
            path.unlink()
            with suppress(FileNotFoundError):  # a deletion beside it has just removed the empty folder
                _sync_folder(path.parent)
            self._remove_empty(path.parent)
            return True

    def upload(self, key: str, path: Path, *, take: bool = False) -> None:
        """Store a local file, whole or not at all; with `take` a file of the same file system is moved, not copied."""
        target = self._path(key)
        with self._refusing("write", target):
            self._make_folder(self._scratch.folder)
            temporary = self._scratch.path(".layer")
            try:
                size = path.stat().st_size
                if not (take and _moved(path, temporary)):
                    shutil.copyfile(path, temporary)
                _sync_file(temporary)
                if temporary.stat().st_size != size:
                    raise FatalFailure(
                        "the copy is not as long as the file", where=str(target), remedy="check the disk"
                    )
                self._place(key, temporary)
            finally:
                temporary.unlink(missing_ok=True)

    def download(self, key: str, path: Path) -> None:
        """Copy an object to a local file. Raises `Missing` where there is none."""
        source = self._path(key)
        with self._refusing("read", source):
            try:
                shutil.copyfile(source, path)
            except (FileNotFoundError, NotADirectoryError) as error:
                if source.exists():
                    raise  # the place to copy to is what is missing
                raise Missing("it is not in the store", where=str(source)) from error

    def local(self, key: str) -> Path | None:
        """Return the object's own path."""
        return self._path(key)

    def scratch(self, suffix: str = "") -> Path:
        """Return a new path for a temporary file on the store's file system."""
        with self._refusing("write", self._scratch.folder):
            self._make_folder(self._scratch.folder)
        return self._scratch.path(suffix)

    def clean(self) -> int:
        """Remove temporary files of processes that are gone; return how many."""
        with self._refusing("clean", self._scratch.folder):
            return self._scratch.clean(self.now())

    def now(self) -> float:
        """Return the file system's time: what it gives a file that is touched, measured every half minute.

        A folder that cannot be written to gives this machine's time: nothing there can be newer than what is read.
        """
        tick = time.monotonic()
        if self._clock is None or tick - self._clock[0] > _CLOCK_AGE:
            self._clock = (tick, self._touched() - tick)
        return tick + self._clock[1]

    def _touched(self) -> float:
        if not self._scratch.folder.is_dir():
            return time.time()
        path = self._scratch.path(".clock")
        try:
            path.touch()
            seen = path.stat().st_mtime
            path.unlink(missing_ok=True)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOENT):
                return time.time()
            raise refusal(error, doing="tell the time of the store", where=str(self.root)) from error
        return seen

    # Means

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    @contextmanager
    def _refusing(self, doing: str, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise refusal(error, doing=f"{doing} an object of the store", where=str(path)) from error

    def _temporary(self, data: bytes) -> Path:
        """Write and sync a temporary file, and give it a time of modification that no other has."""
        self._make_folder(self._scratch.folder)
        path = self._scratch.path()
        try:
            with path.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                _mark(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _place(self, key: str, temporary: Path, *, if_absent: bool = False, if_tag: str | None = None) -> None:
        path = self._path(key)
        for attempt in range(5):
            try:
                self._make_folder(path.parent)
                with self._locked(key):
                    if if_tag is not None:
                        seen = self._info(key, path)
                        if seen is None or seen.tag != if_tag:
                            raise Conflict("it was written or deleted by another in the meantime", where=str(path))
                    if if_absent:
                        _create(temporary, path)
                    else:
                        os.replace(temporary, path)
                    _sync_folder(path.parent)
                    return
            except FileNotFoundError:
                # Another has just removed the folder because it was empty.
                if attempt == 4 or not temporary.exists():
                    raise

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        folder = self.root / ".locks"
        self._make_folder(folder)
        shard = hashlib.sha256(key.encode("utf-8")).hexdigest()[:2]
        handle = os.open(folder / shard, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder != folder.parent:
            self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)

    def _remove_empty(self, folder: Path) -> None:
        while folder.parent != self.root and folder != self.root:
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or gone
            folder = folder.parent


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _mark(handle: int) -> None:
    """Put a random part below the millisecond into a file's time, so that time, inode and size make a tag."""
    seen = os.fstat(handle)
    nanoseconds = seen.st_mtime_ns - seen.st_mtime_ns % _MILLISECOND + 1 + secrets.randbelow(_MILLISECOND - 1)
    os.utime(handle, ns=(nanoseconds, nanoseconds))


def _is_coarse(seen: os.stat_result) -> bool:
    """Return whether the file system dropped what `_mark` gave, so that the content must make the tag."""
    return seen.st_mtime_ns % _MILLISECOND == 0 and seen.st_size <= 1 << 20


def _tag(seen: os.stat_result, data: bytes | None) -> str:
    tag = f"{seen.st_mtime_ns:x}-{seen.st_ino:x}-{seen.st_size:x}"
    if _is_coarse(seen) and data is not None:
        tag += "-" + hashlib.sha256(data).hexdigest()[:16]
    return tag


def _create(temporary: Path, path: Path) -> None:
    """Give the temporary file its name, unless the name is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        raise Conflict("there is one already", where=str(path)) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: the lock that is held makes test and rename one.
        if path.exists():
            raise Conflict("there is one already", where=str(path)) from error
        os.replace(temporary, path)


def _moved(path: Path, temporary: Path) -> bool:
    try:
        os.rename(path, temporary)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise
    return True


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(handle)
        _mark(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems do not sync folders
            raise
    finally:
        os.close(handle)
