package position

import "slices"

// Advance returns the positions of a consumer after a revision. had are those before, and have the revision's. A position
// is never lowered within its epoch; one of a later epoch is confirmed, as the podconfigd that counted it has listed the
// pods while the consumer followed it. What have lacks stays, unless its cluster is replaced; what had replaced stays so.
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
		next := slices.DeleteFunc(slices.Clone(after), func(o Position) bool {
			return slices.ContainsFunc(before, func(b Position) bool {
				return slices.Contains(b.Replaced, o.Cluster) && !slices.Contains(o.Replaced, b.Cluster)
			})
		})
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

// Settle returns the positions of a consumer with that claim whose pods, of one source, are confirmed to be as in a
// consistent list of version at, or later. current are podconfigd's own, which are of the same cluster. If the list is no
// older than the claim, the claim stays. Otherwise the cluster's history went back: the position is that of the list, in
// the next epoch, also if podconfigd counts fewer. There is none after the last one that a position can have.
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
			out[i].Epoch, out[i].ResourceVersion = min(claim[c].Epoch+1, maxEpoch), Later(at, out[i].ResourceVersion)
		}
	}
	return out
}
