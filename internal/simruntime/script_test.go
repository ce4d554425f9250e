package simruntime

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The scripts behave as the sample program.
func TestScriptsAreTheSampleProgram(t *testing.T) {
	sample := filepath.Join(t.TempDir(), "sample")
	build := exec.Command("go", "build", "-o", sample, "github.com/podstream/podstream/test/sample")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the sample program: %v\n%s", err, out)
	}
	t.Run("ending", func(t *testing.T) { testScriptsThatEnd(t, sample) })
	t.Run("running on", func(t *testing.T) { testScriptsThatRunOn(t, sample) })
}

// Commands that end print the same as the program and end with the same code.
func testScriptsThatEnd(t *testing.T, sample string) {
	// The simulated program has its own directory, mounted at the same path.
	dir := t.TempDir()
	file, once, nowhere := filepath.Join(dir, "file"), filepath.Join(dir, "once"), filepath.Join(dir, "no", "such", "file")
	e := environment{files: newFiles([]*runtimeapi.Mount{{ContainerPath: dir, HostPath: t.TempDir()}})}
	for _, args := range [][]string{
		{},
		{"dance"},
		{"exit"},
		{"exit", "0"},
		{"exit", "255"},
		{"exit", "256"},
		{"exit", "-1"},
		{"exit", "7", "0"},
		{"exit", "7", "soon"},
		{"sleep", "0"},
		{"sleep", "-1s"},
		{"sleep", "1s", "2s"},
		{"print"},
		{"env", "x"},
		{"cat", file},
		{"write", file, "one\ntwo\n"},
		{"cat", file},
		{"write", nowhere, "x"},
		{"exists", file},
		{"exists", nowhere},
		{"append", file, "three"},
		{"append", nowhere, "x"},
		{"cat", file},
		{"remove", file},
		{"remove", file},
		{"append", file, "again"},
		{"cat", file},
		{"fail-once", once, "256"},
		{"fail-once", nowhere, "3"},
		{"fail-once", once, "3"},
		{"fail-once", once, "3"},
		{"message", file, "why\n", "4"},
		{"message", file, "why", "x"},
		{"message", nowhere, "why", "4"},
		{"cat", file},
		{"seq", "cat", file, ";", "append", file, "z", ";", "cat", file, ";", "exit", "3", ";", "cat", file},
		{"seq", "exit", "0", "0", ";", "dance"},
		{"seq", "exit", "0", ";"},
		{"seq", "exit", "7"},
		{"seq"},
		{"diary", file},
		{"diary", nowhere, "exit", "0"},
		{"diary", file, "dance"},
		{"diary", file, "seq", "cat", once, ";", "exit", "3"},
		{"on-term", file},
		{"on-term", file, "x", "soon"},
		{"on-term", file, "x", "1s", "256"},
		{"serve", "--redy=x"},
		{"serve", "--ready"},
		{"serve", ":0", ":1"},
		{"serve", ":0", "--ready=a", "--live=b", "--start=c", "more"},
		{"grpc-health", ":0"},
		{"stdin"},
		{"stdin", "x"},
		{"tty"},
		{"tty", "80x24"},
		{"hog", "much"},
		{"pause", "x"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(sample, args...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // the exit code is compared below
			p, err := play(append([]string{program}, args...), e)
			if err != nil {
				t.Fatal(err)
			}
			if p.runsOn || int(p.exitCode) != cmd.ProcessState.ExitCode() {
				t.Errorf("plays %+v, the program ends with %d", p, cmd.ProcessState.ExitCode())
			}
			if string(output(p.stdout)) != stdout.String() {
				t.Errorf("plays stdout %q, the program prints %q", output(p.stdout), stdout.String())
			}
			// The simulation doesn't print the usage text after an error.
			first, _, _ := strings.Cut(stderr.String(), "\n")
			if simulated, _, _ := strings.Cut(string(output(p.stderr)), "\n"); simulated != first {
				t.Errorf("plays stderr %q, the program prints %q", simulated, first)
			}
		})
	}
}

// Commands that run on print the same first line, and end with the same code on SIGTERM.
func testScriptsThatRunOn(t *testing.T, sample string) {
	for _, args := range [][]string{
		{"print", "one", "two"},
		{"hog", "1"},
		{"serve"},
		{"serve", "--ready=/ready"},
		{"seq", "exit", "0", ";", "print", "three"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			cmd := exec.Command(sample, args...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Error(err)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // the exit code is compared below
			hostname, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			p, err := play(append([]string{program}, args...), environment{hostname: hostname})
			if err != nil {
				t.Fatal(err)
			}
			if !p.runsOn || p.ignoresTerm || int(p.termCode) != cmd.ProcessState.ExitCode() {
				t.Errorf("plays %+v, the program ends with %d on SIGTERM", p, cmd.ProcessState.ExitCode())
			}
			// The process ID isn't compared. It is always 1 in the simulation.
			want, _, _ := strings.Cut(line, "pid=")
			if got, _, _ := strings.Cut(string(output(p.stdout)), "pid="); got != want {
				t.Errorf("plays %q, the program prints %q", got, want)
			}
		})
	}
}

