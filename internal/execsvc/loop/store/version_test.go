package store_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.etcd.io/bbolt"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

// head is the head record of a version without allocations.
type head struct {
	Format  int    `json:"format"`
	Cursor  []byte `json:"cursor,omitempty"`
	Records uint64 `json:"records"`
	Sum     uint64 `json:"sum"`
}

// readAsBefore reads a store like such a version.
func readAsBefore(tx *bbolt.Tx) (h head, err error) {
	if err := json.Unmarshal(tx.Bucket([]byte("head")).Get([]byte("head"))[4:], &h); err != nil {
		return h, err
	}
	var records, sum uint64
	for _, table := range []string{"pods", "statuses", "ends"} {
		b := tx.Bucket([]byte(table))
		if b == nil {
			return h, errors.New("no bucket " + table)
		}
		if err := b.ForEach(func(_, record []byte) error {
			records++
			sum += uint64(binary.BigEndian.Uint32(record))
			return nil
		}); err != nil {
			return h, err
		}
	}
	if h.Format != 1 || records != h.Records || sum != h.Sum {
		return h, fmt.Errorf("%d records that add up to %x; the head is %+v", records, sum, h)
	}
	return h, nil
}

// writeAsBefore deletes a pod's status like such a version.
func writeAsBefore(tx *bbolt.Tx, uid string) error {
	h, err := readAsBefore(tx)
	if err != nil {
		return err
	}
	b := tx.Bucket([]byte("statuses"))
	h.Records--
	h.Sum -= uint64(binary.BigEndian.Uint32(b.Get([]byte(uid))))
	payload, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return errors.Join(b.Delete([]byte(uid)), tx.Bucket([]byte("head")).Put([]byte("head"), sealed("head", string(payload))))
}

// TestOtherVersion: a version without allocations reads and writes the store, and this version reads it again. Only
// the allocations are lost, because they may be outdated.
func TestOtherVersion(t *testing.T) {
	for what, tt := range map[string]struct {
		before          func(tx *bbolt.Tx) error
		wantAllocations int
	}{
		"has read it":    {func(tx *bbolt.Tx) error { _, err := readAsBefore(tx); return err }, 2},
		"has written it": {func(tx *bbolt.Tx) error { return writeAsBefore(tx, "gone") }, 0},
		"has made it": {func(tx *bbolt.Tx) error {
			return errors.Join(tx.DeleteBucket([]byte("allocations")), tx.Bucket([]byte("head")).Delete([]byte("allocations")), writeAsBefore(tx, "gone"))
		}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSetting(t)
			st, _, stop := s.open(t)
			st.Apply(event(1, change(client.Add, newPod("a", "file", 1))))
			st.SetStatus("gone", podStatus(v1.PodFailed, ""), s.clock.Now())
			one, two := allocation(1), allocation(2)
			st.SetAllocation("a", &one)
			st.SetAllocation("b", &two)
			// A field that such a version doesn't have.
			if err := st.SetReplaced(t.Context(), "gone", []string{"c"}); err != nil {
				t.Fatal(err)
			}
			if err := st.SetEnd(t.Context(), "b", store.End{Name: "b", Grace: 7}); err != nil {
				t.Fatal(err)
			}
			stop()
			file, err := os.ReadFile(s.cfg.Path)
			if err == nil {
				err = os.WriteFile(s.cfg.Path, edited(t, file, tt.before), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			st, state, stop := s.open(t)
			if len(state.Pods) != 1 || state.Ends["b"].Grace != 7 || len(state.Allocations) != tt.wantAllocations {
				t.Errorf("the state is %+v; want the pod, the end, and %d allocations", state, tt.wantAllocations)
			}
			three := allocation(3)
			st.SetAllocation("a", &three)
			stop()
			again := s.state(t)
			if again.Allocations["a"].Generation != 3 || len(again.Allocations) != max(tt.wantAllocations, 1) || again.Ends["b"].Grace != 7 {
				t.Errorf("later the state is %+v; want the end, and the last allocations", again)
			}
			if names := s.beside(t); len(names) > 0 {
				t.Errorf("beside the store there are %v", names)
			}
		})
	}
}
