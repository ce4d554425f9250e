package conformance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/cluster/conformance/results"
)

// exactly must match as ginkgo does: the suite's name, a space, and the spec's texts.
func TestExactly(t *testing.T) {
	const suite = "Kubernetes node conformance"
	focus := regexp.MustCompile(exactly(suite, []string{"[sig-node] Pods (a+b) should run", "[sig-node] Pods should be * updated"}))
	for name, want := range map[string]bool{
		"[sig-node] Pods (a+b) should run":        true,
		"[sig-node] Pods should be * updated":     true,
		"[sig-node] Pods (a+b) should run [Slow]": false,
		"[sig-node] Pods (a+b) should runs":       false,
		"x [sig-node] Pods (a+b) should run":      false,
	} {
		if got := focus.MatchString(suite + " " + name); got != want {
			t.Errorf("%q matches %v: %v", name, focus, got)
		}
	}
}

func TestResult(t *testing.T) {
	for name, tc := range map[string]struct {
		name, state, message string
		want, reason         string
	}{
		"a pass":                      {"a", "passed", "", results.Passed, ""},
		"a failure":                   {"a", "failed", "no", results.Failed, "failed at x.go:1: no"},
		"a time-out":                  {"a", "timedout", "late", results.Failed, "timedout at x.go:1: late"},
		"a panic":                     {"a", "panicked", "", results.Failed, "panicked at x.go:1: "},
		"upstream's skip":             {"a", "skipped", "no swap", results.Skipped, "upstream skips it: no swap"},
		"an unfit spec":               {"a [NFS] b", "skipped", "", results.Skipped, "not here: needs an NFS server's image"},
		"a spec that ginkgo left out": {"a", "skipped", "", "", "left out"},
		"a spec that was stopped":     {"a", "interrupted", "", "", "was stopped"},
		"one that the site can run":   {"user namespaced pods", "skipped", "", "", "left out"},
		"an unknown state":            {"a", "unknown", "", "", "was stopped"},
	} {
		s := spec{ContainerHierarchyTexts: []string{""}, LeafNodeType: "It", LeafNodeText: tc.name, State: tc.state}
		s.Failure.Message, s.Failure.Location = tc.message, location{"/src/x.go", 1}
		got, err := s.result(site{userNamespaces: true})
		if tc.want == "" {
			if err == nil || !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("%s: the error is %v", name, err)
			}
			continue
		}
		if err != nil || got.Spec != tc.name || got.State != tc.want || got.Reason != tc.reason {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
