package e2e

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// attacker is the source address of attacks over TCP, because limits are counted by address. The slow attacks,
// which continue during the others, and the flood use separate addresses.
const attacker, slowly, flooder = "127.0.0.2", "127.0.0.3", "127.0.0.4"

// TestG8AttackHasNoEffect: every request to a reachable podconfigd is rejected or answered as documented, earlier
// consumers receive each change promptly and once, and the attack leaves nothing behind.
func TestG8AttackHasNoEffect(t *testing.T) {
	needsRoot(t, "call as other users", "TestG8")
	e := newExposed(t)
	for i := range 40 {
		check(t, e.put("file", fmt.Sprintf("large%d.yaml", i), strings.Replace(manifest(fmt.Sprintf("large%d", i), "main: sleep"), "metadata:\n",
			"metadata:\n  annotations: {ballast: "+strings.Repeat("x", 20<<10)+"}\n", 1)))
	}
	c := newCrowd(t, e)
	c.watch("local", client.Config{Endpoint: "unix://" + e.socket, Consumer: "local"}, "file", "other")
	c.watch("agent", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "agent")}, "file", "other")
	c.watch("narrow", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "narrow")}, "other")
	c.subscribe("raw", e.local)
	c.subscribe("looker", e.identified("looker", "127.0.0.1"))
	c.during(func() {
		_, err := listReferences(t.Context(), e.identified("agent", attacker))
		check(t, err)
	})
	// Go returns memory after a garbage collection, and how much it keeps depends on the work, so the same work
	// is done before and after.
	exercise := func() error {
		for range 50 {
			if _, err := e.local.ListPods(t.Context(), &podconfigv1.ListPodsRequest{}); err != nil {
				return err
			}
		}
		return nil
	}
	check(t, exercise())
	before, err := e.vitals()
	check(t, err)
	t.Logf("at rest: %+v; a change took %v", before, c.slowest)

	// The slow attacks run during all the others.
	silence := beSilent(t, e)
	deaf := beDeaf(t, e.forTest(t), 20)
	for _, attack := range []struct {
		name string
		run  func(t *testing.T, e *exposed)
	}{
		{"no role", withoutRole},
		{"no valid certificate", withoutCertificate},
		{"100 MiB requests", largeRequests},
		{"garbage", garbage},
		{"G7 any cursor", anyCursor},
		{"flood of requests", floodRequests},
		{"flood of connections", floodConnections},
		{"silence", silence},
		{"deafness", deaf},
	} {
		t.Run(attack.name, func(t *testing.T) {
			c.slowest = 0
			check(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", e.daemon.Pid()), []byte("5"), 0)) // a new peak of memory
			c.during(func() { attack.run(t, e.forTest(t)) })
			now, err := e.vitals()
			check(t, err)
			t.Logf("%+v; the slowest change took %v", now, c.slowest)
			if limit := before.rss + 96<<10; above(now.peak, limit) {
				t.Errorf("podconfigd took %d KiB at its peak; want %d at most", now.peak, limit)
			}
		})
	}
	for _, h := range c.members {
		if n := h.streams.Load(); n != 1 {
			t.Errorf("%s needed %d streams; want one", h.name, n)
		}
	}
	var after vitals
	until(t, patience, "nothing of the attacks is left", func() (err error) {
		if err = exercise(); err != nil {
			return err
		}
		after, err = e.vitals()
		if err == nil && (after.fds > before.fds+4 || after.goroutines > before.goroutines+10 || above(after.rss, before.rss+64<<10)) {
			err = fmt.Errorf("podconfigd has %+v; it had %+v", after, before)
		}
		return err
	})
	c.pulse()
	t.Logf("after all: %+v", after)
}

// withoutRole calls as a user that is not in the access file, or a method that the user's role doesn't permit.
func withoutRole(t *testing.T, e *exposed) {
	for _, caller := range []struct {
		api   podconfigv1.PodConfigServiceClient
		words string
	}{
		{e.identified("stranger", attacker), "no role for CN=stranger; the access file (--access-file) gives roles"},
		{e.user(strangerUID), "no role for uid 65533; the access file (--access-file) gives roles, and --allow-uid the role consumer"},
	} {
		_, err := listReferences(t.Context(), caller.api)
		refusal(t, "a list without a role", err, codes.PermissionDenied, caller.words)
		watch, err := caller.api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
		check(t, err)
		_, err = watch.Recv()
		refusal(t, "a stream without a role", err, codes.PermissionDenied, caller.words)
		// A caller that ignores the refusals loses the connection, and opens a new one.
		for range 300 {
			if _, err := listReferences(t.Context(), caller.api); err == nil {
				t.Error("one of many calls without a role is answered; want none to be")
			}
		}
	}
	_, err := e.user(inspectorUID).ReportApplied(t.Context(), &podconfigv1.ReportAppliedRequest{})
	refusal(t, "an inspector's report", err, codes.PermissionDenied, "is for the role consumer")
	for _, impostor := range []struct {
		api         podconfigv1.PodConfigServiceClient
		name, words string
	}{
		{e.identified("narrow", attacker), "agent", `consumer: "agent" isn't "narrow", nor does it begin with "narrow/"`},
		{e.user(inspectorUID), "agent", `consumer: "agent" is in use by agent`},
		{e.user(inspectorUID), "local", `consumer: "local" is in use by uid:0`},
	} {
		watch, err := impostor.api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Consumer: impostor.name})
		check(t, err)
		_, err = watch.Recv()
		refusal(t, "a stream under another's name", err, codes.PermissionDenied, impostor.words)
	}
	// A pod out of scope is reported as not found.
	_, err = e.identified("narrow", attacker).GetPod(t.Context(), &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "pulse-file"}})
	refusal(t, "a pod out of scope", err, codes.NotFound, "")
	list, err := e.identified("narrow", attacker).ListPods(t.Context(), &podconfigv1.ListPodsRequest{})
	if err != nil || len(list.GetPods()) != 1 || list.GetPods()[0].GetSource() != "file:other" {
		t.Errorf("a list within a scope has %d pods, %v; want the one of file:other", len(list.GetPods()), err)
	}
}

// withoutCertificate connects with certificates of other authorities, and with none.
func withoutCertificate(t *testing.T, e *exposed) {
	agent := certtest.Request{CommonName: "agent"}
	expired := certtest.Request{CommonName: "agent", NotAfter: time.Now().Add(-time.Minute)}
	e.turnedAway(t, "an expired certificate", e.ca.Client(e.ca, expired), "tls: bad certificate")
	e.turnedAway(t, "another authority's certificate", e.ca.Client(certtest.NewCA(t, "first"), agent), "tls: bad certificate")
	e.turnedAway(t, "a server's certificate", e.ca.Client(e.ca, certtest.Request{CommonName: "agent", Server: true}), "tls: bad certificate")
	e.turnedAway(t, "no certificate", e.ca.Client(nil, agent), "tls: certificate required")
	old := e.ca.Client(e.ca, agent)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	e.turnedAway(t, "TLS 1.1", old, "tls: protocol version not supported")
	_, err := listReferences(t.Context(), e.remote(insecure.NewCredentials(), attacker))
	refusal(t, "plaintext", err, codes.Unavailable, "")
}
