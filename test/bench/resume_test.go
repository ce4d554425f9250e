package bench

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// BenchmarkResume resumes with a cursor after 1,000 and after 10,000 missed ops on 100 pods of 2 KiB. The
// history keeps fewer revisions, so both catch up with one op for each pod: the cost depends on the number of
// pods, not of ops, and the ratio of the two is about 1. A third consumer, with 400 missed ops, is within the
// history and receives all of them. It prints medians of the time until synced.
func BenchmarkResume(b *testing.B) {
	const pods, size, kept = 100, 2 << 10, 500
	missed := []int{400, 1000, 10_000}
	s := startServer(b, serverConfig{Variant: product, Pods: pods, Size: size, Revisions: kept})
	conn := dialUp(b, s)
	now := lastCursor(b, resume(b, conn, nil))
	s.publish(b, 2*missed[len(missed)-1], size)
	end := lastCursor(b, resume(b, conn, nil))
	if got, want := end.GetRevision()-now.GetRevision(), uint64(2*missed[len(missed)-1]); got != want {
		b.Fatalf("%d revisions were published; want %d", got, want)
	}
	type row struct{ few, some, many catchUp }
	var rows []row
	after := func(missed int) catchUp {
		at := proto.CloneOf(end)
		at.Revision -= uint64(missed)
		return resume(b, conn, at)
	}
	for b.Loop() {
		rows = append(rows, row{after(missed[0]), after(missed[1]), after(missed[2])})
	}
	last := rows[len(rows)-1]
	for _, r := range []struct {
		name  string
		last  catchUp
		value func(row) catchUp
	}{
		{"400", last.few, func(r row) catchUp { return r.few }},
		{"1000", last.some, func(r row) catchUp { return r.some }},
		{"10000", last.many, func(r row) catchUp { return r.many }},
	} {
		b.ReportMetric(middle(rows, func(w row) float64 { return milliseconds(r.value(w).took) }), "ms/missed="+r.name)
		b.ReportMetric(float64(countOps(b, r.last)), "ops/missed="+r.name)
		b.ReportMetric(float64(r.last.bytes)/1024, "KiB/missed="+r.name)
	}
	b.ReportMetric(middle(rows, func(w row) float64 { return float64(w.many.took) / float64(w.some.took) }), "10000/1000")
	b.ReportMetric(0, "ns/op") // The time of all parts together has no meaning.
}

func resume(b *testing.B, conn *grpc.ClientConn, after *podconfigv1.Cursor) catchUp {
	c, err := catchUpOn(b.Context(), conn, &podconfigv1.WatchPodUpdatesRequest{Consumer: "back", Format: protobufFormat, ResumeAfter: after}, true)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// decoded returns the messages of a catch-up.
func decoded(b *testing.B, c catchUp) []*podconfigv1.WatchPodUpdatesResponse {
	var out []*podconfigv1.WatchPodUpdatesResponse
	for _, data := range c.data {
		m := &podconfigv1.WatchPodUpdatesResponse{}
		if err := proto.Unmarshal(data, m); err != nil {
			b.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func lastCursor(b *testing.B, c catchUp) *podconfigv1.Cursor {
	all := decoded(b, c)
	return all[len(all)-1].GetCursor()
}

// countOps counts an op for each pod of each update.
func countOps(b *testing.B, c catchUp) int {
	n := 0
	for _, m := range decoded(b, c) {
		n += len(m.GetUpdate().GetPods())
	}
	return n
}
