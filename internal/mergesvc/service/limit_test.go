package service_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// stockLimit is a gRPC client's default limit of a message.
const stockLimit = 4 << 20

// TestStockClient: with a node full of pods of the largest size, and very many findings, every answer fits
// gRPC's default limit, which the clients of these tests have.
func TestStockClient(t *testing.T) {
	o := diffable
	o.hub = func(c *mergesvc.Config) { c.Sources = append(c.Sources, merge.Source{Name: "file:more"}) }
	n := start(t, o)
	n.set("api", "x: large-1(pad=1500) large-2(pad=1500) large-3(pad=1500)")
	var kept strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&kept, "%s-%04d(uid=%036d,ns=%s) ", strings.Repeat("n", 240), i, i, strings.Repeat("s", 63))
	}
	for _, source := range []string{"file", "file:more"} {
		text := kept.String()
		if source == "file:more" {
			text = strings.ReplaceAll(text, "uid=0", "uid=1")
			text = strings.ReplaceAll(text, "ns=s", "ns=r")
		}
		n.set(source, "a: "+text)
		broken := mergetest.Set(source, 100, "a: [held] [error: bad]")
		for i := range 9000 {
			broken.Origins = append(broken.Origins, &manifest.Origin{
				Name: fmt.Sprintf("/etc/%05d", i), Findings: []manifest.Finding{{Severity: manifest.Warning, Message: strings.Repeat("odd ", 25)}},
			})
		}
		n.hub.Apply(broken)
	}
	sources, err := n.api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		t.Fatalf("ListSources: %v; want the sources", err)
	}
	for _, s := range sources.GetSources() {
		if s.GetName() == "api" {
			continue
		}
		findings := s.GetFindings()
		if len(findings) < 2 || len(findings[0].GetKeptPods()) < 1000 || s.GetPodCount() != 4000 {
			t.Errorf("source %s has %d findings, the first with %d kept pods, and %d pods; want many of the first, all of the last",
				s.GetName(), len(findings), len(findings[0].GetKeptPods()), s.GetPodCount())
		}
		if last := findings[len(findings)-1].GetMessage(); !strings.Contains(last, "findings more") {
			t.Errorf("the last finding of %s is %q; want how many there are more", s.GetName(), last)
		}
	}
	listed := 0
	for token := "start"; token != ""; {
		resp := n.list(&podconfigv1.ListPodsRequest{PageToken: strings.TrimPrefix(token, "start"), PageSize: 1 << 30})
		listed, token = listed+len(resp.GetPods()), resp.GetNextPageToken()
	}
	if listed != 8_003 {
		t.Errorf("the pages of ListPods have %d pods; want 8003", listed)
	}
	if _, err := n.api.GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "large-1"}}); err != nil {
		t.Errorf("GetPod of the largest: %v; want the pod", err)
	}
	for _, mode := range []podconfigv1.NotificationMode{incremental, snapshot} {
		req := in(mode, nil)
		req.Format = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
		s, streamed := n.watch(req), 0
		for u := s.unit(); ; u = s.unit() {
			if streamed += len(u.pods()); u.synced != nil {
				break
			}
		}
		if streamed != 8_003 {
			t.Errorf("the stream in %v has %d pods; want 8003", mode, streamed)
		}
		s.cancel()
	}
}

// TestStockClientDiff: a diff that is too large is an error with a remedy. The largest valid one fits the
// default limit, with any number of findings.
func TestStockClientDiff(t *testing.T) {
	var findings []merge.Finding
	for range 9000 {
		findings = append(findings, merge.Finding{
			Origin: "/etc/odd", Finding: manifest.Finding{Severity: manifest.Error, Message: strings.Repeat("odd ", 40)},
		})
	}
	// The server uses it in another goroutine.
	var preview atomic.Pointer[merge.Preview]
	n := start(t, options{service: func(c *service.Config) {
		c.Parse = parse
		c.Preview = func(string, []*manifest.Origin, []string) (merge.Preview, error) { return *preview.Load(), nil }
	}})
	ask := func(kib int) (*podconfigv1.DiffManifestsResponse, error) {
		origins, err := mergetest.Origins(strings.Repeat(fmt.Sprintf("a: web(pad=%d)\n", kib/5), 5))
		if err != nil {
			t.Fatal(err)
		}
		added := revision.Change{Op: revision.ADD, Source: "file"}
		for _, o := range origins {
			added.Pods = append(added.Pods, &revision.Pod{Object: o.Pods[0].Pod, Source: "file"})
		}
		preview.Store(&merge.Preview{Findings: findings, Changes: []revision.Change{added}})
		return n.api.DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	}
	resp, err := ask(3<<10 - 20)
	if err != nil {
		t.Fatalf("DiffManifests of almost 3 MiB: %v; want the ops", err)
	}
	if len(resp.GetUpdates()) != 1 || len(resp.GetUpdates()[0].GetPods()) != 5 || len(resp.GetFindings()) < 1000 || proto.Size(resp) > stockLimit {
		t.Errorf("it has %d ops and %d findings; want one of five pods, and many", len(resp.GetUpdates()), len(resp.GetFindings()))
	}
	_, err = ask(3<<10 + 20)
	wantCode(t, "DiffManifests of more than 3 MiB", err, codes.ResourceExhausted)
	if err != nil && !strings.Contains(err.Error(), "fewer manifests") {
		t.Errorf("it says %q; want what to do", err)
	}
}
