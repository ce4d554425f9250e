package stream

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ErrBehind is wrapped by the errors of Held.Check: podconfigd is behind the consumer, or doesn't show that it isn't (G11).
// Use another podconfigd, or this one later. The consumer keeps its pods meanwhile.
var ErrBehind = errors.New("podconfigd is behind this consumer")

// BehindError is the error of a revision that would take the consumer back in a source's time. It wraps ErrBehind.
type BehindError struct {
	// Source is the name of the source.
	Source string
	// Reason explains it in one line, for users.
	Reason string
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("%v in source %.64q: %.512s", ErrBehind, e.Source, e.Reason)
}

// Unwrap returns ErrBehind.
func (e *BehindError) Unwrap() error { return ErrBehind }

// Check returns an error if the revision must not be applied: it would take the consumer back in a source's time, or a
// position in it isn't valid. The stream is of no use then. Call it before Interpret. It changes nothing.
//
// The positions in the consumer's cursor are its claims. The cursor of each revision needs a position of each claimed
// source that isn't behind the claim, as podconfig.v1.SourcePosition is compared. A podconfigd that holds the source back
// repeats the claim. A position that is lacking is accepted only if the cursor is of the same instance as the consumer's:
//
//   - Without any position, podconfigd is an older version of itself. The claims stay.
//   - With others, the source may have been removed from its configuration. Then it must not be in the list of sources, and
//     the revision may have only REMOVEs of its pods. The claim ends once a list lacks the source and none of its pods is
//     held.
//
// On another instance the list proves nothing: it may be that of a podconfigd that never had the source. A consumer whose
// source was removed while it was away from its podconfigd, and which has to use another one, is let in by configuring the
// source there, and removing it again.
func (h *Held) Check(r *Revision) error {
	have, err := position.FromProto(r.Cursor.GetPositions())
	for _, reached := range [][]*podconfigv1.SourcePosition{r.Synced.GetPositions(), r.Heartbeat.GetPositions()} {
		if err == nil {
			_, err = position.FromProto(reached)
		}
	}
	if err != nil {
		return fmt.Errorf("podconfigd sent an %w", err)
	}
	if r.Cursor == nil && r.Synced == nil && len(r.Updates) == 0 {
		return nil
	}
	for _, source := range h.claims.Sources() {
		if why := h.behind(r, source, have); why != "" {
			return &BehindError{Source: source, Reason: why}
		}
	}
	if n := len(h.claimsAfter(r, have, h.holds)); n > position.MaxPositions {
		return fmt.Errorf("podconfigd sent an %w: with those of the sources that it lacks they are %d; at most %d are allowed",
			position.ErrInvalid, n, position.MaxPositions)
	}
	return nil
}

// behind returns why the revision would take the consumer back in the source's time, or nothing. have are the positions in
// its cursor.
func (h *Held) behind(r *Revision, source string, have position.Positions) string {
	if own := have.Of(source); len(own) > 0 {
		if reason := position.Behind(own, h.claims.Of(source)); reason != nil {
			return reason.Text
		}
		return ""
	}
	same := h.cursor.GetInstanceId() != "" && r.Cursor.GetInstanceId() == h.cursor.GetInstanceId()
	switch {
	case r.Cursor == nil:
		return "it sent a change without a cursor"
	case !same && len(have) == 0:
		return "it sends no positions, and isn't the podconfigd that the consumer followed before: it may be of an older version"
	case !same:
		return "it sends no position of the source, and isn't the podconfigd that the consumer followed before: the source may not be configured there"
	case len(have) == 0:
	case r.listsSources() && r.lists(source):
		return "it has the source, and sends no position of it"
	case r.brings(source):
		return "it sends pods of the source, and no position of it"
	}
	return ""
}

// lists reports whether the revision lists the source as configured.
func (r *Revision) lists(source string) bool {
	return slices.ContainsFunc(r.Sources(), func(s *podconfigv1.SourceReadiness) bool { return s.GetName() == source })
}

// brings reports whether the revision has pods of the source, other than removed ones.
func (r *Revision) brings(source string) bool {
	return slices.ContainsFunc(r.Updates, func(u *podconfigv1.PodUpdate) bool {
		return u.GetOp() != opRemove && slices.ContainsFunc(u.GetPods(), func(p *podconfigv1.Pod) bool { return p.GetSource() == source })
	})
}

// claimsAfter returns the claims after a revision with those positions in its cursor. holds reports whether pods of a source
// are held then.
func (h *Held) claimsAfter(r *Revision, have position.Positions, holds func(source string) bool) position.Positions {
	out := h.claims
	if r.Cursor != nil {
		out = slices.Clone(have)
		for i := range out {
			// It counts on this stream alone.
			out[i].Confirmed = false
		}
		for _, source := range h.claims.Sources() {
			if len(have.Of(source)) == 0 {
				out = out.With(source, h.claims.Of(source))
			}
		}
	}
	if !r.listsSources() || r.Cursor == nil && !h.placed {
		return out
	}
	for _, source := range h.claims.Sources() {
		if len(have.Of(source)) == 0 && !r.lists(source) && !holds(source) {
			out = out.With(source, nil)
		}
	}
	return out
}

// holds reports whether pods of a source are held.
func (h *Held) holds(source string) bool { return h.Count(source) > 0 }

// holds reports whether pods of a source are held after the ops so far.
func (i *interpreter) holds(source string) bool {
	found := false
	i.each(func(key podKey, _ *podconfigv1.KnownPod) { found = found || key.source == source })
	return found
}

// place sets the claims and the cursor after the revision. Positions that Check refuses are ignored.
func (i *interpreter) place(r *Revision) {
	h, o := i.held, &i.outcome
	have, _ := position.FromProto(r.Cursor.GetPositions())
	o.claims, o.placed = h.claimsAfter(r, have, i.holds), h.placed || r.Cursor != nil
	if o.Cursor = r.Cursor; o.Cursor == nil {
		o.Cursor = h.cursor
	}
	if len(o.claims) > 0 || len(o.Cursor.GetPositions()) > 0 {
		o.Cursor = proto.CloneOf(o.Cursor)
		o.Cursor.Positions = o.claims.Proto()
	}
	o.Moved = !proto.Equal(o.Cursor, h.cursor)
}
