package mergesvc_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
)

// preview previews the origins, in mergetest's notation.
func preview(t *testing.T, h *mergesvc.Hub, text string, gone ...string) (ops []string, p merge.Preview) {
	t.Helper()
	origins, err := mergetest.Origins(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err = h.Preview("file", origins, gone)
	if err != nil {
		t.Fatalf("Preview: %v; want what would change", err)
	}
	for _, c := range p.Changes {
		line := fmt.Sprintf("%s %s:", c.Op, c.Source)
		for _, pod := range c.Pods {
			line += " " + string(pod.UID())
		}
		ops = append(ops, line)
	}
	return ops, p
}

// TestPreview: a preview shows the effect of the set with some of its origins replaced, added or removed.
// Applying that set has the same effect.
func TestPreview(t *testing.T) {
	const now = "a: web() db()\nc: [held]\nm: mid()"
	for _, tc := range []struct {
		name, text string
		gone       []string
		want       []string
		// then is the set with the previewed origins.
		then string
	}{
		{"nothing", "", nil, nil, now},
		{"the same again", "a: web() db()", nil, nil, now},
		{"a new origin", "b: new()", nil, []string{"ADD file: new"}, "a: web() db()\nb: new()\nc: [held]\nm: mid()"},
		{"an edit", "a: web(image=2) db(phase=Running)", nil, []string{"UPDATE file: web", "RECONCILE file: db"}, "a: web(image=2) db(phase=Running)\nc: [held]\nm: mid()"},
		{"less of an origin", "a: web()", nil, []string{"REMOVE file: db"}, "a: web()\nc: [held]\nm: mid()"},
		{"an origin goes", "", []string{"a"}, []string{"REMOVE file: web db"}, "c: [held]\nm: mid()"},
		{"an origin goes that isn't there", "", []string{"z"}, nil, now},
		{"an origin breaks", "a: [held] [error: bad]", nil, nil, "a: [held] [error: bad]\nc: [held]\nm: mid()"},
		{"one breaks in part", "a: web(image=2) [held]", nil, []string{"UPDATE file: web"}, "a: web(image=2) [held]\nc: [held]\nm: mid()"},
		{"the broken one is mended", "c: kept() more()", nil, []string{"ADD file: more"}, "a: web() db()\nc: kept() more()\nm: mid()"},
		{"another one has the name", "b: web(uid=other)", nil, nil, "a: web() db()\nb: web(uid=other)\nc: [held]\nm: mid()"},
		{
			"one that stands before takes it", "0: web(uid=other)", nil, []string{"REMOVE file: web", "ADD file: other"},
			"0: web(uid=other)\na: web() db()\nc: [held]\nm: mid()",
		},
		{"a pod moves to another origin", "z: mid()", []string{"m"}, nil, "a: web() db()\nc: [held]\nz: mid()"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHub(nil)
			h.Apply(mergetest.Set("api", 1, ""))
			h.Apply(mergetest.Set("file", 2, "a: web() db()\nc: kept()\nm: mid()"))
			h.Apply(mergetest.Set("file", 3, now))
			before, number := h.Sources(), h.History().Number()
			state := h.History().State()
			got, p := preview(t, h, tc.text, tc.gone...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ops (-want +got):\n%s", diff)
			}
			if p.Number != number || !p.SourceReady {
				t.Errorf("it is compared with revision %d, ready=%v; want %d, ready", p.Number, p.SourceReady, number)
			}
			if h.History().Number() != number || h.History().State() != state {
				t.Error("the preview has changed the state; want it untouched")
			}
			if diff := cmp.Diff(fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", h.Sources())); diff != "" {
				t.Errorf("the preview has changed the sources (-before +after):\n%s", diff)
			}
			h.Apply(mergetest.Set("file", 4, tc.then))
			if rev, _, _ := h.History().Next(number); rev != nil {
				var happened []string
				for _, c := range rev.Changes {
					line := fmt.Sprintf("%s %s:", c.Op, c.Source)
					for _, pod := range c.Pods {
						line += " " + string(pod.UID())
					}
					happened = append(happened, line)
				}
				if diff := cmp.Diff(tc.want, happened); diff != "" {
					t.Errorf("what happened then (-previewed +happened):\n%s", diff)
				}
			} else if len(tc.want) > 0 {
				t.Errorf("then nothing happened; want %q", tc.want)
			}
		})
	}
}

