package robustness

import (
	"fmt"
	"time"
)

// reconfigurable is a daemon that can be killed while it changes its sources. Its killConfiguring returns the
// same as kill.
type reconfigurable interface {
	killConfiguring(sources []string, c chance) (published at, answered bool, err error)
}

// restart kills the daemon, perhaps during a merge or a change of its sources, and starts it again: perhaps
// with other sources, and perhaps without its store.
func (s *simulation) restart() error {
	var work Step
	switch at := s.intn(4, "killed at work"); {
	case at > 1:
		set := s.feeds.set(s.sources)
		work.Set = &set
	case at > 0:
		work.Configure = s.otherSources()
	}
	for _, c := range s.consumers {
		s.calm(c)
	}
	for _, c := range s.consumers {
		if c.stream != nil {
			c.stream.leave()
		}
	}
	if err := s.kill(work); err != nil {
		return fmt.Errorf("kill the daemon: %w", err)
	}
	for _, c := range s.consumers {
		if c.stream != nil {
			c.drop()
		}
	}
	if oneIn(s, 4, "other sources") {
		s.sources = pick(s, "sources", allSources, allSources[:2], allSources[1:], allSources[1:2])
	}
	return s.start(!oneIn(s, 6, "store is lost"))
}

// kill kills the daemon during that work, or during none. If the work was a change of sources, the next start
// has the new sources, whether or not the change took effect.
func (s *simulation) kill(work Step) error {
	work.Begun = time.Now()
	var published at
	var answered bool
	var err error
	if r, ok := s.daemon.(reconfigurable); ok && work.Configure != nil {
		published, answered, err = r.killConfiguring(work.Configure, s)
		s.sources = work.Configure
	} else {
		work.Configure = nil
		published, answered, err = s.daemon.kill(work.Set, s)
	}
	if err == nil && (work.Set != nil || work.Configure != nil) {
		work.Killed = !answered
		s.record(work, published)
	}
	return err
}
