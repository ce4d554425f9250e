package robustness

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// lossy is a daemon that keeps few revisions.
type lossy interface {
	// revisions is how many it keeps.
	revisions() int
	// collect frees the memory of the revisions that it has dropped: until then, a unit that a consumer hasn't read to
	// its end may still get the pods of its revision. It takes milliseconds, so only overtake calls it.
	collect()
}

// fillsStream is how many large pods a stream takes at most while its consumer doesn't read: in the transport of each
// side, and in the consumer's call.
const fillsStream = 6

// overtake has a consumer stop reading while it is connected, until the daemon no longer has the revision after its
// own, and then read on: a catch-up must take it forward. In half of the cases it stops within a unit. For a daemon that
// isn't lossy it is a change.
func (s *simulation) overtake(c *consumer) error {
	d, ok := s.daemon.(lossy)
	if !ok {
		return s.change()
	}
	s.operations++
	if c.stream != nil {
		s.calm(c)
		c.drop()
	}
	c.mode, c.format, c.filter = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, nil
	c.holds = newReplica()
	req := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: c.name, Mode: c.mode, Format: c.format, HeartbeatInterval: durationpb.New(time.Second),
	}
	if err := c.subscribe(s.daemon.api(), req, -1); err != nil {
		return err
	}
	s.await(c, (*stream).reached)
	c.stream.allow(0)
	if oneIn(s, 2, "within a unit") {
		// The stream is full before the first unit is complete. The second one changes the pods that it still has to send.
		for range 2 {
			if err := s.applySet(s.feeds.wide(s.sources)); err != nil {
				return err
			}
			s.await(c, (*stream).spent)
		}
	}
	for range fillsStream + d.revisions() + 1 {
		if err := s.applySet(s.feeds.large(s.sources)); err != nil {
			return err
		}
	}
	d.collect()
	c.stream.allow(-1)
	s.await(c, (*stream).reached)
	return nil
}

// large is the next set of a source, in which only a large pod changes. No other pod has its UID or name.
func (f *feeds) large(sources []string) manifest.Set { return f.padded(sources[0], 64, "large") }

// wide is the next set of a source, in which only pods change that together exceed wire.FragmentSize, so that their unit
// has several messages. No other pod has their UIDs or names.
func (f *feeds) wide(sources []string) manifest.Set {
	return f.padded(sources[0], 160, "wide0", "wide1", "wide2", "wide3", "wide4", "wide5", "wide6", "wide7")
}

// padded is the next set of a source, in which only the named pods change. Their size is pad KiB.
func (f *feeds) padded(source string, pad int, names ...string) manifest.Set {
	f.second++
	set := manifest.Set{Source: source, ReadTime: time.Unix(1_700_000_000+f.second, 0)}
	for _, o := range f.last[source] {
		if !slices.Contains(names, o.Name) {
			set.Origins = append(set.Origins, o)
		}
	}
	for _, name := range names {
		r := recipe{
			uid: name, namespace: "default", name: name, node: "node-0", tier: "a", image: fmt.Sprintf("i%d", f.second), phase: "p0", pad: pad,
		}
		set.Origins = append(set.Origins, &manifest.Origin{Name: name, Pods: []*manifest.Pod{r.make()}})
	}
	f.last[source] = set.Origins
	return set
}
