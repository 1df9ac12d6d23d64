#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real servers with the agent: they behave as without it, and every long-lived process becomes a target."""
import os
import pathlib
import signal
import subprocess
import unittest
import urllib.request

from processes import AGENT, Case, agent_thread, ask, children_of, free_port, is_alive, jemalloc_path, need, wait_until

READY = "prof:true,prof_active:false"


def status_field(pid, name):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.split()[1:]
    return None


class Redis(Case):
    def test_answers_while_a_profile_is_taken(self):
        process, port = self.start_redis(conf=READY + ",lg_prof_sample:12")
        path = self.wait_for_agent(process.pid)
        self.assertEqual(ask(path, "/v1/activate", "POST")[0], 200)
        # Each value, key and entry of the table has a stack; of the smallest, 16 bytes at a time, 78 samples are expected.
        self.load_redis(port, keys=20000)
        status, profile = ask(path, "/v1/profile")
        self.assertEqual(status, 200)
        self.assertTrue(profile.startswith(b"heap_v2/4096\n"))
        self.assertIn(b"MAPPED_LIBRARIES:", profile)
        self.assertGreater(profile.count(b"\n@ "), 3)
        self.assertEqual(self.redis(port, "PING"), b"+PONG\r\n")

    def test_the_daemon_is_the_target_not_the_process_that_started_it(self):
        port = free_port()
        pidfile = os.path.join(self.folder, "redis.pid")
        process = self.start(need("redis-server"), "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", self.folder,
                             "--daemonize", "yes", "--pidfile", pidfile,
                             env=dict(LD_PRELOAD=AGENT, MALLOC_CONF=READY))
        self.assertEqual(process.wait(60), 0)
        pid = int(wait_until(lambda: os.path.exists(pidfile) and pathlib.Path(pidfile).read_text().strip(), "the pid file"))
        self.end_pid_later(pid)
        self.wait_for_agent(pid)
        self.assertEqual([name for name in os.listdir(self.agents) if name.endswith(".sock")], [f"{pid}.sock"])

    def test_a_saving_child_leaves_nothing_behind(self):
        process, port = self.start_redis()
        self.wait_for_agent(process.pid)
        self.load_redis(port, keys=500)
        for _ in range(3):
            self.redis(port, "BGSAVE")
            wait_until(lambda: b"rdb_bgsave_in_progress:0" in self.redis(port, "INFO", "persistence"), "the end of BGSAVE")
        # A child that took long enough to be a target, and ended by _exit(), has left its socket's name, which the next listing removes.
        self.heapctl("ps")
        self.assertEqual([name for name in os.listdir(self.agents) if name.endswith(".sock")], [f"{process.pid}.sock"])

    def test_ends_as_it_does_without_the_agent(self):
        process, port = self.start_redis()
        path = self.wait_for_agent(process.pid)
        self.redis(port, "SHUTDOWN", "NOSAVE")
        self.assertEqual(process.wait(60), 0)
        self.assertNotIn(process.pid, self.listed_pids())
        self.assertFalse(os.path.exists(path))


class Nginx(Case):
    def start_nginx(self):
        port = free_port()
        conf = os.path.join(self.folder, "nginx.conf")
        pathlib.Path(conf).write_text(f"""
            worker_processes 2; daemon off; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log;
            {"user root;" if os.getuid() == 0 else ""}
            events {{ worker_connections 64; }}
            http {{ access_log off; client_body_temp_path {self.folder}/b; proxy_temp_path {self.folder}/p;
                fastcgi_temp_path {self.folder}/f; uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s;
                server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello\\n"; }} }} }}""")

        def answers():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).read() == b"hello\n"
            except OSError:
                return False
        process = self.start(need("nginx"), "-c", conf, "-e", self.folder + "/error.log",
                             env=dict(LD_PRELOAD=f"{jemalloc_path()}:{AGENT}", MALLOC_CONF=READY), wait_for=answers)
        return process, answers

    def test_master_and_workers_are_targets_before_and_after_a_reload(self):
        process, answers = self.start_nginx()
        self.wait_for_agent(process.pid)
        workers = wait_until(lambda: len(children_of(process.pid)) == 2 and children_of(process.pid), "two workers")
        for pid in workers:
            self.assertEqual(ask(self.wait_for_agent(pid), "/v1/status")[1]["pid"], pid)
        process.send_signal(signal.SIGHUP)
        fresh = wait_until(lambda: len(children_of(process.pid)) == 2 and not set(children_of(process.pid)) & set(workers)
                           and children_of(process.pid), "two new workers")
        for pid in fresh:
            self.wait_for_agent(pid)
        self.assertTrue(answers())
        wait_until(lambda: not any(os.path.exists(self.socket_of(pid)) for pid in workers), "the old workers' sockets to be gone")


