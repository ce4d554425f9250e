package service_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestForeignNamespaceIsSilent: a deployer gets one answer about a namespace that isn't its own, whether or not a document of that
// name exists there, and whatever it expects of it.
func TestForeignNamespaceIsSilent(t *testing.T) {
	w := startWritable(t)
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: bank}}\n"
	mustApply(w.node, fmt.Sprintf(secret, "there"))
	mustApply(w.node, "{apiVersion: v1, kind: Pod, metadata: {name: there, namespace: bank}, spec: {containers: [{name: main, image: i}]}}")
	alice := w.as(deployer("alice"))
	ref := func(kind, name string) *podconfigv1.ManifestRef {
		return &podconfigv1.ManifestRef{Kind: kind, Namespace: "bank", Name: name}
	}
	expecting := func(of *podconfigv1.ManifestRef, digest string) []*podconfigv1.ManifestExpectation {
		return []*podconfigv1.ManifestExpectation{{Ref: of, Digest: digest}}
	}
	for _, tc := range []struct {
		name string
		call func(name string) error
	}{
		{"apply", func(name string) error {
			_, err := applyTo(alice, fmt.Sprintf(secret, name))
			return err
		}},
		{"a dry run", func(name string) error {
			_, err := applyTo(alice, fmt.Sprintf(secret, name), dryRun)
			return err
		}},
		{"apply with a digest", func(name string) error {
			_, err := applyTo(alice, fmt.Sprintf(secret, name), func(r *podconfigv1.ApplyManifestsRequest) {
				r.Expected = expecting(ref("Secret", name), "sha256:guess")
			})
			return err
		}},
		{"an expectation only", func(name string) error {
			_, err := applyTo(alice, podWith("own", "", ""), dryRun, func(r *podconfigv1.ApplyManifestsRequest) {
				r.Expected = expecting(ref("Pod", name+"-node"), "")
			})
			return err
		}},
		{"delete by the full name", func(name string) error {
			_, err := alice.api.DeleteManifests(t.Context(), &podconfigv1.DeleteManifestsRequest{Refs: []*podconfigv1.ManifestRef{ref("Pod", name+"-node")}})
			return err
		}},
		{"two names of one pod", func(name string) error {
			_, err := alice.api.DeleteManifests(t.Context(), &podconfigv1.DeleteManifestsRequest{
				Refs: []*podconfigv1.ManifestRef{ref("Pod", name), ref("Pod", name+"-node")},
			})
			return err
		}},
	} {
		is, not := status.Convert(tc.call("there")), status.Convert(tc.call("where"))
		if is.Code() == codes.OK || is.Code() != not.Code() || strings.ReplaceAll(is.Message(), "there", "where") != strings.ReplaceAll(not.Message(), "there", "where") {
			t.Errorf("%s: with such a document %v, without one %v; want the same refusal", tc.name, is, not)
		}
	}
}

// TestLogOfRefusedWrites: a deployer can't fill the log by writes that are refused: not by the length of what it sends, nor by
// the number of deletes beyond its rate.
func TestLogOfRefusedWrites(t *testing.T) {
	w := startStopped(t)
	_, err := applyTo(w.as(deployer("long")), podWith("p", "", ""), set(strings.Repeat("x", 1<<20)))
	wantCode(t, "a long set", err, codes.InvalidArgument)
	if n := len(w.log.String()); n > 2000 {
		t.Errorf("a set's name of 1 MiB has %d bytes of log; want a short line", n)
	}
	alice := w.as(deployer("alice"))
	const calls = 300
	refusals := 0
	for range calls {
		if _, err := alice.api.DeleteManifests(t.Context(), podRefs("none")); status.Code(err) == codes.ResourceExhausted {
			refusals++
		}
	}
	if refusals != calls-20 {
		t.Fatalf("%d deletes exceed the rate; want %d", refusals, calls-20)
	}
	if n := strings.Count(w.log.String(), "writes more than"); n >= refusals {
		t.Errorf("%d lines about %d deletes beyond the rate; want fewer", n, refusals)
	}
}

// TestSecretsInTheLog: no line has a value, nor a digest, of a Secret, whatever is wrong with it.
func TestSecretsInTheLog(t *testing.T) {
	w := startWritable(t)
	alice := w.as(deployer("alice"))
	good := "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, stringData: {password: hunter2}}\n"
	digest := mustApply(alice, good).GetResults()[0].GetDigest()
	wrong := func(r *podconfigv1.ApplyManifestsRequest) {
		r.Expected = []*podconfigv1.ManifestExpectation{{Ref: &podconfigv1.ManifestRef{Kind: "Secret", Namespace: "shop", Name: "s"}, Digest: "sha256:other"}}
	}
	_, err := applyTo(alice, good, wrong)
	wantCode(t, "another digest", err, codes.Aborted)
	for _, text := range []string{
		"{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {password: hunter2!}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {hunter2 hunter2: aGk=}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: hunter2}",
		"{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, stringData: {password: {hunter2: hunter2}}}",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData:\n  password: hunter2\n bad: *hunter2\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData:\n  password: *hunter2\n",
	} {
		_, err := applyTo(alice, text)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v; want INVALID_ARGUMENT", text, err)
		}
	}
	for _, hidden := range []string{"hunter2", digest} {
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, hidden) {
				t.Errorf("the log has %q: %s", hidden, line)
			}
		}
	}
}

