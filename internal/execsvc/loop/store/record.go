package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The records, as JSON.
type (
	podRecord struct {
		Source       string `json:"source"`
		SpecDigest   string `json:"specDigest"`
		StatusDigest string `json:"statusDigest"`
		Object       []byte `json:"object"`
	}
	statusRecord struct {
		Changed  int64          `json:"changed"`
		Status   []byte         `json:"status"`
		Replaced []string       `json:"replaced,omitempty"`
		Restart  *restartRecord `json:"restart,omitempty"`
	}
	endRecord struct {
		Namespace string           `json:"namespace"`
		Name      string           `json:"name"`
		Source    string           `json:"source"`
		Grace     int64            `json:"grace"`
		Deadline  int64            `json:"deadline"`
		Reported  map[string]int64 `json:"told,omitempty"`
		Removed   bool             `json:"removed"`
		Failure   *status.Failure  `json:"failure,omitempty"`
		Object    []byte           `json:"object,omitempty"`
	}
	headRecord struct {
		Format int    `json:"format"`
		Cursor []byte `json:"cursor,omitempty"`
		// Removals are in milliseconds.
		Removals []int64 `json:"removals,omitempty"`
		tally
	}
	allocatedRecord struct {
		// Head is the checksum of the head that it was written with.
		Head uint64 `json:"head"`
		tally
	}
	// tally is the number of records and the sum of their checksums.
	tally struct {
		Records uint64 `json:"records"`
		Sum     uint64 `json:"sum"`
	}
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumSize = 4

// seal returns the record of v: the checksum and its JSON.
func seal(key string, v any) ([]byte, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	record := make([]byte, sumSize, sumSize+len(payload))
	binary.BigEndian.PutUint32(record, checksum(key, payload))
	return append(record, payload...), nil
}

// unseal checks a record, reads it into v, and returns its checksum.
func unseal(key string, record []byte, v any) (sum uint64, err error) {
	if len(record) < sumSize {
		return 0, fmt.Errorf("%w: the record of %q has %d bytes", boltfile.ErrDamaged, key, len(record))
	}
	if checksum(key, record[sumSize:]) != binary.BigEndian.Uint32(record) {
		return 0, fmt.Errorf("%w: the checksum of the record of %q is wrong", boltfile.ErrDamaged, key)
	}
	if err := json.Unmarshal(record[sumSize:], v); err != nil {
		return 0, fmt.Errorf("%w: the record of %q can't be read: %w", boltfile.ErrDamaged, key, err)
	}
	return sumOf(record), nil
}

// sumOf returns the checksum of a sealed record.
func sumOf(record []byte) uint64 { return uint64(binary.BigEndian.Uint32(record)) }

func checksum(key string, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, payload)
}

// encode returns the record of a pod, a status, an end or an allocation.
func encode(uid types.UID, value any) ([]byte, error) {
	var record any
	var err error
	switch v := value.(type) {
	case client.Pod:
		r := podRecord{Source: v.Source, SpecDigest: v.SpecDigest, StatusDigest: v.StatusDigest}
		r.Object, err = v.Object.Marshal()
		record = r
	case Status:
		r := statusRecord{Changed: v.Changed.UnixMilli(), Replaced: v.Replaced, Restart: v.Restart.record()}
		r.Status, err = v.Status.Marshal()
		record = r
	case End:
		r := endRecord{
			Namespace: v.Namespace, Name: v.Name, Source: v.Source,
			Grace: v.Grace, Deadline: v.Deadline.UnixMilli(), Reported: millis(v.Stopping), Removed: v.Removed, Failure: v.Failure,
		}
		if v.Object != nil {
			r.Object, err = v.Object.Marshal()
		}
		record = r
	case resize.Allocation:
		record = v
	default:
		err = fmt.Errorf("a %T has no record", value)
	}
	if err != nil {
		return nil, fmt.Errorf("encode the pod with uid %q: %w", uid, err)
	}
	return seal(string(uid), record)
}

// decode reads a record of a table into h.
func (h *held) decode(t table, uid types.UID, record []byte) (sum uint64, err error) {
	switch t {
	case pods:
		var r podRecord
		object := &v1.Pod{}
		if sum, err = unseal(string(uid), record, &r); err == nil {
			err = object.Unmarshal(r.Object)
		}
		h.pods[uid] = client.Pod{
			UID: uid, Namespace: object.Namespace, Name: object.Name, Source: r.Source,
			SpecDigest: r.SpecDigest, StatusDigest: r.StatusDigest, Object: object,
		}
	case statuses:
		var r statusRecord
		st := Status{Status: &v1.PodStatus{}}
		if sum, err = unseal(string(uid), record, &r); err == nil {
			err = st.Status.Unmarshal(r.Status)
		}
		st.Changed, st.Replaced, st.Restart = time.UnixMilli(r.Changed), r.Replaced, r.Restart.restart()
		h.statuses[uid] = st
	case ends:
		var r endRecord
		var object *v1.Pod
		if sum, err = unseal(string(uid), record, &r); err == nil && r.Object != nil {
			object = &v1.Pod{}
			err = object.Unmarshal(r.Object)
		}
		h.ends[uid] = End{
			UID: uid, Namespace: r.Namespace, Name: r.Name, Source: r.Source, Grace: r.Grace, Deadline: time.UnixMilli(r.Deadline),
			Stopping: times(r.Reported), Removed: r.Removed, Failure: r.Failure, Object: object,
		}
	default:
		var allocation resize.Allocation
		sum, err = unseal(string(uid), record, &allocation)
		h.allocations[uid] = allocation
	}
	if err != nil && !errors.Is(err, boltfile.ErrDamaged) {
		err = fmt.Errorf("%w: the record of the pod with uid %q in %s can't be read: %w", boltfile.ErrDamaged, uid, t.bucket(), err)
	}
	return sum, err
}

func encodeCursor(cursor *podconfigv1.Cursor) ([]byte, error) {
	if cursor == nil {
		return nil, nil
	}
	return proto.Marshal(cursor)
}

func decodeCursor(b []byte) (*podconfigv1.Cursor, error) {
	if b == nil {
		return nil, nil
	}
	cursor := &podconfigv1.Cursor{}
	if err := proto.Unmarshal(b, cursor); err != nil {
		return nil, fmt.Errorf("%w: the cursor can't be read: %w", boltfile.ErrDamaged, err)
	}
	return cursor, nil
}