// TestPreviewFindings: a preview has only the findings of its origins, with the kept pods and the conflicts.
func TestPreviewFindings(t *testing.T) {
	h := newHub(nil)
	h.Apply(mergetest.Set("file", 1, "a: web()\nb: [warning: odd]\nc: web(uid=waits)"))
	_, p := preview(t, h, "a: [held] [error: bad]\nd: web(uid=other) [warning: strange]")
	var got []string
	for _, f := range p.Findings {
		line := f.Origin + ": " + f.Message
		for _, k := range f.Kept {
			line += ", kept " + string(k.UID)
		}
		got = append(got, line)
	}
	want := []string{
		"a: bad, kept web", "d: strange",
		"d: pod default/web is defined by source file in a already, which has precedence; this one waits until that is gone",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestPreviewReady: a preview that would make a source ready doesn't make it so.
func TestPreviewReady(t *testing.T) {
	h := newHub(nil)
	h.Apply(mergetest.Set("file", 1, "a: [held]"))
	ops, p := preview(t, h, "a: web()")
	if diff := cmp.Diff([]string{"ADD file: web"}, ops); diff != "" || p.SourceReady {
		t.Errorf("ready=%v, ops (-want +got):\n%s", p.SourceReady, diff)
	}
	if h.Sources()[0].Ready {
		t.Error("the preview has made the source ready")
	}
}

// TestPreviewRefused: a preview needs a set to compare with.
func TestPreviewRefused(t *testing.T) {
	h := newHub(nil)
	if _, err := h.Preview("http", nil, nil); !errors.Is(err, merge.ErrNoSource) || !strings.Contains(err.Error(), "http") {
		t.Errorf("Preview of a source that isn't configured: %v; want ErrNoSource, with its name", err)
	}
	if _, err := h.Preview("file", nil, nil); !errors.Is(err, merge.ErrNotRead) {
		t.Errorf("Preview before the source was read: %v; want ErrNotRead", err)
	}
	h.Apply(manifest.Set{Source: "file", Err: errors.New("no such directory")})
	if _, err := h.Preview("file", nil, nil); !errors.Is(err, merge.ErrNotRead) {
		t.Errorf("Preview of a source that couldn't be read yet: %v; want ErrNotRead", err)
	}
	h.Apply(mergetest.Set("file", 1, "a: web()"))
	h.Apply(manifest.Set{Source: "file", Err: errors.New("no such directory")})
	if ops, _ := preview(t, h, "a:"); len(ops) != 1 {
		t.Errorf("Preview of a source that could be read before: %q; want the REMOVE", ops)
	}
}

// TestPreviewWhileApplied: previews and sets at the same time, for the race detector. No preview shows a part
// of a set.
func TestPreviewWhileApplied(t *testing.T) {
	h := newHub(nil)
	h.Apply(mergetest.Set("file", 1, "a: a() b()"))
	origins, err := mergetest.Origins("z: new() a(uid=clash)")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 200 {
			h.Apply(mergetest.Set("file", int64(i), fmt.Sprintf("a: a(image=%d) b(image=%d)", i, i)))
			h.Apply(mergetest.Set("api", int64(i), fmt.Sprintf("x: a(uid=api-%d)", i)))
		}
	})
	for range 3 {
		all.Go(func() {
			for range 200 {
				p, err := h.Preview("file", origins, []string{"b"})
				if err != nil || len(p.Changes) != 1 || len(p.Changes[0].Pods) != 1 || p.Changes[0].Pods[0].UID() != "new" {
					t.Errorf("Preview: %+v, %v; want ADD of new", p.Changes, err)
				}
				h.Sources()
			}
		})
	}
	all.Wait()
}
