package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/test/cluster/conformance/results"
	"github.com/podstream/podstream/test/rig"
)

// suite has the fields of ginkgo's report that are used.
type suite struct {
	SuiteDescription           string
	SuiteSucceeded             bool
	SpecialSuiteFailureReasons []string
	SpecReports                []spec
}

// spec is the report of a spec, or of a step before or after all specs.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct {
		Message        string
		Location       location
		ForwardedPanic string
	}
}

type location struct {
	FileName   string
	LineNumber int
}

func (l location) String() string {
	return fmt.Sprintf("%s:%d", filepath.Base(l.FileName), l.LineNumber)
}

// name returns the spec's full name, or the name of the step.
func (s *spec) name() string {
	if s.LeafNodeType != "It" {
		return s.LeafNodeType + " " + s.LeafNodeText
	}
	texts := append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText)
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), " ")
}

// readReport returns the suites of a report.
func (r *runner) readReport(t *testing.T, report string) []suite {
	t.Helper()
	var suites []suite
	rig.Must(t, json.Unmarshal(rig.Get(os.ReadFile(r.path(report)))(t), &suites))
	return suites
}

// show runs a subtest for each spec that was requested.
func (r *runner) show(t *testing.T, report string) {
	t.Helper()
	count := map[string]int{}
	for _, suite := range r.readReport(t, report) {
		for _, spec := range suite.SpecReports {
			if !asked(&spec) {
				continue
			}
			count[spec.State]++
			t.Run(spec.name(), func(t *testing.T) { spec.show(t, r.site) })
		}
		if !suite.SuiteSucceeded {
			t.Errorf("the suite failed %s", strings.Join(suite.SpecialSuiteFailureReasons, ", "))
		}
	}
	t.Logf("%d specs passed, %d were skipped, %d failed", count["passed"], count["skipped"],
		count["failed"]+count["panicked"]+count["timedout"]+count["interrupted"]+count["aborted"])
	if count["passed"] == 0 {
		t.Error("nothing ran")
	}
}

// asked reports whether it belongs in the result: specs that match focus and not except, and steps that failed.
func asked(s *spec) bool {
	if s.LeafNodeType != "It" {
		return s.State != "passed"
	}
	name := s.name()
	return regexp.MustCompile(*focus).MatchString(name) && (*except == "" || !regexp.MustCompile(*except).MatchString(name))
}

// show is the subtest of one spec.
func (s *spec) show(t *testing.T, on site) {
	result, err := s.result(on)
	switch {
	case err != nil:
		t.Error(err)
	case result.State == results.Passed:
		t.Logf("passed after %.1f s", result.Seconds)
	case result.State == results.Skipped:
		t.Skip(result.Reason)
	default:
		t.Errorf("after %.1f s: %s", result.Seconds, result.Reason)
	}
}

// result returns the result to keep. It fails if the spec was left out without a reason, or was stopped: neither says
// anything about the agent.
func (s *spec) result(on site) (results.Result, error) {
	r := results.Result{Spec: s.name(), State: s.State, Seconds: s.RunTime.Seconds(), Time: time.Now().UTC()}
	switch s.State {
	case "passed":
		r.State = results.Passed
	case "skipped", "pending":
		r.State, r.Reason = results.Skipped, "upstream skips it: "+s.Failure.Message
		if s.Failure.Message == "" {
			r.Reason = on.unfitFor(r.Spec)
		}
		if r.Reason == "" {
			return r, fmt.Errorf("ginkgo left out %q without a reason", r.Spec)
		}
	case "failed", "panicked", "timedout":
		r.State = results.Failed
		r.Reason = fmt.Sprintf("%s at %v: %s%s", s.State, s.Failure.Location, s.Failure.Message, s.Failure.ForwardedPanic)
	default:
		return r, fmt.Errorf("the run of %q was stopped: %s", r.Spec, s.State)
	}
	return r, nil
}