func TestArgv(t *testing.T) {
	for _, test := range []struct{ command, args, want []string }{
		{nil, nil, []string{"/sample", "serve"}},
		{nil, []string{"exit", "1"}, []string{"/sample", "exit", "1"}},
		{[]string{"/sample"}, nil, []string{"/sample"}},
		{[]string{"/sample", "sleep"}, []string{"1h"}, []string{"/sample", "sleep", "1h"}},
		{[]string{"sh"}, []string{"-c", "true"}, []string{"sh", "-c", "true"}},
	} {
		got := argv(&runtimeapi.ContainerConfig{Command: test.command, Args: test.args})
		if !slices.Equal(got, test.want) {
			t.Errorf("argv(%q, %q) = %q, want %q", test.command, test.args, got, test.want)
		}
	}
}

// A sequence continues after a command that takes time, until a command fails.
func TestSequence(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	shared := t.TempDir()
	run := func(name string, args ...string) string {
		config := containerConfig(name, args...)
		config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/shared", HostPath: shared}}
		return h.run(sandbox, pod, config)
	}
	ends := run("ends", "seq", "append", "/shared/log", "a", ";", "exit", "0", "5s", ";", "append", "/shared/log", "b", ";",
		"sleep", "6s", ";", "cat", "/shared/log", ";", "exit", "3")
	stays := run("stays", "seq", "sleep", "5s", ";", "serve")
	stopped := run("stopped", "seq", "sleep", "1h", ";", "remove", "/shared/log")
	for _, id := range []string{ends, stays, stopped} {
		if s := h.status(id); s.GetState() != running {
			t.Errorf("container is %v", s)
		}
	}
	h.clock.Step(5 * time.Second)
	h.waitTimer(6 * time.Second)
	if err := h.runtime.StopContainer(t.Context(), stopped, 30); err != nil {
		t.Fatal(err)
	}
	h.wantExit(stopped, 143, "Error")
	h.clock.Step(6 * time.Second)
	h.waitExit(ends)
	h.wantExit(ends, 3, "Error")
	if log := h.logs("ends"); log != "stdout F a\nstdout F b\n" {
		t.Errorf("log %q", log)
	}
	if err := h.runtime.StopContainer(t.Context(), stays, 30); err != nil {
		t.Fatal(err)
	}
	if log := h.logs("stays"); !strings.HasPrefix(log, "stdout F serving") {
		t.Errorf("log %q", log)
	}
}

// On SIGTERM, on-term appends its text at once and ends after its delay. SIGKILL can end it before that.
func TestOnTerm(t *testing.T) {
	h := start(t, Config{})
	shared := t.TempDir()
	run := func(name string, args ...string) string {
		sandbox, pod := h.pod(name)
		config := containerConfig(name, args...)
		config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/shared", HostPath: shared}}
		return h.run(sandbox, pod, config)
	}
	at := run("at", "on-term", "/shared/log", "at once")
	slow := run("slow", "seq", "write", "/x", "x", ";", "on-term", "/shared/log", "slow", "10s", "0")
	killed := run("killed", "on-term", "/shared/log", "killed", "1h")
	failing := run("failing", "on-term", "/shared/no/such/file", "x")
	if err := h.runtime.StopContainer(t.Context(), at, 30); err != nil {
		t.Fatal(err)
	}
	h.wantExit(at, 143, "Error")
	if err := h.runtime.StopContainer(t.Context(), failing, 30); err != nil {
		t.Fatal(err)
	}
	h.wantExit(failing, 1, "Error")
	call := h.stopping(t.Context(), slow, 30)
	h.waitTimer(10 * time.Second)
	h.clock.Step(10 * time.Second)
	if err := <-call; err != nil {
		t.Error(err)
	}
	h.wantExit(slow, 0, "Completed")
	call = h.stopping(t.Context(), killed, 30)
	h.waitTimer(time.Hour)
	h.clock.Step(30 * time.Second)
	if err := <-call; err != nil {
		t.Error(err)
	}
	h.wantExit(killed, 137, "Error")
	if content, err := os.ReadFile(filepath.Join(shared, "log")); err != nil || string(content) != "at once\nslow\nkilled\n" {
		t.Errorf("the log contains %q, %v", content, err)
	}
}
