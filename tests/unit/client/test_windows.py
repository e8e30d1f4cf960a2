"""A client where the system is not POSIX: as on Windows, without the modules and names that are not there.

It shows that a client needs none of them, not that Windows does what it is asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from fake_service import SECONDS, Fake, expected

CLOSE = 0.02  # of two roundings

WINDOWS = """
import asyncio, multiprocessing, os, shutil, subprocess, sys, sysconfig, tempfile, types
import cryptography.x509, httpx2, numpy, pydantic, rich, safetensors.numpy, tokenizers
import websockets.asyncio.client
import fcntl as posix

def locking(descriptor, mode, count):
    assert os.lseek(descriptor, 0, os.SEEK_CUR) >= 1 << 30 and (mode, count) == (2, 1), "a byte of no file"
    try:
        posix.flock(descriptor, posix.LOCK_EX | posix.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None

sysconfig.get_config_vars()  # reads a file of this system
gone = "fcntl grp posix pwd resource termios tty".split()
sys.modules.update(dict.fromkeys(gone), msvcrt=types.SimpleNamespace(locking=locking, LK_NBLCK=2))
for name in "O_DIRECTORY O_NOFOLLOW O_NONBLOCK fchmod fork geteuid getuid mkfifo sysconf".split():
    delattr(os, name)
shutil._use_fd_functions = False
sys.platform = "win32"
"""
ASK = """
from pathlib import Path
import json, tacita
from tacita.client import store
url, token, trust, data = sys.argv[1:]
with tacita.connect(url, token=token, trust=trust, data=data, allow_insecure=True) as service:
    answer = service.classify("a fine film")
(server,) = store.Store(Path(data)).servers
(plan,) = server.plans
(plan.path / "request-old").mkdir()
with plan.request_folder() as own:
    assert store.remove_stale(plan.path) == 1 and own.path.exists()
assert not list(plan.path.glob("request-*"))
print(json.dumps(answer.logits))
"""


def test_a_client_without_posix_is_answered(fake: Fake, tmp_path: Path) -> None:
    options = [fake.url, fake.token, str(fake.certificate), str(tmp_path / "data")]
    ran = subprocess.run(
        [sys.executable, "-c", WINDOWS + ASK, *options],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert np.allclose(json.loads(ran.stdout), expected("a fine film"), atol=CLOSE)
