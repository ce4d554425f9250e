package apiserver

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/reason"
)

// emitter sends batches as sets. One goroutine uses it.
type emitter struct {
	log     *slog.Logger
	clock   clock.PassiveClock
	address string
	// referrals may be nil.
	referrals *referrals
	out       func(manifest.Set)
	// comparable reports whether the server's resource versions can be compared.
	comparable func() bool

	// origins are in the order of their names. A slice that was sent isn't changed.
	origins []*manifest.Origin
	// failing is the reason for the Err of the last set; logged is the reason that was logged, until the server is
	// watched again.
	failing, logged string
}

// emit sends the sets of a batch: a good one, or one with an Err, or one after the other.
func (e *emitter) emit(b batch) {
	if len(b.changed) > 0 {
		before := e.origins
		e.origins = merge(before, b.changed)
		e.logHeld(before, b.changed)
		if e.referrals != nil {
			// Before the set, so that objects are requested while it is merged.
			e.referrals.put(newlyReferred(before, e.origins, b.changed))
		}
	}
	now := e.clock.Now()
	if b.good {
		e.failing = ""
		e.out(manifest.Set{Source: Name, ReadTime: now, Origins: e.origins, Progress: b.at.progress(e.comparable())})
	}
	if b.watched && e.logged != "" {
		e.logged = ""
		e.log.Info("the API server can be read again")
	}
	if b.err == nil {
		return
	}
	err := away(e.address, b.err)
	why := reason.Of(err)
	if e.failing == why {
		return
	}
	e.failing = why
	e.out(manifest.Set{Source: Name, ReadTime: now, Err: err})
	if e.logged != e.failing {
		e.logged = e.failing
		e.log.Warn("the API server can't be read; its pods are kept", "error", b.err)
	}
}

// merge returns the origins with the changes, in a new slice.
func merge(origins []*manifest.Origin, changed map[string]*v1.Pod) []*manifest.Origin {
	merged := make([]*manifest.Origin, 0, len(origins)+len(changed))
	rest := origins
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		at, found := find(rest, name)
		merged = append(merged, rest[:at]...)
		if rest = rest[at:]; found {
			rest = rest[1:]
		}
		if pod := changed[name]; pod != nil {
			merged = append(merged, manifest.Received(name, pod))
		}
	}
	return append(merged, rest...)
}

func find(origins []*manifest.Origin, name string) (int, bool) {
	return slices.BinarySearchFunc(origins, name, func(o *manifest.Origin, name string) int { return cmp.Compare(o.Name, name) })
}

// logHeld logs the pods that can't be used, once for each reason.
func (e *emitter) logHeld(before []*manifest.Origin, changed map[string]*v1.Pod) {
	for name, pod := range changed {
		at, found := find(e.origins, name)
		if !found || !e.origins[at].Held {
			continue
		}
		origin := e.origins[at]
		if was, ok := find(before, name); ok && slices.Equal(before[was].Findings, origin.Findings) {
			continue
		}
		for _, f := range origin.Findings {
			e.log.Warn("a pod can't be used", "pod", name, "uid", pod.UID, "reason", f.Redacted().Message)
		}
	}
}
