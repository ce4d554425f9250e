package merge_test

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// TestUnreadyOrigin: a source isn't ready while one of its origins isn't, even if the store has all its pods.
// The reason is reported.
func TestUnreadyOrigin(t *testing.T) {
	for name, stored := range map[string]merge.Stored{
		"a new source": {}, "a restored one": {Complete: map[string]bool{"relay": true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := merge.New([]merge.Source{{Name: "relay"}}, stored)
			m.Apply(mergetest.Set("relay", 1, "file (not ready upstream): [held] [unready] [warning: wait]"))
			if s := m.Sources()[0]; s.Ready || s.Unready == nil || !strings.Contains(s.Unready.Error(), "not ready: file (not ready upstream); ") {
				t.Errorf("it is ready: %v, or doesn't say why not: %v", s.Ready, s.Unready)
			}
			rev := m.Apply(mergetest.Set("relay", 2, ""))
			if s := m.Sources()[0]; !s.Ready || s.Unready != nil || rev == nil || !rev.BecameReady {
				t.Errorf("without that origin it is ready: %v, %v, by the revision %v", s.Ready, s.Unready, rev)
			}
		})
	}
}
