package podsapi

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/metrictest"
)

func TestMetrics(t *testing.T) {
	b, registry := podview.New(), prometheus.NewRegistry()
	b.Set(shown("web"))
	client, server := dialWith(t, New(b, registry))
	if _, err := client.ListPods(t.Context(), &podsv1alpha1.ListPodsRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"uid-web", "uid-none"} {
		_, _ = client.GetPod(t.Context(), &podsv1alpha1.GetPodRequest{PodUID: uid})
	}
	stream, err := client.WatchPods(t.Context(), &podsv1alpha1.WatchPodsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	server.Close()
	for err == nil {
		_, err = stream.Recv()
	}
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_pod_requests_total{server_api_version=v1alpha1}":   4,
		"kubelet_pod_requests_list_total{status_code=OK}":           1,
		"kubelet_pod_requests_get_total{status_code=OK}":            1,
		"kubelet_pod_requests_get_total{status_code=NotFound}":      1,
		"kubelet_pod_requests_watch_total{status_code=Unavailable}": 1,
		"kubelet_pod_watch_events_dropped_total":                    0,
	})
}
