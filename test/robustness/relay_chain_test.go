package robustness

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// steadySource is always configured, and has the bystanders.
const steadySource = "file:steady"

// bystanders are never changed.
var bystanders = []string{"b0", "b1", "b2"}

// steadySet returns the only set of steadySource.
func steadySet(second int64) manifest.Set {
	set := manifest.Set{Source: steadySource, ReadTime: time.Unix(1_700_000_000+second, 0)}
	for _, uid := range bystanders {
		pod := mergetest.Pod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "steady", Name: uid, Annotations: map[string]string{}},
			Spec:       v1.PodSpec{NodeName: "node-0", Containers: []v1.Container{{Name: "main", Image: "i0"}}},
			Status:     v1.PodStatus{Phase: v1.PodRunning},
		})
		set.Origins = append(set.Origins, &manifest.Origin{Name: uid, Pods: []*manifest.Pod{pod}})
	}
	return set
}

// chain is an injectd, a podconfigd that relays it, a podconfigd that relays that one, and consumers of the
// last. Any of the three daemons may be down.
type chain struct {
	chance
	// head gets its sets from feeds, and is recorded.
	head    *process
	feeds   *feeds
	record  *Recorder
	sources []string
	middle  *relayd
	// last is the podconfigd at the end with its consumers. It doesn't include the witness and the agent until
	// the run is over.
	last           *simulation
	witness, agent *consumer
	// convergence is the time limit for the end to have the pods of the head.
	convergence time.Duration
	// down reports which daemon is down, by its index, and kills is how often each was killed.
	down       [3]bool
	kills      [3]int
	operations int
}

// The podconfigds of a chain.
const (
	atHead = iota
	inMiddle
	atEnd
)

// newChain starts a chain with new stores. The head is the same process for all runs.
func newChain(c chance, head *process, run int) (*chain, error) {
	node := head.node
	middle := &relayd{node: node, name: fmt.Sprintf("middle%d", run), upstream: "unix://" + node.Socket("robust")}
	end := &relayd{node: node, name: fmt.Sprintf("end%d", run), upstream: middle.endpoint()}
	rec := NewRecorder(0, 0)
	ch := &chain{
		chance: c, head: head, feeds: newFeeds(c, 48), record: NewRecorder(0, 0), sources: allSources, middle: middle,
		convergence: convergence,
		last: &simulation{
			chance: c, daemon: end, recorder: rec, patience: rec.History().patience(), sources: []string{relaySource}, hasty: true,
		},
		witness: newConsumer(rec, "witness"), agent: newConsumer(rec, "agent"),
	}
	for _, own := range []*consumer{ch.witness, ch.agent} {
		own.mode, own.format = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	}
	for i := range someConsumers - 1 {
		other := newConsumer(rec, fmt.Sprintf("c%d", i))
		other.honest = true
		other.restart(c)
		ch.last.consumers = append(ch.last.consumers, other)
	}
	for which := range ch.down {
		if err := ch.start(which, false); err != nil {
			ch.close()
			return nil, err
		}
	}
	return ch, nil
}

// start starts one of them.
func (c *chain) start(which int, kept bool) error {
	c.down[which] = false
	switch which {
	case atHead:
		step := Step{Start: &Start{Sources: append([]string{steadySource}, c.sources...), Kept: kept}, Begun: time.Now()}
		now, err := c.head.start(step.Start.Sources, kept)
		c.recordHead(step, now)
		return err
	case inMiddle:
		_, err := c.middle.start(nil, kept)
		return err
	default:
		if err := c.last.start(kept); err != nil {
			return err
		}
		c.witness.holds, c.witness.saved = newReplica(), nil
		if err := c.subscribe(c.witness); err != nil {
			return err
		}
		return c.subscribe(c.agent)
	}
}

func (c *chain) recordHead(step Step, after at) {
	step.Instance, step.Revision, step.Ended = after.instance, after.revision, time.Now()
	c.record.Step(step)
}

// subscribe starts a stream for a consumer that reads everything, from its last cursor.
func (c *chain) subscribe(consumer *consumer) error {
	req := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: consumer.name, Mode: consumer.mode, Format: consumer.format, HeartbeatInterval: heartbeat,
	}
	if n := len(consumer.saved); n > 0 {
		consumer.holds, req.ResumeAfter = consumer.saved[n-1].held.clone(), consumer.saved[n-1].cursor
		req.KnownPods = consumer.known()
	}
	return consumer.subscribe(c.last.daemon.api(), req, -1)
}

