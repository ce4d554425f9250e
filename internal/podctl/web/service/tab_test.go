package service_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRows: a tab gets all rows, and then each change; it goes on after its cursor, and starts again after one that isn't known.
func TestRows(t *testing.T) {
	f := start(t, nil)
	f.observe("a", "b")
	tab := webtest.NewTab(t, f.client, sub("p", podsTopic(), ""))
	first := tab.Next()
	if got := rowNames(first); got != "reset +a +b" && got != "reset +b +a" || first.GetConnection() == nil || first.GetMore() {
		t.Errorf("the first delivery is %v", first)
	}
	f.observe("c")
	if got := rowNames(tab.Next()); got != "+c" {
		t.Errorf("then it is %s", got)
	}
	cursor := tab.Cursors["p"]
	tab.Close()
	f.observe("d")
	f.board.ApplyObserved(nil, nil, true) // All are gone.
	f.observe("c", "d")

	again := webtest.NewTab(t, f.client, sub("p", podsTopic(), cursor))
	if got := rowNames(again.Next()); got != "+c +d - -" && got != "+d +c - -" {
		t.Errorf("after its cursor it gets %s; want the changed rows and two that are gone", got)
	}
	again.Close()
	for _, cursor := range []string{"x", cursor + "9", strings.ToLower(cursor), "-1", cursor[:len(cursor)-1] + "-3"} {
		other := webtest.NewTab(t, f.client, sub("p", podsTopic(), cursor))
		if got := rowNames(other.Next()); !strings.HasPrefix(got, "reset ") || strings.Count(got, "+") != 2 {
			t.Errorf("after the cursor %q it gets %s; want all", cursor, got)
		}
		other.Close()
	}
	// A cursor of another topic.
	other := webtest.NewTab(t, f.client, sub("p", podsTopic("n1"), cursor))
	if got := rowNames(other.Next()); got != "reset" {
		t.Errorf("after the cursor of another topic it gets %s", got)
	}
}

// TestRowsOfANode: a tab that shows one node gets its pods only, also as they come and go.
func TestRowsOfANode(t *testing.T) {
	f := start(t, nil)
	f.publish(1, opAdd, onNode(t, "a", "n1"), onNode(t, "b", "n2"))
	tab := webtest.NewTab(t, f.client, sub("p", podsTopic("n1"), ""))
	if got := rowNames(tab.Next()); got != "reset +a" {
		t.Errorf("the first delivery is %s", got)
	}
	f.publish(2, opAdd, onNode(t, "c", "n2"))
	f.publish(3, opRemove, onNode(t, "b", "n2"))
	f.publish(4, opAdd, onNode(t, "d", "n1"))
	if got := rowNames(tab.Until("a row", func(d *podwebv1.Delivery) bool { return rowNames(d) != "" })); got != "+d" {
		t.Errorf("after changes on both nodes it gets %s", got)
	}
	f.publish(5, opAdd, onNode(t, "a", "n2"))
	if got := rowNames(tab.Until("a row", func(d *podwebv1.Delivery) bool { return rowNames(d) != "" })); got != "-" {
		t.Errorf("after its pod moved it gets %s", got)
	}
}

// TestManyRows: a subscription shows 5000 rows, says how many it doesn't, and keeps to those that it shows.
func TestManyRows(t *testing.T) {
	f := start(t, nil)
	f.observe(numbered("p", 5003)...)
	tab := webtest.NewTab(t, f.client, sub("p", podsTopic(), ""))
	var omitted int32
	rows, shown := 0, map[string]bool{}
	for {
		d := tab.Next()
		rows += len(d.GetPods().GetRows())
		for _, row := range d.GetPods().GetRows() {
			shown[row.GetKey()] = true
		}
		omitted = d.GetPods().GetOmitted()
		if !d.GetMore() {
			break
		}
	}
	if rows != 5000 || omitted != 3 || len(shown) != 5000 {
		t.Errorf("%d rows come, and %d are omitted; want 5000 and 3", rows, omitted)
	}
	f.board.ApplyObserved(nil, nil, true)
	removed := 0
	for removed < 5000 {
		for _, key := range tab.Next().GetRemoved() {
			if shown[key] {
				removed++
			}
		}
	}
}

