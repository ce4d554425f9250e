package kubeletmetrics

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// served returns the lines of testdata/upstream.txt that this package's series would have, by name.
func served() map[string]string {
	counters := []Counter{
		AdmissionRejections, ContainerRequestedResizes, EventedPLEGErrors, EventedPLEGConnections, Evictions,
		ImageGarbageCollected, ImageVolumesErrors, ImageVolumesMounted, ImageVolumesRequested,
		LifecycleHTTPFallbacks, OrphanedRuntimePods, PLEGDiscardEvents, PodDeferredAcceptedResizes,
		PodInfeasibleResizes, PodLevelResourcesAdmission, PodRequestsGet, PodRequestsList, PodRequests,
		PodRequestsWatch, PodWatchEventsDropped, Preemptions, RestartedPods, RunPodSandboxErrors,
		RuntimeOperationsErrors, RuntimeOperations, SleepTerminatedEarly, StartedContainersErrors, StartedContainers,
		StartedPodsErrors, StartedPods, StartedUserNamespacedPodsErrors, StartedUserNamespacedPods,
		TerminatedContainers,
	}
	gauges := []Gauge{
		ActivePods, CgroupVersion, DesiredPods, FirstNetworkPodStart, GracefulShutdownEnd, GracefulShutdownStart,
		ManagedEphemeralContainers, MemoryQoSLow, MemoryQoSMin, MirrorPods, NodeName, NodeStartup,
		NodeStartupPostRegistration, NodeStartupPreKubelet, NodeStartupPreRegistration, NodeStartupRegistration,
		OrphanPodCleanedVolumes, OrphanPodCleanedVolumesErrors, PLEGLastSeen, PodInProgressResizes,
		PodPendingResizes, RunningContainers, RunningPods, WorkingPods,
	}
	histograms := []Histogram{
		CgroupManagerDuration, ContainersPerPod, EventedPLEGLatency, EvictionStatsAge, ImagePullDuration,
		PLEGPodRelistDuration, PLEGRelistDuration, PLEGRelistInterval, PodDeferredResizeDuration, PodResizeDuration,
		PodStartDuration, PodStartSLIDuration, PodStartTotalDuration, PodStatusSyncDuration, PodWorkerDuration,
		PodWorkerStartDuration, RunPodSandboxDuration, RuntimeOperationsDuration,
	}
	out := map[string]string{}
	add := func(kind string, s Series) { out[s.Name] = line(kind, s) }
	for _, c := range counters {
		add("counter", Series(c))
	}
	for _, g := range gauges {
		add("gauge", Series(g))
	}
	for _, h := range histograms {
		add("histogram", Series(h))
	}
	return out
}

func line(kind string, s Series) string {
	labels, buckets := "-", []string{"-"}
	if len(s.Labels) > 0 {
		labels = strings.Join(s.Labels, ",")
	}
	if kind == "histogram" {
		buckets = nil
		for _, b := range s.Buckets {
			buckets = append(buckets, strconv.FormatFloat(b, 'g', 6, 64))
		}
	}
	return fmt.Sprintf("%s %s %s %s", s.Name, kind, labels, strings.Join(buckets, ","))
}

// upstream returns the kubelet's series: their lines by name.
func upstream(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/upstream.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSpace(l)
		if name, _, ok := strings.Cut(l, " "); ok && name != "#" {
			out[name] = l
		}
	}
	if len(out) < 90 {
		t.Fatalf("%d series; want at least 90", len(out))
	}
	return out
}

// Each series has the kubelet's type, labels and buckets.
func TestSeries(t *testing.T) {
	want := upstream(t)
	for name, got := range served() {
		if got != want[name] {
			t.Errorf("series\n%s\nwant\n%s", got, want[name])
		}
	}
}

// No series of this package is missing in the list of the test above.
func TestAllSeries(t *testing.T) {
	all := served()
	names := regexp.MustCompile("^kubelet_")
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || f == "other.go" || f == "volumes.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
				if name, err := strconv.Unquote(s.Value); err == nil && names.MatchString(name) && !strings.Contains(name, " ") && all[name] == "" {
					t.Errorf("%s isn't in served()", name)
				}
			}
			return true
		})
	}
}

// docs/metrics.md has each series of the kubelet in exactly one of its two tables.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## The kubelet's metrics that are served\n")
	here, rest, _ := strings.Cut(rest, "\n## The kubelet's metrics that are not served\n")
	missing, _, _ := strings.Cut(rest, "\n## ")
	wantServed, wantMissing := []string{}, []string{}
	for name := range upstream(t) {
		if _, ok := served()[name]; ok {
			wantServed = append(wantServed, name)
		} else {
			wantMissing = append(wantMissing, name)
		}
	}
	for table, want := range map[string][]string{here: wantServed, missing: wantMissing} {
		slices.Sort(want)
		if diff := cmp.Diff(want, named(table)); diff != "" {
			t.Errorf("docs/metrics.md (-want +got):\n%s", diff)
		}
	}
}

// named returns the series in the first cells of a table, sorted.
func named(table string) []string {
	out := []string{}
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, "|"); len(cells) > 3 {
			for _, name := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(cells[1], -1) {
				out = append(out, name[1])
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestLabels(t *testing.T) {
	for _, c := range [][2]string{
		{SizeLabel(0), "N/A"}, {SizeLabel(1), "0-10MB"}, {SizeLabel(10<<20 + 1), "10MB-100MB"}, {SizeLabel(101 << 30), "GT100GB"},
		{PriorityLabel(nil), "normal"}, {PriorityLabel(ptr.To[int32](0)), "normal"}, {PriorityLabel(ptr.To[int32](-1000)), "very-low"},
		{PriorityLabel(ptr.To[int32](-1)), "low"}, {PriorityLabel(ptr.To[int32](1)), "medium"}, {PriorityLabel(ptr.To[int32](100_000)), "high"},
		{PriorityLabel(ptr.To[int32](2_000_000_000)), "system-critical"}, {StaticLabel(true), "true"}, {StaticLabel(false), ""},
		{RejectionLabel("OutOfcpu"), "OutOfcpu"}, {RejectionLabel("OutOfexample.com/x"), "OutOfExtendedResources"}, {RejectionLabel("x"), "Other"},
		{ResourceLabel("memory"), "memory"}, {ResourceLabel("hugepages-2Mi"), "hugepages"}, {ResourceLabel("example.com/x"), Other},
		{ExitCodeLabel(255), "255"}, {ExitCodeLabel(256), Other}, {ExitCodeLabel(-1), Other},
	} {
		if c[0] != c[1] {
			t.Errorf("label %q; want %q", c[0], c[1])
		}
	}
}
