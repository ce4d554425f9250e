package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/sources"
)

const (
	// maxConfirmNodes is how many nodes one confirmation lists one by one. For more, all pods are listed.
	maxConfirmNodes = 32
	// maxNodeName is the longest name of a node in bytes.
	maxNodeName = 253
	// noNode isn't the name of a node: a list of its pods is empty.
	noNode = "-"
	// confirmEvery is the shortest time between the beginnings of two confirmations. Between them is a rest of restFactor
	// times what the lists took, up to maxRest: large lists take no more than a quarter of the time of one connection.
	confirmEvery        = 250 * time.Millisecond
	restFactor, maxRest = 3, 10 * time.Second
	// confirmPatience is how long the watch has to bring what a confirmation has listed.
	confirmPatience = 10 * time.Second
	// maxBehind is how many confirmations in a row the watch may be behind. Then all is read again.
	maxBehind = 3
)

// Errors of confirmations. All are repeated.
var (
	errNoPosition = errors.New("it isn't known how far the pods follow a cluster")
	errBehind     = fmt.Errorf("the watch hasn't brought for %v what a list has", confirmPatience)
	errLineage    = errors.New("the cluster, or the epoch of its history, has changed")
	errPast       = errors.New("the history of the cluster has gone back")
)

var _ sources.Confirmer = (*Source)(nil)

// confirmBackoff is between confirmations that fail: up to 15 s.
var confirmBackoff = wait.Backoff{
	Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 10 * time.Second, Steps: math.MaxInt32,
}

// lastNumber is the last number of a confirmation in this process: a Source that takes the place of another one goes on there.
var lastNumber atomic.Uint64

// confirmer collects the calls of Confirm until the next confirmation begins. It is safe for concurrent use.
type confirmer struct {
	// signal has a token if a confirmation is due.
	signal chan struct{}

	mu sync.Mutex
	// number is that of the confirmation that is due. Zero: none is.
	number uint64
	due    scope
	// whole: the next one has all nodes, as its number confirms what was requested of an earlier Source, too.
	whole bool
}

// scope is the nodes of a confirmation. The zero value has none.
type scope struct {
	all   bool
	nodes map[string]bool
}

func newConfirmer() *confirmer {
	return &confirmer{signal: make(chan struct{}, 1), whole: lastNumber.Load() > 0}
}

// Confirm is part of sources.Confirmer.
func (s *Source) Confirm(nodes []string) (number uint64) {
	own := scope{all: nodes == nil}
	for _, node := range nodes {
		if _, found := slices.BinarySearch(s.nodes, node); found || s.nodes == nil && s.shard.Has(node) {
			own.add(node)
		}
	}
	switch {
	case own.all || len(own.nodes) > 0:
	case s.nodes != nil:
		// Of other nodes this Source has no pods. What it lists may only be on its own nodes.
		own.add(s.nodes[0])
	default:
		own.add(noNode)
	}
	return s.confirms.put(own)
}

func (s *scope) add(node string) {
	if s.all || node == "" || len(node) > maxNodeName || len(s.nodes) == maxConfirmNodes && !s.nodes[node] {
		*s = scope{all: true}
		return
	}
	if s.nodes == nil {
		s.nodes = map[string]bool{}
	}
	s.nodes[node] = true
}

// put makes a confirmation of these nodes due, and returns its number.
func (c *confirmer) put(own scope) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.all = c.due.all || own.all; c.due.all {
		c.due.nodes = nil
	}
	for node := range own.nodes {
		c.due.add(node)
	}
	if c.number == 0 {
		c.number = lastNumber.Add(1)
	}
	notify(c.signal)
	return c.number
}

// begin returns what is due, and its number. Later calls of Confirm have another one. Zero: nothing is due.
func (c *confirmer) begin() (scope, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, number := c.due, c.number
	if number > 0 && c.whole {
		own, c.whole = scope{all: true}, false
	}
	c.due, c.number = scope{}, 0
	return own, number
}

