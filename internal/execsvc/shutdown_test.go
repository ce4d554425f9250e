package execsvc

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/shutdown"
	"github.com/podstream/podstream/internal/execsvc/machine/logind"
	"github.com/podstream/podstream/internal/execsvc/machine/logind/logindtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// machine is a logind, and the part of podexecd that follows it.
type machine struct {
	login *logindtest.Login
	bus   *logindtest.Bus
	state string
	// periods are those of the agents: 10 s for each group.
	periods []shutdown.Period
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	bus := logindtest.NewBus(t)
	return &machine{
		login: logindtest.NewLogin(bus, time.Minute), bus: bus, state: filepath.Join(t.TempDir(), shutdown.StateFile),
		periods: shutdown.Periods(20*time.Second, 10*time.Second),
	}
}

// guard follows logind until the agent is stopped.
func (m *machine) guard(l *testAgent) {
	l.n.t.Helper()
	var manager *shutdown.Manager
	manager = shutdown.New(shutdown.Config{
		Periods: m.periods, StateFile: m.state,
		Dial: func(ctx context.Context) (shutdown.Logind, error) {
			return logind.Dial(ctx, logind.Config{Socket: m.bus.Socket, DropInDir: m.login.DropInDir})
		},
		Changed: func() {
			why, _ := manager.Admit(nil)
			l.n.mu.Lock()
			l.n.pressure = why
			l.n.mu.Unlock()
			l.PressureChanged()
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { manager.Run(ctx, l) })
	manager.Await(ctx)
	stop := l.stop
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		stop()
	})
	l.n.t.Cleanup(l.stop)
}

// shutdown begins a shutdown once a lock is held.
func (m *machine) shutdown(t *testing.T) (goesOn <-chan struct{}) {
	t.Helper()
	eventually(t, "a lock is held", func() bool { return m.login.Locks() == 1 })
	return m.login.Shutdown()
}

func isShutDown(p podview.Pod) bool {
	disruption := conditionOf(p.Status, v1.DisruptionTarget)
	return p.State == finished && p.Status.Phase == v1.PodFailed && p.Status.Reason == "Terminated" &&
		p.Status.Message == "Pod was terminated in response to imminent node shutdown." &&
		disruption != nil && disruption.Status == v1.ConditionTrue && disruption.Reason == "TerminationByKubelet" && disruption.Message == p.Status.Message
}

func isRefused(p podview.Pod) bool {
	return p.Status != nil && p.Status.Phase == v1.PodFailed && p.Status.Reason == "NodeShutdown" &&
		p.Status.Message == admit.RejectedPrefix+"Pod was rejected as the node is shutting down."
}

// withPriority returns the pod with a priority and a grace period.
func withPriority(pod *v1.Pod, priority int32, grace int64) *v1.Pod {
	pod.Spec.Priority, pod.Spec.TerminationGracePeriodSeconds = &priority, &grace
	return pod
}

