package podconfigd

import (
	"errors"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// TestStatusOf: the status names each source that isn't ready or can't be read, with the reason if there is one.
func TestStatusOf(t *testing.T) {
	source := func(name string, ready bool, pods int, lastErr, unready error) merge.SourceState {
		return merge.SourceState{Source: merge.Source{Name: name}, Ready: ready, Pods: pods, LastErr: lastErr, Unready: unready}
	}
	for want, sources := range map[string][]merge.SourceState{
		"serving; pods: 0":                         nil,
		"serving; pods: 5":                         {source("file", true, 3, nil, nil), source("api", true, 2, nil, nil)},
		"serving; pods: 3; waiting for source api": {source("file", true, 3, nil, nil), source("api", false, 0, nil, nil)},
		"serving; pods: 1; waiting for source api: refused; waiting for source file: held": {
			source("api", true, 1, errors.New("refused"), nil), source("file", false, 0, nil, errors.New("held")),
		},
	} {
		if got := statusOf(sources); got != want {
			t.Errorf("the status is %q; want %q", got, want)
		}
	}
}