// confirm makes the due confirmations, one after the other, until ctx ends.
func (s *Source) confirm(ctx context.Context, pods *pods) {
	var rest time.Duration
	backoff, behind := s.confirmBackoff, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.confirms.signal:
		}
		if !s.sleep(ctx, rest) {
			return
		}
		own, number := s.confirms.begin()
		if number == 0 {
			continue
		}
		took, err := s.confirmOnce(ctx, pods, own, number)
		rest = restAfter(took)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			backoff, behind = s.confirmBackoff, 0
			continue
		}
		s.cfg.Logger.Debug("the pods can't be confirmed; it is tried again", "error", err)
		if behind++; !errors.Is(err, errBehind) {
			behind = 0
		} else if behind == maxBehind {
			behind = 0
			s.server.identity.outdated()
		}
		s.confirms.put(own)
		s.pause(ctx, pods, backoff.Step(), err)
	}
}

// pause waits before the next attempt: for d, or as long as the server asks for, or until the pods can be read again.
func (s *Source) pause(ctx context.Context, pods *pods, d time.Duration, err error) {
	recovered := pods.recovered
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		d, recovered = max(d, min(time.Duration(seconds)*time.Second, maxRetryAfter)), nil
	}
	timer := s.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-recovered:
	case <-ctx.Done():
	}
}

// restAfter returns the time between two confirmations, if the lists of the first one took that long.
func restAfter(took time.Duration) time.Duration {
	return max(min(restFactor*took, maxRest), confirmEvery-took)
}

// sleep waits for d, and reports whether ctx hasn't ended.
func (s *Source) sleep(ctx context.Context, d time.Duration) bool {
	timer := s.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// confirmOnce lists the pods of the nodes, and waits until the watch has brought what is listed. It returns how long the lists
// took.
func (s *Source) confirmOnce(ctx context.Context, pods *pods, own scope, number uint64) (took time.Duration, err error) {
	s.server.release.check(ctx)
	before, refusals := pods.where(), s.server.identity.refused()
	if !before.known || before.of.cluster == "" || !s.server.release.comparable.Load() {
		return 0, errNoPosition
	}
	// A proxy that leaves another cluster between the list and the checks after it is found by one before it.
	if err := s.server.identity.confirm(ctx, nil); err != nil {
		return 0, err
	}
	begun := s.cfg.Clock.Now()
	listed, err := s.listScope(ctx, own)
	took = s.cfg.Clock.Since(begun)
	if err != nil {
		return took, err
	}
	if err := s.server.identity.confirmTwice(ctx, nil); err != nil {
		return took, err
	}
	switch {
	case s.server.identity.refused() != refusals || !s.server.identity.lineage().is(before.of):
		return took, errLineage
	case older(listed.least(), before.current):
		s.server.identity.wentBack(before.of, listed.least(), before.current)
		return took, errPast
	}
	listed.of, listed.number = before.of, number
	done := pods.await(listed)
	timer := s.cfg.Clock.NewTimer(s.confirmPatience)
	defer timer.Stop()
	select {
	case err = <-done:
		return took, err
	case <-timer.C():
		err = errBehind
	case <-ctx.Done():
		err = ctx.Err()
	}
	pods.forget(listed)
	return took, err
}

// listScope lists the pods of the nodes.
func (s *Source) listScope(ctx context.Context, own scope) (*confirmation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	nodes := slices.Sorted(maps.Keys(own.nodes))
	c := &confirmation{listed: map[string]listedPod{}, versions: map[string]string{}, done: make(chan error, 1)}
	if c.whole = own.all || s.nodes != nil && len(nodes) == len(s.nodes); c.whole {
		nodes = s.nodes
	}
	if nodes == nil || len(nodes) > maxConfirmNodes {
		c.foreign = s.nodes != nil || s.shard.Shards > 1
		return c, s.listMetadata(ctx, s.selector(), "", c)
	}
	for _, node := range nodes {
		if err := s.listMetadata(ctx, fields.OneTermEqualSelector("spec.nodeName", node), node, c); err != nil {
			return nil, err
		}
	}
	return c, nil
}
