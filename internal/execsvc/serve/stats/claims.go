package stats

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/execsvc/reclaim/volumeusage"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// Volumes has the usage of persistent volumes by pod, and by the name in its spec. It waits for no driver.
type Volumes interface {
	Usage() map[types.UID]map[string]volumeusage.Usage
}

// persistent returns the stats of a pod's persistent volumes, in the order of its spec. As with the kubelet, a value that the driver
// doesn't report is 0.
func persistent(pod *v1.Pod, used map[string]volumeusage.Usage) []statsapi.VolumeStats {
	var all []statsapi.VolumeStats
	for i := range pod.Spec.Volumes {
		spec := &pod.Spec.Volumes[i]
		u, measured := used[spec.Name]
		if !measured {
			continue
		}
		v := statsapi.VolumeStats{Name: spec.Name, FsStats: statsapi.FsStats{
			Time:           metav1.NewTime(u.At),
			AvailableBytes: amount(u.Available), CapacityBytes: amount(u.Capacity), UsedBytes: amount(u.Used),
			Inodes: amount(u.Inodes), InodesFree: amount(u.InodesFree), InodesUsed: amount(u.InodesUsed),
		}}
		if claim, ok := apivolumes.ClaimName(pod, spec); ok {
			v.PVCRef = &statsapi.PVCReference{Name: claim, Namespace: pod.Namespace}
		}
		all = append(all, v)
	}
	return all
}

// amount returns a driver's number. Another kind of volume may report any.
func amount(n int64) *uint64 {
	return new(uint64(max(n, 0))) //nolint:gosec // It isn't negative.
}

// claimSeries are the kubelet's metrics of a claim's volume.
var claimSeries = []struct {
	desc  *prometheus.Desc
	value func(*statsapi.FsStats) *uint64
}{
	{kubeletmetrics.VolumeStatsCapacity.Desc(), func(s *statsapi.FsStats) *uint64 { return s.CapacityBytes }},
	{kubeletmetrics.VolumeStatsAvailable.Desc(), func(s *statsapi.FsStats) *uint64 { return s.AvailableBytes }},
	{kubeletmetrics.VolumeStatsUsed.Desc(), func(s *statsapi.FsStats) *uint64 { return s.UsedBytes }},
	{kubeletmetrics.VolumeStatsInodes.Desc(), func(s *statsapi.FsStats) *uint64 { return s.Inodes }},
	{kubeletmetrics.VolumeStatsInodesFree.Desc(), func(s *statsapi.FsStats) *uint64 { return s.InodesFree }},
	{kubeletmetrics.VolumeStatsInodesUsed.Desc(), func(s *statsapi.FsStats) *uint64 { return s.InodesUsed }},
}

// claims collects the metrics of the volumes of claims.
type claims struct {
	board   Board
	volumes Volumes
}

// RegisterClaims registers the metrics of the volumes of claims, which are the kubelet's at /metrics. They need no reading.
func RegisterClaims(r prometheus.Registerer, board Board, volumes Volumes) {
	r.MustRegister(claims{board, volumes})
}

// Describe is part of prometheus.Collector.
func (claims) Describe(out chan<- *prometheus.Desc) {
	for _, s := range claimSeries {
		out <- s.desc
	}
}

// Collect is part of prometheus.Collector. Pods that share a claim have one series, of the newest value.
func (c claims) Collect(out chan<- prometheus.Metric) {
	newest := map[statsapi.PVCReference]*statsapi.FsStats{}
	for uid, used := range c.volumes.Usage() {
		shown, ok := c.board.Get(uid)
		if !ok || shown.Object == nil {
			continue
		}
		for _, v := range persistent(shown.Object, used) {
			if v.PVCRef == nil {
				continue
			}
			if other := newest[*v.PVCRef]; other == nil || other.Time.Time.Before(v.Time.Time) {
				newest[*v.PVCRef] = &v.FsStats
			}
		}
	}
	for claim, v := range newest {
		for _, s := range claimSeries {
			out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(*s.value(v)), claim.Namespace, claim.Name)
		}
	}
}
