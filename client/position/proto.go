package position

import (
	"errors"
	"fmt"
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of positions in a message.
const (
	// MaxPositions is the maximum number of positions of one consumer.
	MaxPositions = 64
	// MaxReplaced is the maximum number of replaced clusters of a position.
	MaxReplaced = 16
	// MaxCluster is the maximum length of a cluster's UID in bytes.
	MaxCluster = 64

	maxSource  = 320
	maxVersion = 40
	maxEpoch   = 1 << 40
)

// ErrInvalid is wrapped by the errors of FromProto.
var ErrInvalid = errors.New("invalid position")

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
	tooLong := func(s string) bool { return len(s) > MaxCluster }
	switch {
	case p.Source == "" || len(p.Source) > maxSource || p.Cluster == "" || tooLong(p.Cluster):
		return fmt.Errorf("%w: the source or the cluster is empty, or too long", ErrInvalid)
	case !WellFormed(p.ResourceVersion):
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
