package position

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of positions in a message.
const (
	// MaxPositions is the maximum number of positions of one consumer.
	MaxPositions = 64
	// MaxReplaced is the maximum number of replaced clusters of a position.
	MaxReplaced = 16

	maxSource  = 320
	maxCluster = 64
	maxVersion = 40
	maxEpoch   = 1 << 40
)

// ErrInvalid is wrapped by the errors of FromProto.
var ErrInvalid = errors.New("invalid position")

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

// Reason is why a podconfigd is behind a position.
type Reason struct {
	// Text explains it in one line, for users.
	Text string
	// Confirmable is set if a consistent list of the API server can end it.
	Confirmable bool
}

// Behind returns why pods at have are behind claim, both of one source; nil if they aren't. Each position of the claim
// needs one of its cluster, or of one that replaced it, that isn't lower. Positions of different epochs aren't
// compared: have is behind. A confirmed position isn't behind any of its cluster.
func Behind(have, claim Positions) *Reason {
	for _, c := range claim {
		h, replaced, ok := have.cluster(c.Cluster)
		switch {
		case !ok && len(have) == 0:
			return &Reason{Text: fmt.Sprintf("it isn't known yet how far its pods follow the cluster %s", c.Cluster), Confirmable: true}
		case !ok:
			return &Reason{Text: fmt.Sprintf("its pods are of the cluster %s, and the consumer's of %s", have[0].Cluster, c.Cluster)}
		case replaced, h.Confirmed:
		case h.Epoch != c.Epoch:
			return &Reason{Text: fmt.Sprintf("its pods are of epoch %d of the cluster's history, and the consumer's of %d", h.Epoch, c.Epoch), Confirmable: true}
		case !atLeast(h.ResourceVersion, c.ResourceVersion):
			return &Reason{
				Text:        fmt.Sprintf("its pods are those of resource version %s, and the consumer's of %s", h.ResourceVersion, c.ResourceVersion),
				Confirmable: true,
			}
		}
	}
	return nil
}

// Advance returns the positions of a consumer after a revision. had are those before, and have the revision's. A position
// is never lowered within its epoch; one of a later epoch is confirmed, as the podconfigd that counted it has listed the
// pods while the consumer followed it. What have lacks stays, unless its cluster is replaced.
func Advance(had, have Positions) Positions {
	if len(had) == 0 {
		return have
	}
	out := have
	for _, source := range had.Sources() {
		before, after := had.Of(source), have.Of(source)
		if equal(before, after) {
			continue
		}
		next := slices.Clone(after)
		for _, b := range before {
			i := slices.IndexFunc(next, func(o Position) bool { return o.Cluster == b.Cluster })
			_, replaced, _ := after.cluster(b.Cluster)
			switch {
			case i < 0 && !replaced:
				next = append(next, b)
			case i < 0:
			case next[i].Epoch > b.Epoch:
				next[i].Confirmed = true
			case next[i].Epoch < b.Epoch || !atLeast(next[i].ResourceVersion, b.ResourceVersion):
				next[i] = b
			default:
				next[i].Confirmed = next[i].Confirmed || b.Confirmed
				if len(next[i].Replaced) < len(b.Replaced) {
					next[i].Replaced = b.Replaced
				}
			}
		}
		out = out.With(source, next)
	}
	return out
}

// Accept returns the positions of a consumer with that claim for which an administrator has accepted podconfigd's own ones,
// current, both of one source. The claim's clusters count as replaced. If podconfigd has no position, the claim stays.
func Accept(claim, current Positions) Positions {
	if len(current) == 0 {
		return claim
	}
	return current.each(func(o *Position) {
		o.Confirmed = true
		for _, c := range claim {
			if c.Cluster != o.Cluster && !slices.Contains(o.Replaced, c.Cluster) && len(o.Replaced) < MaxReplaced {
				o.Replaced = append(slices.Clone(o.Replaced), c.Cluster)
			}
		}
	})
}

// equal reports whether two lists are one and the same, or have equal positions.
func equal(a, b Positions) bool {
	return slices.EqualFunc(a, b, func(a, b Position) bool {
		return a.Source == b.Source && a.Cluster == b.Cluster && a.Epoch == b.Epoch && a.ResourceVersion == b.ResourceVersion &&
			a.Confirmed == b.Confirmed && slices.Equal(a.Replaced, b.Replaced)
	})
}

// Plain returns the positions without what only counts on one stream.
func (p Positions) Plain() Positions {
	if !slices.ContainsFunc(p, func(o Position) bool { return o.Confirmed || o.Replaced != nil }) {
		return p
	}
	return p.each(func(o *Position) { o.Confirmed, o.Replaced = false, nil })
}

