package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// The fields of a pod's record. A tombstone has its reference instead of origin and object.
const (
	podSource protowire.Number = iota + 1
	podOrigin
	podSpecDigest
	podStatusDigest
	podCreated
	podSpecChanged
	podStatusChanged
	podObject
	podUID
	podNamespace
	podName
	podNode
)

// The fields of the head's record.
const (
	headInstance protowire.Number = iota + 1
	headNumber
	headHorizon
	headRecords
	headTombstones
	headSum
	headPositions
)

// sourceReady is the field of a source's record.
const sourceReady protowire.Number = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumSize = 4

// seal puts the checksum before the payload.
func seal(key, payload []byte) []byte {
	record := make([]byte, sumSize, sumSize+len(payload))
	binary.BigEndian.PutUint32(record, checksum(key, payload))
	return append(record, payload...)
}

// unseal returns a record's payload, which shares its memory, and its checksum.
func unseal(key, record []byte) (payload []byte, sum uint32, err error) {
	if len(record) < sumSize {
		return nil, 0, fmt.Errorf("%w: the record of %q has %d bytes", ErrDamaged, key, len(record))
	}
	sum, payload = sumOf(record), record[sumSize:]
	if sum != checksum(key, payload) {
		return nil, 0, fmt.Errorf("%w: the checksum of the record of %q is wrong", ErrDamaged, key)
	}
	return payload, sum, nil
}

// sumOf returns the checksum of a sealed record.
func sumOf(record []byte) uint32 { return binary.BigEndian.Uint32(record) }

func checksum(key, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)
}

func encodePod(p *revision.Pod) ([]byte, error) {
	object, err := p.Object.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode pod %s: %w", p, err)
	}
	b := appendText(nil, podSource, p.Source)
	b = appendText(b, podOrigin, p.Origin)
	b = appendVersion(b, p)
	return protowire.AppendBytes(protowire.AppendTag(b, podObject, protowire.BytesType), object), nil
}

func encodeTombstone(p *revision.Pod) []byte {
	b := appendText(nil, podSource, p.Source)
	b = appendVersion(b, p)
	b = appendText(b, podUID, string(p.Object.UID))
	b = appendText(b, podNamespace, p.Object.Namespace)
	b = appendText(b, podName, p.Object.Name)
	return appendText(b, podNode, p.Object.Spec.NodeName)
}

// appendVersion appends the fields that distinguish a pod's versions.
func appendVersion(b []byte, p *revision.Pod) []byte {
	b = appendText(b, podSpecDigest, p.SpecDigest)
	b = appendText(b, podStatusDigest, p.StatusDigest)
	b = appendNumber(b, podCreated, p.Created)
	b = appendNumber(b, podSpecChanged, p.SpecChanged)
	return appendNumber(b, podStatusChanged, p.StatusChanged)
}

func decodePod(uid string, payload []byte) (*revision.Pod, error) {
	p, object, err := decodeFields(payload)
	if err == nil {
		// Unmarshal copies: no reference to the file's mapping is kept.
		p.Object = &v1.Pod{}
		err = p.Object.Unmarshal(object)
	}
	if err == nil && string(p.Object.UID) != uid {
		err = fmt.Errorf("it holds the pod %s with uid %q", p, p.Object.UID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the record of the pod with uid %q can't be read: %w", ErrDamaged, uid, err)
	}
	p.Stale = true
	return p, nil
}

func decodeTombstone(key, payload []byte) (history.Tombstone, error) {
	p, _, err := decodeFields(payload)
	if err == nil && len(key) != tombstoneKeySize {
		err = errors.New("its key isn't one of a tombstone")
	}
	if err != nil {
		return history.Tombstone{}, fmt.Errorf("%w: the tombstone %x can't be read: %w", ErrDamaged, key, err)
	}
	return history.Tombstone{Pod: p, Removed: removalOf(key)}, nil
}

// decodeFields reads the fields of a pod or a tombstone. The object's bytes share the payload's memory.
func decodeFields(payload []byte) (p *revision.Pod, object []byte, err error) {
	p = &revision.Pod{}
	var meta metav1.ObjectMeta
	var node string
	err = eachField(payload, func(field protowire.Number, number uint64, bytes []byte) {
		switch field {
		case podSource:
			p.Source = string(bytes)
		case podOrigin:
			p.Origin = string(bytes)
		case podSpecDigest:
			p.SpecDigest = string(bytes)
		case podStatusDigest:
			p.StatusDigest = string(bytes)
		case podCreated:
			p.Created = number
		case podSpecChanged:
			p.SpecChanged = number
		case podStatusChanged:
			p.StatusChanged = number
		case podObject:
			object = bytes
		case podUID:
			meta.UID = types.UID(bytes)
		case podNamespace:
			meta.Namespace = string(bytes)
		case podName:
			meta.Name = string(bytes)
		case podNode:
			node = string(bytes)
		}
	})
	p.Object = &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{NodeName: node}}
	return p, object, err
}

func encodeSource(ready uint64) []byte { return appendNumber(nil, sourceReady, ready) }

func decodeSource(name string, payload []byte) (ready uint64, err error) {
	err = eachField(payload, func(field protowire.Number, number uint64, _ []byte) {
		if field == sourceReady {
			ready = number
		}
	})
	if err != nil {
		return 0, fmt.Errorf("%w: the record of source %q can't be read: %w", ErrDamaged, name, err)
	}
	return ready, nil
}

func encodeHead(h head) []byte {
	b := appendText(nil, headInstance, h.instance)
	b = appendNumber(b, headNumber, h.number)
	b = appendNumber(b, headHorizon, h.horizon)
	b = appendNumber(b, headRecords, h.records)
	b = appendNumber(b, headTombstones, h.tombstones)
	b = appendNumber(b, headSum, h.sum)
	return appendText(b, headPositions, h.positions)
}

func decodeHead(payload []byte) (h head, err error) {
	err = eachField(payload, func(field protowire.Number, number uint64, bytes []byte) {
		switch field {
		case headInstance:
			h.instance = string(bytes)
		case headNumber:
			h.number = number
		case headHorizon:
			h.horizon = number
		case headRecords:
			h.records = number
		case headTombstones:
			h.tombstones = number
		case headSum:
			h.sum = number
		case headPositions:
			h.positions = string(bytes)
		}
	})
	if err != nil {
		return head{}, fmt.Errorf("%w: the head can't be read: %w", ErrDamaged, err)
	}
	return h, nil
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// eachField calls f with each number or bytes field of a message, and skips others.
func eachField(b []byte, f func(field protowire.Number, number uint64, bytes []byte)) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var number uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f(field, number, bytes)
	}
	return nil
}
