package service

import (
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/feed"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
)

// batchItems is how many items of a log a delivery has.
const batchItems = 1000

// linkReader delivers changes of a link.
type linkReader struct {
	link    *board.Link
	version uint64
}

func (r *linkReader) next() *podwebv1.Connection {
	state, version := r.link.Get()
	if version == r.version {
		return nil
	}
	r.version = version
	return state
}

// timelineReader reads the timeline.
type timelineReader struct {
	timeline *board.Timeline
	link     linkReader
	place    place
	stops    []func()

	at    uint64
	reset bool
	begin uint64 // the version of the begin that was delivered
}

func newTimelineReader(t *tab, b *board.Board, at place, topic *podwebv1.TimelineTopic, cursor string) *timelineReader {
	r := &timelineReader{timeline: b.Timeline, link: linkReader{link: b.Desired}, place: at}
	r.stops = []func(){b.Timeline.Log.Follow(t.wake), b.Timeline.Begin.Follow(t.wake), b.Desired.Follow(t.wake)}
	_, last := b.Timeline.Log.Bounds()
	if positions, ok := at.parse(cursor, 1); ok && positions[0] <= last {
		r.at = positions[0]
		return r
	}
	const usual, most = 100, 500
	r.reset, r.at = true, after(b.Timeline.Log, tail(int(topic.GetLast()), usual, most))
	return r
}

// tail returns how many of the last items were asked for.
func tail(asked, usual, most int) int {
	if asked <= 0 {
		return usual
	}
	return min(asked, most)
}

// after returns the position before the last n items.
func after[T any](log *feed.Log[T], n int) uint64 {
	first, last := log.Bounds()
	if last+1 < first+uint64(n) { //nolint:gosec // It isn't negative.
		return first - 1
	}
	return last - uint64(n) //nolint:gosec // As above.
}

func (r *timelineReader) close() { stopAll(r.stops) }

func stopAll(stops []func()) {
	for _, stop := range stops {
		stop()
	}
}

// next is part of reader.
func (r *timelineReader) next() *podwebv1.Delivery {
	items := &podwebv1.TimelineItems{}
	d := &podwebv1.Delivery{Reset_: r.reset, Connection: r.link.next(), Items: &podwebv1.Delivery_Timeline{Timeline: items}}
	entries, at, missed, more := r.timeline.Log.Read(r.at, batchItems, maxDelivery)
	if begin, version := r.timeline.Begin.Get(); version != r.begin {
		r.begin, items.Begin = version, begin
	}
	if len(entries) == 0 && missed == 0 && !r.reset && d.GetConnection() == nil && items.GetBegin() == nil {
		return nil
	}
	for _, e := range entries {
		items.Revisions = append(items.Revisions, e.Revision)
	}
	r.at, r.reset = at, false
	d.Missed, d.More, d.Cursor = missed, more, r.place.format(at)
	return d
}

// statsReader reads the samples.
type statsReader struct {
	log    *feed.Log[*podwebv1.StatsSample]
	link   linkReader
	place  place
	podKey string
	stops  []func()

	at    uint64
	reset bool
}

func newStatsReader(t *tab, b *board.Board, at place, topic *podwebv1.StatsTopic, cursor string) *statsReader {
	r := &statsReader{log: b.Stats, link: linkReader{link: b.StatsLink}, place: at, podKey: topic.GetPodKey()}
	r.stops = []func(){b.Stats.Follow(t.wake), b.StatsLink.Follow(t.wake), b.Want.Add(board.WantStats)}
	_, last := b.Stats.Bounds()
	if positions, ok := at.parse(cursor, 1); ok && positions[0] <= last {
		r.at = positions[0]
		return r
	}
	r.reset = true
	first, _ := b.Stats.Bounds()
	r.at = first - 1
	return r
}

func (r *statsReader) close() { stopAll(r.stops) }

