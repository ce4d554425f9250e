package position

import (
	"cmp"
	"slices"
)

// Position is one podconfig.v1.SourcePosition.
type Position struct {
	// Source is the source's name, and Cluster the UID of Service default/kubernetes.
	Source, Cluster string
	// Epoch counts how often the cluster's history went back.
	Epoch uint64
	// ResourceVersion is a well-formed one of Kubernetes: digits, without leading zeros.
	ResourceVersion string
	// Confirmed is set if a consistent list, taken after the consumer's stream began, is the reason of the position.
	Confirmed bool
	// Replaced are the clusters that an administrator has confirmed to be replaced by this one.
	Replaced []string
}

// Positions are sorted by source and cluster, at most one for each. They are immutable. Nil: none.
type Positions []Position

// Of returns the positions of one source.
func (p Positions) Of(source string) Positions {
	from := slices.IndexFunc(p, func(o Position) bool { return o.Source == source })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(p) && p[to].Source == source {
		to++
	}
	return p[from:to:to]
}

// With returns the positions with those of one source replaced. own has no other source's; nil removes the source's.
func (p Positions) With(source string, own Positions) Positions {
	if len(own) == 0 && len(p.Of(source)) == 0 {
		return p
	}
	out := make(Positions, 0, len(p)+len(own))
	for _, o := range p {
		if o.Source != source {
			out = append(out, o)
		}
	}
	out = append(out, own...)
	return sorted(out)
}

// Update returns the positions with those of each source of own replaced.
func (p Positions) Update(own Positions) Positions {
	for i := 0; i < len(own); {
		of := own.Of(own[i].Source)
		p = p.With(own[i].Source, of)
		i += len(of)
	}
	return p
}

// Select returns the positions whose sources are selected; p itself if all are.
func (p Positions) Select(selected func(source string) bool) Positions {
	if !slices.ContainsFunc(p, func(o Position) bool { return !selected(o.Source) }) {
		return p
	}
	var out Positions
	for _, o := range p {
		if selected(o.Source) {
			out = append(out, o)
		}
	}
	return out
}

// Bounded returns the positions without those of the last sources, by name, if there are more than a message may have. Those of
// the sources that first has precede the others.
func (p Positions) Bounded(first Positions) Positions {
	if len(p) <= MaxPositions {
		return p
	}
	kept, n := map[string]bool{}, 0
	names := p.Sources()
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(min(len(first.Of(b)), 1), min(len(first.Of(a)), 1))
	})
	for _, source := range names {
		if own := len(p.Of(source)); n+own <= MaxPositions {
			kept[source], n = true, n+own
		}
	}
	return p.Select(func(source string) bool { return kept[source] })
}

// Sources returns the names of the sources, each once.
func (p Positions) Sources() []string {
	var out []string
	for _, o := range p {
		if len(out) == 0 || out[len(out)-1] != o.Source {
			out = append(out, o.Source)
		}
	}
	return out
}

// cluster returns the position of a cluster, or of one that has replaced it.
func (p Positions) cluster(cluster string) (found Position, replaced, ok bool) {
	for _, o := range p {
		if o.Cluster == cluster {
			return o, false, true
		}
	}
	for _, o := range p {
		if slices.Contains(o.Replaced, cluster) {
			return o, true, true
		}
	}
	return Position{}, false, false
}

func sorted(p Positions) Positions {
	slices.SortFunc(p, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Cluster, b.Cluster))
	})
	return p
}

// Plain returns the positions without what only counts on one stream.
func (p Positions) Plain() Positions {
	if !slices.ContainsFunc(p, func(o Position) bool { return o.Confirmed || o.Replaced != nil }) {
		return p
	}
	return p.each(func(o *Position) { o.Confirmed, o.Replaced = false, nil })
}

func (p Positions) each(f func(*Position)) Positions {
	out := slices.Clone(p)
	for i := range out {
		f(&out[i])
	}
	return out
}
