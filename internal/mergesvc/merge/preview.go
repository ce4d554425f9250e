package merge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// The errors of Preview.
var (
	// ErrNoSource: no configured source has that name.
	ErrNoSource = errors.New("there is no such source")
	// ErrNotRead: no pods of the source are known yet to compare with.
	ErrNotRead = errors.New("the source hasn't been read yet")
)

// Preview is the effect that some origins would have.
type Preview struct {
	// Changes are the ops, as in a Revision.
	Changes []revision.Change
	// Findings are those of the given origins, conflicts included.
	Findings []Finding
	// Number is the revision that the origins were compared with. SourceReady reports whether the source is ready.
	Number      uint64
	SourceReady bool
}

// Clone returns a Merger with the same state. It copies what exists, and shares what is immutable.
func (m *Merger) Clone() *Merger {
	out := &Merger{
		claims: claims{names: maps.Clone(m.claims.names), uids: maps.Clone(m.claims.uids), doubly: m.claims.doubly},
		served: maps.Clone(m.served), number: m.number,
	}
	for _, s := range m.sources {
		// Origins and candidates are immutable. A candidate still points to the source of the original Merger; a
		// clone reads only the name of it, which is immutable too.
		clone := *s
		clone.origins, clone.byName, clone.conflicts = slices.Clone(s.origins), maps.Clone(s.byName), slices.Clone(s.conflicts)
		out.sources = append(out.sources, &clone)
	}
	return out
}

// Preview applies the source's current set with some origins replaced, added in the order of their names, or left
// out.
func (m *Merger) Preview(source string, origins []*manifest.Origin, gone []string, now time.Time) (Preview, error) {
	src := m.source(source)
	if src == nil || src.former {
		return Preview{}, fmt.Errorf("source %s: %w", source, ErrNoSource)
	}
	if !src.merged {
		return Preview{}, fmt.Errorf("source %s: %w", source, ErrNotRead)
	}
	out := Preview{Number: m.number, SourceReady: src.ready}
	rev := m.Apply(manifest.Set{Source: source, ReadTime: now, Origins: src.with(origins, gone)})
	if rev != nil {
		out.Changes = rev.Changes
	}
	asked := map[string]bool{}
	for _, o := range origins {
		asked[o.Name] = true
	}
	for _, f := range src.findings() {
		if asked[f.Origin] {
			out.Findings = append(out.Findings, f)
		}
	}
	return out, nil
}

func (s *source) with(origins []*manifest.Origin, gone []string) []*manifest.Origin {
	left := map[string]bool{}
	for _, name := range gone {
		left[name] = true
	}
	for _, o := range origins {
		left[o.Name] = true
	}
	var out []*manifest.Origin
	for _, o := range s.origins {
		if !left[o.given.Name] {
			out = append(out, o.given)
		}
	}
	out = append(out, origins...)
	slices.SortStableFunc(out, func(a, b *manifest.Origin) int { return strings.Compare(a.Name, b.Name) })
	return out
}