// Settle returns the positions of a consumer with that claim whose pods, of one source, are confirmed to be as in a
// consistent list of version at, or later. current are podconfigd's own, which are of the same cluster. If the list is no
// older than the claim, the claim stays. Otherwise the cluster's history went back: the position is that of the list, in
// the next epoch, also if podconfigd counts fewer.
func Settle(claim, current Positions, at string) Positions {
	out := slices.Clone(current)
	for i := range out {
		out[i].Confirmed = true
		c := slices.IndexFunc(claim, func(o Position) bool { return o.Cluster == out[i].Cluster })
		switch {
		case c < 0 || out[i].Epoch > claim[c].Epoch:
		case atLeast(at, claim[c].ResourceVersion):
			if out[i].Epoch < claim[c].Epoch || !atLeast(out[i].ResourceVersion, claim[c].ResourceVersion) {
				out[i].Epoch, out[i].ResourceVersion = claim[c].Epoch, claim[c].ResourceVersion
			}
		default:
			out[i].Epoch, out[i].ResourceVersion = claim[c].Epoch+1, Later(at, out[i].ResourceVersion)
		}
	}
	return out
}

func (p Positions) each(f func(*Position)) Positions {
	out := slices.Clone(p)
	for i := range out {
		f(&out[i])
	}
	return out
}

// Reaches reports whether none of the positions in have is behind one of least, of any source. It allocates nothing if so.
func Reaches(have, least Positions) bool {
	for i := 0; i < len(least); {
		own := least.Of(least[i].Source)
		if Behind(have.Of(least[i].Source), own) != nil {
			return false
		}
		i += len(own)
	}
	return true
}

// atLeast reports whether version is known to be least or later.
func atLeast(version, least string) bool {
	order, err := resourceversion.CompareResourceVersion(version, least)
	return err == nil && order >= 0
}

// Later returns the later one of two versions, of which either may be empty.
func Later(a, b string) string {
	if a == "" || b != "" && !atLeast(a, b) {
		return b
	}
	return a
}

// FromProto returns the positions of a message, sorted. The error wraps ErrInvalid: there are too many, one is too long or
// not well formed, or two are of one source and cluster.
func FromProto(messages []*podconfigv1.SourcePosition) (Positions, error) {
	if len(messages) > MaxPositions {
		return nil, fmt.Errorf("%w: there are %d; at most %d are allowed", ErrInvalid, len(messages), MaxPositions)
	}
	var out Positions
	for _, m := range messages {
		p := Position{
			Source: m.GetSource(), Cluster: m.GetCluster(), Epoch: m.GetEpoch(), ResourceVersion: m.GetResourceVersion(),
			Confirmed: m.GetConfirmed(), Replaced: m.GetReplacedClusters(),
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	out = sorted(out)
	for i := range out[:max(len(out)-1, 0)] {
		if out[i].Source == out[i+1].Source && out[i].Cluster == out[i+1].Cluster {
			return nil, fmt.Errorf("%w: two are of source %q and cluster %q", ErrInvalid, out[i].Source, out[i].Cluster)
		}
	}
	return out, nil
}

func (p Position) check() error {
	tooLong := func(s string) bool { return len(s) > maxCluster }
	switch _, err := resourceversion.CompareResourceVersion(p.ResourceVersion, "1"); {
	case p.Source == "" || len(p.Source) > maxSource || p.Cluster == "" || tooLong(p.Cluster):
		return fmt.Errorf("%w: the source or the cluster is empty, or too long", ErrInvalid)
	case err != nil || len(p.ResourceVersion) > maxVersion:
		return fmt.Errorf("%w: the resource version isn't one of at most %d digits", ErrInvalid, maxVersion)
	case p.Epoch > maxEpoch:
		return fmt.Errorf("%w: the epoch is %d; at most %d is allowed", ErrInvalid, p.Epoch, uint64(maxEpoch))
	case len(p.Replaced) > MaxReplaced || slices.ContainsFunc(p.Replaced, tooLong):
		return fmt.Errorf("%w: the replaced clusters are too many, or too long", ErrInvalid)
	}
	return nil
}

// Proto returns the positions as messages.
func (p Positions) Proto() []*podconfigv1.SourcePosition {
	out := make([]*podconfigv1.SourcePosition, 0, len(p))
	for _, o := range p {
		out = append(out, &podconfigv1.SourcePosition{
			Source: o.Source, Cluster: o.Cluster, Epoch: o.Epoch, ResourceVersion: o.ResourceVersion,
			Confirmed: o.Confirmed, ReplacedClusters: o.Replaced,
		})
	}
	return out
}

func sorted(p Positions) Positions {
	slices.SortFunc(p, func(a, b Position) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Cluster, b.Cluster))
	})
	return p
}
