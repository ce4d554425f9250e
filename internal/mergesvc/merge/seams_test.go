package merge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// TestConflictsInWords: Conflicts names the origin of each pod that waits, and the source that has precedence.
func TestConflictsInWords(t *testing.T) {
	m := merge.New(named([]string{"file", "api"}), merge.Stored{})
	m.Apply(mergetest.Set("file", 1, "a.yaml: web(uid=f)"))
	if got := m.Conflicts(); len(got) > 0 {
		t.Errorf("without a second claim the conflicts are %q; want none", got)
	}
	m.Apply(mergetest.Set("api", 2, "default/web: web(uid=a)"))
	got := m.Conflicts()
	if len(got) != 1 || !strings.HasPrefix(got[0], "default/web: ") || !strings.Contains(got[0], "source file in a.yaml") {
		t.Errorf("the conflicts are %q; want one that names default/web and a.yaml of file", got)
	}
	m.Apply(mergetest.Set("file", 3, ""))
	if got := m.Conflicts(); len(got) > 0 {
		t.Errorf("after the claim is gone the conflicts are %q; want none", got)
	}
}

// TestPreviewKeepsTheOtherOrigins: origins that the preview neither replaces nor removes stay as they are.
func TestPreviewKeepsTheOtherOrigins(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		gone, want []string
	}{
		{"an edit", "a: web(image=2)", nil, []string{"UPDATE file: web"}},
		{"an addition", "c: new()", nil, []string{"ADD file: new"}},
		{"a removal", "", []string{"b"}, []string{"REMOVE file: db"}},
		{"a removal and an edit", "a: web(image=2)", []string{"b"}, []string{"REMOVE file: db", "UPDATE file: web"}},
	} {
		m := merge.New(named([]string{"file"}), merge.Stored{})
		m.Apply(mergetest.Set("file", 1, "a: web()\nb: db()"))
		origins, err := mergetest.Origins(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Clone().Preview("file", origins, tc.gone, time.Unix(2, 0))
		if err != nil {
			t.Fatalf("%s: %v; want a preview", tc.name, err)
		}
		var got []string
		for _, c := range p.Changes {
			for _, pod := range c.Pods {
				got = append(got, fmt.Sprintf("%s %s: %s", c.Op, c.Source, pod.Object.Name))
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: ops (-want +got):\n%s", tc.name, diff)
		}
	}
}
