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
	// ErrNoSource: there is no such source.
	ErrNoSource = errors.New("there is no such source")
	// ErrNotRead: nothing is known of the source yet, so there is nothing to compare with.
	ErrNotRead = errors.New("the source hasn't been read yet")
)

// Preview is what some origins would change.
type Preview struct {
	// Changes are the ops, as in a Revision.
	Changes []revision.Change
	// Findings are those of the origins in question, conflicts included.
	Findings []Finding
	// Number is the revision that they were compared with; SourceReady whether the source is ready.
	Number      uint64
	SourceReady bool
}

// Clone is a Merger of its own with the same state. It costs what exists, not what it takes.
func (m *Merger) Clone() *Merger {
	out := &Merger{
		claims: claims{names: maps.Clone(m.claims.names), uids: maps.Clone(m.claims.uids), doubly: m.claims.doubly},
		served: maps.Clone(m.served), number: m.number,
	}
	for _, s := range m.sources {
		// Origins and candidates never change once they are made. A candidate leads to the Merger's own source still: whoever works
		// with the clone reads no more of that than its name, which never changes either.
		clone := *s
		clone.origins, clone.byName, clone.conflicts = slices.Clone(s.origins), maps.Clone(s.byName), slices.Clone(s.conflicts)
		out.sources = append(out.sources, &clone)
	}
	return out
}

// Preview applies the source's present set with some origins replaced, added in the order of their names, or left out.
func (m *Merger) Preview(source string, origins []*manifest.Origin, gone []string, now time.Time) (Preview, error) {
	src := m.source(source)
	if src == nil || src.former {
		return Preview{}, fmt.Errorf("source %s: %w", source, ErrNoSource)
	}
	if !src.spoken {
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
	var out []*manifest.Origin
	for _, o := range s.origins {
		replaced := slices.ContainsFunc(origins, func(g *manifest.Origin) bool { return g.Name == o.given.Name })
		if !replaced && !slices.Contains(gone, o.given.Name) {
			out = append(out, o.given)
		}
	}
	out = append(out, origins...)
	slices.SortStableFunc(out, func(a, b *manifest.Origin) int { return strings.Compare(a.Name, b.Name) })
	return out
}
