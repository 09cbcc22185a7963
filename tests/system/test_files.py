import gzip
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from parser.system.files import atomic_file, refuse_folder_of_others, write_atomically


def write_as_output(path, content=b"new"):
    with atomic_file(str(path)) as file:
        file.write(content)


def test_a_file_appears_when_it_is_complete(tmp_path):
    path, mask = tmp_path / "out.txt", os.umask(0o027)
    try:
        with atomic_file(str(path)) as file:
            file.write(b"content\r\n")
            assert not path.exists()
    finally:
        os.umask(mask)
    assert path.read_bytes() == b"content\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_failure_keeps_the_old_content(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(TypeError, match="bytes"):
        write_as_output(path, "no bytes")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_compresses_by_name(tmp_path):
    write_as_output(tmp_path / "out.gz")
    written = (tmp_path / "out.gz").read_bytes()
    assert gzip.decompress(written) == b"new"
    assert b"out" not in written  # no name: it would be that of the unfinished file
    assert written[4:8] == bytes(4)  # and no time: equal outputs are equal files


def test_follows_links(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_as_output(link)
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_link_under_the_temporary_name_is_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("theirs")
    (tmp_path / ".out.unfinished").symlink_to(other)
    write_atomically(tmp_path / "out", b"mine")
    assert (tmp_path / "out").read_bytes() == b"mine"
    assert other.read_text() == "theirs"
    assert sorted(os.listdir(tmp_path)) == ["other", "out"]


def test_writes_into_pipes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        content = reader.submit(pipe.read_text)
        write_as_output(pipe)
    assert content.result() == "new"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_has_no_place_for_a_file(tmp_path):
    with pytest.raises(ValueError, match="is a folder; give the name of a file"):
        write_as_output(tmp_path)


@pytest.mark.parametrize("write", [write_as_output, lambda path: write_atomically(path, b"new")])
@pytest.mark.parametrize("by", ["permission bits", "the operating system"])
def test_a_write_protected_file_is_not_replaced(tmp_path, monkeypatch, write, by):
    path, link = tmp_path / "kept", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    if by == "permission bits":  # root may write nevertheless
        path.chmod(0o444)
    else:  # an immutable file, a read-only file system, another user's file
        monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    for name in (path, link):
        with pytest.raises(PermissionError, match="is write-protected; choose another name, or allow"):
            write(name)
    assert path.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["kept", "link"]


def test_a_file_is_no_folder_of_a_run(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file: is no folder; choose another name with --run"):
        refuse_folder_of_others(tmp_path / "file", False)
