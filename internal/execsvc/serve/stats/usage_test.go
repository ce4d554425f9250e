package stats

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The usage of the recorded machines, ten seconds after an earlier request: the same values as in their summaries.
func TestUsage(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t, version)
			s := w.start(func(c *Config) {
				c.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
				c.Allocatable = v1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("7Gi")}
			})
			if _, pods, err := s.Usage(t.Context(), false); err != nil || pods[0].GetCpu().UsageMillicores != nil {
				t.Fatalf("the first reading: %v, %v", pods, err)
			}
			w.clock.SetTime(began.Add(10 * time.Second))
			w.write("proc/stat", "cpu  1500 20 300 90000 40 5 6 70 8 0\nbtime 1700000000\n")
			node, pods, err := s.Usage(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			data, err := protojson.Marshal(&podexecv1.GetStatsResponse{Node: node, Pods: pods})
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			if err := json.Indent(&text, data, "", " "); err != nil {
				t.Fatal(err)
			}
			same(t, version+".usage.json", text.Bytes())
			w.clock.SetTime(began.Add(12 * time.Second))
			node, pods, err = s.Usage(t.Context(), true)
			if err != nil || node.GetNetwork() != nil || pods[0].GetNetwork() != nil || pods[0].GetContainers()[0].GetMemory() == nil {
				t.Errorf("brief: %v, %v, %v", node, pods, err)
			}
		})
	}
}

// Without the list of pods there is an error, and no node without pods.
func TestUsageFails(t *testing.T) {
	w := newWorld(t, "v2")
	w.listErr = errors.New("no answer")
	if node, pods, err := w.start().Usage(t.Context(), false); err == nil || node != nil || pods != nil {
		t.Errorf("%v, %v, %v", node, pods, err)
	}
}

// A pod controls the names of its interfaces, and a runtime the numbers.
func TestHostileUsage(t *testing.T) {
	huge := used{&kernel.Usage{CPU: kernel.CPU{Total: new(uint64(math.MaxUint64))}}, &rate{value: math.MaxUint64}}
	if got := huge.cpuStats(); got.GetUsageMillicores() != math.MaxUint64/1_000_000+1 {
		t.Errorf("%v", got)
	}
	network := networkStats(began, []kernel.Interface{{Name: "\xff\x1b[2J"}})
	if _, err := proto.Marshal(network); err != nil || strings.Contains(network.GetInterfaces()[0].GetName(), "\xff") {
		t.Errorf("%v, %v", network, err)
	}
	w := newWorld(t, "v2")
	none := func(c *Config) { c.PodsCgroup = "" }
	w.sandboxErr = nil
	for range 3 {
		sandbox := recorded17()
		sandbox.Linux.Containers = append(sandbox.Linux.Containers, &runtimeapi.ContainerStats{})
		w.sandboxes = append(w.sandboxes, sandbox, nil, &runtimeapi.PodSandboxStats{})
	}
	if _, pods, err := w.start(none).Usage(t.Context(), false); err != nil || len(pods) != 1 || len(pods[0].GetContainers()) != 1 {
		t.Errorf("%v, %v", pods, err)
	}
}
