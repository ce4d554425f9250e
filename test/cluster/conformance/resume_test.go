package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/cluster/conformance/results"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// resume runs the specs of which the kept results lack a run, batch by batch, and keeps the results of each batch.
func resume(t *testing.T, dir string) {
	t.Helper()
	cluster, machine := startCluster(t, dir)
	key := results.Key{Agent: "podstream", Commit: *label, Runtime: runtimeVersion(t, machine)}
	other := "kubelet"
	if *kubelet != "" {
		key.Agent, other = other, key.Agent
	}
	specs := list(t, dir, cluster.Kubeconfig)
	// A spec that fails is a result. After two runs again, nothing is left to confirm.
	for round := 0; ; round++ {
		own := rig.Get(results.Load(*kept, key))(t)
		theirs := map[string][]results.Result{}
		if commits := rig.Get(results.Commits(*kept, other, key.Runtime))(t); len(commits) > 0 {
			theirs = rig.Get(results.Load(*kept, results.Key{Agent: other, Commit: commits[0], Runtime: key.Runtime}))(t)
		}
		next := results.Next(specs, own, theirs)
		t.Logf("%s %s on %s: %d of %d specs are left", key.Agent, key.Commit, key.Runtime, len(next), len(specs))
		if len(next) == 0 {
			return
		}
		next = next[:min(len(next), *batch)]
		report := filepath.Join(dir, fmt.Sprintf("report-%d.json", round))
		runSpecs(t, dir, cluster.Kubeconfig, exactly(next), "--json-report="+report)
		got := resultsOf(t, report, next)
		if len(got) == 0 {
			t.Fatalf("ginkgo reports no result of %q", next)
		}
		rig.Must(t, results.Append(*kept, key, got...))
	}
}

// exactly returns the regular expression of these specs. Ginkgo matches it with a spec's texts, with spaces between.
func exactly(specs []string) string {
	quoted := make([]string, len(specs))
	for i, spec := range specs {
		quoted[i] = regexp.QuoteMeta(spec)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}

// list returns the names of the specs that match focus and not except. It doesn't run them.
func list(t *testing.T, dir, kubeconfig string) []string {
	t.Helper()
	report := filepath.Join(dir, "list.json")
	runSpecs(t, dir, kubeconfig, *focus, "--json-report="+report, "--dry-run")
	var names []string
	for _, s := range read(t, report) {
		if s.LeafNodeType == "It" && asked(&s) && !slices.Contains(names, s.name()) {
			names = append(names, s.name())
		}
	}
	if len(names) == 0 {
		t.Fatalf("no spec matches %s", *focus)
	}
	return names
}

// read returns the specs of a report.
func read(t *testing.T, path string) []spec {
	t.Helper()
	var suites []suite
	rig.Must(t, json.Unmarshal(rig.Get(os.ReadFile(path))(t), &suites))
	var all []spec
	for _, suite := range suites {
		all = append(all, suite.SpecReports...)
	}
	return all
}

// resultsOf returns the results of the specs that were run.
func resultsOf(t *testing.T, report string, specs []string) []results.Result {
	t.Helper()
	var all []results.Result
	for _, s := range read(t, report) {
		if s.LeafNodeType != "It" || !slices.Contains(specs, s.name()) {
			continue
		}
		r := results.Result{Spec: s.name(), State: s.State, Seconds: s.RunTime.Seconds(), Time: time.Now().UTC()}
		switch s.State {
		case results.Passed:
		case "skipped", "pending":
			r.State, r.Reason = results.Skipped, s.Failure.Message
			if r.Reason == "" {
				r.Reason = unfitFor(r.Spec)
			}
		case "interrupted", "aborted":
			continue // the run was stopped: it says nothing about the spec
		default:
			r.State, r.Reason = results.Failed, fmt.Sprintf("%s at %v: %s%s", s.State, s.Failure.Location, s.Failure.Message, s.Failure.ForwardedPanic)
		}
		all = append(all, r)
	}
	return all
}

// runtimeVersion returns the name and version of the machine's container runtime.
func runtimeVersion(t *testing.T, machine *devnode.Node) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := rig.Get(grpc.NewClient(machine.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	version := rig.Get(runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{}))(t)
	return version.GetRuntimeName() + "-" + version.GetRuntimeVersion()
}
