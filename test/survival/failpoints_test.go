package survival

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/devnode"
)

// passes is how often a daemon passes some points before it dies there. A daemon reaches these points while it
// starts, and once more for the pod that is added then.
var passes = map[failpoint.Point]int{
	failpoint.BeforeApply: 3, failpoint.AfterApply: 3, failpoint.BeforeStore: 3, failpoint.AfterStore: 3,
	failpoint.BeforeReport: 2, failpoint.AfterReport: 2,
	failpoint.BeforeCommit: 2, failpoint.AfterCommit: 2, failpoint.BeforePublish: 2,
}

// visitor is a kind of pod that takes podexecd past every point when it is added and removed, and that doesn't
// run without its volumes. When it stays, its helper has failed so often that the first of the helper's
// containers has been removed.
var visitor = kind{"visitor", v1.RestartPolicyAlways, 3, []part{
	{Container: Container{Name: "first", Fate: Ends, Init: true}, command: finds()},
	{Container: Container{Name: "main", Takes: 300 * time.Millisecond}, command: slowly(300 * time.Millisecond), probed: true},
	simple("helper", Settles, 0, "seq", "fail-once", "/life/one", "1", ";", "fail-once", "/life/two", "1", ";", "sleep"),
}, all}

// TestFailpoints kills a daemon at each point while a pod is added and removed, starts the daemon again, and
// checks that the node reaches the same final state. It uses the simulated runtime, and in `make robustness`,
// which may take longer, also containerd.
func TestFailpoints(t *testing.T) {
	t.Run("sim", func(t *testing.T) {
		testFailpoints(t, devnode.Sim, 3, "sim/app:1")
	})
	if _, long := robustnessTime(t, 0); long {
		t.Run("containerd-1.7", func(t *testing.T) {
			testFailpoints(t, devnode.Containerd17, 1, serveSample(t))
		})
		t.Run("containerd-2", func(t *testing.T) {
			testFailpoints(t, devnode.Containerd2, 1, serveSample(t))
		})
	}
}

// testFailpoints divides the points among a few sites. Each site tries its points one after the other, on a
// node of its own: if several podexecds listen to one runtime, each receives only a part of the events.
func testFailpoints(t *testing.T, runtime devnode.Runtime, sites int, image string) {
	var mu sync.Mutex
	reported := map[death]string{}
	t.Run("points", func(t *testing.T) {
		for i := range sites {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				node := startNode(t, devnode.Config{Runtime: runtime, BinDir: binaries(t, "failpoints")})
				s := newSite(t, node, "point")
				s.history.Whole = runtime == devnode.Sim
				for _, bystander := range []string{"server", "slow", "job", "family", "crasher"} {
					s.add(kindOf(bystander), "")
				}
				if err := s.quiet(patience); err != nil {
					t.Fatal(err)
				}
				for j, d := range deaths() {
					if j%sites != i {
						continue
					}
					outcome, err := s.dieAt(d, image)
					if err != nil {
						outcome = "FAILED"
					}
					mu.Lock()
					reported[d] = outcome
					mu.Unlock()
					if err != nil {
						// What this point left would fail the next ones.
						t.Errorf("%s: %v", d, err)
						break
					}
				}
				for _, b := range s.check() {
					t.Error(b)
				}
			})
		}
	})
	for _, d := range deaths() {
		t.Logf("%-64s %s", d, cmp.Or(reported[d], "not tried"))
	}
}

// death is a point at which a daemon dies.
type death struct {
	point failpoint.Point
	// late is set if the pod is replaced before the daemon starts again: the object that was being made is then
	// no longer desired.
	late bool
}

func (d death) String() string {
	if d.late {
		return string(d.point) + ", and the pod is replaced"
	}
	return string(d.point)
}

// deaths returns one death for each point that is passed here, and a late one for points where an object is
// being made for a pod.
func deaths() []death {
	var all []death
	for _, point := range failpoint.Points() {
		if !privileged() && slices.Contains(privilegedPoints, point) {
			continue
		}
		all = append(all, death{point: point})
		if slices.Contains(failpoint.SetUpPoints(), point) {
			all = append(all, death{point: point, late: true})
		}
	}
	return all
}

// privilegedPoints are passed only by a process that may mount and create cgroups.
var privilegedPoints = []failpoint.Point{
	failpoint.TmpfsMounted, failpoint.ContentWritten, failpoint.SubPathBound, failpoint.CgroupMade,
	failpoint.BeforeCgroupRemoval, failpoint.CgroupPartGone, failpoint.AfterCgroupRemoval,
}

// dieAt kills the daemon that has the point there, and returns the outcome.
func (s *site) dieAt(d death, image string) (string, error) {
	point, daemon, died, started := d.point, s.podexecd, AgentDied, AgentStarted
	if slices.Contains(failpoint.ConfigPoints(), point) {
		daemon, died, started = s.podconfigd, ConfigKilled, ConfigStarted
	}
	s.did(died, "", "it is stopped, to die at "+string(point))
	if err := daemon.Stop(); err != nil {
		return "", err
	}
	s.did(started, "", "")
	if err := startToDie(daemon, point); err != nil {
		return "", err
	}
	began, deaths, when := time.Now(), 0, ""
	name := ""
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a pod is added", func() { name = s.add(visitor, image) }},
		{"it is replaced", func() { s.renew(s.pods[name]) }},
		{"it is removed", func() { s.drop(name) }},
	} {
		step.do()
		err := s.quietOr(patience, daemon.Done())
		if errors.Is(err, errInterrupted) && deaths == 0 {
			deaths++
			when = step.what
			if err := diedAt(daemon, point); err != nil {
				return "", err
			}
			s.did(died, "", string(point))
			if d.late {
				s.renew(s.pods[name])
			}
			s.start(daemon, started)
			err = s.quiet(patience)
		}
		if err != nil {
			return "", fmt.Errorf("after %s: %w", step.what, err)
		}
	}
	if deaths == 0 {
		return "", errors.New("was never reached")
	}
	return fmt.Sprintf("died when %s; recovered after %v", when, time.Since(began).Round(time.Millisecond)), nil
}

func startToDie(p *devnode.Process, point failpoint.Point) error {
	value := string(point)
	if n := passes[point]; n > 0 {
		value = fmt.Sprintf("%s:%d", point, n)
	}
	return p.StartWith(failpoint.DieAt + "=" + value)
}

// diedAt returns nil if the process killed itself at the point.
func diedAt(p *devnode.Process, point failpoint.Point) error {
	err := p.Wait(context.Background())
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || !strings.Contains(p.LogTail(), "failpoint: dying at "+string(point)) {
		return fmt.Errorf("%s ended for another reason: %w; its output ends with:\n%s", p.Name, err, p.LogTail())
	}
	return nil
}
