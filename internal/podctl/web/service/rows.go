package service

import (
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/feed"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

const (
	// maxRows is how many rows a subscription shows.
	maxRows = 5000
	// batchRows is how many rows a delivery has.
	batchRows = 500
)

// rowReader reads a Table.
type rowReader[M any] struct {
	table *feed.Table[M]
	links []*board.Link
	place place
	// match selects rows. Nil: all.
	match func(M) bool
	// put puts rows into a delivery. omitted is how many aren't shown.
	put   func(d *podwebv1.Delivery, rows []M, omitted int)
	stops []func()

	version uint64
	begun   bool
	linked  []uint64 // the versions of the links that were delivered
	// shown are the keys of the rows that the page has, and omitted those for which there is no room.
	shown, omitted map[string]bool
}

// newRowReader returns a reader that goes on after a cursor, if that is possible: the page's rows have to be known.
func newRowReader[M any](
	t *tab, table *feed.Table[M], at place, cursor string, match func(M) bool,
	put func(*podwebv1.Delivery, []M, int), links ...*board.Link,
) *rowReader[M] {
	r := &rowReader[M]{
		table: table, links: links, place: at, match: match, put: put, linked: make([]uint64, len(links)),
		shown: map[string]bool{}, omitted: map[string]bool{},
	}
	r.stops = append(r.stops, table.Follow(t.wake))
	for _, link := range links {
		r.stops = append(r.stops, link.Follow(t.wake))
	}
	if positions, ok := at.parse(cursor, 1); ok && match == nil {
		if keys := table.Keys(positions[0]); len(keys) < maxRows {
			r.version, r.begun = positions[0], true
			for _, key := range keys {
				r.shown[key] = true
			}
		}
	}
	return r
}

func (r *rowReader[M]) close() {
	for _, stop := range r.stops {
		stop()
	}
}

// next is part of reader.
func (r *rowReader[M]) next() *podwebv1.Delivery {
	change := r.table.Read(r.version, batchRows, maxDelivery)
	d := &podwebv1.Delivery{Reset_: !r.begun || change.Reset, More: change.More}
	if d.GetReset_() {
		clear(r.shown)
		clear(r.omitted)
	}
	r.version, r.begun = change.Version, true
	before := len(r.omitted)
	var rows []M
	for i, row := range change.Rows {
		switch key := change.Keys[i]; {
		case r.match != nil && !r.match(row):
			delete(r.omitted, key)
			if r.shown[key] {
				delete(r.shown, key)
				d.Removed = append(d.Removed, key)
			}
		case r.shown[key] || len(r.shown) < maxRows:
			delete(r.omitted, key)
			r.shown[key] = true
			rows = append(rows, row)
		default:
			r.omitted[key] = true
		}
	}
	for _, key := range change.Removed {
		delete(r.omitted, key)
		if r.match == nil || r.shown[key] {
			delete(r.shown, key)
			d.Removed = append(d.Removed, key)
		}
	}
	d.Connection = r.connection()
	if len(rows) == 0 && len(d.GetRemoved()) == 0 && !d.GetReset_() && d.GetConnection() == nil && len(r.omitted) == before && !d.GetMore() {
		return nil
	}
	r.put(d, rows, len(r.omitted))
	d.Cursor = r.place.format(r.version)
	return d
}

// connection returns the state of the links if it has changed, or nil.
func (r *rowReader[M]) connection() *podwebv1.Connection {
	var both *podwebv1.Connection
	changed := false
	for i, link := range r.links {
		state, version := link.Get()
		changed = changed || version != r.linked[i]
		r.linked[i] = version
		if both == nil {
			both = state
		} else {
			both = board.Both(both, state)
		}
	}
	if !changed {
		return nil
	}
	return both
}
