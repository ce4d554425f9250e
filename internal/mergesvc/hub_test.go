package mergesvc_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

func newHub(log *slog.Logger) *mergesvc.Hub {
	return mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "file"}, {Name: "api"}}, Logger: log})
}

// TestHubPublishesInOrder applies sets of two sources at once. The history has every revision, without gaps.
func TestHubPublishesInOrder(t *testing.T) {
	h := newHub(nil)
	const sets = 100
	var writers sync.WaitGroup
	for _, source := range []string{"file", "api"} {
		writers.Go(func() {
			for i := range sets {
				h.Apply(mergetest.Set(source, int64(i), fmt.Sprintf("x: %s(image=%d)", source, i)))
				h.Sources()
			}
		})
	}
	writers.Wait()
	for number := range uint64(2 * sets) {
		rev, kept, _ := h.History().Next(number)
		if !kept || rev == nil || rev.Number != number+1 {
			t.Fatalf("after revision %d comes %v, kept=%v; want all %d in order", number, rev, kept, 2*sets)
		}
	}
	for _, s := range h.Sources() {
		if s.Pods != 1 || !s.Ready {
			t.Errorf("source %s has %d pods, ready=%v; want 1, ready", s.Name, s.Pods, s.Ready)
		}
	}
}

// TestHubInstances: each Hub has a different instance.
func TestHubInstances(t *testing.T) {
	if a, b := newHub(nil).History().Instance().ID, newHub(nil).History().Instance().ID; a == b || a == "" {
		t.Errorf("two hubs have the instance ids %q and %q; want two different ones", a, b)
	}
}

// TestHubLog: one line for each pod that changed, status changes at debug level only, and no line without a
// change.
func TestHubLog(t *testing.T) {
	var out bytes.Buffer
	h := newHub(slog.New(slog.NewTextHandler(&out, nil)))
	h.Apply(mergetest.Set("file", 1, "a: web(uid=u1) db(uid=u2)"))
	h.Apply(mergetest.Set("file", 2, "a: web(uid=u1) db(uid=u2)"))
	h.Apply(mergetest.Set("file", 3, "a: web(uid=u1,phase=Running)"))
	h.Apply(mergetest.Set("api", 4, ""))
	got := strings.Split(strings.TrimSpace(regexp.MustCompile(`time=\S+ `).ReplaceAllString(out.String(), "")), "\n")
	want := []string{
		`level=INFO msg="source is ready" source=file revision=1`,
		`level=INFO msg="pod changed" op=ADD pod=default/web uid=u1 source=file revision=1`,
		`level=INFO msg="pod changed" op=ADD pod=default/db uid=u2 source=file revision=1`,
		`level=INFO msg="pod changed" op=REMOVE pod=default/db uid=u2 source=file revision=2`,
		`level=INFO msg="source is ready" source=api revision=3`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestHubMetrics reads the metrics as Prometheus would.
func TestHubMetrics(t *testing.T) {
	h := newHub(nil)
	h.Apply(mergetest.Set("file", 1, "a: web()\nb: web(uid=u2)\nc: [held] [error: bad] [warning: odd]\nd~: [ignored: backup]"))
	read := mergetest.Set("api", 0, "held: [held]")
	at := position.Positions{{Source: "api", Cluster: "c", Epoch: 2, ResourceVersion: "5"}}
	read.Progress = &manifest.Progress{Changed: at, Current: at}
	h.Apply(read)
	h.Apply(manifest.Set{Source: "api", Err: errors.New("etcd is down")})
	want := `
# HELP podconfigd_revision The last revision published.
# TYPE podconfigd_revision gauge
podconfigd_revision 1
# HELP podconfigd_source_epoch How often the history of the source's cluster is known to have gone back. Absent: the source has no positions.
# TYPE podconfigd_source_epoch gauge
podconfigd_source_epoch{source="api"} 2
# HELP podconfigd_source_failed 1 if the whole source can't be read now, else 0.
# TYPE podconfigd_source_failed gauge
podconfigd_source_failed{source="api"} 1
podconfigd_source_failed{source="file"} 0
# HELP podconfigd_source_findings Current problems with the source's manifests, by severity: error, warning, conflict or ignored.
# TYPE podconfigd_source_findings gauge
podconfigd_source_findings{severity="conflict",source="api"} 0
podconfigd_source_findings{severity="conflict",source="file"} 1
podconfigd_source_findings{severity="error",source="api"} 0
podconfigd_source_findings{severity="error",source="file"} 1
podconfigd_source_findings{severity="ignored",source="api"} 0
podconfigd_source_findings{severity="ignored",source="file"} 1
podconfigd_source_findings{severity="warning",source="api"} 0
podconfigd_source_findings{severity="warning",source="file"} 1
# HELP podconfigd_source_last_heard_timestamp_seconds When the place that the source's pods come from last answered; a relay's is that of its upstream's sources. 0: never.
# TYPE podconfigd_source_last_heard_timestamp_seconds gauge
podconfigd_source_last_heard_timestamp_seconds{source="api"} 0
podconfigd_source_last_heard_timestamp_seconds{source="file"} 1
# HELP podconfigd_source_pods Pods of the source that are served.
# TYPE podconfigd_source_pods gauge
podconfigd_source_pods{source="api"} 0
podconfigd_source_pods{source="file"} 1
# HELP podconfigd_source_ready 1 if the source has been read in full since the start, else 0.
# TYPE podconfigd_source_ready gauge
podconfigd_source_ready{source="api"} 0
podconfigd_source_ready{source="file"} 0
# HELP podconfigd_store_durable 1 if every revision is on disk before it is sent, 0 while podconfigd serves from memory.
# TYPE podconfigd_store_durable gauge
podconfigd_store_durable 0
`
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h)
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), page.Body.String()); diff != "" {
		t.Errorf("metrics page (-want +got):\n%s", diff)
	}
}