// step does one action.
func (c *chain) step() error {
	for which, down := range c.down {
		if down && oneIn(c, 12, "comes back") {
			return c.start(which, !oneIn(c, 6, "store is lost"))
		}
	}
	switch what := c.intn(64, "what"); {
	case what == 63:
		return c.kill(pick(c, "the daemon to kill", inMiddle, inMiddle, inMiddle, atEnd, atHead))
	case what == 62 && !c.down[atEnd]:
		c.agent.drop()
		return c.subscribe(c.agent)
	case what == 61 && !c.anyDown():
		return c.converge()
	case what == 59 && !c.anyDown() && oneIn(c, 6, "forgets"):
		return c.restartHeadEmpty()
	case what == 60 && !c.down[atHead]:
		return c.apply(steadySet(c.feeds.second))
	case what%2 == 0 && !c.down[atHead]:
		return c.apply(c.feeds.set(c.sources))
	case !c.down[atEnd]:
		c.operations++
		return c.last.consume(c.last.consumers[c.intn(len(c.last.consumers), "consumer")])
	}
	return nil
}

func (c *chain) anyDown() bool { return c.down[atHead] || c.down[inMiddle] || c.down[atEnd] }

// apply gives a set to the head.
func (c *chain) apply(set manifest.Set) error {
	step := Step{Set: &set, Begun: time.Now()}
	now, err := c.head.apply(set)
	if err != nil {
		return fmt.Errorf("apply a set at the head: %w", err)
	}
	c.recordHead(step, now)
	c.operations++
	return nil
}

// kill kills one of them, or starts it if it is down.
func (c *chain) kill(which int) error {
	if c.down[which] {
		return c.start(which, true)
	}
	c.down[which] = true
	c.kills[which]++
	switch which {
	case atHead:
		return c.killHead()
	case inMiddle:
		_, _, err := c.middle.kill(nil, c)
		return err
	default:
		return c.killEnd()
	}
}

// killHead kills the head, perhaps during a merge. It may have other sources after that.
func (c *chain) killHead() error {
	var set *manifest.Set
	if c.intn(3, "killed at work") > 0 {
		next := c.feeds.set(c.sources)
		set = &next
	}
	step := Step{Set: set, Begun: time.Now()}
	published, answered, err := c.head.kill(set, c)
	if err != nil {
		return fmt.Errorf("kill the head: %w", err)
	}
	if set != nil {
		step.Killed = !answered
		c.recordHead(step, published)
	}
	if oneIn(c, 4, "other sources") {
		c.sources = pick(c, "sources", allSources, allSources[:2], allSources[1:], allSources[1:2])
	}
	return nil
}

// restartHeadEmpty kills the head and starts it without its store. Its sources deliver nothing until the middle has
// connected to it.
func (c *chain) restartHeadEmpty() error {
	c.kills[atHead]++
	if err := c.killHead(); err != nil {
		return err
	}
	if err := c.start(atHead, false); err != nil {
		return err
	}
	return c.heard()
}

func (c *chain) killEnd() error {
	streams := c.streams()
	for _, s := range streams {
		s.stream.leave()
	}
	_, _, err := c.last.daemon.kill(nil, c)
	for _, s := range streams {
		s.drop()
	}
	return err
}

// streams returns the consumers that have a stream.
func (c *chain) streams() []*consumer {
	var out []*consumer
	for _, consumer := range append([]*consumer{c.witness, c.agent}, c.last.consumers...) {
		if consumer.stream != nil {
			out = append(out, consumer)
		}
	}
	return out
}

// finish starts all three daemons and waits until the end has the pods of the head. Then every consumer reads
// to the end.
func (c *chain) finish() error {
	for which, down := range c.down {
		if down {
			if err := c.start(which, true); err != nil {
				return err
			}
		}
	}
	if err := c.converge(); err != nil {
		return err
	}
	if err := c.same(); err != nil {
		return err
	}
	c.last.consumers = append(c.last.consumers, c.witness, c.agent)
	c.last.finish()
	return nil
}

// healthySet returns the last set of a source, with no held origin.
func (f *feeds) healthySet(source string) manifest.Set {
	f.second++
	set := manifest.Set{Source: source, ReadTime: time.Unix(1_700_000_000+f.second, 0)}
	for _, o := range f.last[source] {
		set.Origins = append(set.Origins, &manifest.Origin{Name: o.Name, Pods: o.Pods})
	}
	return set
}

// close ends all three daemons and every stream.
func (c *chain) close() {
	for _, s := range c.streams() {
		s.drop()
	}
	c.last.daemon.close()
	c.middle.close()
	c.head.close()
}
