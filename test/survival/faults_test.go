//go:build failpoints

package survival

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/test/devnode"
)

// faultPatience is the time limit for a quiet point where the fault may prevent it.
const faultPatience = 10 * time.Second

// slowest takes longer to end than 2 s, which is the shortest grace period of a container.
var slowest = kind{"slowest", v1.RestartPolicyAlways, 10, []part{simple("main", Stays, 6*time.Second, slowly(6*time.Second)...)}, objects}

// TestExecFaults plants the faults of podexecd one by one, and expects that the checker for each fault reports
// it. It uses the simulated runtime, and in `make robustness` also containerd 2.
func TestExecFaults(t *testing.T) {
	t.Run("sim", func(t *testing.T) { testExecFaults(t, devnode.Sim) })
	if _, long := robustnessTime(t, 0); long {
		t.Run("containerd-2", func(t *testing.T) { testExecFaults(t, devnode.Containerd2) })
	}
}

func testExecFaults(t *testing.T, runtime devnode.Runtime) {
	want := map[failpoint.Name]string{
		failpoint.DoubleStart: "Once", failpoint.RestartAdopted: "Unharmed", failpoint.LeakSandbox: "Clean",
		failpoint.LeaveDirectory: "Clean", failpoint.LeaveCgroup: "Clean", failpoint.ShortGrace: "Grace", failpoint.UntoldGrace: "Grace",
		failpoint.ForgetReadiness: "Steady",
	}
	for _, fault := range append(failpoint.ExecNames(), "") {
		t.Run("fault "+string(fault), func(t *testing.T) {
			t.Parallel()
			node := startNode(t, devnode.Config{
				Runtime: runtime, BinDir: binaries(t, "failpoints"), DaemonEnv: []string{failpoint.Variable + "=" + string(fault)},
			})
			s := newSite(t, node, "fault")
			s.history.Whole = runtime == devnode.Sim
			// The node comes to rest before the faults that leave something behind show.
			begin, rest := patience, patience
			switch want[fault] {
			case "Once":
				begin, rest = faultPatience, faultPatience
			case "Clean":
				rest = faultPatience
			}
			live(s, begin, rest)
			if fault == "" || fault == failpoint.UntoldGrace {
				beAway(s, rest)
			}
			var reported []string
			for _, b := range s.check() {
				reported = append(reported, b.Checker)
				if len(reported) <= 10 {
					t.Log(b)
				}
			}
			if fault == "" && len(reported) > 0 || fault != "" && !slices.Contains(reported, want[fault]) {
				t.Errorf("with the fault %q these checkers report a breach: %v; want %q", fault, reported, want[fault])
			}
		})
	}
}

// live runs a sequence of events that shows every fault: pods are added, podexecd is killed, also while a pod is being
// ended, and pods are removed. It returns early if a fault keeps the node from a quiet point: the checkers report that.
// The time limit for a quiet point is begin after each step until the first pod is removed, and then rest.
func live(s *site, begin, rest time.Duration) {
	var stays, goes string
	restart := func() {
		s.kill(s.podexecd, AgentKilled)
		s.start(s.podexecd, AgentStarted)
	}
	for i, step := range []func(){
		func() { stays, goes = s.add(kindOf("server"), ""), s.add(slowest, "") },
		func() { s.awaitReady(2); restart() },
		func() { s.drop(goes); s.awaitTerm(); restart() },
		func() { s.drop(stays) },
	} {
		step()
		within := rest
		if i < 2 {
			within = begin
		}
		if s.quiet(within) != nil {
			return
		}
	}
}

// patient takes longer to end than 2 s, which is the shortest grace period of a container, and less than its own grace
// period: both by more than early, so that a kill after 2 s shows.
var patient = kind{"patient", v1.RestartPolicyAlways, 7, []part{simple("main", Stays, 5*time.Second, slowly(5*time.Second)...)}, few}

// beAway kills podexecd after it has received the removal of a pod, and before it has stopped a container.
// podexecd stays away for longer than the grace period.
func beAway(s *site, rest time.Duration) {
	s.kill(s.podexecd, AgentKilled)
	s.did(AgentStarted, "", "")
	point := failpoint.BeforeCall("StopContainer")
	if err := startToDie(s.podexecd, point); err != nil {
		s.t.Fatal(err)
	}
	name := s.add(patient, "")
	if err := s.quiet(patience); err != nil {
		s.t.Fatal(err)
	}
	s.drop(name)
	if err := diedAt(s.podexecd, point); err != nil {
		s.t.Fatal(err)
	}
	s.did(AgentDied, "", string(point))
	away := time.NewTimer(time.Duration(patient.grace+1) * time.Second)
	<-away.C
	s.start(s.podexecd, AgentStarted)
	_ = s.quiet(rest) // the checkers report why there is none
}

// awaitReady returns when this many pods are ready, and podexecd has had time to store that. If a start can be cut short,
// the containers then also have run for so long that a kill of podexecd is no cause of a restart.
func (s *site) awaitReady(n int) {
	s.await(fmt.Sprintf("%d pods to be ready", n), func(h *History) bool {
		ready, since := map[string]bool{}, unwritten
		if !h.Whole {
			since = max(since, tooYoung)
		}
		for _, status := range h.Statuses {
			ready[status.UID] = status.Ready && time.Since(status.At) > since
		}
		return len(ready) == n && !slices.Contains(slices.Collect(maps.Values(ready)), false)
	})
}

// awaitTerm returns when a container has received SIGTERM.
func (s *site) awaitTerm() {
	s.await("a container to get SIGTERM", func(h *History) bool {
		return slices.ContainsFunc(h.Runs, func(r Run) bool { return !r.Term.IsZero() && r.End.IsZero() })
	})
}

func (s *site) await(what string, is func(*History) bool) {
	poll, deadline := time.NewTicker(20*time.Millisecond), time.NewTimer(patience)
	defer poll.Stop()
	defer deadline.Stop()
	for {
		h, err := s.whole(s.path("life"))
		if err != nil {
			s.t.Fatal(err)
		}
		if is(h) {
			return
		}
		select {
		case <-poll.C:
		case <-deadline.C:
			s.t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
