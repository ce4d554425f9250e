package probe

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func TestStateBegins(t *testing.T) {
	for _, tc := range []struct {
		kind          kind
		fresh, before observed.Verdict
	}{
		{startup, observed.Undecided, observed.Success},
		{readiness, observed.Failure, observed.Success},
		{liveness, observed.Success, observed.Success},
	} {
		if got := begin(tc.kind, false).verdict; got != tc.fresh {
			t.Errorf("%v begins with %v, want %v", tc.kind, got, tc.fresh)
		}
		if got := begin(tc.kind, true).verdict; got != tc.before {
			t.Errorf("%v that was so before begins with %v, want %v", tc.kind, got, tc.before)
		}
	}
}

// TestStateThresholds plays answers, + and -, and writes down the verdict after each: u(ndecided), s(uccess),
// f(ailure), and ! where nothing more is asked.
func TestStateThresholds(t *testing.T) {
	for _, tc := range []struct {
		kind             kind
		success, failure int32
		answers, want    string
	}{
		{readiness, 1, 3, "+---+", "s s s f s"},
		{readiness, 1, 3, "+--+--+", "s s s s s s s"},
		{readiness, 3, 1, "++-+++", "f f f f f s"},
		{readiness, 3, 2, "+++-++-+---", "f f s s s s s s s f f"},
		{readiness, 1, 1, "-+-+", "f s f s"},
		{liveness, 1, 3, "--+---", "s s s s s f!"},
		{liveness, 1, 1, "-", "f!"},
		{startup, 1, 3, "--+", "u u s!"},
		{startup, 1, 3, "---", "u u f!"},
		{startup, 1, 1, "+", "s!"},
		{readiness, 0, 0, "+-", "s f"}, // without defaults, each answer counts
	} {
		t.Run(fmt.Sprintf("%v %d/%d %s", tc.kind, tc.success, tc.failure, tc.answers), func(t *testing.T) {
			spec := &v1.Probe{SuccessThreshold: tc.success, FailureThreshold: tc.failure}
			s, got := begin(tc.kind, false), ""
			for _, a := range tc.answers {
				s = s.after(a == '+', spec)
				got += " " + map[observed.Verdict]string{observed.Undecided: "u", observed.Success: "s", observed.Failure: "f"}[s.verdict]
				if s.final() {
					got += "!"
				}
			}
			if got != " "+tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
