#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every variable with a guard is initialised where it is declared, and the checker finds those that are not."""
import pathlib
import unittest

import guards


def lines(text):
    return [line for line, _ in guards.faults_of_text(text)]


class Guards(unittest.TestCase):
    def test_the_tree_obeys(self):
        self.assertEqual(guards.faults(pathlib.Path(__file__).resolve().parents[2]), [])

    def test_a_variable_without_a_value_is_found(self):
        self.assertEqual(lines("int f(void)\n{\n\tCLEANUP(buffer_cleanup) struct buffer out;\n"), [3])
        self.assertEqual(lines("CLEANUP(free_cleanup)\nchar *text;\n"), [1])
        self.assertEqual(lines("CLEANUP(a) __attribute__((unused)) struct thing *const thing;"), [1])
        self.assertEqual(lines("CLEANUP(a) struct thing things[4];"), [1])
        self.assertEqual(lines("__attribute__((cleanup(a))) int fd;"), [1])

    def test_the_first_of_two_is_found(self):
        self.assertEqual(lines("CLEANUP(fd_cleanup) int a, b = -1;"), [1])

    def test_a_value_is_enough(self):
        self.assertEqual(lines("CLEANUP(a) struct thing thing = { 0 };"), [])
        self.assertEqual(lines("CLEANUP(a) __attribute__((unused, aligned(8))) int *b = f(c, d);"), [])
        self.assertEqual(lines("CLEANUP(free_cleanup)\n\tstruct x *x =\n\t\tmake(1, 2);"), [])

    def test_comments_texts_and_macros_are_no_declarations(self):
        self.assertEqual(lines('/* CLEANUP(a) int b; */ // CLEANUP(a) int b;\nchar *c = "CLEANUP(a) int b;";'), [])
        self.assertEqual(lines("#define HOLD(x) \\\n\tCLEANUP(a) \\\n\tint b = lock(x)\n"), [])


if __name__ == "__main__":
    unittest.main()
