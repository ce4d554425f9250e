package service_test

import (
	"strings"
	"testing"

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

// TestDigestOfAnArtifact: a source's row has the digest of its artifact.
func TestDigestOfAnArtifact(t *testing.T) {
	f := start(t, nil)
	digest := "sha256:" + strings.Repeat("a", 64)
	f.board.ApplySources(t.Context(), []*podconfigv1.Source{{Name: "oci", Digest: digest}})
	tab := webtest.NewTab(t, f.client, sub("s", &podwebv1.Topic{Topic: &podwebv1.Topic_Sources{Sources: &podwebv1.SourcesTopic{}}}, ""))
	if rows := tab.Next().GetSources().GetRows(); len(rows) != 1 || rows[0].GetDigest() != digest {
		t.Errorf("the rows are %v", rows)
	}
}
