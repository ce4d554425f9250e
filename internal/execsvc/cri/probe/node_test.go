package probe

import (
	"context"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// answer is what a container answers to a probe.
type answer struct {
	outcome handler.Outcome
	output  string
	err     error
	// takes is how long it takes; a negative one hangs until the probe is broken off.
	takes time.Duration
}

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

// asked returns the times of the container's probes, since the node's start, and clears them.
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
