package store

import (
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The positions stand in the head: an older version skips the field there, and writes a head without it.

// place records the positions after a revision.
func (l *ledger) place(rev *revision.Revision) {
	if rev.Changed == nil && len(rev.Dropped) == 0 {
		return
	}
	positions := decodePositions(l.positions).Update(rev.Changed)
	for _, source := range rev.Dropped {
		positions = positions.With(source, nil)
	}
	l.positions = encodePositions(positions.Bounded(nil))
}

// encodePositions returns the positions as a Cursor that has nothing else.
func encodePositions(p position.Positions) string {
	if len(p) == 0 {
		return ""
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&podconfigv1.Cursor{Positions: p.Proto()})
	if err != nil {
		return "" // Only text that isn't UTF-8 can't be encoded, and position.FromProto lets none pass.
	}
	return string(b)
}

// decodePositions returns no positions for text that isn't theirs: they are a bound that consumers have too.
func decodePositions(text string) position.Positions {
	m := &podconfigv1.Cursor{}
	if err := proto.Unmarshal([]byte(text), m); err != nil {
		return nil
	}
	p, err := position.FromProto(m.GetPositions())
	if err != nil {
		return nil
	}
	return p
}
