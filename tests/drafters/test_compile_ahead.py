"""The search is compiled in another process, once, and a failure of that process costs nothing but time."""

import subprocess
import sys

import pytest
from waiting import HANG

from aded.core.compilation.code_folder import code_folder
from aded.core.errors import AdedError
from aded.drafters import compile_ahead


class Process:
    def __init__(self, command, **options):
        self.command, self.options, self.killed, self.waited = command, options, False, False

    def kill(self):
        self.killed = True

    def poll(self):
        return 0 if self.waited else None

    def wait(self):
        self.waited = True


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The processes that are started, with an empty folder of compiled code."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    processes = []
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: processes.append(Process(*a, **k)) or processes[-1])
    return processes


def test_it_is_compiled_until_it_is_complete(started):
    messages = []
    with compile_ahead.meanwhile(messages.append):
        assert not started[0].waited
        assert not messages
    assert started[0].waited
    assert messages == ["compiling the search"]
    assert started[0].command == [sys.executable, "-m", "aded.drafters.compile_ahead"]
    (code_folder() / compile_ahead.DONE).touch()
    with compile_ahead.meanwhile(messages.append):
        pass
    assert len(started) == len(messages) == 1


def test_an_error_meanwhile_ends_the_process(started):
    with pytest.raises(AdedError), compile_ahead.meanwhile(print):
        raise AdedError("no such model")
    assert started[0].killed
    assert started[0].waited


def test_the_process_ends_with_the_one_that_started_it(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    process = compile_ahead.start()
    process.stdin.close()  # as at the end of this process, whatever ends it
    assert process.wait(HANG) == 1
    assert not (code_folder() / compile_ahead.DONE).exists()


def test_without_a_folder_or_a_process_nothing_is_compiled_ahead(started, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert compile_ahead.start() is None
    monkeypatch.setattr(compile_ahead, "code_folder", lambda: None)
    assert compile_ahead.start() is None