// Pods end in order, each with the smaller of its own grace period and its group's. None starts. After the boot static
// pods start again at once, and pods of the API server stay ended.
func TestShutdownEndsPods(t *testing.T) {
	n, m := newNode(t), newMachine(t)
	n.final = func(pod *v1.Pod) bool { return pod.Annotations["kubernetes.io/config.source"] == "api" }
	l := n.start()
	m.guard(l)
	static, owned := withPriority(newPod("f", "static", "file"), 0, 7), withPriority(newPod("a", "owned", "api"), 0, 600)
	critical := withPriority(newPod("c", "critical", "file"), 2_000_001_000, 600)
	l.deliver(at(1, ops(change(client.Add, true, static, critical), change(client.Add, true, owned))))
	ids := map[types.UID]string{}
	for _, pod := range []*v1.Pod{static, owned, critical} {
		ids[pod.UID] = l.awaitRunning(pod.UID)
	}
	n.takeChanges()
	goesOn := m.shutdown(t)
	for _, pod := range []*v1.Pod{static, owned, critical} {
		l.await(pod.UID, "is ended by the shutdown", isShutDown)
	}
	select {
	case <-goesOn:
	case <-time.After(20 * time.Second):
		t.Fatal("the lock is held though all pods have ended")
	}
	got := n.takeChanges()
	for uid, grace := range map[types.UID]string{"f": " 7", "a": " 10", "c": " 10"} {
		if i := slices.Index(got, "StopContainer "+ids[uid]+grace); i < 0 || uid == "c" && i < slices.Index(got, "StopPodSandbox") {
			t.Errorf("the calls are %q; want %s stopped with%s, and c after the others", got, uid, grace)
		}
	}
	// Neither housekeeping nor podconfigd starts a pod now.
	changed := newPod("g", "changed", "file")
	l.deliver(at(2, ops(change(client.Remove, true, static))))
	l.deliver(at(3, ops(change(client.Add, true, withPriority(newPod("f", "static", "file"), 0, 7), changed), change(client.Add, true, newPod("b", "late", "api")))))
	for _, uid := range []types.UID{"f", "g", "b"} {
		l.await(uid, "is rejected", isRefused)
	}
	l.housekeep()
	if got := n.takeChanges(); slices.ContainsFunc(got, func(c string) bool { return c == "StartContainer" || len(c) > 13 && c[:13] == "RunPodSandbox" }) {
		t.Errorf("the calls during the shutdown are %q; want nothing started", got)
	}
	l.stop()
	// The boot. The pause after an eviction would be too long for this test.
	n.pressure, n.retryPause = admit.Rejection{}, time.Hour
	m.login.Restart()
	l = n.startFrom(l.store)
	m.guard(l)
	for _, uid := range []types.UID{"f", "c", "g"} {
		l.awaitRunning(uid)
	}
	l.await("a", "stays ended", isShutDown)
	l.await("b", "stays rejected", isRefused)
}

// After a restart in the middle of a shutdown pods go on ending, and none starts. After the cancellation all do.
func TestShutdownGoesOnAfterRestart(t *testing.T) {
	n, m := newNode(t), newMachine(t)
	m.periods = shutdown.Periods(6*time.Second, 3*time.Second)
	l := n.start()
	m.guard(l)
	first := withPriority(newPod("f", "first", "file", "ignore-term"), 0, 600)
	second := withPriority(newPod("s", "second", "file"), 2_000_001_000, 7)
	l.deliver(at(1, ops(change(client.Add, true, first, second))))
	l.awaitRunning("f")
	id := l.awaitRunning("s")
	_ = m.shutdown(t)
	l.await("f", "is terminating", func(p podview.Pod) bool { return p.State == terminating })
	l.stop()
	n.takeChanges()
	l = n.startFrom(l.store)
	m.guard(l)
	l.await("s", "is ended by the shutdown", isShutDown)
	l.await("f", "is ended by the shutdown", isShutDown)
	l.housekeep()
	got := n.takeChanges()
	if !slices.Contains(got, "StopContainer "+id+" 3") {
		t.Errorf("the calls are %q; want the second pod stopped", got)
	}
	if slices.Contains(got, "StartContainer") {
		t.Errorf("the calls are %q; want nothing started", got)
	}
	m.login.Cancel()
	l.awaitRunning("f")
	l.awaitRunning("s")
}

// Pods that have ended, or were rejected, take no part in a shutdown. Those that terminate are awaited.
func TestUnended(t *testing.T) {
	n := newNode(t)
	l := n.start()
	done := newPod("d", "done", "api", "exit", "0")
	done.Spec.RestartPolicy = v1.RestartPolicyNever
	leaving := newPod("l", "leaving", "file", "ignore-term")
	leaving.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	rejected := ofAnotherOS(newPod("r", "rejected", "file"))
	l.deliver(ops(change(client.Add, true, leaving, rejected), change(client.Add, true, done, newPod("a", "running", "api"))))
	l.awaitRunning("l")
	l.awaitRunning("a")
	l.await("d", "has ended", func(p podview.Pod) bool { return p.State == finished })
	l.await("r", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	l.deliver(ops(change(client.Remove, true, leaving)))
	l.await("l", "is terminating", func(p podview.Pod) bool { return p.State == terminating })
	var got []string
	for _, pod := range l.Unended() {
		got = append(got, pod.Name)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"leaving", "running"}) {
		t.Errorf("unended are %q; want leaving and running", got)
	}
	for _, pod := range l.Unended() {
		l.End(pod.UID, 1, status.Failure{Reason: "Terminated", Disrupted: true})
	}
	l.awaitGone("l")
}