// TestDocumentsOfOneDeployer: a deployer can't take the documents of the source from others by many small ones.
func TestDocumentsOfOneDeployer(t *testing.T) {
	w := startWritable(t)
	alice := w.as(deployer("alice", func(r *access.Writes) { r.MaxBytes = 4 << 20 }))
	_, err := applyTo(alice, many(10_000))
	wantCode(t, "10,000 documents of a deployer", err, codes.ResourceExhausted)
	mustApply(w.as(deployer("bob")), manifestOf("b", "v1"))
	mustApply(w.node, manifestOf("r", "v1"))
}

// TestPruneOfUnseen: a prune that says what it was made against removes no document that it doesn't name: another write of the
// caller has added it since.
func TestPruneOfUnseen(t *testing.T) {
	w := startWritable(t)
	alice := w.as(deployer("alice"))
	a := mustApply(alice, manifestOf("a", "v1")).GetResults()[0].GetDigest()
	mustApply(alice, manifestOf("later", "v1"))
	check := w.unchanged()
	_, err := applyTo(alice, manifestOf("a", "v2"), prune, expecting("a", a))
	wantCode(t, "prune of a document that the request doesn't expect", err, codes.Aborted)
	check("the prune")
	mustApply(alice, manifestOf("a", "v2"), prune)
	if got := w.served(); got != "default/a-node=v2" {
		t.Errorf("without expectations, left is %q; want a", got)
	}
}

// TestDeleteOfTheRemoved: a delete with a digest is ABORTED if the document is gone, as if it is another version.
func TestDeleteOfTheRemoved(t *testing.T) {
	w := startWritable(t)
	req := podRefs("gone")
	req.Expected = []*podconfigv1.ManifestExpectation{{Ref: req.GetRefs()[0], Digest: "sha256:before"}}
	_, err := w.api.DeleteManifests(t.Context(), req)
	wantCode(t, "delete", err, codes.Aborted)
	req.IgnoreMissing = true
	_, err = w.api.DeleteManifests(t.Context(), req)
	wantCode(t, "delete that ignores missing documents", err, codes.Aborted)
}

// TestLogOfAllowedWrites: a deployer can't fill the log by writes that are allowed, either: each document that they change is a
// line. Two of the largest writes are taken at once.
func TestLogOfAllowedWrites(t *testing.T) {
	w := startStopped(t)
	alice := w.as(deployer("alice", func(r *access.Writes) { r.MaxBytes = 4 << 20 }))
	documents := func(value int) string {
		return strings.ReplaceAll(many(1000), "kind: ConfigMap", fmt.Sprintf("kind: ConfigMap, data: {v: '%d'}", value))
	}
	allowed := 0
	for i := range 10 {
		_, err := applyTo(alice, documents(i))
		if err == nil {
			allowed++
			continue
		}
		wantCode(t, "a write beyond the rate", err, codes.ResourceExhausted)
		if !strings.Contains(err.Error(), "documents a second") {
			t.Errorf("the write is refused for another reason: %v", err)
		}
	}
	if allowed != 2 {
		t.Errorf("%d writes of 1,000 documents are allowed at once; want 2", allowed)
	}
	if n := w.log.Count("manifest write", "decision=allowed"); n != 2000 {
		t.Errorf("%d lines about the documents that were changed; want 2,000", n)
	}
	// What changes nothing isn't counted, and others aren't concerned.
	mustApply(alice, documents(1))
	mustApply(w.as(deployer("bob")), manifestOf("b", "v1"))
}

// TestRateBeforeNames: the names in a request are read once the call is counted: 10,000 of them take a while.
func TestRateBeforeNames(t *testing.T) {
	w := startStopped(t)
	bad := podRefs("../x")
	for name, call := range map[string]func(*node) error{
		"delete": func(n *node) error {
			_, err := n.api.DeleteManifests(t.Context(), bad)
			return err
		},
		"expected of delete": func(n *node) error {
			req := podRefs("none")
			req.Expected = []*podconfigv1.ManifestExpectation{{Ref: bad.GetRefs()[0]}}
			_, err := n.api.DeleteManifests(t.Context(), req)
			return err
		},
		"expected of apply": func(n *node) error {
			_, err := applyTo(n, manifestOf("a", "v1"), expecting("../x", ""))
			return err
		},
	} {
		n := w.as(deployer(strings.ReplaceAll(name, " ", "-")))
		for range 20 {
			wantCode(t, name, call(n), codes.InvalidArgument)
		}
		wantCode(t, name+" beyond the rate", call(n), codes.ResourceExhausted)
	}
}
