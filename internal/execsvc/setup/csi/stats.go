package csi

import (
	"context"
	"errors"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Usage is a volume's usage in one unit.
type Usage struct{ Total, Available, Used int64 }

// Stats are the statistics of a volume. A unit that the driver doesn't report, or whose values aren't possible, is zero.
type Stats struct{ Bytes, Inodes Usage }

// errNoUsage has the kubelet's text.
var errNoUsage = errors.New("failed to get usage from response. usage is nil")

// errBadUsage is the error of an answer without any value that can be used.
var errBadUsage = errors.New("failed to get usage from response: it has only unknown units and negative values")

// NodeGetVolumeStats returns the usage of the volume at the path where it is published or staged. The driver must have VolumeStats.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, volumeID, path string) (Stats, error) {
	if err := missing(volumeID, errNoVolume, path, errNoTarget); err != nil {
		return Stats{}, err
	}
	request := &csipb.NodeGetVolumeStatsRequest{VolumeId: volumeID, VolumePath: path}
	answer, err := invoke(ctx, d, "NodeGetVolumeStats", request,
		func(n csipb.NodeClient) stubOf[*csipb.NodeGetVolumeStatsRequest, *csipb.NodeGetVolumeStatsResponse] {
			return n.NodeGetVolumeStats
		})
	if err != nil {
		return Stats{}, err
	}
	return statsOf(answer.GetUsage())
}

// statsOf returns the usage that an answer has. Of two of a unit the last one counts, as with the kubelet.
func statsOf(all []*csipb.VolumeUsage) (stats Stats, err error) {
	if len(all) == 0 {
		return Stats{}, errNoUsage
	}
	err = errBadUsage
	for _, u := range all {
		usage := Usage{Total: u.GetTotal(), Available: u.GetAvailable(), Used: u.GetUsed()}
		if min(usage.Total, usage.Available, usage.Used) < 0 {
			// To the kubelet, -1 is 16 EiB. A unit of which one value is wrong isn't believed at all: zero could be taken for a full volume.
			continue
		}
		switch u.GetUnit() {
		case csipb.VolumeUsage_BYTES:
			stats.Bytes, err = usage, nil
		case csipb.VolumeUsage_INODES:
			stats.Inodes, err = usage, nil
		}
	}
	return stats, err
}
