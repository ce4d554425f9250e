package position

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

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

// WellFormed reports whether a resource version can be compared, and sent in a position.
func WellFormed(version string) bool {
	return len(version) <= maxVersion && atLeast(version, version)
}

// equal reports whether two lists are one and the same, or have equal positions.
func equal(a, b Positions) bool {
	return slices.EqualFunc(a, b, func(a, b Position) bool {
		return a.Source == b.Source && a.Cluster == b.Cluster && a.Epoch == b.Epoch && a.ResourceVersion == b.ResourceVersion &&
			a.Confirmed == b.Confirmed && slices.Equal(a.Replaced, b.Replaced)
	})
}
