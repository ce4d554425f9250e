package diskusage

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A pod whose directories are moved is uncountable after several such counts over at least the time of one.
func TestMovesGoOn(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	const most = 5 * time.Minute
	at := func(tr *trouble, after time.Duration, err error) bool {
		u := &Usage{At: begin.Add(after), Err: err}
		tr.judge(u, nil, most)
		return u.Uncountable
	}
	var tr trouble
	for i := range 100 {
		if at(&tr, time.Duration(i)*time.Second, errMoved) {
			t.Fatalf("it is uncountable after %d s", i)
		}
	}
	if !at(&tr, most, errMoved) {
		t.Error("it isn't uncountable after the time of a count")
	}
	if at(&tr, most+1, nil) || at(&tr, most+2, errMoved) {
		t.Error("it is uncountable after a count without moves")
	}
	tr = trouble{}
	for i, want := range []bool{false, false, false, false, true} {
		if at(&tr, time.Duration(i)*most, errMoved) != want {
			t.Errorf("count %d in a row: want uncountable: %v", i+1, want)
		}
	}
	// A clock that is set back starts the time again.
	tr = trouble{}
	for i := range 2 * movesEnough {
		if at(&tr, -time.Duration(i)*time.Hour, errMoved) {
			t.Error("it is uncountable with a clock that is set back")
		}
	}
}

// A pod whose counts repeatedly run out of time, though each has longer, keeps its larger figures, and isn't
// uncountable: another pod may slow down the disk.
func TestLateAgainAndAgain(t *testing.T) {
	d := newDisk(t)
	p := d.filled("a", 10*tickEvery)
	m := d.run(func(m *Meter) { m.quickTime = 0 })
	count := func() Usage {
		t.Helper()
		m.mu.Lock()
		if e := m.pods["a"]; e != nil {
			e.restUntil = time.Time{}
		}
		m.mu.Unlock()
		return m.Counts(t.Context(), []*v1.Pod{p}, -1)["a"]
	}
	if u := count(); u.Err != nil || u.Total().Inodes != 10*tickEvery+1 {
		t.Fatalf("%+v", u)
	}
	d.write(mi, d.volume(p, "x"), "file")
	whole := count()
	if whole.Total().Bytes < mi {
		t.Fatalf("%+v", whole)
	}
	m.mu.Lock()
	m.cfg.MaxTime = 1
	m.mu.Unlock()
	for i := range 5 {
		u := count()
		if !errors.Is(u.Err, errSlowDisk) || u.Uncountable {
			t.Errorf("late count %d: %v, uncountable: %v; want false", i+1, u.Err, u.Uncountable)
		}
		if u.Total() != whole.Total() {
			t.Errorf("late count %d: %+v; want the last figure %+v", i+1, u.Total(), whole.Total())
		}
	}
	m.mu.Lock()
	m.cfg.MaxTime = time.Hour
	m.mu.Unlock()
	if u := count(); u.Err != nil || u.Uncountable {
		t.Errorf("a count in time: %v, uncountable: %v", u.Err, u.Uncountable)
	}
	tr := trouble{}
	for _, want := range []time.Duration{1, 2, 4, 8, 8} {
		if got := tr.maxTime(1); got != want {
			t.Errorf("the next count may take %d; want %d", got, want)
		}
		tr.judge(&Usage{Err: errSlowDisk}, nil, 1)
	}
}
