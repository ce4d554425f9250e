package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/test/rig"
)

// suite has the fields of ginkgo's report that are used.
type suite struct {
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
	return strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
}

// show runs a subtest for each spec that was requested.
func show(t *testing.T, path string) {
	t.Helper()
	var suites []suite
	rig.Must(t, json.Unmarshal(rig.Get(os.ReadFile(path))(t), &suites))
	count := map[string]int{}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if !asked(&spec) {
				continue
			}
			count[spec.State]++
			t.Run(spec.name(), spec.show)
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
func (s *spec) show(t *testing.T) {
	switch s.State {
	case "passed":
		t.Logf("passed after %.1f s", s.RunTime.Seconds())
	case "skipped", "pending":
		if s.Failure.Message != "" {
			t.Skipf("upstream skips it: %s", s.Failure.Message)
		}
		t.Skip(unfitFor(s.name()))
	default:
		t.Errorf("%s after %.1f s at %v: %s%s", s.State, s.RunTime.Seconds(), s.Failure.Location, s.Failure.Message, s.Failure.ForwardedPanic)
	}
}
