package claimvolumes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

var (
	// errHung is the error of a helper that may go on, errKilled that of one that has ended.
	errHung   = &foreign.AbandonedError{Volume: "v", PID: 1, Cause: errPlanted}
	errKilled = &foreign.AbandonedError{Volume: "v", PID: 1, Ended: true, Cause: errPlanted}
)

// TestRemove: pods are kept away before anything is read, and the binding ends after the directory has.
func TestRemove(t *testing.T) {
	n := newNode(t)
	if left, err := n.Remove(t.Context(), data); err != nil || left != "" || n.content() != "none" || n.left() != "" || n.bound {
		t.Errorf("left %q, %v; the volume has %s, bound %t", left, err, n.content(), n.bound)
	}
	if got, want := strings.Join(n.steps, " "), "hold reserve named survey named unmake remove forget sweep"; got != want {
		t.Errorf("the steps are %s; want %s", got, want)
	}
	n.free()
}

// TestRemoveIsRefused: what can't be verified removes nothing, and the claim stays bound.
func TestRemoveIsRefused(t *testing.T) {
	for name, plant := range map[string]func(*node){
		"another request has it":       func(n *node) { n.before["hold"] = errPlanted },
		"a pod uses it":                func(n *node) { n.before["reserve"] = errPlanted },
		"a claim names it":             func(n *node) { n.named = "planted" },
		"the claims aren't known":      func(n *node) { n.before["named"] = errPlanted },
		"something is mounted in it":   func(n *node) { n.problem = "planted" },
		"its files can't be read":      func(n *node) { n.before["survey"] = errPlanted },
		"no helper answers":            func(n *node) { n.before["survey"] = errHung },
		"a claim comes meanwhile":      func(n *node) { n.onSurvey = func() { n.named = "planted" } },
		"the stream breaks meanwhile":  func(n *node) { n.onSurvey = func() { n.before["named"] = errPlanted } },
		"the binding can't be changed": func(n *node) { n.before["unmake"] = errPlanted },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			plant(n)
			if _, err := n.Remove(t.Context(), data); err == nil || !strings.Contains(err.Error(), "planted") {
				t.Errorf("the error is %v", err)
			}
			if n.content() != "old" || !n.bound || !n.made || n.did("unmake") != (name == "the binding can't be changed") || n.did("remove") || n.did("forget") {
				t.Errorf("the volume has %s, bound %t, made %t; the steps are %v", n.content(), n.bound, n.made, n.steps)
			}
			if name != "no helper answers" { // One that goes on to read changes nothing, but that isn't distinguished.
				n.free()
			}
		})
	}
}

// TestRemoveOfNames: only a claim's name is a volume's, and a missing volume is one error.
func TestRemoveOfNames(t *testing.T) {
	n := newNode(t)
	for _, c := range []directory.Claim{
		{}, {Namespace: "default"}, {Namespace: "..", Name: "claims"}, {Namespace: "default", Name: ".."}, {Namespace: ".incomplete", Name: "x"},
		{Namespace: "default/data", Name: "old"}, {Namespace: "default", Name: "a/b"}, {Namespace: "default", Name: "data\x00"}, {Name: "/etc"},
	} {
		if _, err := n.Remove(t.Context(), c); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v; want %v", c, err, ErrName)
		}
		if _, err := n.Export(t.Context(), c, Limits{}, nil); !errors.Is(err, ErrName) {
			t.Errorf("the export of %q: %v; want %v", c, err, ErrName)
		}
	}
	if len(n.steps) != 0 {
		t.Errorf("the steps are %v", n.steps)
	}
	if err := os.RemoveAll(filepath.Join(n.root, "default")); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Remove(t.Context(), data); !errors.Is(err, ErrMissing) || n.did("unmake") {
		t.Errorf("of a missing volume: %v", err)
	}
	n.free()
}

// TestFailedRemoval: a removal that fails leaves no data without a binding, and no binding that needs a directory that is gone.
func TestFailedRemoval(t *testing.T) {
	for name, tc := range map[string]struct {
		plant       func(*node)
		content     string
		bound, made bool
		// done is set if the volume counts as removed, held if no pod may get it.
		done, held bool
	}{
		"the rename fails":           {func(n *node) { n.before["remove"] = errPlanted }, "old", true, true, false, false},
		"a helper is killed before":  {func(n *node) { n.before["remove"] = errKilled }, "old", true, true, false, false},
		"a helper is killed after":   {func(n *node) { n.after["remove"] = errKilled }, "none", true, false, true, false},
		"a helper hangs":             {func(n *node) { n.before["remove"] = errHung }, "old", true, false, false, true},
		"a helper hangs after":       {func(n *node) { n.after["remove"] = errHung }, "none", true, false, false, true},
		"its files can't be removed": {func(n *node) { n.before["sweep"] = errPlanted }, "none", false, false, true, false},
		"the binding isn't removed":  {func(n *node) { n.before["forget"] = errPlanted }, "none", true, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			tc.plant(n)
			_, err := n.Remove(t.Context(), data)
			if tc.done != (err == nil) || err != nil && !strings.Contains(err.Error(), "planted") {
				t.Errorf("the error is %v", err)
			}
			if n.content() != tc.content || n.bound != tc.bound || n.made != tc.made {
				t.Errorf("the volume has %s, bound %t, made %t; want %+v", n.content(), n.bound, n.made, tc)
			}
			if tc.held != (n.held == 1) || tc.held != (n.reserved == 1) {
				t.Errorf("held %d, reserved %d; want %t", n.held, n.reserved, tc.held)
			}
		})
	}
	t.Run("nothing answers", func(t *testing.T) {
		n := newNode(t)
		n.before["remove"] = errKilled
		n.surveys = []error{nil, errPlanted}
		if _, err := n.Remove(t.Context(), data); err == nil || !strings.Contains(err.Error(), "isn't known") || !n.bound || n.made {
			t.Errorf("%v; bound %t, made %t; want a binding whose directory may be missing", err, n.bound, n.made)
		}
		n.free()
	})
}

