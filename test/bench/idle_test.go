package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// idlePods is how many pods run while nothing happens, and idleFor how long that is watched.
const (
	idlePods = 50
	idleFor  = time.Minute
)

// BenchmarkIdle runs 50 pods on a real containerd and prints, for a minute in which nothing happens, the CPU seconds that each
// process took and its memory at the end. It is one measurement, however large b.N.
func BenchmarkIdle(b *testing.B) {
	node, err := devnode.Start(b.Context(), devnode.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Close() })
	manifests := node.Path("manifests")
	if err := os.MkdirAll(manifests, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range idlePods {
		text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec:\n  hostNetwork: true\n  containers:\n"+
			"  - {name: main, image: %q, imagePullPolicy: Never, args: [sleep]}\n", i, devnode.SampleImage)
		if err := os.WriteFile(filepath.Join(manifests, fmt.Sprintf("p%d.yaml", i)), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	config, exec := "unix://"+node.Socket("c"), "unix://"+node.Socket("x")
	podconfigd, err := node.StartDaemon("podconfigd", "--root-dir", node.Path("podconfigd"), "--listen", config,
		"--hostname-override", "idle", "--pod-manifest-path", manifests)
	if err != nil {
		b.Fatal(err)
	}
	started := time.Now()
	podexecd, err := node.StartDaemon("podexecd", "--root-dir", node.Path("podexecd"), "--listen", exec, "--hostname-override", "idle",
		"--podconfig-endpoint", config, "--container-runtime-endpoint", node.Endpoint(), "--pod-logs-dir", node.Path("log", "pods"))
	if err != nil {
		b.Fatal(err)
	}
	awaitRunning(b, exec, idlePods)
	b.ReportMetric(time.Since(started).Seconds(), "s/all-running")

	processes := []struct {
		name string
		pid  int
	}{{"podconfigd", podconfigd.Pid()}, {"podexecd", podexecd.Pid()}, {"containerd", node.Runtime().Pid()}}
	before := map[string]float64{}
	for _, p := range processes {
		before[p.name] = cpuSeconds(b, p.pid)
	}
	// The measurement is the passing of time itself.
	<-time.After(idleFor)
	for _, p := range processes {
		b.ReportMetric(cpuSeconds(b, p.pid)-before[p.name], "cpu-s/"+p.name)
		b.ReportMetric(residentMiB(b, p.pid), "MiB/"+p.name)
	}
	b.ReportMetric(0, "ns/op")
}

func awaitRunning(b *testing.B, endpoint string, want int) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for running := 0; running < want; <-poll.C {
		resp, err := podexecv1.NewPodExecServiceClient(conn).ListPods(ctx, &podexecv1.ListPodsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE})
		if err != nil {
			b.Fatalf("%d of %d pods run: %v", running, want, err)
		}
		running = 0
		for _, p := range resp.GetPods() {
			if p.GetPhase() == "Running" {
				running++
			}
		}
	}
}

// cpuSeconds is what the process has used so far, by the kernel's account (proc(5), fields utime and stime, in 1/100 s).
func cpuSeconds(b *testing.B, pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The command in parentheses may hold spaces; utime is the 12th field after it.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	ticks := 0.0
	for _, f := range fields[11:13] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}

func residentMiB(b *testing.B, pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatalf("no VmRSS of process %d", pid)
	return 0
}
