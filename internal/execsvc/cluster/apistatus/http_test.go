package apistatus_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus"
	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
	"github.com/podstream/podstream/internal/execsvc/pod/podset"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A patch and a deletion over a real connection, and their metrics.
func TestOverHTTP(t *testing.T) {
	gone := make(chan struct{})
	api := &fakeapi.Server{Changed: func(_ *v1.Pod, removed bool) {
		if removed {
			close(gone)
		}
	}}
	var once sync.Once
	api.Fault = func(fakeapi.Request) (f fakeapi.Fault) {
		once.Do(func() { f.Code, f.Message = http.StatusInternalServerError, "no" })
		return f
	}
	server := httptest.NewServer(api)
	defer server.Close()
	api.Put(newPod("1"))
	pods := podset.New()
	pod := newPod("1")
	pod.ResourceVersion = "1"
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	now := pod.Status.Conditions[0].LastTransitionTime
	pod.DeletionTimestamp = &now
	pods.Put(pod)
	b := podview.New()
	b.Set(podview.Pod{
		UID: "1", Namespace: "ns", Name: "pod-1", State: finished, Desired: true, Status: succeeded(), Object: pod, Changed: time.Now().Add(time.Hour),
	})
	registry := prometheus.NewRegistry()
	w := apistatus.New(apistatus.Config{Client: fakeapi.ClientOf(server.URL), Board: b, Pod: pods.Get, Metrics: registry})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { w.Run(ctx) })
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the pod isn't removed")
	}
	cancel()
	group.Wait()
	got := counted(t, registry)
	for what, want := range map[string]float64{"taken": 1, "refused": 1, "gone": 0, "durations": 1} {
		if got[what] != want {
			t.Errorf("counted are %v %s; want %v", got[what], what, want)
		}
	}
}

// counted returns the numbers of patches by outcome, and the durations.
func counted(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "podexecd_pod_status_patches_total":
				out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			case "kubelet_pod_status_sync_duration_seconds":
				out["durations"] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}
