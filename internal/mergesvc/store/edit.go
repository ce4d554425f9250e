package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// table is one of the buckets that hold records.
type table int

const (
	pods table = iota
	tombstones
	sources
	tables
)

func (t table) bucket() []byte { return []byte([tables]string{"pods", "tombstones", "sources"}[t]) }

// edit is the change of one record. It is made before the transaction begins, so that a pod that can't be encoded, or
// a wrong revision, never reaches the file.
type edit struct {
	table table
	key   []byte
	// record is the new one. Nil: the record is deleted.
	record []byte
}

// editsOf returns the edits of a revision, in its order: a UID that is removed and added in one revision exists
// afterwards.
func editsOf(rev *revision.Revision) ([]edit, error) {
	var edits []edit
	// removed counts the tombstones of this revision.
	removed := uint32(0)
	put := func(list []*revision.Pod) error {
		for _, p := range list {
			e, err := podEdit(p)
			if err != nil {
				return fmt.Errorf("revision %d: %w", rev.Number, err)
			}
			edits = append(edits, e)
		}
		return nil
	}
	for _, c := range rev.Changes {
		switch c.Op {
		case revision.REMOVE:
			for _, p := range c.Pods {
				edits = append(edits, edit{table: pods, key: []byte(p.UID())}, tombstoneEdit(p, rev.Number, removed))
				removed++
			}
		case revision.ADD, revision.UPDATE, revision.DELETE, revision.RECONCILE, revision.RESTORE:
			if err := put(c.Pods); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("revision %d: the op %s isn't one of a revision", rev.Number, c.Op)
		}
	}
	if err := put(rev.Settled); err != nil {
		return nil, err
	}
	for _, name := range rev.Dropped {
		edits = append(edits, edit{table: sources, key: []byte(name)})
	}
	if rev.BecameReady {
		edits = append(edits, sourceEdit(rev.Source, rev.Number))
	}
	return edits, nil
}

// editsOfContents returns the edits that make an empty store hold c.
func editsOfContents(c *Contents) ([]edit, error) {
	if c.Instance == "" {
		return nil, errors.New("the contents have no instance id")
	}
	var edits []edit
	for _, p := range c.Pods {
		e, err := podEdit(p)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
	}
	index, last := uint32(0), uint64(0)
	for _, tomb := range c.Tombstones {
		switch {
		case tomb.Removed < last:
			return nil, fmt.Errorf("the tombstones aren't in order of removal: %d comes after %d", tomb.Removed, last)
		case tomb.Removed > last:
			index, last = 0, tomb.Removed
		}
		edits = append(edits, tombstoneEdit(tomb.Pod, tomb.Removed, index))
		index++
	}
	for name, ready := range c.ReadySources {
		edits = append(edits, sourceEdit(name, ready))
	}
	return edits, nil
}

func podEdit(p *revision.Pod) (edit, error) {
	key := []byte(p.UID())
	payload, err := encodePod(p)
	if err != nil {
		return edit{}, err
	}
	return edit{table: pods, key: key, record: seal(key, payload)}, nil
}

func tombstoneEdit(p *revision.Pod, removed uint64, index uint32) edit {
	key := tombstoneKey(removed, index)
	return edit{table: tombstones, key: key, record: seal(key, encodeTombstone(p))}
}

func sourceEdit(name string, ready uint64) edit {
	key := []byte(name)
	return edit{table: sources, key: key, record: seal(key, encodeSource(ready))}
}

const tombstoneKeySize = 12

// tombstoneKey sorts tombstones in order of removal.
func tombstoneKey(removed uint64, index uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, removed), index)
}

func removalOf(key []byte) uint64 { return binary.BigEndian.Uint64(key) }
