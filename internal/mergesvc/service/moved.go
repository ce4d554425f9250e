package service

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
)

// Files and URLs have no order: nothing shows whether those of this podconfigd are newer or older than those of the
// podconfigd that the consumer comes from. So a source that would lose pods by the move is read twice, and one that would
// lose more than half of them needs an administrator.

// minReadings is how many readings in a row have to have the same result before a move removes a pod.
const minReadings = 2

// hasNoOrder reports whether the source has no positions.
func hasNoOrder(source string) bool {
	kind, _, _ := strings.Cut(source, ":")
	return kind == "file" || kind == "http"
}

// moved reports whether the consumer comes from another podconfigd.
func (w *watch) moved() bool {
	from := w.resume.GetPodconfigdId()
	return from != "" && w.server.cfg.ID != "" && from != w.server.cfg.ID
}

// byMove reports whether a source is held because the consumer moved. Its cursor then names the former podconfigd still.
func (h *held) byMove() bool {
	if h == nil {
		return false
	}
	for _, src := range h.sources {
		if src.moved {
			return true
		}
	}
	return false
}

// judgeMove is judge for a source without order.
func (w *watch) judgeMove(source string, h *heldSource) verdict {
	const comes = "the consumer comes from another podconfigd, "
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
	switch {
	case w.server.accepted.since(source, h.since):
		return caughtUp
	case !w.history.Sources().ReadyAt(source, w.history.Number()):
		h.reason.Text = comes + "and the source isn't ready here"
	case gone == 0:
		return caughtUp
	case gone*2 > held:
		h.reason.Text = fmt.Sprintf(comes+"and would lose %d of its %d pods of the source; if that is right, run: podctl sources accept %s",
			gone, held, source)
	case w.history.Readings(source) < minReadings:
		h.reason.Text = fmt.Sprintf(comes+"and would lose %d of its %d pods of the source, which is read again before", gone, held)
	default:
		return caughtUp
	}
	return stillHeld
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
	times map[string]time.Time
}

// since reports whether a source was accepted then or later.
func (a *accepted) since(source string, then time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.times[source]
	return ok && !at.Before(then)
}

func (a *accepted) accept(source string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.times == nil {
		a.times = map[string]time.Time{}
	}
	a.times[source] = now
}
