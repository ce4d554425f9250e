package probe

import (
	"iter"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// pod has the probes of one pod. The Manager's lock guards it, its containers and their probes.
type pod struct {
	spec *v1.Pod
	// previous is the status from before a restart, or nil.
	previous *v1.PodStatus
	// containers has the containers with probes, by name.
	containers map[string]*container
	ending     bool
}

// container has the probes of one of a pod's containers, for the newest one of its name.
type container struct {
	pod  *pod
	name string
	// id is the container that the results are of. Empty before there is one.
	id string
	// by has the probes by kind; nil where the container has none.
	by [kinds]*probe
}

// probe is one probe of one container. It is in the queue unless it is running, or no longer needed.
type probe struct {
	container *container
	spec      *v1.Probe
	state     state
	// notBefore is when the first probe of this container may run.
	notBefore time.Time
	// asked is when it first ran; zero if it didn't. tries is how often it ran since.
	asked time.Time
	tries int
	// run is the running probe, or nil.
	run *run
	// due and at are the queue's. at is -1 outside it.
	due time.Time
	at  int
}

func newPod() *pod { return &pod{containers: map[string]*container{}} }

// update takes over the probes of the spec and returns the removed ones.
func (pod *pod) update(spec *v1.Pod) (gone []*probe) {
	pod.spec = spec
	before := pod.containers
	pod.containers = map[string]*container{}
	for _, of := range probed(spec) {
		c := before[of.Name]
		if c == nil {
			c = &container{pod: pod, name: of.Name}
		}
		for k := range kinds {
			switch p, now := c.by[k], k.of(of); {
			case p != nil && now == nil:
				gone = append(gone, p)
				c.by[k] = nil
			case p != nil:
				p.spec = now
			case now != nil:
				c.by[k] = &probe{container: c, spec: now, state: begin(k, false), at: -1}
			}
		}
		if c.by != [kinds]*probe{} {
			pod.containers[c.name] = c
		}
	}
	for name, c := range before {
		if pod.containers[name] == nil {
			for p := range c.all() {
				gone = append(gone, p)
			}
		}
	}
	return gone
}

// probed returns the containers that may have probes: the main ones and the sidecars.
func probed(spec *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range spec.Spec.Containers {
		out = append(out, &spec.Spec.Containers[i])
	}
	for i := range spec.Spec.InitContainers {
		c := &spec.Spec.InitContainers[i]
		if podmeta.IsSidecar(c) {
			out = append(out, c)
		}
	}
	return out
}

func (pod *pod) probes() iter.Seq[*probe] {
	return func(yield func(*probe) bool) {
		for _, c := range pod.containers {
			for p := range c.all() {
				if !yield(p) {
					return
				}
			}
		}
	}
}

func (c *container) all() iter.Seq[*probe] {
	return func(yield func(*probe) bool) {
		for _, p := range c.by {
			if p != nil && !yield(p) {
				return
			}
		}
	}
}

// running returns the observed container, or nil while it doesn't run.
func (c *container) running(has *observed.Pod) *observed.Container {
	if has == nil {
		return nil
	}
	if o := has.Latest(c.name); o != nil && o.State == observed.Running {
		return o
	}
	return nil
}

func (c *container) verdict(k kind) observed.Verdict {
	if c.by[k] == nil {
		return observed.NoProbe
	}
	return c.by[k].state.verdict
}

// target returns the target of a running container's probes.
func (c *container) target(has *observed.Pod, o *observed.Container, hostIPs func() []string) handler.Target {
	t := handler.Target{Pod: c.pod.spec, Container: c.name, ContainerID: o.ID}
	for _, of := range probed(c.pod.spec) {
		if of.Name == c.name {
			t.Ports = of.Ports
		}
	}
	var ips []string
	if c.pod.spec.Spec.HostNetwork {
		ips = hostIPs()
	} else {
		for _, s := range has.Sandboxes {
			if s.ID == o.SandboxID {
				ips = s.IPs
			}
		}
	}
	if len(ips) > 0 {
		t.PodIP = ips[0]
	}
	return t
}

// before reports whether the present container had started, or was ready, by the status from before a restart.
func (c *container) before(k kind) bool {
	if c.pod.previous == nil {
		return false
	}
	for _, statuses := range [][]v1.ContainerStatus{c.pod.previous.ContainerStatuses, c.pod.previous.InitContainerStatuses} {
		for i := range statuses {
			if _, id, _ := strings.Cut(statuses[i].ContainerID, "://"); id != c.id {
				continue
			}
			return k == startup && statuses[i].Started != nil && *statuses[i].Started || k == readiness && statuses[i].Ready
		}
	}
	return false
}

// begin resets the probe for a container that has run since from.
func (p *probe) begin(from time.Time) {
	p.state = begin(p.state.kind, p.container.before(p.state.kind))
	p.notBefore = from.Add(time.Duration(p.spec.InitialDelaySeconds) * time.Second)
	p.asked, p.tries = time.Time{}, 0
}

func (p *probe) period() time.Duration {
	return time.Duration(max(p.spec.PeriodSeconds, 1)) * time.Second
}

// idle reports whether the probe is neither running nor in the queue.
func (p *probe) idle() bool { return p.run == nil && p.at < 0 }

// wanted reports whether the probe runs at all: of a pod that is being terminated, only readiness probes do.
func (p *probe) wanted() bool { return !p.container.pod.ending || p.state.kind == readiness }

// waits reports whether the probe must not run for this container now: its verdict is final, or the container hasn't
// started.
func (p *probe) waits() bool {
	started := p.container.verdict(startup)
	return p.state.final() || p.state.kind != startup && started != observed.NoProbe && started != observed.Success
}

// early reports whether an answer is of a readiness probe's first period, in which a container usually isn't ready yet:
// a failure isn't reported, and the probe is repeated before the period is over.
func (p *probe) early(now time.Time) bool {
	return p.state.kind == readiness && p.state.verdict != observed.Success && now.Before(p.asked.Add(p.period()))
}

// firstRetry is the pause before a readiness probe is repeated after its first failure; each further pause is twice as
// long.
const firstRetry = 200 * time.Millisecond

// retry returns when to repeat a probe after an early failure.
func (p *probe) retry(now time.Time) time.Time {
	period := p.period()
	delay := firstRetry
	for i := 1; i < p.tries && delay < period; i++ {
		delay *= 2
	}
	return earlier(now.Add(delay), p.asked.Add(period))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
