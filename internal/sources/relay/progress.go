package relay

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// progress returns how far the pods follow the clusters that they come from in the end. Of several sources of the upstream
// with one cluster, the lower position counts. Nil: no source has one.
func (m *mirror) progress() *manifest.Progress {
	claims, err := position.FromProto(m.held.Cursor().GetPositions())
	if err != nil || len(claims) == 0 {
		return nil
	}
	held := m.held.HeldBack()
	changed, current := map[string]position.Position{}, map[string]position.Position{}
	for _, p := range claims {
		now := p
		if _, isHeld := held[p.Source]; !isHeld {
			now = reached(p, m.reached)
		}
		m.lower(changed, p)
		m.lower(current, now)
	}
	return &manifest.Progress{Changed: listed(changed), Current: listed(current)}
}

// lower keeps the position, as one of this source, unless there is a lower one of its cluster.
func (m *mirror) lower(by map[string]position.Position, p position.Position) {
	p.Source = m.cfg.Name
	old, ok := by[p.Cluster]
	if !ok {
		by[p.Cluster] = p
		return
	}
	least := old
	if before(p, old) {
		least = p
	}
	least.Replaced = slices.Compact(slices.Sorted(slices.Values(slices.Concat(old.Replaced, p.Replaced))))
	least.Replaced = least.Replaced[:min(len(least.Replaced), position.MaxReplaced)]
	by[p.Cluster] = least
}

func listed(by map[string]position.Position) position.Positions {
	var out position.Positions
	for _, cluster := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[cluster])
	}
	return out
}

// before reports whether x is before y, both of one cluster.
func before(x, y position.Position) bool {
	order, err := resourceversion.CompareResourceVersion(x.ResourceVersion, y.ResourceVersion)
	return cmp.Or(cmp.Compare(x.Epoch, y.Epoch), order) < 0 && err == nil
}

// reached returns the position up to which the upstream's pods are current, if that is later than the one of their last
// change.
func reached(changed position.Position, all position.Positions) position.Position {
	for _, p := range all.Of(changed.Source) {
		if p.Cluster == changed.Cluster && before(changed, p) {
			p.Replaced, p.Confirmed = changed.Replaced, false
			return p
		}
	}
	return changed
}

// reports takes the positions that synced or a heartbeat reports. They are valid.
func (m *mirror) reports(r *stream.Revision) {
	list := r.Heartbeat.GetPositions()
	if r.Synced != nil {
		list = r.Synced.GetPositions()
	}
	m.reached, _ = position.FromProto(list)
}

// sameProgress reports whether two sets need not both be sent for their progress.
func sameProgress(a, b *manifest.Progress) bool {
	if a == nil || b == nil {
		return a == b
	}
	same := func(x, y position.Position) bool {
		return x.Cluster == y.Cluster && x.Epoch == y.Epoch && x.ResourceVersion == y.ResourceVersion && slices.Equal(x.Replaced, y.Replaced)
	}
	return slices.EqualFunc(a.Changed, b.Changed, same) && slices.EqualFunc(a.Current, b.Current, same)
}

// claim finds the sources of the upstream that the stored positions belong to, before the first revision after a restart: a
// stored position has the name of this source. These are the upstream's sources with positions of the same cluster. If it
// knows none of that cluster yet, these are the stored pods' sources of the kind api, which will have one.
func (f *follower) claim(ctx context.Context, api podconfigv1.PodConfigServiceClient) {
	m := f.mirror
	if len(m.unnamed) == 0 || m.held.Cursor().GetInstanceId() != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := api.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		resp = nil
	}
	claims := m.named(resp.GetSources())
	m.held = stream.NewHeld(&podconfigv1.Cursor{Positions: claims.Proto()}, m.held.Known())
}

// named returns the stored positions as positions of the upstream's sources.
func (m *mirror) named(upstream []*podconfigv1.Source) (claims position.Positions) {
	own := map[string]bool{}
	for _, e := range m.pods {
		if kind, _, _ := strings.Cut(e.source, ":"); kind == "api" {
			own[e.source] = true
		}
	}
	for _, stored := range m.unnamed {
		names := map[string]bool{}
		for _, s := range upstream[:min(len(upstream), maxSources)] {
			has, _ := position.FromProto(s.GetPositions())
			for _, p := range has {
				if isWord(s.GetName()) && (p.Cluster == stored.Cluster || slices.Contains(p.Replaced, stored.Cluster)) {
					names[s.GetName()] = true
				}
			}
		}
		if len(names) == 0 {
			names = own
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			stored.Source = name
			claims = append(claims, stored)
		}
	}
	return claims[:min(len(claims), position.MaxPositions)]
}
