"""What the tests of the Python client share: the client itself, places to put data, and programs that misbehave.

`LCM_CLI` names the real program; the test binary `hosts` sets it. Nothing here waits longer than the client does.
"""
import contextlib
import importlib.util
import os
import pathlib
import shutil
import signal
import stat
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLUGIN = ROOT / "plugins" / "hermes" / "__init__.py"

# What every stand-in for the program begins with: lines in, lines out, and how the first call is answered.
PRELUDE = '''
import json, os, signal, sys, threading, time
lock = threading.Lock()
HOME = sys.argv[2]
def read():
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
def raw(data):
    with lock:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
def write(message):
    raw(json.dumps(message).encode() + b"\\n")
def answer(request, result):
    write({"jsonrpc": "2.0", "id": request["id"], "result": result})
def refuse(request, code, message, data=None):
    write({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message, "data": data}})
def note(name, text):
    with open(os.path.join(HOME, name), "a") as file:
        file.write(text + "\\n")
first = read()
assert first["method"] == "initialize", first
note("starts", str(os.getpid()))
answer(first, {"protocol": 1, "server": {"name": "stand-in", "version": "0"}, "pid": os.getpid(), "home": HOME,
               "limits": {"line_bytes_max": 1 << 26}, "notes": []})
'''


def loaded(name="lcm_plugin", path=PLUGIN):
    """A copy of the plugin's module, as a host loads it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


lcm = loaded()


def real_program():
    program = os.environ.get("LCM_CLI")
    if not program:
        raise RuntimeError("LCM_CLI does not name the program under test; run these tests with `cargo test --test hosts`")
    return program


def is_there(pid):
    """Whether a process is there, one that ended and was not waited for included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Case(unittest.TestCase):
    """A test with a folder of its own; its children end with it."""

    def setUp(self):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="lcm-client-", dir=memory)
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            pid = client.state()["pid"]
            if pid is not None and client.program != os.environ.get("LCM_CLI"):
                # Stand-ins need not end well.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            client.close()
        shutil.rmtree(self.folder)

    def home(self, name="home"):
        return os.path.join(self.folder, name)

    def client(self, program, home="home", **more):
        client = lcm.Client(self.home(home), program=program, **more)
        self.clients.append(client)
        return client

    def stand_in(self, body, name="stand-in"):
        """A program that starts as ours does and then does `body`."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            # -S and -E: it starts in a third of the time.
            file.write(f"#!{sys.executable} -SE\n{PRELUDE}{textwrap.dedent(body)}")
        os.chmod(path, stat.S_IRWXU)
        return path

    def noted(self, name):
        """The lines a stand-in left."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.home(), name), encoding="utf-8") as file:
            return file.read().splitlines()
        return []
