package stats

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/volumeusage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/metrictest"
)

// measured is a Volumes.
type measured map[types.UID]map[string]volumeusage.Usage

func (m measured) Usage() map[types.UID]map[string]volumeusage.Usage { return m }

// fullVolume is a volume of which 40 of 100 bytes, and 4 of 10 inodes, are used.
func fullVolume(at time.Time) volumeusage.Usage {
	return volumeusage.Usage{At: at, Stats: storage.Stats{Capacity: 100, Available: 60, Used: 40, Inodes: 10, InodesFree: 6, InodesUsed: 4}}
}

// persistentVolumes are a claim, a generic ephemeral volume, an inline one, and a claim without a value.
func persistentVolumes() []v1.Volume {
	claim := func(name string) v1.VolumeSource {
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	return []v1.Volume{
		{Name: "data", VolumeSource: claim("db")}, {Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}},
		{Name: "inline", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "a.csi"}}}, {Name: "hung", VolumeSource: claim("hung")},
	}
}

// TestPersistentVolumes: the summary has the volumes of claims with their pvcRef, and they aren't the pod's use of the node's disk.
func TestPersistentVolumes(t *testing.T) {
	w := newWorld(t, "v2")
	w.write("pods/"+string(uid)+"/etc-hosts", "text")
	w.object.Spec.Volumes = persistentVolumes()
	known := measured{uid: {
		"data": fullVolume(began), "scratch": {At: began, Stats: storage.Stats{Capacity: 7, Used: -1}}, "inline": fullVolume(began), "stranger": fullVolume(began),
	}}
	pod := func(s *Stats, path string) statsapi.PodStats {
		t.Helper()
		answer := httptest.NewRecorder()
		s.SummaryHandler().ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		var all statsapi.Summary
		if err := json.Unmarshal(answer.Body.Bytes(), &all); err != nil || len(all.Pods) != 1 {
			t.Fatalf("%v: %s", err, answer.Body)
		}
		return all.Pods[0]
	}
	with := w.start(func(c *Config) { c.Volumes = known })
	got := pod(with, "/stats/summary")
	type row struct {
		name, claim                              string
		capacity, free, used, inodes, left, have uint64
	}
	var rows []row
	for _, v := range got.VolumeStats {
		r := row{v.Name, "", *v.CapacityBytes, *v.AvailableBytes, *v.UsedBytes, *v.Inodes, *v.InodesFree, *v.InodesUsed}
		if v.PVCRef != nil {
			r.claim = v.PVCRef.Namespace + "/" + v.PVCRef.Name
		}
		if !v.Time.Time.Equal(began) {
			t.Errorf("%+v", v)
		}
		rows = append(rows, r)
	}
	want := []row{
		{"data", "shop/db", 100, 60, 40, 10, 6, 4}, {"scratch", "shop/web-scratch", 7, 0, 0, 0, 0, 0}, {"inline", "", 100, 60, 40, 10, 6, 4},
	}
	if diff := cmp.Diff(want, rows, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	without := pod(w.start(), "/stats/summary")
	if len(without.VolumeStats) != 0 || *without.EphemeralStorage.UsedBytes != *got.EphemeralStorage.UsedBytes {
		t.Errorf("the pod uses %d bytes of the node with volumes, and %d without", *got.EphemeralStorage.UsedBytes, *without.EphemeralStorage.UsedBytes)
	}
	if brief := pod(with, "/stats/summary?only_cpu_and_memory=true"); len(brief.VolumeStats) != 0 {
		t.Errorf("a brief summary has %d volumes", len(brief.VolumeStats))
	}
}

// boards is a Board of several pods.
type boards map[types.UID]*v1.Pod

func (b boards) Get(uid types.UID) (podview.Pod, bool) {
	pod, ok := b[uid]
	return podview.Pod{UID: uid, Object: pod}, ok
}

// TestClaimMetrics: each claim has the kubelet's six series, once, also if several pods use it. Volumes without a claim have none.
func TestClaimMetrics(t *testing.T) {
	pod := func(name string) *v1.Pod {
		p := &v1.Pod{}
		p.Namespace, p.Name, p.Spec.Volumes = "shop", name, persistentVolumes()
		return p
	}
	old := volumeusage.Usage{At: began, Stats: storage.Stats{Capacity: 1, Available: 1}}
	registry := prometheus.NewPedanticRegistry()
	RegisterClaims(registry, boards{"u1": pod("web"), "u2": pod("web2"), "u4": nil}, measured{
		"u1": {"data": old, "scratch": fullVolume(began), "inline": fullVolume(began)}, "u2": {"data": fullVolume(began.Add(time.Second))},
		// The board doesn't know these, or only their UID.
		"u3": {"data": fullVolume(began.Add(time.Hour))}, "u4": {"data": fullVolume(began.Add(time.Hour))},
	})
	want := map[string]float64{}
	for _, claim := range []string{"db", "web-scratch"} {
		for name, value := range map[string]float64{
			"kubelet_volume_stats_capacity_bytes": 100, "kubelet_volume_stats_available_bytes": 60, "kubelet_volume_stats_used_bytes": 40,
			"kubelet_volume_stats_inodes": 10, "kubelet_volume_stats_inodes_free": 6, "kubelet_volume_stats_inodes_used": 4,
		} {
			want[name+"{namespace=shop,persistentvolumeclaim="+claim+"}"] = value
		}
	}
	metrictest.Want(t, registry, want)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 0
	for _, f := range families {
		series += len(f.GetMetric())
	}
	if series != len(want) {
		t.Errorf("%d series; want %d", series, len(want))
	}
}
