package execsvc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// chores is the part of the housekeeping that waits for a disk, for systemd or for the container runtime: it runs in a
// goroutine of its own, so that the sync loop goes on meanwhile. Only the sync loop's goroutine uses it.
type chores struct {
	group sync.WaitGroup
	// done receives the result of the round that is under way.
	done    chan chored
	running bool
	// began is when that round began.
	began time.Time
	last  chored
}

// longestRound is how long a round may take before it is reported: the sync loop goes on, and nothing else shows that
// directories and containers of gone pods stay.
const longestRound = 2 * time.Minute

// chored is the result of a round.
type chored struct {
	// orphans are the directories of pods that were not known when they were listed.
	orphans []types.UID
	err     error
}

// take returns the result of the last round, the first time with its orphans, and reports whether none is under way. If
// one has hung for too long, the result has that error too.
func (c *chores) take(now time.Time) (result chored, idle bool) {
	select {
	case c.last = <-c.done:
		c.running = false
	default:
	}
	result = c.last
	c.last.orphans = nil
	if c.running && now.Sub(c.began) > longestRound {
		result.err = errors.Join(result.err, fmt.Errorf("what waits for the disk, systemd and the container runtime hasn't ended since %s",
			c.began.Format(time.RFC3339)))
	}
	return result, !c.running
}

// begin starts a round. None is under way.
func (c *chores) begin(ctx context.Context, now time.Time, round func(context.Context) chored) {
	c.running, c.began = true, now
	c.group.Go(func() { c.done <- round(ctx) })
}

// chore is a round of chores.
func (a *Agent) chore(ctx context.Context, found []*observed.Pod) chored {
	var out chored
	var err error
	settled := a.pods.Settled("")
	if settled {
		if out.orphans, err = a.orphanedDirectories(); err != nil {
			err = fmt.Errorf("list directories of pods that are gone: %w", err)
		}
	}
	out.err = errors.Join(err, a.balanceCgroups())
	if a.cfg.Garbage != nil {
		out.err = errors.Join(out.err, a.cfg.Garbage.Collect(ctx, found, a.known, settled))
	}
	return out
}

// balanceCgroups sets the QoS cgroups to the pods that aren't terminating.
func (a *Agent) balanceCgroups() error {
	a.balancing.Lock()
	defer a.balancing.Unlock()
	return a.cfg.PodSetup.BalanceCgroups(a.active())
}

// orphanedDirectories returns the pods that have a directory, and are not known.
func (a *Agent) orphanedDirectories() ([]types.UID, error) {
	uids, err := a.cfg.PodSetup.PodsOnDisk()
	var out []types.UID
	for _, uid := range uids {
		if !a.known(uid) && a.pleg.Get(uid) == nil {
			out = append(out, uid)
		}
	}
	return out, err
}
