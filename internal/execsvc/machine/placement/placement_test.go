package placement

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/cgroups"
	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/roottest"
)

// placeVariable has a test's process move itself to a cgroup, and print its cgroups.
const placeVariable = "PODSTREAM_TEST_KUBELET_CGROUPS"

func TestMain(m *testing.M) {
	if name := os.Getenv(placeVariable); name != "" {
		p, err := New(Config{KubeletCgroups: name})
		if err == nil {
			err = p.Place()
		}
		if err == nil {
			// In its cgroup already.
			err = p.Place()
		}
		text, _ := os.ReadFile("/proc/self/cgroup")
		fmt.Printf("%v %t\n%s", err, within(p.kubelet, name), text)
		return
	}
	goleak.VerifyTestMain(m)
}

// newCgroup returns the name of a cgroup of the test, which is removed at the end.
func newCgroup(t *testing.T) string {
	t.Helper()
	roottest.Need(t, "creating cgroups")
	name := "/podstream-test-" + rand.Text()
	t.Cleanup(func() {
		m, err := open(name)
		if err == nil {
			err = m.Destroy()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return name
}

// TestKubeletCgroups: the process is in its cgroup in each hierarchy.
func TestKubeletCgroups(t *testing.T) {
	name := newCgroup(t)
	m, err := open(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), placeVariable+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first, rest, _ := strings.Cut(string(out), "\n")
	if first != "<nil> true" {
		t.Errorf("the process is moved with %s; want no error, and that it is there", first)
	}
	for controller := range m.GetPaths() {
		if controller != devices && !regexp.MustCompile(`(?m)^[0-9]+:([^:]+,)?`+controller+`(,[^:]+)?:`+name+`$`).MatchString(rest) {
			t.Errorf("the process isn't there in the hierarchy of %q:\n%s", controller, rest)
		}
	}
}

// sleeper starts a process in a cgroup, until the test ends.
func sleeper(t *testing.T, in cgroups.Manager) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := in.Apply(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// TestSystemCgroups: each process that is in the root cgroup, one that comes later too, is in the other one within a minute.
// Processes elsewhere stay.
func TestSystemCgroups(t *testing.T) {
	root, system, elsewhere := newCgroup(t), newCgroup(t), newCgroup(t)
	synctest.Test(t, func(t *testing.T) {
		from, to, apart := opened(t, root), opened(t, system), opened(t, elsewhere)
		first, second, other := sleeper(t, from), sleeper(t, from), sleeper(t, apart)
		p, err := New(Config{SystemCgroups: system, Root: root})
		if err != nil {
			t.Fatal(err)
		}
		go p.Run(t.Context())
		synctest.Wait()
		want(t, to, first, second)
		third := sleeper(t, from)
		time.Sleep(period)
		synctest.Wait()
		want(t, to, first, second, third)
		want(t, from)
		want(t, apart, other)
	})
}

func opened(t *testing.T, name string) cgroups.Manager {
	t.Helper()
	m, err := open(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// want checks the processes of a cgroup.
func want(t *testing.T, m cgroups.Manager, pids ...int) {
	t.Helper()
	got, err := processes(m)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(pids)
	if !slices.Equal(got, pids) {
		t.Errorf("%s has the processes %v; want %v", m.Path("memory"), got, pids)
	}
}

// TestCantMove: processes that can't be moved stay, the reason is logged once, and each minute it is tried again.
func TestCantMove(t *testing.T) {
	root, file := newCgroup(t), newCgroup(t)
	synctest.Test(t, func(t *testing.T) {
		if err := opened(t, file).Apply(-1); err != nil {
			t.Fatal(err)
		}
		from := opened(t, root)
		stays := sleeper(t, from)
		var out logtest.Buffer
		p, err := New(Config{
			SystemCgroups: file + "/cgroup.procs/s", KubeletCgroups: file + "/cgroup.procs/k", Root: root, Logger: slog.New(slog.NewTextHandler(&out, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		go p.Run(t.Context())
		synctest.Wait()
		for _, setting := range []string{"systemCgroups: move the process " + strconv.Itoa(stays), "kubeletCgroups: move podexecd"} {
			if !strings.Contains(out.String(), setting) {
				t.Errorf("the log has no %q:\n%s", setting, out.String())
			}
		}
		time.Sleep(3 * period)
		synctest.Wait()
		if n := out.Count("in their cgroup"); n != 1 {
			t.Errorf("the reason is logged %d times:\n%s", n, out.String())
		}
		want(t, from, stays)
	})
}

func TestMovable(t *testing.T) {
	if movable(1) {
		t.Error("the first process is moved")
	}
	if !movable(os.Getpid()) {
		t.Error("this process isn't moved")
	}
	// PID 2 of a machine is a thread of the kernel; in a container it may be anything, or nothing.
	if text, err := os.ReadFile("/proc/2/comm"); err == nil && strings.TrimSpace(string(text)) == "kthreadd" && movable(2) {
		t.Error("a thread of the kernel is moved")
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if movable(gone.Process.Pid) {
		t.Errorf("the process %s, which has ended, is moved", strconv.Itoa(gone.Process.Pid))
	}
}
