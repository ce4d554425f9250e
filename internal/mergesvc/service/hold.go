package service

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// heldView follows the hash of the view in the cursors of a stream that holds a source: a consumer that comes back with
// one is caught up from its known pods, as it lacks what was held.
const heldView = "-held"

// held are the sources of which a stream sends nothing, as this podconfigd is behind the consumer's position (G11).
type held struct {
	sources map[string]*heldSource
	// known are the pods of these sources that the consumer has. unsaid is set if it didn't list its pods.
	known  []catchup.Known
	unsaid bool
	// namesakes are the pods of other sources that the consumer has with the names of known.
	namesakes *namesakes
}

// confirmAgain is after how long without a result a confirmation is requested again: the source may have been replaced.
const confirmAgain = time.Minute

// hold finds the sources of which the consumer is ahead, by the positions in its cursor, and takes them out of the view.
// It is called before the first state is read: that is then as current as what is compared here, or later.
func (w *watch) hold() {
	claims, err := position.FromProto(w.resume.GetPositions())
	if err != nil {
		w.log.Warn("the consumer's cursor has positions that can't be read; they are ignored", "error", err)
	}
	sources := w.history.Sources()
	claims = claims.Select(func(source string) bool {
		return w.view.Sees(source) && (sources.Configured(source) || w.moved() && isSourceName(source))
	})
	w.nodesSeen = w.server.nodes.Load()
	if failpoint.Active(failpoint.IgnorePosition) || len(claims) == 0 && !w.moved() && len(w.lacking(sources)) == 0 {
		return
	}
	w.positions = claims.Plain()
	w.claimed = w.positions
	w.reader.Wait(true)
	behind := map[string]*heldSource{}
	for source, h := range w.candidates() {
		if w.judge(source, h) == stillHeld {
			behind[source] = h
			w.log.Warn("the consumer gets nothing of this source for now; its pods stay", "source", source, "reason", h.reason)
		}
	}
	if len(behind) == 0 {
		w.reader.Wait(false)
		return
	}
	w.held = &held{sources: behind, unsaid: len(w.known) == 0}
	w.known = slices.DeleteFunc(w.known, func(k catchup.Known) bool {
		if behind[k.Source] == nil {
			return false
		}
		w.held.known = append(w.held.known, k)
		return true
	})
	w.mask(w.known)
}

// candidates are the sources that may have to be held.
func (w *watch) candidates() map[string]*heldSource {
	now, sources := w.server.clock.Now(), w.history.Sources()
	out := map[string]*heldSource{}
	if w.moved() {
		for _, k := range w.known {
			configured := sources.Configured(k.Source)
			if out[k.Source] == nil && w.view.Sees(k.Source) && (configured && hasNoOrder(k.Source) || !configured && isSourceName(k.Source)) {
				out[k.Source] = &heldSource{since: now, moved: true, foreign: !configured}
			}
		}
		for _, src := range sources {
			// Without known pods, it isn't known whether the consumer has any of the source.
			if len(w.known) == 0 && hasNoOrder(src.Name) && w.view.Sees(src.Name) {
				out[src.Name] = &heldSource{since: now, moved: true}
			}
		}
	}
	for _, source := range w.positions.Sources() {
		out[source] = &heldSource{claim: w.positions.Of(source), since: now, foreign: !sources.Configured(source)}
	}
	for _, source := range w.lacking(sources) {
		if out[source] == nil {
			out[source] = &heldSource{since: now}
		}
	}
	return out
}

// verdict is what judge finds.
type verdict int

const (
	stillHeld verdict = iota
	caughtUp
	// confirmed: the API server has shown that the pods are current, or an administrator has accepted them.
	confirmed
)

// judge compares a source with the claim. If only the API server can tell, it is requested once.
func (w *watch) judge(source string, h *heldSource) verdict {
	configured := w.history.Sources().Configured(source)
	if h.foreign = h.foreign && !configured; !configured {
		h.after = nil
		return w.judgeUnconfigured(source, h)
	}
	node, lacking := w.lacks(source)
	if h.lacked = lacking; lacking {
		h.explain(fmt.Sprintf("this podconfigd doesn't have the pods of node %s: its --nodes, or its --shard, are others", node), false, w.server.clock.Now())
		return stillHeld
	}
	if h.moved {
		return w.judgeMove(source, h)
	}
	reached := w.history.Reached(source)
	number, reason := reached.Confirmed, position.Behind(reached.Current, h.claim)
	if reason == nil {
		h.after = reached.Current
		return caughtUp
	}
	h.explain(reason.Text, !reason.Confirmable, w.server.clock.Now())
	if w.server.accepted.has(source, h) {
		h.after = position.Accept(h.claim, reached.Current)
		return confirmed
	}
	if !reason.Confirmable {
		return stillHeld
	}
	if now := w.server.clock.Now(); h.number == 0 || number < h.number && now.Sub(h.requested) > confirmAgain {
		h.number, h.requested = w.server.cfg.Confirm(source, w.view.Nodes()), now
	}
	if h.number > 0 && number >= h.number && len(reached.Current) > 0 {
		h.after = position.Settle(h.claim, reached.Current, reached.ConfirmedAt)
		return confirmed
	}
	return stillHeld
}