// TestList: only directories of claims are listed, with their users. Without all records or claims they say so.
func TestList(t *testing.T) {
	n := newNode(t)
	for _, file := range []string{"Upper/data/x", ".incomplete/a/x", "default/na me/x", "kube-system/logs/x"} {
		n.write(file)
	}
	after := ""
	names := func(all []Volume) string {
		var names []string
		for _, v := range all {
			names = append(names, v.Claim.String())
		}
		return strings.Join(names, " ")
	}
	all, next, err := n.List(t.Context(), "", 100)
	if err != nil || next != "" || names(all) != "default/data kube-system/logs" {
		t.Fatalf("%s, next %q, %v", names(all), next, err)
	}
	var paged []Volume
	for pages := 1; ; pages++ { // A page of which no directory is a claim's doesn't end the list.
		page, next, err := n.List(t.Context(), after, 1)
		if err != nil || pages > 4 {
			t.Fatalf("page %d: %v", pages, err)
		}
		paged = append(paged, page...)
		if after = next; next == "" {
			break
		}
	}
	if names(paged) != names(all) {
		t.Errorf("in pages: %s; want %s", names(paged), names(all))
	}
	if v := all[0]; len(v.Users) != 1 || v.Named || v.Unsettled || v.Path != filepath.Join(n.root, "default", "data") || v.Dir.Files != 1 {
		t.Errorf("the volume is %+v", v)
	}
	n.named = "a claim"
	for what, plant := range map[string]func(){
		"records": func() { n.unready = true },
		"claims":  func() { n.unready, n.before["named"] = false, errPlanted },
	} {
		plant()
		if all, _, err := n.List(t.Context(), "default/a", 1); err != nil || len(all) != 1 || !all[0].Unsettled || !all[0].Named {
			t.Errorf("without the %s: %+v, %v", what, all, err)
		}
	}
	n.before["survey"] = errHung
	if _, _, err := n.List(t.Context(), "", 1); !errors.Is(err, foreign.ErrNoAnswer) || !strings.Contains(err.Error(), n.root) {
		t.Errorf("a file system that hangs: %v", err)
	}
}

// TestRun: the start removes what an earlier podexecd left, and nothing of its own. If it can't, it says so once.
func TestRun(t *testing.T) {
	n := newNode(t)
	n.write(".incomplete/earlier/x")
	n.write(".incomplete/" + n.start + "now/x")
	n.sweep(t.Context())
	if n.left() != n.start+"now" || n.logs.String() != "" {
		t.Errorf("%s is left; the log has %s", n.left(), n.logs.String())
	}
	n.before["sweep"] = errPlanted
	n.sweep(t.Context())
	if !strings.Contains(n.logs.String(), "planted") {
		t.Errorf("the log has %s", n.logs.String())
	}
}

// TestRunRemovesReplaced: Run removes what an import has replaced, until its end.
func TestRunRemovesReplaced(t *testing.T) {
	n := newNode(t)
	n.swept = make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	if only := <-n.swept; only != "" {
		t.Errorf("at the start only %s is removed", only)
	}
	if _, err := n.Import(t.Context(), data, limits, true, io.NopCloser(bytes.NewReader(archive(t, "new")))); err != nil {
		t.Fatal(err)
	}
	if only := <-n.swept; !strings.HasPrefix(only, n.start) || n.left() != "" || n.content() != "new" {
		t.Errorf("%q is removed; left is %s, the volume has %s", only, n.left(), n.content())
	}
	cancel()
	<-done
}

// TestRunWaitsForLeftovers: while a helper of an earlier podexecd may work on what is left, Run waits for its end.
func TestRunWaitsForLeftovers(t *testing.T) {
	n := newNode(t)
	n.write(".incomplete/earlier/x")
	n.again, n.swept = time.Millisecond, make(chan string)
	n.busySweeps = 2
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	<-n.swept
	if n.left() != "" {
		t.Errorf("%s is left", n.left())
	}
	cancel()
	<-done
}
