package store

import (
	"fmt"

	"go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/boltfile"
)

// format is the number of the layout that doc.go describes.
const format = 1

// table is one of the buckets that hold records.
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

const headKey = "head"

// place is where a record stands.
type place struct {
	table table
	uid   types.UID
}

// edit is the change of one record.
type edit struct {
	place
	// record is the new one. Nil: there is none any more.
	record []byte
}

// ledger is the store within one transaction.
type ledger struct {
	headRecord
	top     *bbolt.Bucket
	buckets [tables]*bbolt.Bucket
}

// newLedger makes the buckets of an empty store.
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
	if _, err := unseal(headKey, l.top.Get([]byte(headKey)), &l.headRecord); err != nil {
		return nil, err
	}
	if l.Format != format {
		return nil, &boltfile.FormatError{Found: l.Format, Known: format}
	}
	for t := range tables {
		var err error
		l.buckets[t] = tx.Bucket(t.bucket())
		switch {
		case l.buckets[t] != nil:
		case t != allocations:
			return nil, fmt.Errorf("%w: it has no bucket %s", boltfile.ErrDamaged, t.bucket())
		case tx.Writable():
			// It was made by a version that didn't keep them.
			if l.buckets[t], err = tx.CreateBucket(t.bucket()); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// apply makes the edits and writes the head.
func (l *ledger) apply(cursor []byte, edits []edit) error {
	for _, e := range edits {
		if err := l.change(e); err != nil {
			return fmt.Errorf("the record of %q in %s: %w", e.uid, e.table.bucket(), err)
		}
	}
	l.Cursor = cursor
	head, err := seal(headKey, l.headRecord)
	if err != nil {
		return err
	}
	return l.top.Put([]byte(headKey), head)
}

func (l *ledger) change(e edit) error {
	b, key := l.buckets[e.table], []byte(e.uid)
	if old := b.Get(key); len(old) >= sumSize {
		l.Records--
		l.Sum -= sumOf(old)
	}
	if e.record == nil {
		return b.Delete(key)
	}
	l.Records++
	l.Sum += sumOf(e.record)
	return b.Put(key, e.record)
}

// load reads all records, and compares them with what the head says.
func (l *ledger) load() (h held, err error) {
	h = newHeld()
	if h.cursor, err = decodeCursor(l.Cursor); err != nil {
		return held{}, err
	}
	var records, sum uint64
	for t := range tables {
		if l.buckets[t] == nil {
			continue
		}
		err := l.buckets[t].ForEach(func(key, record []byte) error {
			n, err := h.decode(t, types.UID(key), record)
			records++
			sum += n
			return err
		})
		if err != nil {
			return held{}, err
		}
	}
	if records != l.Records || sum != l.Sum {
		return held{}, fmt.Errorf("%w: it has %d records that add up to %x; its head says %d and %x", boltfile.ErrDamaged,
			records, sum, l.Records, l.Sum)
	}
	return h, nil
}
