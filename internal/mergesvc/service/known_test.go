package service_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestKnownPodsAreBounded: a request with the maximum of known pods is served, with one line in the log for all
// missing ones. One more known pod is rejected, with a remedy.
func TestKnownPodsAreBounded(t *testing.T) {
	const most = 20_000
	log := &logtest.Buffer{}
	n := start(t, options{service: func(cfg *service.Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) }})
	n.set("file", "")
	var pods []*podconfigv1.KnownPod
	for i := range most + 1 {
		uid := fmt.Sprintf("u%05d", i)
		pods = append(pods, &podconfigv1.KnownPod{Uid: uid, Source: "file", Namespace: "default", Name: uid})
	}
	s := n.watch(reference(nil, pods[:most]...))
	if got := len(s.unit().pods()); got != most {
		t.Errorf("%d pods are removed; want %d", got, most)
	}
	s.want("synced")
	for text, want := range map[string]int{"sent their removal": 1, "count=20000": 1, "uid=u": 10} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("the log has %q %d times; want %d: one line with the count and the first ten", text, got, want)
		}
	}
	_, err := n.watch(reference(nil, pods...)).Recv()
	wantCode(t, "one more", err, codes.ResourceExhausted)
	if err != nil && !strings.Contains(err.Error(), "without them") {
		t.Errorf("it says %q; want what to do", err)
	}
}

// TestInspectorCannotGuess: an inspector can't use its known pods to test guesses of a secret.
func TestInspectorCannotGuess(t *testing.T) {
	const secret, wrong = "hunter2hunter2", "sesame99sesame99"
	guess := func(secret string) []*podconfigv1.KnownPod {
		mine := start(t, options{})
		mine.manifests(secretPod(secret))
		return known(mine.watch(reference(nil)).unit())
	}
	n := start(t, options{})
	look := n.as(inspector)
	early := map[string]*stream{}
	for _, s := range []string{secret, wrong} {
		early[s] = look.watch(reference(nil, guess(s)...))
		early[s].want("synced")
	}
	n.manifests(secretPod(secret))
	for _, s := range []string{secret, wrong} {
		early[s].want("UPDATE file: u1")
		late := look.watch(reference(nil, guess(s)...))
		late.want("UPDATE file: u1")
		late.want("synced")
	}
	seen := known(look.watch(reference(nil)).unit())
	look.watch(reference(nil, seen...)).want("synced")
}

// TestSnapshotOfAnUnreadySource: the pod of one file is removed while another file can't be used, so the source
// isn't ready. A consumer then removes nothing by the SET, so each mode sends a REMOVE.
func TestSnapshotOfAnUnreadySource(t *testing.T) {
	n := start(t, options{})
	n.set("file", "bad: [held]\na: web() db()")
	streams := map[podconfigv1.NotificationMode]*stream{}
	for mode, first := range map[podconfigv1.NotificationMode][]string{
		incremental: {"ADD file: db web"}, snapshotAndUpdates: {"SET file: db web", "synced"}, snapshot: {"SET file: db web", "synced"},
	} {
		streams[mode] = n.watch(in(mode, nil))
		streams[mode].want(first...)
	}
	streams[incremental].want("synced")
	n.set("file", "bad: [held]\na: db()")
	for mode, want := range map[podconfigv1.NotificationMode][]string{
		incremental: {"REMOVE file: web"}, snapshotAndUpdates: {"REMOVE file: web", "SET file: db"},
		snapshot: {"REMOVE file: web", "SET file: db"},
	} {
		for _, m := range streams[mode].want(want...).messages {
			if m.GetUpdate().GetSourceReady() {
				t.Errorf("%v: the %v says that file is ready; want not ready", mode, m.GetUpdate().GetOp())
			}
		}
	}
}

// TestKnownPodsAfterASet: a consumer with a known pod of a source that wasn't read falls so far behind that it is sent
// a SET. The SET lacks the pod, so the consumer removes it once the source is read: if the source has the pod, it is
// sent as to a consumer that doesn't hold it.
func TestKnownPodsAfterASet(t *testing.T) {
	before := start(t, options{})
	before.set("file", "a: web()")
	held := known(before.watch(reference(nil)).unit())

	n := start(t, options{revisions: 1, tombstones: 1})
	n.set("api", "x: job() cron()")
	slow := n.gated(reference(nil, held...))
	if m := slow.waits(); m.GetUpdate().GetOp() != podconfigv1.PodOperation_POD_OPERATION_ADD {
		t.Fatalf("the first message is %v; want ADD of api's pods", m)
	}
	slow.take()
	if m := slow.waits(); m.GetSynced() == nil {
		t.Fatalf("then comes %v; want synced, as the known pod is undecided", m)
	}
	slow.take()
	n.set("api", "x: job(image=2) cron()")
	slow.waits()
	n.set("api", "x: cron()")
	n.set("api", "")
	slow.take()
	if m := slow.waits().GetUpdate(); m.GetOp() != podconfigv1.PodOperation_POD_OPERATION_SET || len(m.GetPods()) != 0 {
		t.Fatalf("it is caught up by %v; want a SET without pods", m)
	}
	slow.take()
	n.set("file", "a: web()")
	if m := slow.waits().GetUpdate(); m.GetOp() != podconfigv1.PodOperation_POD_OPERATION_ADD || len(m.GetPods()) != 1 {
		t.Errorf("once file was read comes %v; want ADD with web", m)
	}
	slow.take()
}
