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
}

// fillsStream is how many large pods a stream takes at most while its consumer doesn't read: in the transport of each
// side, and in the consumer's call.
const fillsStream = 6

// overtake has a consumer stop reading while it is connected, until the daemon no longer has the revision after its
// own, and then read on: a catch-up must take it forward. Elsewhere than at a forgetful daemon it is a change.
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
	for range fillsStream + d.revisions() + 1 {
		if err := s.applySet(s.feeds.large(s.sources)); err != nil {
			return err
		}
	}
	c.stream.allow(-1)
	s.await(c, (*stream).reached)
	return nil
}

// large is the next set of a source, in which only a large pod changes. No other pod has its UID or name.
func (f *feeds) large(sources []string) manifest.Set {
	f.second++
	source := sources[0]
	set := manifest.Set{Source: source, ReadTime: time.Unix(1_700_000_000+f.second, 0), Origins: slices.Clone(f.last[source])}
	r := recipe{
		uid: "large", namespace: "default", name: "large", node: "node-0", tier: "a", image: fmt.Sprintf("i%d", f.second%2), phase: "p0", pad: 64,
	}
	set.Origins = slices.DeleteFunc(set.Origins, func(o *manifest.Origin) bool { return o.Name == r.name })
	set.Origins = append(set.Origins, &manifest.Origin{Name: r.name, Pods: []*manifest.Pod{r.make()}})
	f.last[source] = set.Origins
	return set
}