class Varnish(Case):
    def test_manager_and_worker_are_targets_and_the_compiler_is_not(self):
        process = self.start_varnish()
        self.wait_for_agent(process.pid)
        worker = wait_until(lambda: children_of(process.pid), "the worker")[0]
        self.wait_for_agent(worker)
        # sh, gcc, cc1, as and ld ran for the VCL: none of them may have a socket. Between fork and exec a child that is slow, on a busy
        # machine, is varnishd; its name goes when the next process looks.
        self.heapctl("ps")
        self.assertEqual(sorted(name for name in os.listdir(self.agents) if name.endswith(".sock")),
                         sorted(f"{pid}.sock" for pid in (process.pid, worker)))


@unittest.skipUnless(os.getuid() == 0, "needs root to drop privileges")
class DroppedPrivileges(Case):
    def test_named_keeps_its_user_and_answers(self):
        process, _ = self.start_named("-u", "bind", conf=READY)
        path = self.wait_for_agent(process.pid)
        wait_until(lambda: status_field(process.pid, "Uid")[1] != "0", "named to become bind")
        thread = wait_until(lambda: agent_thread(process.pid), "the agent's thread")
        # setuid() reaches every thread: libc does that by a signal that the agent must not block.
        wait_until(lambda: f"Uid:\t{status_field(process.pid, 'Uid')[0]}" in (thread / "status").read_text(),
                   "the agent's thread to follow")
        self.assertEqual(ask(path, "/v1/status")[0], 200)

    def test_memcached_as_nobody(self):
        port = free_port()
        process = self.start(need("memcached"), "-l", "127.0.0.1", "-p", port, "-u", "nobody",
                             env=dict(LD_PRELOAD=f"{jemalloc_path()}:{AGENT}", MALLOC_CONF=READY))
        path = self.wait_for_agent(process.pid)
        wait_until(lambda: status_field(process.pid, "Uid")[1] != "0", "memcached to become nobody")
        self.assertEqual(ask(path, "/v1/status")[1]["uid"], int(status_field(process.pid, "Uid")[1]))


class Helpers(Case):
    def test_programs_that_a_server_starts_get_no_agent(self):
        process, port = self.start_redis(env=dict(HEAPCTL_EXE="redis-server:redis-check-rdb"))
        self.wait_for_agent(process.pid)
        environment = dict(self.environment, LD_PRELOAD=AGENT, HEAPCTL_EXE="redis-server")
        helper = subprocess.Popen(["sleep", "600"], env=environment)
        self.addCleanup(self.end, helper)
        later = subprocess.Popen(["sleep", "600"], env=dict(environment, HEAPCTL_EXE="sleep"))
        self.addCleanup(self.end, later)
        self.wait_for_agent(later.pid)
        self.assertIsNone(agent_thread(helper.pid))
        self.assertFalse(os.path.exists(self.socket_of(helper.pid)))

    def test_a_program_may_make_a_user_namespace(self):
        plain = subprocess.run(["unshare", "-U", "true"], env=self.environment, capture_output=True)
        if plain.returncode != 0:
            self.skipTest("no user namespaces here")
        with_agent = subprocess.run(["unshare", "-U", "true"], capture_output=True, text=True,
                               env=dict(self.environment, LD_PRELOAD=AGENT, HEAPCTL_THREAD="on-demand"))
        self.assertEqual((with_agent.returncode, with_agent.stderr), (0, ""))

    def test_nothing_is_written_into_the_servers_output(self):
        for arguments in (["echo", "hello"], ["sh", "-c", "echo hello; exit 3"]):
            plain = subprocess.run(arguments, env=self.environment, capture_output=True)
            with_agent = subprocess.run(arguments, env=dict(self.environment, LD_PRELOAD=AGENT), capture_output=True)
            self.assertEqual((plain.returncode, plain.stdout, plain.stderr), (with_agent.returncode, with_agent.stdout, with_agent.stderr))

    def test_a_killed_server_leaves_a_socket_that_is_not_trusted(self):
        process, port = self.start_redis()
        path = self.wait_for_agent(process.pid)
        process.kill()
        process.wait()
        self.assertFalse(is_alive(process.pid))
        if os.path.exists(path):
            with self.assertRaises(OSError):
                ask(path, "/v1/status", timeout=5)
        _, complaint = self.heapctl("status", process.pid, code=1)
        self.assertIn(str(process.pid), complaint)


if __name__ == "__main__":
    unittest.main()
