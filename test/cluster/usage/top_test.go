package usage

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/rig"
)

// kubectl top shows what a metrics server computes from two readings of the node. There is no metrics server
// here, so the test computes it.
func TestKubectlTop(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "busy", toolsImage, shell("while :; do :; done")+", resources: {limits: {cpu: 200m}}", "terminationGracePeriodSeconds: 0")
	s.applyPod(t, "large", sampleImage, sample("hog", "48"), "terminationGracePeriodSeconds: 0")
	s.awaitReady(t, "busy")
	s.awaitReady(t, "large")
	s.begin(t, "logs", "-f", "large").expect(t, "holding 48 MiB")
	read := func() samples {
		return parseSamples(t, s.kubectl(t, "get", "--raw", "/api/v1/nodes/"+s.node.Name+"/proxy/metrics/resource"))
	}
	labels := fmt.Sprintf(`{container="main",namespace=%q,pod="busy"}`, s.name)
	cpu := "container_cpu_usage_seconds_total" + labels
	var first, second samples
	rig.Must(t, untilNil(t, "there are two readings", func() error {
		if now := read(); first == nil && now[cpu].at > 0 {
			first = now
		} else if second = now; first != nil && second[cpu].at-first[cpu].at >= 5000 { // ms
			return nil
		}
		return errNo
	}))
	used := (second[cpu].value - first[cpu].value) / float64(second[cpu].at-first[cpu].at) * 1000
	if used < 0.05 || used > 0.3 {
		t.Errorf("a container that may use 0.2 cores uses %.2f", used)
	}
	memory := second[fmt.Sprintf(`container_memory_working_set_bytes{container="main",namespace=%q,pod="large"}`, s.name)].value
	if memory < 48<<20 || memory > 100<<20 {
		t.Errorf("a container that holds 48 MiB has a working set of %.0f MiB", memory/(1<<20))
	}
	if before, after := first["node_cpu_usage_seconds_total"].value, second["node_cpu_usage_seconds_total"].value; before <= 0 || after < before {
		t.Errorf("the node used %v s of cpu first, and %v s later", before, after)
	}
	if node := second["node_memory_working_set_bytes"].value; node < memory {
		t.Errorf("the node has a working set of %.0f bytes, less than one container", node)
	}
	if failed, ok := second["resource_scrape_error"]; !ok || failed.value != 0 {
		t.Errorf("resource_scrape_error is %v, %t", failed, ok)
	}
}

// samples are metrics as a node exposes them, by name and labels.
type samples map[string]struct {
	value float64
	at    int64 // in ms since 1970; zero: unknown
}

func parseSamples(t *testing.T, text string) samples {
	t.Helper()
	all := samples{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.Index(line, "}") + 1
		if end == 0 {
			end = strings.Index(line, " ")
		}
		fields := strings.Fields(line[end:])
		s := all[line[:end]]
		s.value = rig.Get(strconv.ParseFloat(fields[0], 64))(t)
		if len(fields) > 1 {
			s.at = rig.Get(strconv.ParseInt(fields[1], 10, 64))(t)
		}
		all[line[:end]] = s
	}
	return all
}
