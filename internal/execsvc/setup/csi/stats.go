package csi

import (
	"context"
	"errors"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Usage is a volume's usage in one unit. The driver's values aren't negative.
type Usage struct{ Total, Available, Used int64 }

// Stats are the statistics of a volume. A unit that the driver doesn't report is zero.
type Stats struct{ Bytes, Inodes Usage }

// errNoUsage has the kubelet's text.
var errNoUsage = errors.New("failed to get usage from response. usage is nil")

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
	if len(answer.GetUsage()) == 0 {
		return Stats{}, errNoUsage
	}
	var stats Stats
	for _, u := range answer.GetUsage() {
		usage := Usage{Total: max(u.GetTotal(), 0), Available: max(u.GetAvailable(), 0), Used: max(u.GetUsed(), 0)}
		switch u.GetUnit() {
		case csipb.VolumeUsage_BYTES:
			stats.Bytes = usage
		case csipb.VolumeUsage_INODES:
			stats.Inodes = usage
		}
	}
	return stats, nil
}
