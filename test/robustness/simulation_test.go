package robustness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// daemon is a podconfigd that a simulation drives, in this process or in a separate one.
type daemon interface {
	// start starts it with these sources. kept reports whether it finds the store of its previous start.
	start(sources []string, kept bool) (at, error)
	// apply gives it a set, and returns when the set is published.
	apply(set manifest.Set) (at, error)
	// configure gives it these sources while it runs, and returns false if it doesn't support that.
	configure(sources []string) (at, bool, error)
	// kill kills it, during the merge of a set if one is given, and returns when it has ended. answered is set
	// if it had published the set before it was killed, and had returned that.
	kill(set *manifest.Set, c chance) (published at, answered bool, err error)
	// api returns its service.
	api() podconfigv1.PodConfigServiceClient
	// hurry makes it send heartbeats now, and returns false if it doesn't support that.
	hurry() bool
	// close ends it, if it runs.
	close()
}

// at is the position of a daemon.
type at struct {
	instance  string
	revision  uint64
	temporary bool
}

// simulation drives a daemon and its consumers, and records what happens.
type simulation struct {
	chance
	daemon    daemon
	recorder  *Recorder
	patience  time.Duration
	feeds     *feeds
	consumers []*consumer
	sources   []string
	// now is the position of the daemon.
	now at
	// hasty is set if consumers end their streams before they have read everything. Other runs can be repeated
	// almost exactly.
	hasty bool
	// operations is the number of sets that were applied and of actions of consumers.
	operations int
	// stuck is set when a consumer that reads has waited for longer than patience. The simulation then stops.
	stuck bool
}

// newSimulation starts the daemon and makes the consumers, which have not subscribed yet.
func newSimulation(c chance, d daemon, f *feeds, rec *Recorder, patience time.Duration, consumers int) (*simulation, error) {
	s := &simulation{
		chance: c, daemon: d, recorder: rec, patience: patience, feeds: f, sources: allSources, hasty: c.intn(2, "hasty") == 1,
	}
	for i := range consumers {
		s.consumers = append(s.consumers, newConsumer(rec, fmt.Sprintf("c%d", i)))
		_, inThisProcess := d.(*local)
		s.consumers[i].honest = !inThisProcess
		s.consumers[i].restart(c)
	}
	return s, s.start(false)
}

func (s *simulation) start(kept bool) error {
	step := Step{Start: &Start{Sources: s.sources, Kept: kept}, Begun: time.Now()}
	var err error
	if s.now, err = s.daemon.start(s.sources, kept); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	s.record(step, s.now)
	return nil
}

func (s *simulation) record(step Step, after at) {
	step.Instance, step.Revision, step.Temporary, step.Ended = after.instance, after.revision, after.temporary, time.Now()
	s.recorder.Step(step)
}

// step does one action.
func (s *simulation) step() error {
	switch what := s.intn(64, "what"); {
	case s.stuck:
		return nil
	case what == 63:
		return s.restart()
	case what == 62:
		return s.configure()
	case what == 61 && oneIn(s, 4, "overtaken"):
		return s.overtake(s.consumers[s.intn(len(s.consumers), "consumer")])
	case what%2 == 0:
		return s.change()
	default:
		return s.consume(s.consumers[s.intn(len(s.consumers), "consumer")])
	}
}

// change applies the next set of a source.
func (s *simulation) change() error { return s.applySet(s.feeds.set(s.sources)) }

func (s *simulation) applySet(set manifest.Set) error {
	step := Step{Set: &set, Begun: time.Now()}
	var err error
	if s.now, err = s.daemon.apply(set); err != nil {
		return fmt.Errorf("apply a set: %w", err)
	}
	s.record(step, s.now)
	s.operations++
	return nil
}

// otherSources returns the daemon's sources with one source removed, added or moved; sometimes without a
// change.
func (s *simulation) otherSources() []string {
	sources := slices.Clone(s.sources)
	switch change := s.intn(4, "configure"); {
	case change == 0 && len(sources) > 1:
		i := s.intn(len(sources), "which goes")
		sources = slices.Delete(sources, i, i+1)
	case change == 1 && len(sources) > 1:
		i := 1 + s.intn(len(sources)-1, "which is first")
		sources[0], sources[i] = sources[i], sources[0]
	case change <= 2:
		for _, name := range allSources {
			if !slices.Contains(sources, name) {
				sources = slices.Insert(sources, s.intn(len(sources)+1, "place"), name)
				break
			}
		}
	}
	return sources
}

