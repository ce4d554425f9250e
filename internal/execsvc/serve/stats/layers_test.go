package stats

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// containerFs has the values of the file system that the runtime reports for writable layers; those of images if that
// is the same one, or if it reports none. /metrics/cadvisor has each file system once.
func TestContainerFs(t *testing.T) {
	at := metav1.NewTime(began)
	images := &statsapi.FsStats{
		Time: at, AvailableBytes: new(uint64(800)), CapacityBytes: new(uint64(2000)), UsedBytes: new(uint64(700)),
		InodesFree: new(uint64(150)), Inodes: new(uint64(200)), InodesUsed: new(uint64(30)),
	}
	layers := &statsapi.FsStats{
		Time: at, AvailableBytes: new(uint64(60)), CapacityBytes: new(uint64(3000)), UsedBytes: new(uint64(90)),
		InodesFree: new(uint64(250)), Inodes: new(uint64(300)), InodesUsed: new(uint64(4)),
	}
	onNode := &statsapi.FsStats{
		Time: at, AvailableBytes: new(uint64(500)), CapacityBytes: new(uint64(1000)), UsedBytes: new(uint64(90)),
		InodesFree: new(uint64(80)), Inodes: new(uint64(100)), InodesUsed: new(uint64(4)),
	}
	for dir, c := range map[string]struct {
		want        *statsapi.FsStats
		fileSystems int
	}{"": {images, 2}, "/images": {images, 2}, "/root": {onNode, 2}, "/layers": {layers, 3}} {
		w := newWorld(t, "v2")
		w.layers = dir
		s := w.start()
		var got statsapi.Summary
		if err := json.Unmarshal(ask(t, s.SummaryHandler(), "").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := &statsapi.RuntimeStats{ImageFs: images, ContainerFs: c.want}
		if diff := cmp.Diff(want, got.Node.Runtime); diff != "" {
			t.Errorf("%q (-want +got):\n%s", dir, diff)
		}
		if n := strings.Count(ask(t, s.CadvisorHandler(), "").Body.String(), `container_fs_limit_bytes{container="",device=`); n != c.fileSystems {
			t.Errorf("%q: the machine has %d file systems; want %d", dir, n, c.fileSystems)
		}
	}
}
