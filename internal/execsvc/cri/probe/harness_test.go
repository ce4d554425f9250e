package probe

import (
	"context"
	"errors"
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

var (
	yes  = answer{outcome: handler.Success}
	no   = answer{outcome: handler.Failure, output: "no"}
	hang = answer{takes: -1}
)

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