// configure gives the daemon other sources while it runs.
func (s *simulation) configure() error {
	sources := s.otherSources()
	step := Step{Configure: sources, Begun: time.Now()}
	now, ok, err := s.daemon.configure(sources)
	if err != nil {
		return fmt.Errorf("configure %v: %w", sources, err)
	}
	if !ok {
		return nil
	}
	s.now, s.sources = now, sources
	s.record(step, s.now)
	s.operations++
	return nil
}

// consume makes a consumer do something: subscribe if it hasn't, otherwise stop reading, continue, read to the
// end, or end its stream.
func (s *simulation) consume(c *consumer) error {
	s.operations++
	if c.stream == nil {
		err := c.subscribe(s.daemon.api(), c.request(s), pick(s, "messages", -1, -1, -1, 0, 1, 2, 3))
		s.calm(c)
		return err
	}
	switch s.intn(8, "does") {
	case 0, 1:
		c.stream.allow(pick(s, "messages", 1, 2, 3, 5))
	case 2:
		c.stream.allow(0)
	case 3, 4:
		s.calm(c)
		c.drop()
	case 5:
		c.stream.allow(-1)
	default:
		c.stream.allow(-1)
		// Other daemons send heartbeats rarely: the end of the run waits for one.
		if s.daemon.hurry() {
			s.await(c, (*stream).reached)
		}
	}
	return nil
}

// calm makes a consumer read all that it may, unless the run is hasty.
func (s *simulation) calm(c *consumer) {
	if c.stream != nil && !s.hasty {
		s.await(c, (*stream).spent)
	}
}

func (s *simulation) await(c *consumer, done func(*stream, uint64) bool) {
	s.stuck = s.stuck || !c.stream.await(done, s.now.revision, s.daemon.hurry, s.patience)
}

// finish makes every consumer that has a stream read to its end, and ends it.
func (s *simulation) finish() {
	// First the consumers that read anyway: a stalled consumer must not keep anything from them.
	for _, c := range s.consumers {
		if c.stream != nil && c.stream.reading() && !s.stuck {
			s.stuck = !c.stream.await((*stream).reached, s.now.revision, s.daemon.hurry, s.patience+s.patience/4)
		}
	}
	for _, c := range s.consumers {
		if c.stream != nil {
			c.stream.allow(-1)
		}
	}
	for _, c := range s.consumers {
		if c.stream == nil {
			continue
		}
		if !c.stream.await((*stream).reached, s.now.revision, s.daemon.hurry, 2*s.patience) {
			c.stream.recorder.End(fmt.Errorf("it received nothing up to revision %d", s.now.revision), false)
		} else if c.stream.reading() {
			c.stream.recorder.End(nil, true)
		}
		c.drop()
	}
}

// end ends all remaining streams, and the daemon.
func (s *simulation) end() {
	for _, c := range s.consumers {
		if c.stream != nil {
			c.drop()
		}
	}
	s.daemon.close()
}

// account returns the breaches, the steps, one on each line, and the messages, one on each line.
func account(h *History, breaches []*BreachError) string {
	var b strings.Builder
	for _, breach := range breaches {
		fmt.Fprintf(&b, "%v\n\n", breach)
	}
	for i, step := range h.Steps {
		fmt.Fprintf(&b, "%4d %s\n", i, step)
	}
	for _, c := range h.Consumers {
		for i, s := range c.Streams {
			fmt.Fprintf(&b, "consumer %s, stream %d in life %d: %s\n", c.Name, i+1, s.Life, ask(s.Request))
			for _, k := range s.Request.GetKnownPods() {
				fmt.Fprintf(&b, "  knows %s %s/%s of %s spec %s status %s\n", k.GetUid(), k.GetNamespace(), k.GetName(), k.GetSource(),
					short(k.GetSpecDigest()), short(k.GetStatusDigest()))
			}
			for _, r := range s.Received {
				b.WriteString("  " + line(r.Message) + "\n")
			}
			fmt.Fprintf(&b, "  drained=%v error=%v\n", s.Drained, s.Err)
		}
	}
	return b.String()
}
