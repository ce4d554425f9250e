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

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The scripts and the sample program are two tellings of one story.
func TestScriptsAreTheSampleProgram(t *testing.T) {
	sample := filepath.Join(t.TempDir(), "sample")
	build := exec.Command("go", "build", "-o", sample, "github.com/podstream/podstream/test/sample")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the sample program: %v\n%s", err, out)
	}
	t.Run("ending", func(t *testing.T) { testScriptsThatEnd(t, sample) })
	t.Run("running on", func(t *testing.T) { testScriptsThatRunOn(t, sample) })
}

// What ends prints the same and ends with the same code.
func testScriptsThatEnd(t *testing.T, sample string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	w := world{files: newFiles([]*runtimeapi.Mount{{ContainerPath: dir, HostPath: dir}})}
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
		{"write", filepath.Join(dir, "no", "such", "file"), "x"},
		{"hog", "much"},
		{"pause", "x"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(sample, args...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // the exit code tells
			p, err := play(append([]string{program}, args...), w)
			if err != nil {
				t.Fatal(err)
			}
			if p.runsOn || int(p.exitCode) != cmd.ProcessState.ExitCode() {
				t.Errorf("plays %+v, the program ends with %d", p, cmd.ProcessState.ExitCode())
			}
			if string(output(p.stdout)) != stdout.String() {
				t.Errorf("plays stdout %q, the program prints %q", output(p.stdout), stdout.String())
			}
			// The usage that follows a misuse is left out.
			first, _, _ := strings.Cut(stderr.String(), "\n")
			if simulated, _, _ := strings.Cut(string(output(p.stderr)), "\n"); simulated != first {
				t.Errorf("plays stderr %q, the program prints %q", simulated, first)
			}
		})
	}
}

// What runs on prints the same first line and ends alike on SIGTERM.
func testScriptsThatRunOn(t *testing.T, sample string) {
	for _, args := range [][]string{{"print", "one", "two"}, {"hog", "1"}, {"serve"}} {
		t.Run(args[0], func(t *testing.T) {
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
			_ = cmd.Wait() // the exit code tells
			hostname, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			p, err := play(append([]string{program}, args...), world{hostname: hostname})
			if err != nil {
				t.Fatal(err)
			}
			if !p.runsOn || p.ignoresTerm || int(p.termCode) != cmd.ProcessState.ExitCode() {
				t.Errorf("plays %+v, the program ends with %d on SIGTERM", p, cmd.ProcessState.ExitCode())
			}
			// All but the process ID, which is always 1 in the simulation.
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
