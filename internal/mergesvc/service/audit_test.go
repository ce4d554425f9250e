package service_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/write"
)

// TestAudit: each write, allowed or refused, is a line of the log for each document that it changes, and one if it changes
// none: with the caller, its role, the document and its digest, the decision and the revision. A dry run is no write.
func TestAudit(t *testing.T) {
	w := startWritable(t, manifestOf("file", "v1"))
	alice := w.as(deployer("alice"))
	digest := func(text string) string { return "digest=" + write.DigestOf([]byte(text)) }
	a, b := manifestOf("a", "v1"), manifestOf("b", "v1")
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {p: hunter2}}\n"
	for _, tc := range []struct {
		name string
		do   func() error
		// lines have these words each, beside "manifest write".
		lines [][]string
	}{
		{"two pods", func() error {
			_, err := applyTo(alice, a+"\n---\n"+b)
			return err
		}, [][]string{
			{"level=INFO", "identity=alice", "role=deployer", "verb=apply", "set=default", "action=created", "kind=Pod", "pod=default/a", digest(a + "\n"), "decision=allowed", "revision=4"},
			{"level=INFO", "identity=alice", "role=deployer", "action=created", "pod=default/b", digest(b), "decision=allowed", "revision=4"},
		}},
		{"the same again", func() error {
			_, err := applyTo(alice, a+"\n---\n"+b)
			return err
		}, [][]string{{"identity=alice", "decision=allowed", "revision=4", "documents=2", "changes=0"}}},
		{"a privileged pod", func() error {
			_, err := applyTo(alice, b+"\n---\n"+podWith("p", "", "hostNetwork: true"))
			return err
		}, [][]string{{"level=WARN", "identity=alice", "role=deployer", "pod=shop/p", "digest=sha256:", "decision=refused", "documents=2", "host namespaces"}}},
		{"a pod of a file", func() error {
			_, err := applyTo(w.node, manifestOf("file", "v2"))
			return err
		}, [][]string{{"level=WARN", "identity=uid:0", "role=owner", "pod=default/file", "decision=refused", "is taken by"}}},
		{"a bad document", func() error {
			_, err := applyTo(alice, "{")
			return err
		}, [][]string{{"identity=alice", "decision=refused", "f.yaml:1"}}},
		{"another version", func() error {
			_, err := applyTo(alice, manifestOf("a", "v2"), expecting("a", "sha256:0"))
			return err
		}, [][]string{{"identity=alice", "pod=default/a", "decision=refused", "is another version"}}},
		{"an operator", func() error {
			_, err := applyTo(w.as(access.Caller{Identity: "op", Role: access.Operator}), a)
			return err
		}, [][]string{{"identity=op", "role=operator", "decision=refused", "takes the role deployer"}}},
		{"root takes over", func() error {
			_, err := applyTo(w.node, a)
			return err
		}, [][]string{{"identity=uid:0", "role=owner", "action=configured", "pod=default/a", "previous_caller=alice", "decision=allowed", "revision=5"}}},
		{"a Secret, without its digest", func() error {
			_, err := applyTo(alice, secret)
			return err
		}, [][]string{{"identity=alice", "kind=Secret", "pod=default/s", "decision=allowed"}}},
		{"prune", func() error {
			_, err := applyTo(alice, secret, prune)
			return err
		}, [][]string{{"action=pruned", "pod=default/b", "previous_digest=sha256:", "decision=allowed", "revision=6"}}},
		{"a removal", func() error {
			_, err := w.api.DeleteManifests(t.Context(), podRefs("a"))
			return err
		}, [][]string{{"verb=delete", "action=deleted", "pod=default/a", "previous_digest=sha256:", "decision=allowed", "revision=7"}}},
		{"a removal of nothing", func() error {
			_, err := alice.api.DeleteManifests(t.Context(), podRefs("none"))
			return err
		}, [][]string{{"verb=delete", "identity=alice", "pod=default/none", "decision=refused", "there is no applied"}}},
		{"a dry run", func() error {
			_, err := applyTo(alice, manifestOf("dry", "v1"), dryRun)
			return err
		}, nil},
	} {
		w.log.Take()
		err := tc.do()
		var got []string
		for _, line := range w.log.Take() {
			if strings.Contains(line, `msg="manifest write"`) {
				got = append(got, line)
			}
			if strings.Contains(line, "hunter2") || strings.Contains(line, write.DigestOf([]byte(secret))) {
				t.Errorf("%s: the line %q has the Secret, or its digest", tc.name, line)
			}
		}
		if len(got) != len(tc.lines) {
			t.Errorf("%s (%v): %d lines; want %d:\n%s", tc.name, err, len(got), len(tc.lines), strings.Join(got, "\n"))
			continue
		}
		for i, words := range tc.lines {
			for _, word := range words {
				if !strings.Contains(got[i], word) {
					t.Errorf("%s: line %d is %q; want %q in it", tc.name, i, got[i], word)
				}
			}
		}
	}
}

// TestWriteRates: the writes of a caller are bounded in number and bytes; those of others aren't affected, and root's aren't
// bounded. The log lines of what is refused so are bounded, too.
func TestWriteRates(t *testing.T) {
	w := startStopped(t)
	alice, bob := w.as(deployer("alice")), w.as(deployer("bob"))
	code := func(n *node, text string) codes.Code {
		_, err := applyTo(n, text)
		return status.Code(err)
	}
	allowed, refused := 0, 0
	for range 200 {
		switch c := code(alice, manifestOf("a", "v1")); c {
		case codes.OK:
			allowed++
		case codes.ResourceExhausted:
			refused++
		default:
			t.Fatalf("a write has %v", c)
		}
	}
	if allowed != 20 || refused != 180 {
		t.Errorf("of 200 writes at once, %d are allowed and %d refused; want 20 and 180", allowed, refused)
	}
	if n := w.log.Count("manifest write", "decision=refused", "identity=alice"); n == 0 || n > 60 {
		t.Errorf("%d writes were refused for their rate with %d lines; want a few", refused, n)
	}
	if c := code(bob, manifestOf("b", "v1")); c != codes.OK {
		t.Errorf("bob's write has %v", c)
	}
	large := "# " + strings.Repeat("x", 900<<10) + "\n" + manifestOf("b", "v1")
	last := codes.OK
	for range 10 {
		if last = code(bob, large); last != codes.OK {
			break
		}
	}
	if last != codes.ResourceExhausted {
		t.Errorf("after 9 MB at once, bob's write has %v; want ResourceExhausted", last)
	}
	for range 50 {
		if c := code(w.node, manifestOf("r", "v1")); c != codes.OK {
			t.Fatalf("root's write has %v", c)
		}
	}
}

// TestRemovalRate: removals count for the rate, too.
func TestRemovalRate(t *testing.T) {
	w := startStopped(t)
	alice := w.as(deployer("alice"))
	for i := range 200 {
		req := podRefs("none")
		req.IgnoreMissing = true
		_, err := alice.api.DeleteManifests(t.Context(), req)
		if status.Code(err) == codes.ResourceExhausted {
			if i != 20 {
				t.Errorf("removal %d is the first that is refused; want the 21st", i+1)
			}
			return
		}
	}
	t.Error("200 removals at once are allowed; want that some are refused")
}
