"""The gate lets nothing through that was not measured, and nothing that was measured too low.

Method: a stand-in for the suite's `score.py` that says what a test wants it to say, and real files around it.
"""
import contextlib
import gzip
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gate

# Says what `figures.json` beside it holds for the command and the file asked about.
SCORE = '''
import json, pathlib, sys
figures = json.loads((pathlib.Path(__file__).parent / "figures.json").read_text())
command = sys.argv[1]
about = next((pathlib.Path(a).name.split(".")[0] for a in sys.argv[2:] if any(kind in a for kind in (".ranked.", ".export.", ".selected."))), command)
code, text = figures[command + " " + about]
sys.stdout.write(text)
sys.exit(code)
'''


class Gate(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.top = pathlib.Path(self.scratch.name)
        for folder in ("suite", "data", "out"):
            (self.top / folder).mkdir()
        (self.top / "suite/score.py").write_text(SCORE)
        self.figures = {"grep grep": [0, "kind  n\n"]}
        for name, figure, _ in gate.RECALL:
            self.search(name, figure, 1.0)
            (self.top / f"data/{name}.queries.dev.jsonl").write_text("")
            self.packed(f"out/{name}.ranked.dev.jsonl.gz")
        (self.top / "data/pi.queries.dev.jsonl").write_text("")
        self.packed("out/pi.selected.dev.jsonl.gz")
        self.select()
        for name in gate.LOSSLESS:
            self.figures[f"lossless {name}"] = [0, "messages 12, lost or changed 0\n"]
            self.packed(f"data/{name}.sessions.jsonl.gz")
            self.packed(f"out/{name}.export.dev.jsonl.gz")
        self.rows("data/grep.queries.dev.jsonl", ["grep:1", "grep:2"])
        self.rows("out/grep.results.dev.jsonl", ["grep:1", "grep:2"])

    def search(self, name, figure, share):
        self.figures[f"search {name}"] = [0, json.dumps({"ALL": {"n": 3, figure: share}})]

    def select(self, share=1.0, far=1.0, over_budget=0, invalid=0):
        entries = {entry: {"n": 10, "coverage": share} for entry, _ in gate.SELECTED}
        entries |= {entry: {"n": 5, "coverage": far} for entry in gate.FAR}
        self.figures["select pi"] = [0, json.dumps({"over_budget": over_budget, "invalid": invalid, **entries})]

    def packed(self, path):
        (self.top / path).write_bytes(gzip.compress(b""))

    def rows(self, path, ids):
        (self.top / path).write_text("".join(json.dumps({"query_id": i, "ids": []}) + "\n" for i in ids))

    def outcome(self):
        """Exit code, and the lines that say MISSED."""
        (self.top / "suite/figures.json").write_text(json.dumps(self.figures))
        said = io.StringIO()
        given = [f"--{name}={self.top / name}" for name in ("suite", "data", "out")]
        was, sys.argv = sys.argv, ["gate.py", *given]
        try:
            with contextlib.redirect_stdout(said), self.assertRaises(SystemExit) as end:
                gate.main()
        finally:
            sys.argv = was
        return end.exception.code, [line for line in said.getvalue().splitlines() if line.startswith("MISSED")]

    def misses(self, *words):
        code, missed = self.outcome()
        self.assertEqual(code, 1)
        self.assertEqual(len(missed), 1, missed)
        for word in words:
            self.assertIn(word, missed[0])

    def test_everything_reached_passes(self):
        self.assertEqual(self.outcome(), (0, []))

    def test_a_recall_just_reached_passes(self):
        self.search("beam100K", "recall@10", 0.46)
        self.assertEqual(self.outcome(), (0, []))

    def test_a_recall_just_missed_fails(self):
        self.search("beam100K", "recall@10", 0.4599)
        self.misses("beam100K recall@10", "45.99")

    def test_a_set_that_was_not_run_is_missed(self):
        (self.top / "out/niah.ranked.dev.jsonl.gz").unlink()
        self.misses("niah recall@5", "missing")

    def test_selections_just_good_enough_pass(self):
        self.select(share=0.98, far=0.8)
        self.assertEqual(self.outcome(), (0, []))

    def test_selections_that_leave_out_too_much_fail(self):
        self.select(share=0.979)
        self.misses("pi ALL @64000", "97.90")

    def test_too_few_far_ones_fail(self):
        self.select(far=0.7)
        self.misses("pi far ones", " 7")

    def test_one_selection_over_its_budget_fails(self):
        self.select(over_budget=1)
        self.misses("over budget or invalid", " 1")

    def test_one_lost_message_fails(self):
        self.figures["lossless pi"] = [1, "DIFF a b\nmessages 12, lost or changed 1\n"]
        self.misses("pi lost or changed", "1")

    def test_an_export_of_nothing_is_missed(self):
        self.figures["lossless tau"] = [0, "messages 0, lost or changed 0\n"]
        self.misses("tau lost or changed", "no message was compared")

    def test_one_inexact_pattern_fails(self):
        self.figures["grep grep"] = [1, "DIFF grep:2 number 750 expected 3 got 2 common 2\n"]
        self.misses("grep not exact", " 1")

    def test_a_pattern_never_asked_fails(self):
        self.rows("out/grep.results.dev.jsonl", ["grep:1"])
        self.misses("grep not exact", " 1")

    def test_a_pattern_never_asked_and_listed_counts_once(self):
        self.rows("out/grep.results.dev.jsonl", ["grep:1"])
        self.figures["grep grep"] = [1, "DIFF grep:2 number 750 expected 3 got 0 common 0\n"]
        self.misses("grep not exact", " 1")

    def test_a_scorer_that_fails_is_missed_and_named(self):
        self.figures["search bfcl"] = [3, ""]
        self.misses("bfcl recall@5", "score.py failed")


if __name__ == "__main__":
    unittest.main()
