package lifecycle

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// moved are series that have risen above zero on a node on which one static pod with a probe runs, by page. Labels are a
// part of the line's.
var moved = map[string][]string{
	"/metrics": {
		`kubelet_running_pods`, `kubelet_running_containers{container_state="running"`, `kubelet_desired_pods{static="true"`,
		`kubelet_active_pods{static="true"`, `kubelet_working_pods{config="desired",lifecycle="sync",static="true"`,
		`kubelet_started_pods_total`, `kubelet_started_containers_total{container_type="container"`, `kubelet_containers_per_pod_count_count`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"`, `kubelet_pod_worker_start_duration_seconds_count`,
		`kubelet_pod_start_duration_seconds_count`, `kubelet_pod_level_resources_admission_total{config_mode="",qos_class="besteffort"`,
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"`, `kubelet_runtime_operations_total{operation_type="start_container"`,
		`kubelet_runtime_operations_duration_seconds_count{operation_type="list_podsandbox"`, `kubelet_run_podsandbox_duration_seconds_count`,
		`kubelet_pleg_relist_duration_seconds_count`, `kubelet_pleg_pod_relist_duration_seconds_count`, `kubelet_pleg_last_seen_seconds`,
		`kubelet_cgroup_version`, `kubelet_node_name{node="`, `kubelet_http_requests_total`,
		`kubernetes_build_info{`, `kubernetes_feature_enabled{name="MemoryQoS",stage="BETA"`, `process_start_time_seconds`, `go_goroutines`,
	},
	"/metrics/probes": {`prober_probe_total{`, `prober_probe_duration_seconds_count{`, `process_start_time_seconds`},
	"/metrics/slis":   {`kubernetes_healthcheck{name="ping",type="healthz"`, `kubernetes_healthchecks_total{name="syncloop",status="success"`},
}

// wantMetrics scrapes the pages of metrics once, and checks that the series have moved.
func (n *nodeAPI) wantMetrics(t *testing.T) {
	t.Helper()
	for page, series := range moved {
		status, text := n.get(n.url(page))
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", page, status, text)
			continue
		}
		for _, s := range series {
			if got := sum(text, s); got <= 0 {
				t.Errorf("%s: %s is %v; want more than 0", page, s, got)
			}
		}
	}
	for page, want := range map[string]string{"/statusz": "Binary version: ", "/flagz": "hostname-override="} {
		if status, text := n.get(n.url(page)); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d, without %q:\n%s", page, status, want, text)
		}
	}
}

// sum adds up the values of the series that begin with the text: their name, with some labels or without.
func sum(page, begin string) float64 {
	total := 0.0
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, begin)
		if !ok || !strings.Contains(begin, "{") && !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "{") {
			continue
		}
		value := strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:])
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			total += n
		}
	}
	return total
}
