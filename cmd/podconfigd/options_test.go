package main

import (
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/merge"
)

func TestFileSources(t *testing.T) {
	got, err := fileSources([]string{"/etc/a", "extra=/etc/b", "other=/with=equals", "./c=d=/x"})
	if err == nil {
		t.Errorf("two paths without a name are taken: %v", got)
	}
	got, err = fileSources([]string{"/etc/a", "extra=/etc/b/", "other=/with=equals"})
	want := []merge.Source{
		{Name: "file", Location: "/etc/a"}, {Name: "file:extra", Location: "/etc/b"}, {Name: "file:other", Location: "/with=equals"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("sources %v, %v; want %v", got, err, want)
	}
	for _, bad := range [][]string{{""}, {"name="}, {"Not_A_Name=/etc/a"}, {"a=/x", "a=/y"}} {
		if got, err := fileSources(bad); err == nil {
			t.Errorf("%q is taken: %v", bad, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"--no-such-flag"}, {"--file-check-frequency=0s"}, {"--hostname-override="}} {
		opts, err := parse(args, t.Output())
		// An empty override is none.
		if args[0] == "--hostname-override=" {
			if err != nil || opts.node == "" {
				t.Errorf("%v: node %q, %v", args, opts.node, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("podconfigd takes %v", args)
		}
	}
}
