package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
)

// lineage is the history that resource versions are of. Versions of different lineages aren't compared.
type lineage struct {
	// cluster is empty if it isn't known.
	cluster types.UID
	epoch   uint64
	// replaced are the clusters before, as an operator has confirmed, the latest one last. The slice isn't changed.
	replaced []types.UID
}

// is reports whether both are the same one.
func (l lineage) is(other lineage) bool { return l.cluster == other.cluster && l.epoch == other.epoch }

// point is how far pods follow a lineage. Within a lineage its versions never go back.
type point struct {
	of lineage
	// changed is the version of the last change of the pods, applied that of the last thing that the reflector has read,
	// and current that up to which the pods are known to be current: applied, or that of a confirmation.
	changed, applied, current string
	// known: the versions are those of the pods. Otherwise they are what later ones are compared with.
	known bool
	// confirmed is the number of the last confirmation.
	confirmed uint64
	// confirmedAt is the version of it.
	confirmedAt string
}

// replace follows a complete reading of the pods. changed: it has others than before, or is the first one.
func (p *point) replace(of lineage, version string, changed bool) {
	if !p.of.is(of) {
		*p, changed = point{confirmed: p.confirmed, confirmedAt: p.confirmedAt}, true
	}
	p.of = of
	if p.known = position.WellFormed(version); !p.known {
		return
	}
	if changed || p.changed == "" {
		p.changed = position.Later(p.changed, version)
	}
	p.advance(version)
}

// event follows an event of the watch.
func (p *point) event(version string, changed bool) {
	switch {
	case !p.known:
		return // Only a complete reading has all changes before its version.
	case !position.WellFormed(version):
		p.known = false
		return
	}
	if changed {
		p.changed = position.Later(p.changed, version)
	}
	p.advance(version)
}

func (p *point) advance(version string) {
	p.applied = position.Later(p.applied, version)
	p.current = position.Later(p.current, version)
}

// progress returns what a set has; nil if it isn't known. compared: the server promises that versions can be compared.
func (p *point) progress(compared bool) *manifest.Progress {
	if !compared || !p.known || p.of.cluster == "" || len(p.of.cluster) > position.MaxCluster {
		return nil
	}
	at := func(version string) position.Positions {
		var replaced []string
		for _, uid := range p.of.replaced {
			if len(uid) <= position.MaxCluster {
				replaced = append(replaced, string(uid))
			}
		}
		return position.Positions{{
			Source: Name, Cluster: string(p.of.cluster), Epoch: p.of.epoch, ResourceVersion: version, Replaced: replaced,
		}}
	}
	return &manifest.Progress{Changed: at(p.changed), Current: at(p.current), Confirmed: p.confirmed, ConfirmedAt: p.confirmedAt}
}

// follow returns the lineage of another cluster, which an operator has confirmed, or of the first one.
func (l lineage) follow(uid types.UID, before position.Positions) lineage {
	next := lineage{cluster: uid}
	if l.cluster == uid {
		next.epoch = l.epoch
	}
	former := slices.Clone(l.replaced)
	for _, p := range before {
		if p.Cluster == string(uid) {
			next.epoch = max(next.epoch, p.Epoch)
		}
		for _, replaced := range p.Replaced {
			former = append(former, types.UID(replaced))
		}
		former = append(former, types.UID(p.Cluster))
	}
	former = append(former, l.cluster)
	for _, f := range slices.Backward(former) {
		if f != "" && f != uid && !slices.Contains(next.replaced, f) && len(next.replaced) < position.MaxReplaced {
			next.replaced = append(next.replaced, f)
		}
	}
	slices.Reverse(next.replaced)
	return next
}

// stored returns how far the pods from before the start follow their cluster: the first reading is compared with that.
func (s *Source) stored() point {
	before := s.cfg.Positions().Of(Name)
	if len(before) != 1 || !position.WellFormed(before[0].ResourceVersion) {
		return point{}
	}
	p := before[0]
	return point{
		of: lineage{cluster: types.UID(p.Cluster), epoch: p.Epoch}, changed: p.ResourceVersion, current: p.ResourceVersion,
	}
}