// TestHubLogsConflicts: one line for each new conflict, and one when there is none left.
func TestHubLogsConflicts(t *testing.T) {
	d := run(t, newStore(t))
	const waits, none = `msg="pod waits for another one's name`, `msg="no pod waits for another one's name`
	check := func(step string, conflicts, over int) {
		t.Helper()
		if d.log.Count(waits) != conflicts || d.log.Count(none) != over {
			t.Errorf("%s: the log has %d conflicts and %d ends; want %d and %d", step, d.log.Count(waits), d.log.Count(none), conflicts, over)
		}
	}
	d.set("file", "a: web()")
	check("no conflict", 0, 0)
	d.set("api", "x: web(uid=u1)")
	d.set("api", "x: web(uid=u1)")
	check("one", 1, 0)
	d.set("api", "x: web(uid=u1)\ny: web(uid=u2)")
	check("another one", 2, 0)
	d.set("file", "a: web(image=2)")
	check("the same", 2, 0)
	d.set("api", "")
	d.set("file", "a: web(image=3)")
	check("all gone", 2, 1)
	d.set("api", "x: web(uid=u1)")
	check("again", 3, 1)
}

// TestHubCounts: the metrics count the pods of all ops by source and op, the merges, and the commits of changes.
func TestHubCounts(t *testing.T) {
	d := run(t, newStore(t))
	d.set("file", "a: a() b() c()")
	d.set("file", "a: a() b() c()")
	d.set("file", "a: a(image=2) b(phase=Running)")
	d.set("api", "")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(d.counts)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "podconfigd_ops_total" {
				got = append(got, fmt.Sprintf("%s %s %v", m.GetLabel()[1].GetValue(), m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
			}
		}
	}
	slices.Sort(got)
	// The empty ADD has no pods.
	if diff := cmp.Diff([]string{"api ADD 0", "file ADD 3", "file RECONCILE 1", "file REMOVE 1", "file UPDATE 1"}, got); diff != "" {
		t.Errorf("ops (-want +got):\n%s", diff)
	}
	for name, want := range map[string]float64{"podconfigd_merge_seconds": 4, commits: 3, failures: 0} {
		if got := gauge(t, name, d.counts); got != want {
			t.Errorf("%s has counted %v; want %v", name, got, want)
		}
	}
}
