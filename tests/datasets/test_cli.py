"""Every command line ends with a message and an exit code, never a traceback; `import datasets` stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import datasets
from datasets.common.cli import import_all, run
from datasets.common.errors import DataError, error_line


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DataError("homes.csv line 3: device is missing"), 1, "homes.csv line 3: device is missing\n"),
        (FileNotFoundError(2, "No such file", "homes.csv"), 1, "[Errno 2] No such file: 'homes.csv'\n"),
        (KeyboardInterrupt(), 130, "Stopped. Nothing was written.\n"),
        (
            ModuleNotFoundError("No module named 'numba'", name="numba.core"),
            1,
            'pip install -c constraints.txt -e ".[graph]"\n',
        ),
        (ModuleNotFoundError("No module named 'mine'", name="mine"), 1, "No module named 'mine'\n"),
    ],
)
def test_an_error_is_one_message_and_an_exit_code(capsys, error, code, message):
    assert run(lambda: raising(error), interrupted="Stopped. Nothing was written.") == code
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize(
    ("end", "line"),
    [
        ("datasets.common.errors.DataError: homes.csv is empty", "homes.csv is empty"),
        ("fedrule.federated.secure.messages.BelowThreshold: 2 of 4 left", "2 of 4 left"),
        ("torch.cuda.OutOfMemoryError: 12 GB are not there", "OutOfMemoryError: 12 GB are not there"),
        ("MemoryError: 12 GB are not there", "MemoryError: 12 GB are not there"),
        ("the process was killed (signal 9)", "the process was killed (signal 9)"),
        ("", "no message"),
    ],
)
def test_the_end_of_a_traceback_is_a_sentence_without_the_path_of_its_class(end, line):
    text = f"Traceback (most recent call last):\n  File ...\n{end}\n" if end else ""
    assert error_line(text) == line


def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)


def test_a_reader_that_has_seen_enough_is_not_an_error():
    command = "import sys; from datasets.__main__ import main; sys.exit(main(['list']))"
    process = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_a_module_that_is_not_found_is_named_with_the_places_that_were_searched():
    with pytest.raises(ModuleNotFoundError, match=r"--import no_such_module: .*looked for in .*PYTHONPATH"):
        import_all(["no_such_module"])


def test_importing_the_package_loads_neither_numpy_nor_pandas():
    code = "import sys, datasets.common.environment, datasets.common.cli; print({'numpy', 'pandas'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        datasets.lode  # noqa: B018
