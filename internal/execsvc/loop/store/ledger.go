package store

import (
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/boltfile"
)

// format is the number of the layout that doc.go describes.
const format = 1

// table is a bucket of records.
type table int

const (
	pods table = iota
	statuses
	ends
	allocations
	tables
)

func (t table) bucket() []byte {
	return []byte([tables]string{"pods", "statuses", "ends", "allocations"}[t])
}

// The keys of the bucket "head".
const (
	headKey      = "head"
	allocatedKey = "allocations"
)

// place identifies a record.
type place struct {
	table table
	uid   types.UID
}

// edit is the change of one record.
type edit struct {
	place
	// record is the new one. Nil: it is deleted.
	record []byte
}

// ledger is the store within one transaction.
type ledger struct {
	headRecord
	// allocated is the head of the allocations.
	allocated allocatedRecord
	// outdated is set if the head isn't the one that allocated was written with: a version without allocations has
	// written the file since.
	outdated bool
	top      *bbolt.Bucket
	buckets  [tables]*bbolt.Bucket
}

// newLedger creates the buckets of an empty store.
func newLedger(tx *bbolt.Tx) (*ledger, error) {
	l := &ledger{headRecord: headRecord{Format: format}}
	var err error
	if l.top, err = tx.CreateBucket([]byte(headKey)); err != nil {
		return nil, err
	}
	for t := range tables {
		if l.buckets[t], err = tx.CreateBucket(t.bucket()); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// openLedger finds the buckets and reads the head.
func openLedger(tx *bbolt.Tx) (*ledger, error) {
	l := &ledger{top: tx.Bucket([]byte(headKey))}
	if l.top == nil {
		return nil, fmt.Errorf("%w: it has no head", boltfile.ErrDamaged)
	}
	sum, err := unseal(headKey, l.top.Get([]byte(headKey)), &l.headRecord)
	if err != nil {
		return nil, err
	}
	if l.Format != format {
		return nil, &boltfile.FormatError{Found: l.Format, Known: format}
	}
	record := l.top.Get([]byte(allocatedKey))
	if record != nil {
		if _, err := unseal(allocatedKey, record, &l.allocated); err != nil {
			return nil, err
		}
	}
	l.outdated = record == nil || l.allocated.Head != sum
	if l.outdated && tx.Writable() {
		// Open reads such a file, and it is replaced before the next write.
		return nil, fmt.Errorf("%w: an older version has written it meanwhile", boltfile.ErrDamaged)
	}
	for t := range tables {
		if l.buckets[t] = tx.Bucket(t.bucket()); l.buckets[t] == nil && !(t == allocations && l.outdated) {
			return nil, fmt.Errorf("%w: it has no bucket %s", boltfile.ErrDamaged, t.bucket())
		}
	}
	return l, nil
}

// apply applies the edits and writes the heads.
func (l *ledger) apply(cursor []byte, removals []time.Time, edits []edit) error {
	for _, e := range edits {
		if err := l.change(e); err != nil {
			return fmt.Errorf("the record of %q in %s: %w", e.uid, e.table.bucket(), err)
		}
	}
	l.Cursor, l.Removals = cursor, nil
	for _, t := range removals {
		l.Removals = append(l.Removals, t.UnixMilli())
	}
	head, err := seal(headKey, l.headRecord)
	if err != nil {
		return err
	}
	l.allocated.Head = sumOf(head)
	allocated, err := seal(allocatedKey, l.allocated)
	if err != nil {
		return err
	}
	if err := l.top.Put([]byte(headKey), head); err != nil {
		return err
	}
	return l.top.Put([]byte(allocatedKey), allocated)
}

func (l *ledger) change(e edit) error {
	b, key, n := l.buckets[e.table], []byte(e.uid), l.tallyOf(e.table)
	if old := b.Get(key); len(old) >= sumSize {
		n.Records--
		n.Sum -= sumOf(old)
	}
	if e.record == nil {
		return b.Delete(key)
	}
	n.Records++
	n.Sum += sumOf(e.record)
	return b.Put(key, e.record)
}

// tallyOf returns the tally of a table's records.
func (l *ledger) tallyOf(t table) *tally {
	if t == allocations {
		return &l.allocated.tally
	}
	return &l.headRecord.tally
}

// load reads all records, and compares them with the tallies. Outdated allocations are ignored.
func (l *ledger) load() (h held, err error) {
	h = newHeld()
	if h.cursor, err = decodeCursor(l.Cursor); err != nil {
		return held{}, err
	}
	for _, t := range l.Removals {
		h.removals = append(h.removals, time.UnixMilli(t))
	}
	var found ledger
	for t := range tables {
		if t == allocations && l.outdated {
			continue
		}
		n := found.tallyOf(t)
		err := l.buckets[t].ForEach(func(key, record []byte) error {
			sum, err := h.decode(t, types.UID(key), record)
			n.Records++
			n.Sum += sum
			return err
		})
		if err != nil {
			return held{}, err
		}
	}
	for _, t := range []table{pods, allocations} {
		if n, want := found.tallyOf(t), l.tallyOf(t); *n != *want && !(t == allocations && l.outdated) {
			return held{}, fmt.Errorf("%w: it has %d records with the sum %x; the head of %s has %d and %x", boltfile.ErrDamaged,
				n.Records, n.Sum, t.bucket(), want.Records, want.Sum)
		}
	}
	return h, nil
}
