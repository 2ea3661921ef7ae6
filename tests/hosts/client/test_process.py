"""What a host does to its own process: it forks, copies, loads the plugin twice, ends. No child is left, doubled or shared.

Method: stand-ins that tell their number; real forks, and real interpreters that end.
"""
import copy
import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import support
from support import Case, is_there, lcm

# Tells its number, so that a test sees whose child answers; ends with its input, as the real one.
PIDS = '''
while True:
    request = read()
    if request["method"] == "slow":
        time.sleep(request["params"].get("seconds", 30))
    answer(request, os.getpid())
'''


def in_fork(do, fork=os.fork):
    """What `do` gives in a forked process, or the exception's text; bounded."""
    read, write = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            os.close(read)
            signal.alarm(30)
            os.write(write, repr(do()).encode())
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


class Shared(Case):
    def test_nothing_is_started_before_the_first_call(self):
        client = self.client(self.stand_in(PIDS))
        self.assertFalse(os.path.exists(self.home()))
        self.assertEqual(client.state()["running"], False)
        self.assertEqual(client.state()["starts"], 0)
        pid = client.call("pid")
        self.assertEqual(client.state()["pid"], pid)
        self.assertEqual(client.state()["server"]["name"], "stand-in")

    def test_one_directory_has_one_child_and_two_have_two(self):
        program = self.stand_in(PIDS)
        one, same, other = self.client(program), self.client(program), self.client(program, home="other")
        self.assertEqual(one.call("pid"), same.call("pid"))
        self.assertNotEqual(one.call("pid"), other.call("pid"))

    def test_threads_that_call_first_at_once_start_one_child(self):
        client, pids = self.client(self.stand_in(PIDS)), []
        threads = [threading.Thread(target=lambda: pids.append(client.call("pid", deadline=20))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(pids), 16)
        self.assertEqual(len(set(pids)), 1)
        self.assertEqual(len(self.noted("starts")), 1)

    def test_a_second_copy_of_the_file_shares_children_and_errors(self):
        other = support.loaded("lcm_plugin_again")
        program = self.stand_in("answer(read(), os.getpid())\nrefuse(read(), -32030, 'busy')\nread()")
        first = self.client(program).call("pid")
        self.assertIs(other._REGISTRY, lcm._REGISTRY)
        with self.assertRaises(other.LcmError):
            other.Client(self.home(), program=program).call("x")
        self.assertEqual(self.noted("starts"), [str(first)])

    def test_an_older_copy_keeps_to_itself(self):
        with open(support.PLUGIN, encoding="utf-8") as file:
            text = file.read()
        path = os.path.join(self.folder, "older.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(f'VERSION = "{lcm.VERSION}"', 'VERSION = "0.0.1"'))
        module = support.loaded("lcm_plugin_older", path)
        self.assertIsNot(module.Client, lcm.Client)
        program = self.stand_in(PIDS)
        older = module.Client(self.home(), program=program)
        self.addCleanup(older.close)
        self.assertNotEqual(older.call("pid"), self.client(program).call("pid"))

    def test_handles_are_copied_and_pickled_without_harm(self):
        client = self.client(self.stand_in(PIDS), settings={"a": 1})
        pid = client.call("pid")
        held = {"engine": [client, {"again": client}]}
        for other in (copy.copy(client), copy.deepcopy(held)["engine"][0], pickle.loads(pickle.dumps(client))):
            self.assertEqual(other.call("pid"), pid)
        errors = (lcm.LcmError(-1, "m", {"d": 1}), lcm.LcmTimeout(-2, "t"))
        for error in errors:
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), again.code, again.message, again.data), (type(error), error.code, error.message, error.data))

    def test_programs_are_looked_for_in_order(self):
        def put(folder):
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, "lcm-cli")
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n")
            os.chmod(path, 0o700)
            return path
        env = {"PATH": os.path.join(self.folder, "path"), "LCM_CLI": ""}
        with unittest.mock.patch.dict(os.environ, env), unittest.mock.patch.object(lcm, "__file__", os.path.join(self.folder, "plugin", "__init__.py")):
            client = lcm.Client(self.home())
            self.assertRaisesRegex(lcm.LcmUnavailable, "name it in LCM_CLI", client.found_program)
            for folder in ("path", "home/bin", "plugin"):
                path = put(os.path.join(self.folder, folder))
                self.assertEqual(client.found_program(), path)
            os.environ["LCM_CLI"] = put(os.path.join(self.folder, "env"))
            self.assertEqual(client.found_program(), os.environ["LCM_CLI"])
            os.environ["LCM_CLI"] = "/nowhere"
            self.assertRaisesRegex(lcm.LcmUnavailable, "LCM_CLI is /nowhere", client.found_program)
            named = put(os.path.join(self.folder, "named"))
            self.assertEqual(lcm.Client(self.home(), program=named).found_program(), named)

    def test_the_childs_talk_goes_to_a_file_of_its_owner(self):
        client = self.client(self.stand_in('sys.stderr.write("talk\\n" * 100000); sys.stderr.flush(); answer(read(), 1); read()'))
        self.assertEqual(client.call("x", deadline=10), 1)
        log = client.state()["log"]
        self.assertEqual(os.stat(log).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(self.home()).st_mode & 0o777, 0o700)
        self.assertEqual(os.stat(log).st_size, 500000)

    def test_a_long_log_is_put_aside_at_the_next_start(self):
        client = self.client(self.stand_in('sys.stderr.write("talk\\n" * 300000); sys.stderr.flush(); answer(read(), 1); read()'))
        client.call("x", deadline=10)
        client.close()
        client.call("x", deadline=10)
        self.assertEqual(sorted(name for name in os.listdir(self.home()) if "log" in name), ["serve.log", "serve.log.1"])
        self.assertEqual(os.stat(client.state()["log"]).st_size, 1500000)


