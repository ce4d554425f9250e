package podctl

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func exampleSources() []*podconfigv1.Source {
	return []*podconfigv1.Source{
		{Name: "file", Location: "/etc/podstream/manifests", Ready: true, ReadyRevision: 2, PodCount: 3,
			LastReadTime:  timestamppb.New(podctltest.Noon.Add(-12 * time.Second)),
			LastHeardTime: timestamppb.New(podctltest.Noon.Add(-time.Hour)), UnheardFor: durationpb.New(5 * time.Second),
			Findings: []*podconfigv1.Finding{
				{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR, Origin: "/etc/podstream/manifests/web.yaml", Document: 2,
					Field: "spec.containers[0].image", Message: "required value",
					KeptPods: []*podconfigv1.PodRef{{Namespace: "default", Name: "web-node1"}, {Namespace: "default", Name: "db-node1"}}},
				{Severity: podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED, Origin: "/etc/podstream/manifests/web.yaml~", Message: "not a manifest's name"},
			}},
		{Name: "http:central", Location: "https://example.org/pods", LastError: "GET: connection refused",
			Findings: []*podconfigv1.Finding{
				{Severity: podconfigv1.FindingSeverity(9), Origin: "item", Message: "from a later version"},
			}},
	}
}

func TestSources(t *testing.T) {
	for _, output := range []string{"table", "wide", "json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			n := newNode(t)
			n.podconfigd(&fakePodconfigd{sources: exampleSources()})
			if code := n.run(t.Context(), "sources", "-o", output); code != exitOK || n.stderr.String() != "" {
				t.Errorf("exit code %d, stderr:\n%s", code, n.stderr)
			}
			name := "sources." + output
			if output == "wide" {
				name = "sources.table" // there is nothing to add
			}
			n.golden(name, n.stdout.String())
		})
	}
}

// TestSourcesDigest: the digest of the artifact in use is a column if a source has one: its beginning, and with -o wide all of
// it.
func TestSourcesDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	for output, want := range map[string]string{"table": "0123456789abc", "wide": digest, "json": `"digest": "` + digest + `"`} {
		n := newNode(t)
		n.podconfigd(&fakePodconfigd{sources: []*podconfigv1.Source{
			{Name: "file", Ready: true}, {Name: "oci", Location: "oci://registry.example/pods:prod", Digest: digest, LastError: "the problem"},
		}})
		if code := n.run(t.Context(), "sources", "-o", output); code != exitOK {
			t.Errorf("%s: exit code %d, stderr:\n%s", output, code, n.stderr)
		}
		got := n.stdout.String()
		if !strings.Contains(got, want) || output == "table" && (strings.Contains(got, want+"d") || !strings.Contains(got, "DIGEST")) {
			t.Errorf("%s: want %s:\n%s", output, want, got)
		}
	}
}

func TestSourcesWithoutFindings(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{sources: []*podconfigv1.Source{{Name: "file", Ready: true}}})
	n.run(t.Context(), "sources")
	if got := n.stdout.String(); strings.Contains(got, "SEVERITY") || strings.Count(got, "\n") != 2 {
		t.Errorf("stdout:\n%s", got)
	}
}

func TestSourcesNone(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{})
	code := n.run(t.Context(), "sources")
	// It names the flags that podconfigd has, and no others.
	if got := n.stderr.String(); code != exitOK || strings.TrimSpace(got) != "podctl: podconfigd has no sources: give it --pod-manifest-path" {
		t.Errorf("exit code %d, stderr:\n%s", code, got)
	}
}