// TestTimelineOfATab: a tab gets the last revisions, and then each one; ListRevisions has the others.
func TestTimelineOfATab(t *testing.T) {
	f := start(t, nil)
	for i := range uint64(20) {
		f.publish(i+1, opAdd, onNode(t, "a", "n1"))
	}
	tab := webtest.NewTab(t, f.client, sub("t", timelineTopic(5), ""))
	first := tab.Next()
	if got := first.GetTimeline().GetRevisions(); !first.GetReset_() || len(got) != 5 || got[0].GetSequence() != 16 || first.GetTimeline().GetBegin().GetSequence() != 1 {
		t.Errorf("the first delivery is %v", first)
	}
	f.publish(21, opRemove, onNode(t, "a", "n1"))
	if got := tab.Next().GetTimeline().GetRevisions(); len(got) != 1 || got[0].GetSequence() != 21 {
		t.Errorf("then it is %v", got)
	}
	cursor := tab.Cursors["t"]
	tab.Close()
	f.publish(22, opAdd, onNode(t, "b", "n1"))
	again := webtest.NewTab(t, f.client, sub("t", timelineTopic(5), cursor)).Next()
	if got := again.GetTimeline().GetRevisions(); again.GetReset_() || len(got) != 1 || got[0].GetSequence() != 22 {
		t.Errorf("after its cursor it gets %v", again)
	}

	ask := func(req *podwebv1.ListRevisionsRequest) []uint64 {
		t.Helper()
		r, err := f.client.ListRevisions(t.Context(), req)
		if err != nil || r.GetNewest() != 22 {
			t.Fatalf("ListRevisions: %v, %v", r, err)
		}
		var out []uint64
		for _, rev := range r.GetRevisions() {
			out = append(out, rev.GetSequence())
		}
		return out
	}
	b := f.board.Pods.Rows()
	var keyOfB string
	for key, row := range b {
		if row.GetName().GetName() == "b" {
			keyOfB = key
		}
	}
	for _, tc := range []struct {
		req         *podwebv1.ListRevisionsRequest
		n           int
		first, last uint64
	}{
		{&podwebv1.ListRevisionsRequest{}, 22, 1, 22},
		{&podwebv1.ListRevisionsRequest{Limit: 3}, 3, 20, 22},
		{&podwebv1.ListRevisionsRequest{Sequence: 20, Limit: 3}, 3, 17, 19},
		{&podwebv1.ListRevisionsRequest{Sequence: 2, Limit: 3}, 1, 1, 1},
		{&podwebv1.ListRevisionsRequest{Sequence: 1}, 0, 0, 0},
		{&podwebv1.ListRevisionsRequest{Forward: true, Limit: 2}, 2, 1, 2},
		{&podwebv1.ListRevisionsRequest{Sequence: 20, Forward: true}, 2, 21, 22},
		{&podwebv1.ListRevisionsRequest{PodKey: keyOfB}, 1, 22, 22},
		{&podwebv1.ListRevisionsRequest{PodKey: keyOfB, Sequence: 22}, 0, 0, 0},
		{&podwebv1.ListRevisionsRequest{PodKey: keyOfB, Forward: true}, 1, 22, 22},
	} {
		got := ask(tc.req)
		if len(got) != tc.n || tc.n > 0 && (got[0] != tc.first || got[tc.n-1] != tc.last) {
			t.Errorf("%v has %v; want %d from %d to %d", tc.req, got, tc.n, tc.first, tc.last)
		}
	}
	at, err := f.client.ListDesiredAt(t.Context(), &podwebv1.ListDesiredAtRequest{Sequence: 21})
	if err != nil || len(at.GetPods()) != 0 {
		t.Errorf("after entry 21 there are %v, %v", at, err)
	}
	_, err = f.client.ListDesiredAt(t.Context(), &podwebv1.ListDesiredAtRequest{Sequence: 99})
	wantCode(t, "an entry that doesn't exist", err, connect.CodeNotFound)
}

// TestSlowTab: a tab that doesn't read delays no other one, and costs no memory but its position: what the timeline has dropped
// meanwhile is counted, and rows come in their last version only.
func TestSlowTab(t *testing.T) {
	f := start(t, nil)
	slow := webtest.NewTab(t, f.client, sub("t", timelineTopic(1), ""), sub("p", podsTopic(), ""))
	// Every second revision has 40 KiB of text: together they are more than the timeline keeps and the connection takes.
	const all = 400
	var pods []*podconfigv1.Pod
	for _, name := range numbered("p", 20) {
		pod := podctltest.Pod("default", name)
		pod.Spec.Containers[0].Image = strings.Repeat("i", 2000)
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
	if rows > all {
		t.Errorf("it gets %d versions of 20 rows", rows)
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
