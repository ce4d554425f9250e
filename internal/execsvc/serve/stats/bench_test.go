package stats

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// BenchmarkScrape measures one answer on a node with 110 pods of one container. At one scrape every 15 s, 150
// ms are a hundredth of a processor.
func BenchmarkScrape(b *testing.B) {
	for _, version := range []string{"v1", "v2"} {
		b.Run(version, func(b *testing.B) {
			w := newBenchWorld(b, version)
			s := w.start()
			for _, of := range []struct {
				name    string
				handler http.Handler
			}{{"resource", s.ResourceHandler()}, {"cadvisor", s.CadvisorHandler()}, {"summary", s.SummaryHandler()}} {
				b.Run(of.name, func(b *testing.B) {
					now, before := w.clock.Now(), processorTime(b)
					for b.Loop() {
						now = now.Add(15 * time.Second)
						w.clock.SetTime(now)
						of.handler.ServeHTTP(&sink{header: http.Header{}}, newRequest(b))
					}
					b.ReportMetric((processorTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
				})
			}
		})
	}
}

// processorTime returns this process's CPU time, because elapsed time depends on the load of the machine.
func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func newRequest(b *testing.B) *http.Request {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
	if err != nil {
		b.Fatal(err)
	}
	return req
}

// newBenchWorld returns a world with 110 copies of the recorded machine's pod.
func newBenchWorld(b *testing.B, version string) *world {
	w := newWorld(b, version)
	one := w.pods[0]
	for i := range 109 {
		id := types.UID(fmt.Sprintf("0f1e2d3c-0001-4000-8000-%012d", i+1000))
		again := *one
		again.UID, again.Name = id, fmt.Sprintf("web-%d", i)
		again.Sandboxes = []observed.Sandbox{{ID: "sand1", Ready: true, Created: one.Sandboxes[0].Created}}
		w.pods = append(w.pods, &again)
		for _, at := range podDirs(b, w.machine) {
			for from, to := range map[string]string{string(uid): string(id), underscored(uid): underscored(id)} {
				if strings.Contains(at, from) {
					if err := os.CopyFS(strings.Replace(at, from, to, 1), os.DirFS(at)); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}
	return w
}

func underscored(id types.UID) string { return strings.ReplaceAll(string(id), "-", "_") }

// podDirs returns the directories of the recorded pod's cgroup.
func podDirs(b *testing.B, machine string) []string {
	var out []string
	for _, pattern := range []string{"*/kubepods/burstable/pod" + string(uid), "kubepods.slice/*/*pod" + underscored(uid) + ".slice"} {
		found, err := filepath.Glob(filepath.Join(machine, "sys/fs/cgroup", pattern))
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, found...)
	}
	return out
}

// sink is a response that is discarded.
type sink struct {
	header http.Header
	n      int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(p []byte) (int, error) { s.n += len(p); return len(p), nil }
