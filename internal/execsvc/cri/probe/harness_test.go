package probe

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a container answers to a probe.
type answer struct {
	outcome handler.Outcome
	output  string
	err     error
	// takes is how long it takes; a negative one hangs until the probe is broken off.
	takes time.Duration
}

var (
	yes  = answer{outcome: handler.Success}
	no   = answer{outcome: handler.Failure, output: "no"}
	hang = answer{takes: -1}
)

// ask is one probe that a container was asked.
type ask struct {
	id, kind string
	at       time.Duration
	target   handler.Target
}

// node is a runtime with containers that answer as a test says.
type node struct {
	start time.Time

	mu      sync.Mutex
	pods    map[types.UID]*observed.Pod
	answers map[string]answer // by "container ID/path", where the path is a probe's kind
	asks    []ask
	// now and most are how many are under way, and were at once.
	now, most int
}

func newNode() *node {
	return &node{start: time.Now(), pods: map[types.UID]*observed.Pod{}, answers: map[string]answer{}}
}

func (n *node) Probe(ctx context.Context, t handler.Target, p *v1.Probe) (handler.Outcome, string, error) {
	kind := p.Exec.Command[0]
	n.mu.Lock()
	n.asks = append(n.asks, ask{t.ContainerID, kind, time.Since(n.start), t})
	a := n.answers[t.ContainerID+"/"+kind]
	n.now++
	n.most = max(n.most, n.now)
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.now--
	}()
	switch {
	case a.takes < 0:
		<-ctx.Done()
		return handler.Failure, "broken off", nil
	case a.takes > 0:
		select {
		case <-time.After(a.takes):
		case <-ctx.Done():
			return handler.Failure, "broken off", nil
		}
	}
	return a.outcome, a.output, a.err
}

// answer lets the container answer so from now on.
func (n *node) answer(id, kind string, a answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[id+"/"+kind] = a
}

// run puts containers, as "name=id", in the place of those that the pod had. They start now.
func (n *node) run(uid types.UID, containers ...string) { n.ran(uid, time.Now(), containers...) }

func (n *node) ran(uid types.UID, since time.Time, containers ...string) {
	pod := &observed.Pod{UID: uid, Sandboxes: []observed.Sandbox{{ID: "sandbox", Ready: true, IPs: []string{"10.0.0.7"}}}}
	for _, c := range containers {
		name, id, _ := strings.Cut(c, "=")
		pod.Containers = append(pod.Containers, observed.Container{
			ID: id, Name: name, SandboxID: "sandbox", State: observed.Running, Started: since,
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[uid] = pod
}

// exit ends the pod's containers.
func (n *node) exit(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dead := *n.pods[uid]
	dead.Containers = append([]observed.Container(nil), dead.Containers...)
	for i := range dead.Containers {
		dead.Containers[i].State = observed.Exited
	}
	n.pods[uid] = &dead
}

func (n *node) observed(uid types.UID) *observed.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[uid]
}

// asked returns when the container was asked, since the node's start, and forgets it.
func (n *node) asked(id, kind string) []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	var at []time.Duration
	var rest []ask
	for _, a := range n.asks {
		if a.id == id && a.kind == kind {
			at = append(at, a.at)
		} else {
			rest = append(rest, a)
		}
	}
	n.asks = rest
	return at
}

// bench is a Manager on a node, within a synctest bubble.
type bench struct {
	*Manager
	node   *node
	events *events.Recorder
}

// simulate runs the test with a Manager that runs, on a clock that jumps.
func simulate(t *testing.T, cfg Config, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{node: newNode(), events: events.New(events.Config{})}
		cfg.Handlers, cfg.Observed, cfg.Events = b.node, b.node.observed, b.events
		b.Manager = New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			b.Run(ctx)
		}()
		defer func() {
			cancel()
			<-stopped
		}()
		test(b)
	})
}

// pass lets time pass, and everything be done that is due then.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's time: the test doesn't wait
	synctest.Wait()
}

// reported are the events' reasons and messages.
func (b *bench) reported() []string {
	list, _, _ := b.events.After(0)
	var out []string
	for _, e := range list {
		out = append(out, e.Container+" "+e.Reason+": "+e.Message)
	}
	return out
}

// verdicts is what the probes of one container say.
func (b *bench) verdicts(id string) observed.Probed { return b.Probes("uid")[id] }

// every is a probe of that kind with a period in seconds and thresholds of 1 and 3.
func every(kind string, period int32, change ...func(*v1.Probe)) *v1.Probe {
	p := &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{kind}}},
		PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func delay(seconds int32) func(*v1.Probe) {
	return func(p *v1.Probe) { p.InitialDelaySeconds = seconds }
}

func thresholds(success, failure int32) func(*v1.Probe) {
	return func(p *v1.Probe) { p.SuccessThreshold, p.FailureThreshold = success, failure }
}

// podOf is a pod with one main container, "main".
func podOf(uid types.UID, s, r, l *v1.Probe) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "ns", Name: "pod-" + string(uid)},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", StartupProbe: s, ReadinessProbe: r, LivenessProbe: l,
			Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 80}},
		}}},
	}
}

var errRuntime = errors.New("the runtime is away")
