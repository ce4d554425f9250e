package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

var inspector = access.Caller{Identity: "dashboard", Role: access.Inspector, Peer: "10.0.0.1"}

var allFormats = []podconfigv1.PodFormat{
	podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON,
	podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
}

// secretPod returns a manifest with a secret in each place where an author may put one.
func secretPod(secret string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: prod
  uid: u1
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"env":[{"value":%[1]q}]}'
spec:
  initContainers:
  - {name: init, image: busybox, env: [{name: TOKEN, value: %[1]q}]}
  containers:
  - name: main
    image: nginx
    args: ["--password", %[1]q]
    env: [{name: PASSWORD, value: %[1]q}]
    livenessProbe: {httpGet: {path: /, port: 80, httpHeaders: [{name: Authorization, value: %[1]q}]}}
`, secret)
}

// parse reads a manifest as the file source does.
func parse(origin string, data []byte) *manifest.Origin {
	return manifest.Parse(data, manifest.Options{Origin: origin, Node: "node"})
}

// manifests merges a file source that has these manifests.
func (n *node) manifests(texts ...string) {
	n.t.Helper()
	n.second++
	set := manifest.Set{Source: "file", ReadTime: unixTime(n.second)}
	for i, text := range texts {
		o := parse(fmt.Sprintf("/etc/manifests/%d.yaml", i), []byte(text))
		if o.Held {
			n.t.Fatalf("the manifest is bad: %v", o.Findings)
		}
		set.Origins = append(set.Origins, o)
	}
	n.hub.Apply(set)
}

// lacks fails if a message has the secret, in any encoding of it.
func lacks(t *testing.T, what string, m proto.Message, secrets ...string) {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(string(data), secret) || strings.Contains(prototext.Format(m), secret) {
			t.Errorf("%s has the secret %s", what, secret)
		}
	}
}

// TestInspectorSeesNoSecret: an inspector receives no secret in any format, by any call, by an update, or by
// the digest, which is the same for all secrets. A change of a secret sends nothing (G5).
func TestInspectorSeesNoSecret(t *testing.T) {
	const secret, rotated = "hunter2hunter2", "sesame99sesame99"
	n := start(t, options{})
	look := n.as(inspector)
	texts := map[podconfigv1.PodFormat]*stream{}
	for _, format := range allFormats {
		s := look.watch(&podconfigv1.WatchPodUpdatesRequest{Format: format})
		s.want("synced")
		texts[format] = s
	}
	whole := n.watch(&podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	whole.want("synced")
	var digests []string
	for i, text := range []string{secretPod(secret), secretPod(rotated)} {
		n.manifests(text)
		u := whole.unit()
		if data := string(u.pods()[0].GetProtobuf()); !strings.Contains(data, secret) && !strings.Contains(data, rotated) {
			t.Fatal("a consumer doesn't get the secret either: the test would prove nothing")
		}
		for _, format := range allFormats {
			for _, m := range updates(texts[format], i == 0) {
				lacks(t, fmt.Sprintf("an update in %v", format), m, secret, rotated)
			}
			fresh := look.watch(&podconfigv1.WatchPodUpdatesRequest{Format: format})
			initial := fresh.unit()
			lacks(t, fmt.Sprintf("the initial state in %v", format), initial.messages[0], secret, rotated)
			digests = append(digests, initial.pods()[0].GetSpecDigest())
			fresh.cancel()
			lacks(t, fmt.Sprintf("ListPods in %v", format), look.list(&podconfigv1.ListPodsRequest{Format: format}), secret, rotated)
			pod, err := look.api.GetPod(context.Background(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "u1"}, Format: format})
			if err != nil {
				t.Fatalf("GetPod: %v; want the pod", err)
			}
			lacks(t, fmt.Sprintf("GetPod in %v", format), pod, secret, rotated)
			if format != podconfigv1.PodFormat_POD_FORMAT_REFERENCE && pod.GetPod().GetContent() == nil {
				t.Errorf("GetPod in %v has no content; want the rest of the pod", format)
			}
		}
	}
	n.manifests(strings.Replace(secretPod(rotated), "image: nginx", "image: nginx:2", 1))
	for _, format := range allFormats {
		if u := texts[format].unit(); u.cursor.GetRevision() != 3 || len(u.pods()) != 1 {
			t.Errorf("%v: after its first update an inspector gets %v; want the change of the image and nothing before it", format, u)
		}
	}
	for _, d := range digests {
		if d == "" || d != digests[0] {
			t.Errorf("an inspector's spec digests are %q; want one and the same for both secrets", digests)
		}
	}
}

// updates returns the messages of the stream's next unit, if one is expected.
func updates(s *stream, expected bool) []*podconfigv1.WatchPodUpdatesResponse {
	if !expected {
		return nil
	}
	return s.unit().messages
}

// TestG7InspectorDigests: an inspector's digests are of the redacted pods. With them it resumes on another
// instance, and receives only what changed for it. A changed secret isn't sent.
func TestG7InspectorDigests(t *testing.T) {
	before := start(t, options{})
	before.set("api", "x: same() changed(image=1) stat() gone()")
	before.manifests(secretPod("hunter2hunter2"))
	look := before.as(inspector).watch(reference(nil))
	u := look.unit()
	at := look.want("synced").cursor
	whole := before.watch(reference(nil)).unit().pods()[0]
	if seen := u.pods()[0]; seen.GetRef().GetUid() != "u1" || seen.GetSpecDigest() == whole.GetSpecDigest() {
		t.Fatalf("an inspector has %v, a consumer %v; want u1 with two digests: the test would prove nothing", seen, whole)
	}
	now := start(t, options{})
	now.set("api", "x: same() changed(image=2) stat(phase=Running) new()")
	now.manifests(secretPod("sesame99sesame99"))
	s := now.as(inspector).watch(reference(at, known(u)...))
	s.want("REMOVE api: gone", "ADD api: new", "UPDATE api: changed", "RECONCILE api: stat")
	s.want("synced")
	now.as(inspector).watch(reference(at, known(now.as(inspector).watch(reference(nil)).unit())...)).want("synced")
}

// TestRoleChangeIsAnotherView: the cursor of a former inspector that is now a consumer belongs to another view.
// The consumer receives all pods again, because its pods are redacted.
func TestRoleChangeIsAnotherView(t *testing.T) {
	n := start(t, options{})
	n.manifests(secretPod("hunter2hunter2"))
	s := n.as(inspector).watch(reference(nil))
	u := s.unit()
	at := s.want("synced").cursor
	n.watch(reference(at)).want("SET file: u1", "synced")
	grown := n.watch(reference(at, known(u)...))
	grown.want("UPDATE file: u1")
	grown.want("synced")
}

// TestInspectorMayOnlyLook: only a consumer may diff manifests and report.
func TestInspectorMayOnlyLook(t *testing.T) {
	n := start(t, diffable)
	n.set("file", "")
	look := n.as(inspector)
	_, err := look.api.DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{})
	wantCode(t, "DiffManifests by an inspector", err, codes.PermissionDenied)
	_, err = look.api.ReportApplied(t.Context(), &podconfigv1.ReportAppliedRequest{
		Cursor: &podconfigv1.Cursor{}, Outcome: podconfigv1.ApplyOutcome_APPLY_OUTCOME_APPLIED,
	})
	wantCode(t, "ReportApplied by an inspector", err, codes.PermissionDenied)
	if cs := n.consumers(); len(cs) != 0 {
		t.Errorf("a refused report is listed: %v", cs)
	}
	for what, call := range lookingCalls(look) {
		wantCode(t, what+" by an inspector", call(t.Context()), codes.OK)
	}
}

// lookingCalls returns the calls that every role may make.
func lookingCalls(n *node) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"WatchPodUpdates": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			s, err := n.api.WatchPodUpdates(ctx, reference(nil))
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
		"ListPods": func(ctx context.Context) error {
			_, err := n.api.ListPods(ctx, &podconfigv1.ListPodsRequest{})
			return err
		},
		"ListSources": func(ctx context.Context) error {
			_, err := n.api.ListSources(ctx, &podconfigv1.ListSourcesRequest{})
			return err
		},
		"ListConsumers": func(ctx context.Context) error {
			_, err := n.api.ListConsumers(ctx, &podconfigv1.ListConsumersRequest{})
			return err
		},
	}
}

// TestNoRole: a caller without a role gets PERMISSION_DENIED from every RPC; so does a call without a caller.
func TestNoRole(t *testing.T) {
	n := start(t, diffable)
	n.set("file", "a: web()")
	noRole := n.as(access.Caller{Identity: "noRole", Role: access.None})
	calls := lookingCalls(noRole)
	calls["GetPod"] = func(ctx context.Context) error {
		_, err := noRole.api.GetPod(ctx, &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "web"}})
		return err
	}
	calls["DiffManifests"] = func(ctx context.Context) error {
		_, err := noRole.api.DiffManifests(ctx, &podconfigv1.DiffManifestsRequest{})
		return err
	}
	calls["ReportApplied"] = func(ctx context.Context) error {
		_, err := noRole.api.ReportApplied(ctx, &podconfigv1.ReportAppliedRequest{})
		return err
	}
	calls["ListPods of an unknown caller"] = func(ctx context.Context) error {
		_, err := n.svc.ListPods(ctx, &podconfigv1.ListPodsRequest{})
		return err
	}
	for what, call := range calls {
		err := call(t.Context())
		wantCode(t, what+" without a role", err, codes.PermissionDenied)
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s without a role: %v; want an error for that", what, err)
		}
	}
}
