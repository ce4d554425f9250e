//go:build kubelet

package nodediff

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// programs is the directory of the programs. The test runs in a guest, which is its own.
var programs = flag.String("programs", "", "the directory of kubelet, kube-apiserver, etcd, podconfigd, podexecd and sample, in a guest")

var (
	show      = flag.Bool("show", false, "print all that is seen")
	onlyTheir = flag.Bool("kubelet", false, "play the cases with the kubelet only, and print all that is seen")
)

// TestNode plays all cases with both agents, and compares what is seen.
func TestNode(t *testing.T) {
	compareCases(t, Cases(), nodeRules, umlRules, podRules)
}

// TestReserved is TestNode in a guest with two processors and the controller cpuset.
func TestReserved(t *testing.T) { compareCases(t, ReservedCases(), reservedRules) }

// compareCases compares all cases. Each of the rules must explain a difference.
func compareCases(t *testing.T, cases []*Case, rules ...[]Rule) {
	t.Helper()
	site := startSite(t)
	var tables []*Table
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { tables = append(tables, compareCase(t, site, c)) })
	}
	fmt.Print(Rows(tables))
	if len(tables) < len(cases) {
		return // -run has left some out
	}
	wantApplied(t, tables, slices.Concat(rules...))
}

// compareCase plays a case with both agents. Each unexplained difference is an error, and each planted one that the
// comparison doesn't find.
func compareCase(t *testing.T, site *Site, c *Case) *Table {
	t.Helper()
	began := time.Now()
	kubelet, err := site.Play(t.Context(), c, Kubelet, func(seen Seen) bool { return len(seen.missing(c.Wants)) == 0 })
	if err != nil {
		t.Fatalf("the kubelet: %v", err)
	}
	took := time.Since(began)
	for _, want := range kubelet.missing(c.Wants) {
		t.Errorf("the kubelet has no %q", want)
	}
	if *onlyTheir {
		fmt.Printf("%s: kubelet %v\n%s", c.Name, took.Round(time.Second), kubelet)
		return Compare(c.Name, kubelet, kubelet)
	}
	podstream, err := site.Play(t.Context(), c, Podstream, func(seen Seen) bool { return len(Compare(c.Name, kubelet, seen).Unexplained) == 0 })
	if err != nil {
		t.Fatalf("Podstream: %v", err)
	}
	if *show {
		fmt.Printf("%s: kubelet\n%s%s: podstream\n%s", c.Name, kubelet, c.Name, podstream)
	}
	fmt.Printf("%s: kubelet %v, podstream %v\n", c.Name, took.Round(time.Second), (time.Since(began) - took).Round(time.Second))
	return judge(t, c.Name, kubelet, podstream)
}

// judge compares what is seen with both agents, and plants differences.
func judge(t *testing.T, name string, kubelet, podstream Seen) *Table {
	t.Helper()
	table := Compare(name, kubelet, podstream)
	for i := range table.Unexplained {
		t.Error(&table.Unexplained[i])
	}
	for _, what := range table.Plant(kubelet, podstream) {
		t.Errorf("planted: %s: the comparison doesn't find it", what)
	}
	return table
}

// wantApplied reports rules without a difference in the tables.
func wantApplied(t *testing.T, tables []*Table, rules []Rule) {
	t.Helper()
	for i := range rules {
		r := &rules[i]
		if !r.ByChance && !slices.ContainsFunc(tables, func(table *Table) bool { return table.ByRule[r.Name] > 0 }) {
			t.Errorf("rule %s applies to no difference", r.Name)
		}
	}
}

// startSite starts the API server, and imports the sample images.
func startSite(t *testing.T) *Site {
	t.Helper()
	if *programs == "" {
		t.Fatal("-programs isn't set: hack/nodediff.sh runs this test in a guest")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := "/var/tmp/nodediff"
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	const endpoint = "unix:///run/containerd/containerd.sock"
	node, err := devnode.Start(ctx, devnode.Config{
		Dir: filepath.Join(dir, "images"), Runtime: devnode.Endpoint, Endpoint: endpoint, BinDir: *programs, Log: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	hub, err := startHub(ctx, filepath.Join(*programs, "sample"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	server, err := StartServer(ctx, filepath.Join(dir, "server"), *programs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Site{Programs: *programs, Runtime: node.Endpoint(), IP: "10.0.2.15", Log: os.Stdout, server: server}
}
