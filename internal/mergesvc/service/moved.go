package service

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
)

// Files, URLs and artifacts have no order: nothing shows whether those of this podconfigd are newer or older than those of the
// podconfigd that the consumer comes from. So a source that would lose pods by the move is read twice, and one that would
// lose more than half of them needs an administrator.

// minReadings is how many readings in a row have to have the same result before a move removes a pod.
const minReadings = 2

// hasNoOrder reports whether the source has no positions.
func hasNoOrder(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	return kind == "file" || kind == "http" || kind == "oci"
}

// moved reports whether the consumer comes from another podconfigd.
func (w *watch) moved() bool {
	from := w.resume.GetPodconfigdId()
	return from != "" && w.server.cfg.ID != "" && from != w.server.cfg.ID
}

// byMove reports whether a source is held because the consumer moved, or because its pods are at another podconfigd. The cursor
// then names the former podconfigd still.
func (h *held) byMove() bool {
	if h == nil {
		return false
	}
	for _, src := range h.sources {
		if src.moved || src.lacked {
			return true
		}
	}
	return false
}

// judgeMove is judge for a source without order.
func (w *watch) judgeMove(source string, h *heldSource) verdict {
	if h.read > 0 && h.read == w.history.Reads(source) && !w.server.accepted.has(source, h) {
		// Only a reading of the source changes what is compared here.
		return h.verdict
	}
	h.read = w.history.Reads(source)
	h.verdict = w.compareMove(source, h)
	return h.verdict
}

const comes = "the consumer comes from another podconfigd, "

// compareMove compares the pods of a source without order with those that the consumer has.
func (w *watch) compareMove(source string, h *heldSource) verdict {
	held, gone := 0, 0
	for _, list := range [][]catchup.Known{w.known, w.held.pods()} {
		for _, k := range list {
			if k.Source != source {
				continue
			}
			held++
			if p := w.history.Current(k.UID); p == nil || p.Source != source {
				gone++
			}
		}
	}
	now := w.server.clock.Now()
	switch {
	case !w.history.Sources().ReadyAt(source, w.history.Number()):
		h.explain(comes+"and the source isn't ready here", false, now)
	case held > 0 && gone == 0:
		return caughtUp
	case gone*2 > held:
		h.explain(fmt.Sprintf(comes+"and would lose %d of its %d pods of the source; if that is right, run: podctl sources accept %s",
			gone, held, source), true, now)
	case w.history.Readings(source) >= minReadings:
		return caughtUp
	case held == 0:
		h.explain(comes+"and doesn't list its pods; the source is read again before", false, now)
	default:
		h.explain(fmt.Sprintf(comes+"and would lose %d of its %d pods of the source, which is read again before", gone, held), false, now)
	}
	if w.server.accepted.has(source, h) {
		return caughtUp
	}
	return stillHeld
}

// judgeUnconfigured is judge for a source that isn't configured. If it was removed here, its pods are for all consumers. If
// the consumer comes from another podconfigd, this one may never have had it, or its pods.
func (w *watch) judgeUnconfigured(source string, h *heldSource) verdict {
	if !h.foreign && !h.lacked {
		return caughtUp
	}
	h.explain(comes+"and the source isn't configured here; if its pods are to be removed, run: podctl sources accept "+source,
		true, w.server.clock.Now())
	if w.server.accepted.has(source, h) {
		return caughtUp
	}
	return stillHeld
}

// maxSourceName is the maximum length of a source's name.
const maxSourceName = 320

// isSourceName reports whether a name that a consumer sends can be that of a source of another podconfigd.
func isSourceName(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	printable := func(r rune) bool { return r > ' ' && r <= '~' }
	return slices.Contains([]string{"file", "http", "oci", "api", "relay"}, kind) && len(source) <= maxSourceName &&
		!strings.ContainsFunc(source, func(r rune) bool { return !printable(r) })
}

// pods returns the known pods of the held sources.
func (h *held) pods() []catchup.Known {
	if h == nil {
		return nil
	}
	return h.known
}

// accepted is when an administrator last accepted what consumers lose of a source.
type accepted struct {
	mu    sync.Mutex
	times map[string]acceptance
}

// acceptance is when what only an administrator can end was accepted, and when all was.
type acceptance struct{ needed, all time.Time }

// has reports whether an administrator has accepted what the source is held for.
func (a *accepted) has(source string, h *heldSource) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.times[source]
	return ok && (!at.all.Before(h.since) || h.needs && !at.needed.Before(h.needed))
}

func (a *accepted) accept(source string, all bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.times == nil {
		a.times = map[string]acceptance{}
	}
	at := a.times[source]
	if at.needed = now; all {
		at.all = now
	}
	a.times[source] = at
}
