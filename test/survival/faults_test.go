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

// faultPatience is how long a quiet point may take to come where the fault may well keep it from coming at all.
const faultPatience = 10 * time.Second

// slowest takes longer to end than the 2 s that a container is given at least.
var slowest = kind{"slowest", v1.RestartPolicyAlways, 10, []part{simple("main", Stays, 6*time.Second, slowly(6*time.Second)...)}, objects}

// TestExecFaults plants one fault of podexecd after the other, and the checker that it is for notices.
func TestExecFaults(t *testing.T) {
	want := map[failpoint.Name]string{
		failpoint.DoubleStart: "Once", failpoint.RestartAdopted: "Unharmed", failpoint.LeakSandbox: "Clean",
		failpoint.LeaveDirectory: "Clean", failpoint.LeaveCgroup: "Clean", failpoint.ShortGrace: "Grace", failpoint.UntoldGrace: "Grace",
		failpoint.ForgetReadiness: "Steady",
	}
	node := startNode(t, devnode.Config{Runtime: devnode.Sim, BinDir: binaries(t, "failpoints")})
	for i, fault := range append(failpoint.ExecNames(), "") {
		t.Run("fault "+string(fault), func(t *testing.T) {
			t.Setenv(failpoint.Variable, string(fault))
			s := newSite(t, node, fmt.Sprintf("fault%d", i))
			s.history.Whole = true
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
				t.Errorf("with the fault %q spoke %v; want %q", fault, reported, want[fault])
			}
		})
	}
}

// live is a life that every fault shows in: pods come, podexecd is killed, also while one is being ended, and pods
// go. It is over when a fault keeps the node from coming to rest: that is for the checkers. The node has the time begin
// for that after each step while no pod goes, and then rest.
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

// patient takes longer to end than the 2 s that a container is given at least, and less than its grace period.
var patient = kind{"patient", v1.RestartPolicyAlways, 6, []part{simple("main", Stays, 4*time.Second, slowly(4*time.Second)...)}, few}

// beAway has podexecd die when it knows that a pod is to end, and has told no container so, and be away for longer
// than the grace period.
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
	_ = s.quiet(rest) // what keeps it from coming is for the checkers
}

// awaitReady returns when so many pods are ready, and podexecd's store has had the time to know.
func (s *site) awaitReady(n int) {
	s.await(fmt.Sprintf("%d pods to be ready", n), func(h *History) bool {
		ready := map[string]bool{}
		for _, status := range h.Statuses {
			ready[status.UID] = status.Ready && time.Since(status.At) > unwritten
		}
		return len(ready) == n && !slices.Contains(slices.Collect(maps.Values(ready)), false)
	})
}

// awaitTerm returns when a container has got SIGTERM.
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