// next is part of reader.
func (r *statsReader) next() *podwebv1.Delivery {
	samples, at, missed, more := r.log.Read(r.at, batchItems, maxDelivery)
	d := &podwebv1.Delivery{Reset_: r.reset, Connection: r.link.next(), Missed: missed, More: more}
	if len(samples) == 0 && missed == 0 && !r.reset && d.GetConnection() == nil {
		return nil
	}
	items := &podwebv1.StatsItems{Interval: durationpb.New(upstream.StatsInterval)}
	for _, s := range samples {
		items.Samples = append(items.Samples, &podwebv1.StatsSample{Time: s.GetTime(), Values: r.values(s.GetValues())})
	}
	r.at, r.reset = at, false
	d.Cursor, d.Items = r.place.format(at), &podwebv1.Delivery_Stats{Stats: items}
	return d
}

// values returns those of the pod, or those of the node and of pods as a whole.
func (r *statsReader) values(all []*podwebv1.StatsValue) []*podwebv1.StatsValue {
	return slices.Collect(func(yield func(*podwebv1.StatsValue) bool) {
		for _, v := range all {
			if (r.podKey == "" && v.GetContainer() == "" || r.podKey != "" && v.GetPodKey() == r.podKey) && !yield(v) {
				return
			}
		}
	})
}

// linesReader reads the logs of some containers.
type linesReader struct {
	logs  []*upstream.Log
	links []linkReader
	place place
	stops []func()

	at    []uint64
	reset bool
}

// add adds the log of the next container.
func (r *linesReader) add(t *tab, log *upstream.Log, release func()) {
	r.logs = append(r.logs, log)
	r.links = append(r.links, linkReader{link: log.Link})
	r.stops = append(r.stops, log.Lines.Follow(t.wake), log.Link.Follow(t.wake), release)
}

// begin sets the positions: after the cursor, or before the last lines.
func (r *linesReader) begin(cursor string, tail int) {
	if positions, ok := r.place.parse(cursor, len(r.logs)); ok {
		for i, log := range r.logs {
			_, last := log.Lines.Bounds()
			ok = ok && positions[i] <= last
		}
		if ok {
			r.at = positions
			return
		}
	}
	r.reset = true
	for _, log := range r.logs {
		r.at = append(r.at, after(log.Lines, tail))
	}
}

func (r *linesReader) close() { stopAll(r.stops) }

// next is part of reader. The lines of a delivery are in order of time.
func (r *linesReader) next() *podwebv1.Delivery {
	items := &podwebv1.LogItems{}
	d := &podwebv1.Delivery{Reset_: r.reset, Items: &podwebv1.Delivery_Logs{Logs: items}}
	for i, log := range r.logs {
		lines, at, missed, more := log.Lines.Read(r.at[i], batchItems/len(r.logs)+1, maxDelivery/len(r.logs))
		r.at[i] = at
		d.Missed += missed
		d.More = d.GetMore() || more
		for _, line := range lines {
			items.Lines = append(items.Lines, &podwebv1.LogLine{
				Container: int32(i), Time: line.GetTime(), Text: line.GetText(), Stderr: line.GetStderr(), Cut: line.GetCut(), //nolint:gosec // There are few.
			})
		}
		if state := r.links[i].next(); state != nil {
			items.States = append(items.States, &podwebv1.LogState{Container: int32(i), Connection: state}) //nolint:gosec // As above.
		}
	}
	if len(items.GetLines()) == 0 && len(items.GetStates()) == 0 && d.GetMissed() == 0 && !r.reset {
		return nil
	}
	if len(r.logs) > 1 {
		slices.SortStableFunc(items.Lines, func(a, b *podwebv1.LogLine) int { return a.GetTime().AsTime().Compare(b.GetTime().AsTime()) })
	}
	r.reset, d.Cursor = false, r.place.format(r.at...)
	return d
}

// failedReader delivers once why a topic can't be followed.
type failedReader struct{ connection *podwebv1.Connection }

func (*failedReader) close() {}

// next is part of reader.
func (r *failedReader) next() *podwebv1.Delivery {
	if r.connection == nil {
		return nil
	}
	d := &podwebv1.Delivery{Reset_: true, Connection: r.connection}
	r.connection = nil
	return d
}
