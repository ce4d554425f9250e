package store

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// format is the number of the layout that doc.go describes.
const format = 1

var (
	headBucket = []byte("head")
	formatKey  = []byte("format")
	headKey    = []byte("head")
)

// head describes the records as a whole.
type head struct {
	instance        string
	number, horizon uint64
	// records is their number, tombstones included. sum is the sum of their checksums.
	records, tombstones, sum uint64
	// positions are the sources' positions as encodePositions has them.
	positions string
}

// ledger is the store within one transaction.
type ledger struct {
	head
	top     *bbolt.Bucket
	buckets [tables]*bbolt.Bucket
}

// newLedger makes the buckets of an empty store.
func newLedger(tx *bbolt.Tx, h head) (*ledger, error) {
	l := &ledger{head: h}
	var err error
	if l.top, err = tx.CreateBucket(headBucket); err != nil {
		return nil, err
	}
	for t := range tables {
		if l.buckets[t], err = tx.CreateBucket(t.bucket()); err != nil {
			return nil, err
		}
	}
	return l, l.top.Put(formatKey, seal(formatKey, strconv.AppendInt(nil, format, 10)))
}

// openLedger finds the buckets and reads the head.
func openLedger(tx *bbolt.Tx) (*ledger, error) {
	l := &ledger{top: tx.Bucket(headBucket)}
	if l.top == nil {
		return nil, fmt.Errorf("%w: it has no head", ErrDamaged)
	}
	text, _, err := unseal(formatKey, l.top.Get(formatKey))
	if err != nil {
		return nil, err
	}
	found, err := strconv.Atoi(string(text))
	if err != nil {
		return nil, fmt.Errorf("%w: its format is no number: %w", ErrDamaged, err)
	}
	if found != format {
		return nil, &boltfile.FormatError{Found: found, Known: format}
	}
	payload, _, err := unseal(headKey, l.top.Get(headKey))
	if err != nil {
		return nil, err
	}
	if l.head, err = decodeHead(payload); err != nil {
		return nil, err
	}
	for t := range tables {
		if l.buckets[t] = tx.Bucket(t.bucket()); l.buckets[t] == nil {
			return nil, fmt.Errorf("%w: it has no bucket %s", ErrDamaged, t.bucket())
		}
	}
	return l, nil
}

// apply makes the edits, deletes the oldest tombstones beyond the limit, and writes the head.
func (l *ledger) apply(edits []edit, limit int) error {
	for _, e := range edits {
		if err := l.change(e); err != nil {
			return err
		}
	}
	for l.tombstones > uint64(limit) {
		key, _ := l.buckets[tombstones].Cursor().First()
		if len(key) != tombstoneKeySize {
			return fmt.Errorf("%w: it counts %d tombstones more than it has", ErrDamaged, l.tombstones)
		}
		l.horizon = removalOf(key)
		if err := l.change(edit{table: tombstones, key: bytes.Clone(key)}); err != nil {
			return err
		}
	}
	return l.top.Put(headKey, seal(headKey, encodeHead(l.head)))
}

func (l *ledger) change(e edit) error {
	b := l.buckets[e.table]
	if old := b.Get(e.key); old != nil {
		_, sum, err := unseal(e.key, old)
		if err != nil {
			return err
		}
		l.sum -= uint64(sum)
		l.count(e.table, ^uint64(0))
	}
	if e.record == nil {
		return b.Delete(e.key)
	}
	l.sum += uint64(sumOf(e.record))
	l.count(e.table, 1)
	if err := b.Put(e.key, e.record); err != nil {
		return fmt.Errorf("put %q into %s: %w", e.key, e.table.bucket(), err)
	}
	return nil
}

// count adds n, which may be minus one, to the number of records.
func (l *ledger) count(t table, n uint64) {
	l.records += n
	if t == tombstones {
		l.tombstones += n
	}
}

// contents reads all records, and compares them with the head.
func (l *ledger) contents() (*Contents, error) {
	c := &Contents{
		Instance: l.instance, Number: l.number, Horizon: l.horizon, ReadySources: map[string]uint64{}, Positions: decodePositions(l.positions),
	}
	found := head{instance: l.instance, number: l.number, horizon: l.horizon, positions: l.positions}
	for t := range tables {
		err := l.buckets[t].ForEach(func(key, record []byte) error {
			payload, sum, err := unseal(key, record)
			if err != nil {
				return err
			}
			found.records++
			found.sum += uint64(sum)
			switch t {
			case pods:
				p, err := decodePod(string(key), payload)
				c.Pods = append(c.Pods, p)
				return err
			case tombstones:
				found.tombstones++
				tomb, err := decodeTombstone(key, payload)
				c.Tombstones = append(c.Tombstones, tomb)
				return err
			default:
				ready, err := decodeSource(string(key), payload)
				c.ReadySources[string(key)] = ready
				return err
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if found != l.head {
		return nil, fmt.Errorf("%w: it has %d records, %d of them tombstones, that add up to %x; its head says %d, %d and %x", ErrDamaged,
			found.records, found.tombstones, found.sum, l.records, l.tombstones, l.sum)
	}
	slices.SortFunc(c.Pods, comparePods)
	return c, nil
}

func comparePods(a, b *revision.Pod) int {
	return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), strings.Compare(a.Object.Name, b.Object.Name),
		strings.Compare(string(a.Object.UID), string(b.Object.UID)))
}
