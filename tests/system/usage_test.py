"""What the command line answers without a Kafka: help, and wrong usage with exit code 2."""

import os
import subprocess
import unittest

COMMANDS = ["worker", "check", "subscriptions", "replay", "dead-letters", "sink", "demo", "simulate", "schema", "import"]


def posthorn(*arguments):
    return subprocess.run([os.environ["POSTHORN_BINARY"], *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)


class Usage(unittest.TestCase):
    def test_help_names_every_command(self):
        run = posthorn("--help")
        self.assertEqual(run.returncode, 0)
        for command in COMMANDS:
            self.assertIn(command, run.stdout)

    def test_each_command_has_help(self):
        for command in COMMANDS:
            run = posthorn(command, "--help")
            self.assertEqual((command, run.returncode), (command, 0))
            self.assertIn("--help", run.stdout)

    def test_an_unknown_command_is_named_beside_those_there_are(self):
        for wrong in ("frob", "work", "", "worker check"):
            run = posthorn(wrong)
            self.assertEqual(run.returncode, 2)
            self.assertEqual(run.stdout, "")
            self.assertEqual(run.stderr, f"posthorn: there is no command `{wrong}`; there are: {' '.join(COMMANDS)} (posthorn --help)\n")

    def test_no_command_and_unknown_options_are_wrong_usage(self):
        for arguments in ((), ("--frob",), ("check", "--frob"), ("worker", "--frob")):
            self.assertEqual(posthorn(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main()
