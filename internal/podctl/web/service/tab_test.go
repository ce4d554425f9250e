package service_test

import (
	"context"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestSlowTab: a tab that doesn't read delays no other one, and costs no memory but its position: what the timeline has dropped
// meanwhile is counted, and rows come in their last version only.
func TestSlowTab(t *testing.T) {
	f := start(t, nil)
	slow := webtest.NewTab(t, f.client, sub("t", timelineTopic(1), ""), sub("p", podsTopic(), ""))
	// Every second revision has 40 KiB of text: together they are more than the timeline keeps and the connection takes. It is random,
	// as deliveries are compressed.
	const all = 400
	var pods []*podconfigv1.Pod
	image, random := make([]byte, 1500), rand.NewChaCha8([32]byte{})
	for _, name := range numbered("p", 20) {
		pod := podctltest.Pod("default", name)
		_, _ = random.Read(image) // It never fails.
		pod.Spec.Containers[0].Image = base64.StdEncoding.EncodeToString(image)
		pods = append(pods, podctltest.Desired(t, "file", pod))
	}
	for i := range uint64(all) {
		op := opAdd
		if i%2 == 1 {
			op = opRemove
		}
		f.publish(i+1, op, pods...)
	}
	quick := webtest.NewTab(t, f.client, sub("p", podsTopic(), ""))
	if got := rowNames(quick.Next()); got != "reset" {
		t.Errorf("the other tab gets %s", got)
	}
	got, missed, rows := uint64(0), uint64(0), 0
	last := uint64(0)
	for last < all {
		d := slow.Next()
		missed += d.GetMissed()
		rows += len(d.GetPods().GetRows())
		for _, rev := range d.GetTimeline().GetRevisions() {
			if rev.GetSequence() <= last {
				t.Fatalf("after entry %d comes %d", last, rev.GetSequence())
			}
			last = rev.GetSequence()
			got++
		}
	}
	if missed == 0 || got+missed != all {
		t.Errorf("it gets %d revisions, and misses %d; want %d in all, and some missed", got, missed, all)
	}
	if most := all / 2 * len(pods) / 4; rows > most {
		t.Errorf("it gets %d versions of %d rows; want %d at most", rows, len(pods), most)
	}
}

// TestFifthTab: four tabs have a stream, the fifth is told so, until one of them closes.
func TestFifthTab(t *testing.T) {
	f := start(t, nil)
	var tabs []*webtest.Tab
	for range 4 {
		tabs = append(tabs, webtest.NewTab(t, f.client))
	}
	fifth := func() error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := f.client.Watch(ctx, &podwebv1.WatchRequest{})
		if err != nil {
			return err
		}
		defer stream.Close()
		stream.Receive()
		return stream.Err()
	}
	wantCode(t, "a fifth tab", fifth(), connect.CodeResourceExhausted)
	tabs[0].Close()
	webtest.Await(t, "a tab's place to be free", nil, func() bool { return fifth() == nil })
	// Calls go on beside four streams, as a browser makes them: by six connections.
	if _, err := f.client.GetSession(t.Context(), &podwebv1.GetSessionRequest{}); err != nil {
		t.Error(err)
	}
}

// TestSubscriptions: a tab adds, replaces and ends subscriptions while its stream is open; their number and form are bounded.
func TestSubscriptions(t *testing.T) {
	f := start(t, nil)
	f.observe("a")
	tab := webtest.NewTab(t, f.client)
	subscribe := func(id string, topic *podwebv1.Topic) error {
		_, err := f.client.Subscribe(t.Context(), &podwebv1.SubscribeRequest{Tab: tab.ID, Subscription: sub(id, topic, "")})
		return err
	}
	if err := subscribe("p", podsTopic()); err != nil {
		t.Fatal(err)
	}
	if d := tab.Next(); d.GetId() != "p" || rowNames(d) != "reset +a" {
		t.Errorf("the delivery is %v", d)
	}
	if err := subscribe("p", timelineTopic(1)); err != nil {
		t.Fatal(err)
	}
	if d := tab.Next(); d.GetTimeline() == nil {
		t.Errorf("after a replacement the delivery is %v", d)
	}
	if _, err := f.client.Unsubscribe(t.Context(), &podwebv1.UnsubscribeRequest{Tab: tab.ID, Id: "p"}); err != nil {
		t.Error(err)
	}
	if _, err := f.client.Unsubscribe(t.Context(), &podwebv1.UnsubscribeRequest{Tab: tab.ID, Id: "none"}); err != nil {
		t.Error(err)
	}
	f.publish(1, opAdd, onNode(t, "b", ""))
	if err := subscribe("q", podsTopic()); err != nil {
		t.Fatal(err)
	}
	if d := tab.Next(); d.GetId() != "q" {
		t.Errorf("after the subscription has ended there is %v", d)
	}

	for what, err := range map[string]error{
		"no id": subscribe("", podsTopic()), "an id with a space": subscribe("a b", podsTopic()), "a long id": subscribe(strings.Repeat("x", 65), podsTopic()),
		"no topic": subscribe("x", nil), "no containers": subscribe("x", logsTopic()), "17 containers": subscribe("x", logsTopic(numbered("c", 17)...)),
		"101 nodes": subscribe("x", podsTopic(numbered("n", 101)...)),
	} {
		wantCode(t, what, err, connect.CodeInvalidArgument)
	}
	wantCode(t, "logs of no pod", subscribe("x", logsTopic("none")), connect.CodeNotFound)
	_, err := f.client.Subscribe(t.Context(), &podwebv1.SubscribeRequest{Tab: "none", Subscription: sub("x", podsTopic(), "")})
	wantCode(t, "no tab", err, connect.CodeNotFound)
	_, err = f.client.Unsubscribe(t.Context(), &podwebv1.UnsubscribeRequest{Tab: "none", Id: "x"})
	wantCode(t, "no tab", err, connect.CodeNotFound)
	for i, id := range numbered("s", 31) {
		if err := subscribe(id, podsTopic()); err != nil {
			t.Fatalf("subscription %d: %v", i, err)
		}
	}
	wantCode(t, "33 subscriptions", subscribe("more", podsTopic()), connect.CodeResourceExhausted)
	tab.Close()

	// A tab that comes back with what it had isn't refused because of one topic.
	back := webtest.NewTab(t, f.client, sub("gone", logsTopic("gone"), ""), sub("p", podsTopic(), ""))
	d := back.Until("the log", func(d *podwebv1.Delivery) bool { return d.GetId() == "gone" })
	if c := d.GetConnection(); c.GetState() != podwebv1.ConnectionState_CONNECTION_STATE_ENDED || c.GetText() != "there is no such pod" {
		t.Errorf("the log of a pod that is gone says %v", c)
	}
}

// TestAlive: a quiet stream shows that it is alive, and when podctl web ends.
func TestAlive(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 s")
	}
	f := start(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := f.client.Watch(ctx, &podwebv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if alive := stream.Msg().GetAlive(); alive != nil {
			if alive.GetSession().GetPodctlVersion() != "v1" {
				t.Errorf("the session is %v", alive)
			}
			return
		}
	}
	t.Errorf("there was no sign of life: %v", stream.Err())
}
