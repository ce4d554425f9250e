package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podstream/podstream/test/cluster/conformance/results"
	"github.com/podstream/podstream/test/rig"
)

// resume runs the specs of which the kept results lack a run, batch by batch, and keeps the results of each batch. A spec
// that fails is a result, and no failure of this test.
func (r *runner) resume(t *testing.T) {
	t.Helper()
	key := results.Key{Agent: "podstream", Commit: *label, Runtime: r.site.runtime, Specs: *version}
	other := key
	other.Agent = "kubelet"
	if *kubelet != "" {
		key.Agent, other.Agent = other.Agent, key.Agent
	}
	own := rig.Get(results.Open(*kept, key))(t)
	t.Cleanup(func() { rig.Must(t, own.Close()) })
	if own.Dropped != "" {
		t.Logf("dropped a result that was half written: %s", own.Dropped)
	}
	suite, specs := r.list(t)
	for round := 1; ; round++ {
		commit, theirs, err := results.Latest(*kept, other)
		rig.Must(t, err)
		next := results.Next(specs, own.Runs, theirs)
		t.Logf("%s %s on %s: %d of %d specs are left, beside %s %s", key.Agent, key.Commit, key.Runtime, len(next), len(specs), other.Agent, commit)
		if len(next) == 0 {
			return
		}
		next = next[:min(len(next), *batch)]
		report := fmt.Sprintf("report-%d.json", round)
		r.run(t, report, exactly(suite, next), "--procs="+strconv.Itoa(r.specs.processes))
		for _, daemon := range r.node.Daemons() {
			select {
			case <-daemon.Done():
				t.Fatalf("%s has ended: the results of these specs aren't kept: %q", daemon.Name, next)
			default:
			}
		}
		r.keep(t, own, report, next)
	}
}

// keep appends the results of the specs that were run. It fails if there is none, or if one is no result.
func (r *runner) keep(t *testing.T, own *results.File, report string, ran []string) {
	t.Helper()
	var kept []results.Result
	var errs []error
	for _, suite := range r.readReport(t, report) {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType != "It" {
				if s.State != "passed" {
					errs = append(errs, fmt.Errorf("%s: %s: %s", s.name(), s.State, s.Failure.Message))
				}
				continue
			}
			if !slices.Contains(ran, s.name()) {
				continue
			}
			result, err := s.result(r.site)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			r.failed = r.failed || result.State == results.Failed
			t.Logf("%s after %.0f s: %s %s", result.State, result.Seconds, result.Spec, result.Reason)
			kept = append(kept, result)
		}
	}
	rig.Must(t, own.Append(kept...))
	if r.stopped.Err() != nil {
		t.Fatalf("stopped: of %d specs, %d have a result; those are kept", len(ran), len(kept))
	}
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 || len(kept) != len(ran) {
		t.Fatalf("of %d specs, %d have a result; those are kept", len(ran), len(kept))
	}
}

// exactly returns the regular expression of these specs. Ginkgo matches it with the suite's name and a spec's.
func exactly(suite string, specs []string) string {
	quoted := make([]string, len(specs))
	for i, spec := range specs {
		quoted[i] = regexp.QuoteMeta(spec)
	}
	return "^" + regexp.QuoteMeta(suite) + " (" + strings.Join(quoted, "|") + ")$"
}

// list returns the name of the suite, and those of the specs that match focus and not except. It doesn't run them.
func (r *runner) list(t *testing.T) (suite string, specs []string) {
	t.Helper()
	const report = "list.json"
	r.run(t, report, *focus, "--dry-run", "--procs=1") // ginkgo lists in one process only
	for _, s := range r.readReport(t, report) {
		suite = s.SuiteDescription
		for _, spec := range s.SpecReports {
			if spec.LeafNodeType == "It" && asked(&spec) {
				specs = append(specs, spec.name())
			}
		}
	}
	if len(specs) == 0 {
		t.Fatalf("no spec matches %s", *focus)
	}
	if sorted := slices.Sorted(slices.Values(specs)); len(slices.Compact(sorted)) != len(specs) {
		t.Fatal("two specs have one name")
	}
	return suite, specs
}
