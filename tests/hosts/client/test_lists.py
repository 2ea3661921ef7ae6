"""What is sent of a list, and what is kept of it.

Method: lists are changed at random and sent through the two functions that make a difference and apply one; what comes
out of the copy must be the list, whatever the host did to its own objects meanwhile.
"""
import copy
import datetime
import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import lcm

SEED = int(os.environ.get("LCM_TEST_SEED", "20261130"))


def message(of, number):
    # Some are said again and again.
    number = number if of.random() < 0.5 else number % 3
    return {"role": of.choice(["user", "assistant"]), "content": [{"type": "text", "text": f"m{number}"}], "n": number}


def changed(of, messages, number):
    """A list as a host makes it of the one before: longer, shorter, edited here and there, in place or not."""
    messages = list(messages)
    for _ in range(of.randrange(4)):
        number += 1
        kind = of.randrange(5)
        at = of.randrange(len(messages) + 1)
        if kind == 0:
            messages += [message(of, number + nth) for nth in range(3)]
        elif kind == 1:
            messages.insert(at, message(of, number))
        elif kind == 2:
            del messages[at:at + of.randrange(3)]
        elif kind == 3 and messages:
            messages[at % len(messages)]["content"][0]["text"] += " edited in place"
        elif messages:
            messages[at % len(messages)] = message(of, number)
    return messages, number + 3


class Differences(unittest.TestCase):
    def test_a_list_is_what_its_differences_make_of_the_one_before(self):
        of = random.Random(SEED)
        messages, number, bases = [], 0, []
        for round_ in range(600):
            messages, number = changed(of, messages, number)
            sent, kept = lcm._delta("turn", bases, messages)
            self.assertEqual(kept, messages, f"seed {SEED}, round {round_}")
            if "base" in sent:
                before = next(old for base, old in bases if base == sent["base"])
                self.assertEqual(lcm._spliced(before, sent["splices"]), messages, f"seed {SEED}, round {round_}")
            else:
                self.assertEqual(sent["all"], messages)
            bases = ([(f"b{round_}", kept)] + bases)[:4]

    def test_what_did_not_change_is_not_sent(self):
        before = [{"role": "user", "content": f"m{n}"} for n in range(100)]
        _, kept = lcm._delta("turn", [], before)
        sent, again = lcm._delta("turn", [("b1", kept)], before)
        self.assertEqual(sent, {"base": "b1", "splices": []})
        self.assertIs(again, kept)
        longer = before + [{"role": "user", "content": "new"}]
        sent, _ = lcm._delta("turn", [("b1", kept)], longer)
        self.assertEqual(sent, {"base": "b1", "splices": [[100, 0, [{"role": "user", "content": "new"}]]]})

    def test_edits_far_apart_do_not_send_what_lies_between(self):
        before = [{"role": "user", "content": f"m{n}"} for n in range(100)]
        _, kept = lcm._delta("turn", [], before)
        after = copy.deepcopy(before)
        after[3]["content"], after[90]["content"], after[91]["content"] = "x", "y", "z"
        sent, _ = lcm._delta("turn", [("b1", kept)], after)
        self.assertEqual([(start, delete, len(new)) for start, delete, new in sent["splices"]], [(3, 1, 1), (90, 2, 2)])

    def test_of_several_lists_the_nearest_is_built_upon(self):
        system = {"role": "system", "content": "sys"}
        own = [{"role": "user", "content": f"m{n}"} for n in range(50)]
        shorter = [{"role": "user", "content": "fold"}] + own[40:]
        known = [("b2", lcm._delta("turn", [], shorter)[1]), ("b1", lcm._delta("turn", [], own)[1])]
        self.assertEqual(lcm._delta("turn", known, own)[0], {"base": "b1", "splices": []})
        self.assertEqual(lcm._delta("turn", known, [system] + shorter)[0], {"base": "b2", "splices": [[0, 0, [system]]]})

    def test_a_host_that_changes_its_objects_changes_no_copy(self):
        host = [{"role": "user", "content": [{"type": "text", "text": "said"}], "calls": {"a": [1, {"b": 2}]}}]
        _, kept = lcm._delta("turn", [], host)
        host[0]["content"][0]["text"] = "rewritten"
        host[0]["calls"]["a"][1]["b"] = 3
        host[0]["new"] = True
        self.assertEqual(kept, [{"role": "user", "content": [{"type": "text", "text": "said"}], "calls": {"a": [1, {"b": 2}]}}])
        sent, _ = lcm._delta("turn", [("b1", kept)], host)
        self.assertEqual(sent["splices"], [[0, 1, host]])

    def test_objects_that_cannot_be_compared_are_new_each_time(self):
        class Moody:
            def __eq__(self, other):
                raise RuntimeError("no")
            __hash__ = None
            def __str__(self):
                return "moody"
        host = [{"a": 1}, {"b": Moody()}, {"c": 3}]
        _, kept = lcm._delta("turn", [], host)
        sent, _ = lcm._delta("turn", [("b1", kept)], host)
        self.assertEqual(sent["splices"], [[1, 1, [{"b": "moody"}]]])


class Lines(unittest.TestCase):
    def through(self, value):
        line = lcm._line(lcm._copied(value))
        self.assertEqual(line.count(b"\n"), 1)
        return json.loads(line)

    def test_every_json_value_passes(self):
        values = [
            {"text": "\ud83d alone, \U0001F600 whole, line\nend, \u2028, nul \0"}, {"n": [1e400, -1e400, 2 ** 200, -0.0, 1e-320]},
            {"deep": [[[[{}]]]]}, {"": None, "a": [True, False]},
        ]
        for value in values:
            self.assertEqual(self.through(value), value)
        self.assertIn(b"NaN", lcm._line({"n": float("nan")}))
        self.assertEqual(json.loads(lcm._line({"n": 2 ** 10000}), parse_int=lcm._number), {"n": 2 ** 10000})

    def test_what_is_no_json_is_sent_as_text_and_ends_no_turn(self):
        class Own:
            pass
        value = {
            "bytes": b"\xff", "tuple": (1, 2), "set": {"b", "a"}, "when": datetime.date(2026, 11, 30), "own": Own(),
            7: "seven", (1, 2): "a pair", "long": 10 ** 5000,
        }
        got = self.through(value)
        self.assertEqual(got["bytes"], "base64:/w==")
        self.assertEqual(got["tuple"], [1, 2])
        self.assertEqual(got["set"], ["a", "b"])
        self.assertEqual(got["when"], "2026-11-30")
        self.assertEqual(got["own"], "<Own>")
        self.assertEqual((got["7"], got["(1, 2)"]), ("seven", "a pair"))
        self.assertEqual(int(got["long"], 16), 10 ** 5000)
        self.assertEqual(self.through(value), got, "the same each time")

    def test_what_contains_itself_has_an_error_of_its_own(self):
        loop = {"role": "user"}
        loop["content"] = [loop]
        with self.assertRaisesRegex(lcm.LcmUnsendable, "message 1 of turn cannot be sent"):
            lcm._delta("turn", [], [{}, loop])

    def test_splices_that_do_not_fit_are_refused(self):
        for wrong in ([[2, 0, []]], [[0, 2, []]], [[-1, 0, []]], [[0, -1, []]], [[0]], [None]):
            with self.assertRaises((ValueError, TypeError)):
                lcm._spliced([{}], wrong)


if __name__ == "__main__":
    unittest.main()
