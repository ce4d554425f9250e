package e2e

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// largeRequests sends messages far over the limit.
func largeRequests(t *testing.T, e *exposed) {
	ballast := strings.Repeat("x", 100<<20)
	for _, api := range []podconfigv1.PodConfigServiceClient{e.user(inspectorUID), e.identified("agent", attacker)} {
		_, err := api.ListPods(t.Context(), &podconfigv1.ListPodsRequest{PageToken: ballast})
		refusal(t, "a list of 100 MiB", err, codes.ResourceExhausted, "received message larger than max (104857605 vs. 4194304)")
		watch, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{KnownPods: []*podconfigv1.KnownPod{{Uid: ballast}}})
		if err == nil {
			_, err = watch.Recv()
		}
		refusal(t, "a stream of 100 MiB", err, codes.ResourceExhausted, "received message larger than max")
	}
}

// garbage sends random bytes instead of TLS and HTTP/2, and after the preface of HTTP/2.
func garbage(t *testing.T, e *exposed) {
	noise := rand.NewChaCha8([32]byte{})
	for i := range 100 {
		from := []string{"", attacker}[i%2]
		conn, err := e.connect(strangerUID, from)
		check(t, err)
		if i%4 == 0 {
			_, _ = io.WriteString(conn, http2.ClientPreface)
		}
		data := make([]byte, 64<<10)
		_, _ = noise.Read(data)
		// The connection may be closed before all data is written.
		_, _ = conn.Write(data)
		if err := awaitEnd(conn); err != nil {
			t.Errorf("a connection from %q that sends garbage: %v; want it closed", from, err)
		}
		_ = conn.Close()
	}
}

// anyCursor resumes from invented cursors: each is answered on the stream itself, and leads to the current
// state (G7).
func anyCursor(t *testing.T, e *exposed) {
	ask := func(req *podconfigv1.WatchPodUpdatesRequest) (ops []string, pods []*podconfigv1.Pod, at *podconfigv1.Cursor) {
		t.Helper()
		req.Format = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		watch, err := e.local.WatchPodUpdates(ctx, req)
		check(t, err)
		for {
			msg, err := watch.Recv()
			if err != nil {
				t.Fatalf("resume after %v: %v; want an answer", req.GetResumeAfter(), err)
			}
			if msg.GetSynced() != nil {
				return ops, pods, msg.GetCursor()
			}
			ops, pods = append(ops, msg.GetUpdate().GetOp().String()), append(pods, msg.GetUpdate().GetPods()...)
		}
	}
	_, held, here := ask(&podconfigv1.WatchPodUpdatesRequest{})
	_, _, filtered := ask(&podconfigv1.WatchPodUpdatesRequest{Filter: &podconfigv1.PodFilter{Names: []string{"other"}}})
	var known []*podconfigv1.KnownPod
	for _, p := range held {
		// The pulses continue, so only their pods may have changed.
		if !strings.HasPrefix(p.GetRef().GetUid(), "pulse-") {
			known = append(known, &podconfigv1.KnownPod{
				Uid: p.GetRef().GetUid(), Source: p.GetSource(), SpecDigest: p.GetSpecDigest(), StatusDigest: p.GetStatusDigest(),
			})
		}
	}
	for name, cursor := range map[string]*podconfigv1.Cursor{
		"the future":       {InstanceId: here.GetInstanceId(), Revision: here.GetRevision() + 1_000_000, View: here.GetView()},
		"the end of time":  {InstanceId: here.GetInstanceId(), Revision: 1<<64 - 1, View: here.GetView()},
		"another view":     filtered,
		"another instance": {InstanceId: "11111111-2222-3333-4444-555555555555", Revision: 1, View: here.GetView()},
		"nowhere":          {},
	} {
		ops, pods, at := ask(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursor})
		foreign := func(op string) bool { return op != podconfigv1.PodOperation_POD_OPERATION_SET.String() }
		if slices.ContainsFunc(ops, foreign) || len(pods) != len(held) || at.GetInstanceId() != here.GetInstanceId() {
			t.Errorf("a cursor of %s: %v of %d pods, up to %v; want a SET of %d", name, ops, len(pods), at, len(held))
		}
		ops, pods, _ = ask(&podconfigv1.WatchPodUpdatesRequest{ResumeAfter: cursor, KnownPods: known})
		for _, p := range pods {
			if !strings.HasPrefix(p.GetRef().GetUid(), "pulse-") {
				t.Errorf("a cursor of %s, of a consumer that holds all: it receives %v; want nothing", name, p.GetRef())
			}
		}
		if len(pods) != 2 {
			t.Errorf("a cursor of %s, of a consumer that lacks two pods: %v of %d pods; want those two", name, ops, len(pods))
		}
	}
}
