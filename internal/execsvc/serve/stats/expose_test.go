package stats

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

var update = flag.Bool("update", false, "write what is answered into testdata")

// ask returns a handler's answer.
func ask(t *testing.T, h http.Handler, query string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+query, nil))
	return rec
}

// same compares an answer with a file of testdata.
func same(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// The responses for the recorded machines, ten seconds after an earlier request, so that they have rates.
func TestAnswers(t *testing.T) {
	t.Setenv("TZ", "UTC")
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t, version)
			w.object.Spec.Volumes = []v1.Volume{{Name: "settings", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}}
			w.write("pods/"+string(uid)+"/volumes/kubernetes.io~configmap/settings/key", "value")
			w.write("logs/shop_web_"+string(uid)+"/app/1.log", "hello")
			s := w.start()
			ask(t, s.CadvisorHandler(), "")
			w.clock.SetTime(began.Add(10 * time.Second))
			w.write("proc/stat", "cpu  1500 20 300 90000 40 5 6 70 8 0\nbtime 1700000000\n")
			same(t, version+".resource.prom", ask(t, s.ResourceHandler(), "").Body.Bytes())
			var some bytes.Buffer
			if err := json.Indent(&some, ask(t, s.SummaryHandler(), "?only_cpu_and_memory=true").Body.Bytes(), "", " "); err != nil {
				t.Fatal(err)
			}
			if asked := w.asked["containers"]; asked != 1 {
				t.Errorf("the runtime was asked %d times; want once, for the whole reading", asked)
			}
			same(t, version+".cadvisor.prom", ask(t, s.CadvisorHandler(), "").Body.Bytes())
			all := ask(t, s.SummaryHandler(), "").Body
			// The size of files on the disk depends on the file system.
			same(t, version+".summary.json", sized(t, all.Bytes()))
			same(t, version+".brief.json", some.Bytes())
		})
	}
}

// sized returns the summary with the sizes of temporary files replaced.
func sized(t *testing.T, data []byte) []byte {
	var all statsapi.Summary
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Pods {
		p := &all.Pods[i]
		sum := *p.EphemeralStorage.UsedBytes
		take := func(of *statsapi.FsStats) {
			if of.UsedBytes == nil || *of.UsedBytes == 0 || *of.UsedBytes%512 != 0 {
				t.Errorf("used: %v", of.UsedBytes)
			}
			sum -= *of.UsedBytes
			of.UsedBytes = nil
		}
		for k := range p.VolumeStats {
			take(&p.VolumeStats[k].FsStats)
		}
		for k := range p.Containers {
			take(p.Containers[k].Logs)
		}
		*p.EphemeralStorage.UsedBytes = sum
	}
	out, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The metric names are upstream's, and can't be changed. The linter rejects these.
func TestNames(t *testing.T) {
	w := newWorld(t, "v2")
	s := w.start()
	r, err := s.usage(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	upstreams := map[string]bool{
		"container_fs_inodes_total non-counter metrics should not have \"_total\" suffix":     true,
		"container_memory_failcnt counter metrics should have \"_total\" suffix":              true,
		"cadvisor_version_info label names should be written in 'snake_case' not 'camelCase'": true,
	}
	for _, families := range [][]*dto.MetricFamily{resourceMetrics(r, false), cadvisorMetrics(r, nil, false)} {
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if text := p.Metric + " " + p.Text; !upstreams[text] {
				t.Error(text)
			}
		}
		// A pedantic registry checks that series are unique, and that labels are consistent.
		registry := prometheus.NewPedanticRegistry()
		gatherers := prometheus.Gatherers{registry, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })}
		if _, err := gatherers.Gather(); err != nil {
			t.Error(err)
		}
	}
}

// Two pods with one name, the older of which is ending, are one series and two pods.
func TestNewerPodOfTheSameName(t *testing.T) {
	w := newWorld(t, "v1")
	older := *w.pods[0]
	older.UID = "older"
	older.Sandboxes = []observed.Sandbox{{ID: "sand0", Ready: true, Created: time.Unix(made-100, 0)}}
	older.Containers = []observed.Container{{ID: "app9", Name: "app", State: observed.Running, Created: time.Unix(made-90, 0)}}
	w.pods = append([]*observed.Pod{&older}, w.pods...)
	was := recorded16()
	was.Attributes.Id = "app9"
	w.containers = append(w.containers, was)
	s := w.start()
	r, err := s.usage(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	gatherers := prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return resourceMetrics(r, false), nil })}
	if _, err := gatherers.Gather(); err != nil {
		t.Error(err)
	}
	text := ask(t, s.ResourceHandler(), "").Body.String()
	if !strings.Contains(text, `container_cpu_usage_seconds_total{container="app",namespace="shop",pod="web"} 10 `) {
		t.Errorf("the series isn't the newer pod's:\n%s", text)
	}
	if all := summary("", r, nil); len(all.Pods) != 2 {
		t.Errorf("%d pods; want 2", len(all.Pods))
	}
}

// Without the list of pods there is no summary. The node's metrics remain, and report that something is
// missing.
func TestRuntimeFails(t *testing.T) {
	w := newWorld(t, "v2")
	w.pods, w.listErr = nil, errors.New("broken pipe")
	s := w.start()
	if rec := ask(t, s.SummaryHandler(), ""); rec.Code != http.StatusInternalServerError || !strings.Contains(rec.Body.String(), "broken pipe") {
		t.Errorf("summary: %d %s", rec.Code, rec.Body)
	}
	for name, h := range map[string]http.Handler{"resource_scrape_error 1": s.ResourceHandler(), "container_scrape_error 1": s.CadvisorHandler()} {
		if text := ask(t, h, "").Body.String(); !strings.Contains(text, "\n"+name+"\n") {
			t.Errorf("no %s in:\n%s", name, text)
		}
	}
	if text := ask(t, s.ResourceHandler(), "").Body.String(); !strings.Contains(text, "node_cpu_usage_seconds_total 13") {
		t.Errorf("nothing of the node in:\n%s", text)
	}
	// The runtime answers again, except for the containers' usage, which cgroups have.
	w = newWorld(t, "v2")
	w.containerErr = errors.New("broken pipe")
	if rec := ask(t, w.start().SummaryHandler(), ""); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"name":"app"`) {
		t.Errorf("summary: %d %s", rec.Code, rec.Body)
	}
}
