package history

import (
	"iter"
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Inspect counts an inspector that follows the history, until end is called. While there is one, the redacted
// versions in each dropped revision are compared, so that an inspector that is behind gets exactly the changes that
// it could see. Without an inspector nothing is compared. One Append compares at most maxCompared pods and
// maxComparedBytes; an inspector that is behind older revisions gets a SET.
func (h *History) Inspect() (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inspectors++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.inspectors--
	}
}

// link records which versions those of a new revision replace. The revision keeps these in memory as long as it is
// kept.
func (h *History) link(rev *revision.Revision) {
	for _, c := range rev.Changes {
		for i, was := range c.Was {
			c.Pods[i].Replace(was)
		}
	}
	for _, p := range rev.Settled {
		if was := h.pods[p.UID()]; was != nil {
			p.Replace(was)
		}
	}
}

// The most that one Append compares. It runs on the goroutine that publishes the revisions of all sources.
const (
	maxCompared      = 64
	maxComparedBytes = 4 << 20
)

// firstCompared returns the index of the first dropped revision to compare: the newest ones, within the bounds; none
// without an inspector. The caller holds mu.
func (h *History) firstCompared(dropped []*revision.Revision) int {
	if h.inspectors == 0 {
		return len(dropped)
	}
	pods, bytes := 0, 0
	for i, rev := range slices.Backward(dropped) {
		for p := range versions(rev) {
			if n := p.Uncompared(); n > 0 {
				pods, bytes = pods+1, bytes+n
			}
		}
		if pods > maxCompared || bytes > maxComparedBytes {
			return i + 1
		}
	}
	return 0
}

func (h *History) raiseShownHorizon(number uint64) {
	for {
		was := h.shownHorizon.Load()
		if number <= was || h.shownHorizon.CompareAndSwap(was, number) {
			return
		}
	}
}

// detach releases the versions that those of the revision replaced. It reports whether it is known what an inspector
// sees of each; it is not known for a pod that can't be redacted. If compare is false, detach returns true, as the
// caller handles that case.
func detach(rev *revision.Revision, compare bool) bool {
	all := true
	for p := range versions(rev) {
		known := p.Detach(compare)
		all = all && (known || !compare)
	}
	return all
}

// versions iterates over the versions of pods that came with the revision.
func versions(rev *revision.Revision) iter.Seq[*revision.Pod] {
	return func(yield func(*revision.Pod) bool) {
		for _, c := range rev.Changes {
			for _, p := range c.Pods {
				if !yield(p) {
					return
				}
			}
		}
		for _, p := range rev.Settled {
			if !yield(p) {
				return
			}
		}
	}
}