class Forked(Case):
    def test_a_forked_process_has_a_child_of_its_own_and_the_parents_goes_on(self):
        client = self.client(self.stand_in(PIDS))
        pid = client.call("pid")
        self.assertNotIn(in_fork(lambda: client.call("pid", deadline=10)), (str(pid), ""))
        self.assertEqual(len(self.noted("starts")), 2)
        self.assertEqual(client.call("pid", deadline=10), pid)

    def test_a_fork_while_threads_are_in_calls_does_not_hang_the_forked_process(self):
        client = self.client(self.stand_in(PIDS))
        client.call("pid")
        stop = threading.Event()

        def calls():
            while not stop.is_set():
                client.call("pid", deadline=20)

        threads = [threading.Thread(target=calls) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                self.assertRegex(in_fork(lambda: client.call("pid", deadline=15)), r"^\d+$")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertRegex(in_fork(lambda: lcm.Client(self.home("second"), program=client.program).call("pid")), r"^\d+$")

    def test_the_forked_copy_holds_no_end_of_the_parents_pipes(self):
        client = self.client(self.stand_in(PIDS))
        pid = client.call("pid")
        ready, go = os.pipe(), os.pipe()
        fork = os.fork()
        if fork == 0:
            os.write(ready[1], b"x")
            os.read(go[0], 1)
            os._exit(0)
        os.read(ready[0], 1)
        # The child sees the end of its input although the forked process lives.
        began = time.monotonic()
        client.close()
        self.assertLess(time.monotonic() - began, 3)
        self.assertFalse(is_there(pid))
        os.write(go[1], b"x")
        os.waitpid(fork, 0)
        for end in (*ready, *go):
            os.close(end)

    def test_a_forked_process_that_closes_or_ends_leaves_the_parents_child_alone(self):
        client = self.client(self.stand_in(PIDS))
        pid = client.call("pid")
        self.assertEqual(in_fork(client.close), "None")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            other = pool.apply(client.call, ("pid",))
        self.assertNotEqual(other, pid)
        self.assertEqual(client.call("pid", deadline=10), pid)

    def test_a_fork_that_tells_python_nothing_is_noticed_at_the_next_call(self):
        client = self.client(self.stand_in(PIDS))
        pid = client.call("pid")

        # As a library in C forks: no handler of Python runs.
        self.assertNotIn(in_fork(lambda: client.call("pid", deadline=10), fork=ctypes.PyDLL(None).fork), (str(pid), ""))
        self.assertEqual(client.call("pid", deadline=10), pid)
        self.assertEqual(len(self.noted("starts")), 2)


class Ending(Case):
    def test_closing_ends_the_child_and_the_next_call_starts_another(self):
        client = self.client(self.stand_in(PIDS))
        pids = []
        for _ in range(7):
            pids.append(client.call("pid", deadline=5))
            client.close()
            self.assertFalse(is_there(pids[-1]), "waited for, so no zombie either")
        self.assertEqual(len(set(pids)), 7, "closing on purpose is no failure")
        client.close()

    def test_a_child_that_does_not_end_is_killed(self):
        client = self.client(self.stand_in('''
            answer(read(), os.getpid())
            while True:
                time.sleep(1)
        '''))
        pid = client.call("pid")
        with unittest.mock.patch.object(lcm, "CLOSE_S", 0.3):
            client.close()
        self.assertFalse(is_there(pid))

    def test_who_waits_while_another_closes_is_answered_by_a_new_child(self):
        client = self.client(self.stand_in('''
            while True:
                request = read()
                if len(open(os.path.join(HOME, "starts")).readlines()) > 1:
                    answer(request, "second life")
        '''))
        got = []
        thread = threading.Thread(target=lambda: got.append(client.call("x", deadline=20)))
        thread.start()
        while not client.state()["running"]:
            time.sleep(0.01)
        client.close()
        thread.join()
        self.assertEqual(got, ["second life"])

    def test_nothing_is_left_when_a_client_is_dropped_with_its_child_dead(self):
        client = self.client(self.stand_in(PIDS))
        pid = client.call("pid")
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while client.state()["running"] and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_there(pid))
        gc.collect()

    def ended(self, body, before=""):
        """An interpreter that does this and ends: its exit code, when its child is gone too."""
        script = f"{before}\nimport sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n" \
                 f"from support import lcm\nclient = lcm.Client({self.home()!r}, program={self.stand_in(PIDS)!r})\n{body}"
        done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        pid = int(self.noted("starts")[-1])
        deadline = time.monotonic() + 10
        while is_there(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(is_there(pid), "a child is left")
        return done.returncode

    def test_an_interpreter_that_ends_takes_its_child_along(self):
        self.assertEqual(self.ended("client.call('pid')"), 0)

    def test_also_with_daemon_threads_in_the_middle_of_calls(self):
        self.assertEqual(self.ended('''
import threading, time
client.call("pid")
def calls():
    while True:
        try:
            client.call("pid", deadline=5)
        except lcm.LcmError:
            return
for _ in range(6):
    threading.Thread(target=calls, daemon=True).start()
time.sleep(0.3)
'''), 0)

    def test_also_when_it_is_killed(self):
        self.assertEqual(self.ended("import os; client.call('pid'); os.kill(os.getpid(), 9)"), -9)

    def test_a_signal_to_the_hosts_group_does_not_reach_the_child(self):
        self.assertEqual(self.ended('''
import os, signal
pid = client.call("pid")
try:
    os.killpg(os.getpgid(0), signal.SIGINT)
    raise AssertionError("no signal came")
except KeyboardInterrupt:
    pass
assert client.call("pid") == pid
''', before="import os\nos.setsid()"), 0)

    def test_no_child_is_started_once_the_interpreter_ends(self):
        # Who was registered first is asked last, when the client has ended.
        self.assertEqual(self.ended("client.call('pid')", before='''
import atexit
def last():
    try:
        client.call("pid")
    except lcm.LcmUnavailable as error:
        assert "is ending" in str(error), error
    else:
        raise AssertionError("a child was started")
atexit.register(last)
'''), 0)
        self.assertEqual(len(self.noted("starts")), 1)


if __name__ == "__main__":
    unittest.main()
