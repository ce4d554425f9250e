package probe

import (
	"iter"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/handler"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// pod has the probes of one pod. It, its containers and their probes belong to the Manager's lock.
type pod struct {
	spec *v1.Pod
	// previous is the status from before a restart, or nil.
	previous *v1.PodStatus
	// containers are those with probes, by name.
	containers map[string]*container
	ending     bool
}

// container has the probes of one of a pod's containers, whichever is the latest of its name.
type container struct {
	pod  *pod
	name string
	// id is the container that the probes are about. Empty before there is one.
	id string
	// by are the probes by kind; nil where the container has none.
	by [kinds]*probe
}

// probe is one probe of one container. It is in the queue unless it is under way, or no longer wanted.
type probe struct {
	container *container
	spec      *v1.Probe
	state     state
	// notBefore is when this container may first be asked.
	notBefore time.Time
	// asked is when it was first asked; zero if it wasn't. Tries is how often since.
	asked time.Time
	tries int
	// run is what is under way, or nil.
	run *run
	// due and at are the queue's. At is -1 outside it.
	due time.Time
	at  int
}

func newPod() *pod { return &pod{containers: map[string]*container{}} }

// update takes the probes of the spec and returns those that are no more.
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

// probed are the containers that may have probes: the main ones and the sidecars.
func probed(spec *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range spec.Spec.Containers {
		out = append(out, &spec.Spec.Containers[i])
	}
	for i := range spec.Spec.InitContainers {
		c := &spec.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
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

// running is the container as the runtime has it, or nil while it doesn't run.
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

// target is where a running container is asked.
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

// before tells whether the container that is there now had started, or was ready, by the status from before a restart.
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

// begin begins anew with a container that has run since from.
func (p *probe) begin(from time.Time) {
	p.state = begin(p.state.kind, p.container.before(p.state.kind))
	p.notBefore = from.Add(time.Duration(p.spec.InitialDelaySeconds) * time.Second)
	p.asked, p.tries = time.Time{}, 0
}

func (p *probe) period() time.Duration {
	return time.Duration(max(p.spec.PeriodSeconds, 1)) * time.Second
}

// idle tells whether the probe is neither under way nor in the queue.
func (p *probe) idle() bool { return p.run == nil && p.at < 0 }

// wanted tells whether it is to be asked at all: of a pod that is being ended, only whether it is ready.
func (p *probe) wanted() bool { return !p.container.pod.ending || p.state.kind == readiness }

// waits tells whether nothing is to be asked of this container now: everything has been said, or it hasn't started.
func (p *probe) waits() bool {
	started := p.container.verdict(startup)
	return p.state.final() || p.state.kind != startup && started != observed.NoProbe && started != observed.Success
}

// early tells whether an answer is of a readiness probe's first period, in which a container usually isn't ready yet: a failure is no news,
// and is asked about again before the period is over.
func (p *probe) early(now time.Time) bool {
	return p.state.kind == readiness && p.state.verdict != observed.Success && now.Before(p.asked.Add(p.period()))
}

// firstRetry is when a readiness probe is asked again after its first failure; each time after that it takes twice as long.
const firstRetry = 200 * time.Millisecond

// retry is when an early failure is asked about again.
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