// mask sets the view without what is held. others are pods of other sources that the consumer has: they stay visible,
// whatever their names, until they are removed.
func (w *watch) mask(others []catchup.Known) {
	if w.held == nil {
		w.shown, w.everything = w.view, w.view.Everything()
		w.heldSources.Store(nil)
		return
	}
	mask := &view.Mask{Sources: map[string]bool{}, UIDs: map[types.UID]bool{}, Names: map[string]bool{}}
	for source := range w.held.sources {
		mask.Sources[source] = true
	}
	for _, k := range w.held.known {
		mask.UIDs[k.UID], mask.Names[k.Name+"_"+k.Namespace] = true, true
	}
	for _, k := range others {
		delete(mask.UIDs, k.UID)
	}
	w.held.namesakes = newNamesakes(mask, others)
	w.shown, w.everything = w.view.Without(mask), false
	w.showHeld()
}

// showHeld sets what ListConsumers shows of the held sources.
func (w *watch) showHeld() {
	var list []*podconfigv1.HeldSource
	for _, source := range slices.Sorted(maps.Keys(w.held.sources)) {
		h := w.held.sources[source]
		h.changed = false
		list = append(list, &podconfigv1.HeldSource{
			Name: source, Reason: h.reason, Since: timestamppb.New(h.since), NeedsAcceptance: h.needs,
		})
	}
	w.heldSources.Store(&list)
}

// heldReason returns why a source is held, or nothing.
func (w *watch) heldReason(source string) string {
	if w.held == nil || w.held.sources[source] == nil {
		return ""
	}
	return w.held.sources[source].reason
}

// release ends that sources are held which have caught up. The consumer gets the difference between what it has and the
// current state, as one unit. The consumer is at the last revision, or sent is true and nothing was sent.
func (w *watch) release() (sent bool, err error) {
	ended, changed := map[string]verdict{}, false
	reached := w.positions
	for source, h := range w.held.sources {
		v := w.judge(source, h)
		if v == stillHeld {
			changed = changed || h.changed
			continue
		}
		ended[source] = v
		reached = reached.With(source, h.after)
	}
	if len(ended) == 0 {
		if changed {
			w.showHeld()
		}
		return false, nil
	}
	// Not older than what was compared.
	st := w.reader.State()
	if st.Number != w.at.Load() {
		return true, nil
	}
	known := w.has(st, ended)
	for source := range ended {
		h := w.held.sources[source]
		w.log.Info("the consumer gets what changed in the source that was held", "source", source,
			"after", w.server.clock.Since(h.since), "positions", fmt.Sprint(h.after))
		delete(w.held.sources, source)
	}
	w.held.known = slices.DeleteFunc(w.held.known, func(k catchup.Known) bool { _, ok := ended[k.Source]; return ok })
	unsaid := w.held.unsaid
	if len(w.held.sources) == 0 {
		w.held = nil
		w.reader.Wait(false)
	}
	w.mask(known)
	w.positions = reached
	var changes []revision.Change
	if unsaid {
		changes, w.pending = catchup.Set(st, st.Number, w.shown), nil
	} else {
		changes, w.pending = catchup.FromKnown(st, known, w.shown)
		w.logRemovals(changes)
		if w.shown.Snapshots() && len(changes) == 0 {
			// A former SET may have lacked the held pods. The consumer removes what the last SET lacks of a ready source.
			changes = catchup.Set(st, st.Number, w.shown)
		}
	}
	for source := range ended {
		if st.Sources.ReadyAt(source, st.Number) {
			changes = revision.WithReady(changes, source)
		}
	}
	before := w.cursor.Load()
	if err := w.jump(st, changes); err != nil {
		return true, err
	}
	if w.cursor.Load() == before {
		// Nothing had to be sent. The heartbeat has the cursor, with what is confirmed and replaced.
		w.positions, w.sentCursor = reached, 0
	}
	// The readiness of the sources, for a consumer that got no op of them.
	err = w.beat()
	w.positions = w.positions.Plain()
	return true, err
}

// has returns the pods that the consumer has: what the view shows of the state, what is pending, and those of the sources
// that are held no longer.
func (w *watch) has(st *history.State, ended map[string]verdict) []catchup.Known {
	known := w.pending.Known()
	open := make(map[types.UID]bool, len(known))
	for _, k := range known {
		open[k.UID] = true
	}
	for _, k := range catchup.Shown(st, w.shown) {
		if !open[k.UID] {
			known = append(known, k)
		}
	}
	for _, k := range w.held.known {
		if _, ok := ended[k.Source]; ok {
			known = append(known, k)
		}
	}
	return known
}
