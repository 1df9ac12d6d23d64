#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' manifests, the Compose file and the Dockerfiles follow their schemas, and the checker finds what does not."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKER = ROOT / "tests/support/check_manifests.mjs"
PACKAGES = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "heapctl-test"
COMPOSE, DOCKERFILE = "contrib/container/compose.yaml", "contrib/container/Dockerfile"
GATEWAY, SIDECAR = "gateway/daemonset.yaml", "sidecar/sidecar.yaml"


def check(kind, path, packages=PACKAGES):
    done = subprocess.run(["node", CHECKER, packages, kind, path], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Manifests(unittest.TestCase):
    def setUp(self):
        if not (PACKAGES / "node_modules/kubernetes-models").exists():
            self.skipTest("the schemas of manifests are not installed; scripts/setup lint fetches them")

    def assert_found(self, kind, path, old, new, words):
        """With one text replaced by another, the checker says this."""
        with tempfile.TemporaryDirectory() as folder:
            changed = pathlib.Path(folder) / "changed"
            if kind == "kubernetes":
                shutil.copytree(ROOT / "contrib/kubernetes", changed)
                file = changed / path
            else:
                file = changed
                shutil.copy(ROOT / path, changed)
            text = file.read_text()
            self.assertIn(old, text)
            file.write_text(text.replace(old, new, 1))
            status, said = check(kind, changed)
            self.assertEqual(status, 1, said)
            self.assertIn(words, said)

    def test_all_are_as_their_schemas_say(self):
        for kind, path in (("kubernetes", "contrib/kubernetes"), ("compose", COMPOSE), ("dockerfile", DOCKERFILE), ("dockerfile", "contrib/oss-fuzz/Dockerfile")):
            with self.subTest(path):
                self.assertEqual(check(kind, path), (0, ""))

    def test_a_field_that_there_is_not_is_found(self):
        for path, old, new, words in ((GATEWAY, "hostPID", "hostPid", "/spec/template/spec/hostPid: there is no such field"),
                                      (GATEWAY, "readOnlyRootFilesystem: true", "readonlyRootFilesystem: true", "readonlyRootFilesystem"),
                                      (SIDECAR, "shareProcessNamespace", "shareProcesses", "/spec/template/spec/shareProcesses"),
                                      ("inject.yaml", "emptyDir: {medium", "emptyDir: {media", "/volumes/0/emptyDir/media"),
                                      ("gateway/kustomization.yaml", "resources:", "resource: []\nresources:", "resource is not known")):
            with self.subTest(new):
                self.assert_found("kubernetes", path, old, new, words)
        self.assert_found("compose", COMPOSE, "read_only: true", "readonly: true", "readonly")

    def test_a_value_of_the_wrong_type_is_found(self):
        self.assert_found("kubernetes", GATEWAY, "containerPort: 7070", 'containerPort: "7070"', '/spec/template/spec/containers/0/ports/0/containerPort: type')
        self.assert_found("kubernetes", GATEWAY, "defaultMode: 256", 'defaultMode: "0400"', "defaultMode: type")
        self.assert_found("compose", COMPOSE, "depends_on: [server]", "depends_on: 1", "depends_on")

    def test_names_that_lead_nowhere_are_found(self):
        for path, old, new, words in ((GATEWAY, "{name: cache, mountPath: /cache}", "{name: cash, mountPath: /cache}", "mounts cash"),
                                      (SIDECAR, "kind: Deployment", "kind: StatefulSet", "no StatefulSet cache to patch"),
                                      ("sidecar/kustomization.yaml", "path: sidecar.yaml", "path: other.yaml", "there is no other.yaml"),
                                      ("gateway/kustomization.yaml", "{name: heapctl, newName", "{name: other, newName", "no container has the image other"),
                                      ("inject.yaml", "kind: ClusterPolicy", "", "without apiVersion or kind")):
            with self.subTest(new):
                self.assert_found("kubernetes", path, old, new, words)
        self.assert_found("compose", COMPOSE, "depends_on: [server]", "depends_on: [other]", "depends on other")

    def test_faults_of_a_dockerfile_are_found(self):
        for old, new, words in (("FROM debian:12-slim", "FROM debian", "debian has no version"), ("--from=build", "--from=built", "no stage built"),
                                ("EXPOSE 7070", "EXPOSE port", "port"), ("apt-get install -y", "apt-get install", "without -y"), ("USER 65532", "USR 65532", "USR")):
            with self.subTest(new):
                self.assert_found("dockerfile", DOCKERFILE, old, new, words)

    def test_without_the_schemas_nothing_is_judged(self):
        self.assertEqual(check("dockerfile", DOCKERFILE, "/nonexistent")[0], 3)


if __name__ == "__main__":
    unittest.main()
