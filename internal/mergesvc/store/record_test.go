package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// FuzzRecords: no payload crashes a decoder, and a decoded record is the same after encoding and decoding.
func FuzzRecords(f *testing.F) {
	f.Add(encodeHead(head{instance: "i", number: 1, horizon: 2, records: 3, tombstones: 4, sum: 5}))
	f.Add(encodeSource(7))
	f.Add([]byte{0x0A, 0xFF})
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, _ = decodePod("u", payload)
		_, _ = decodeSource("file", payload)
		if tomb, err := decodeTombstone(tombstoneKey(5, 6), payload); err == nil {
			again, err := decodeTombstone(tombstoneKey(5, 6), encodeTombstone(tomb.Pod))
			if err != nil || !bytes.Equal(encodeTombstone(again.Pod), encodeTombstone(tomb.Pod)) || again.Removed != 5 {
				t.Errorf("the tombstone %v becomes %v, %v", tomb, again, err)
			}
		}
		if h, err := decodeHead(payload); err == nil {
			if again, err := decodeHead(encodeHead(h)); err != nil || again != h {
				t.Errorf("the head %v becomes %v, %v", h, again, err)
			}
		}
	})
}

// TestUnsealFindsEveryFlippedBit: in the record and in its key.
func TestUnsealFindsEveryFlippedBit(t *testing.T) {
	key, payload := []byte("uid"), []byte("some payload")
	record := seal(key, payload)
	if got, _, err := unseal(key, record); err != nil || !bytes.Equal(got, payload) {
		t.Fatalf("unseal gives %q, %v; want %q", got, err, payload)
	}
	for _, b := range [][]byte{key, record} {
		for i := range 8 * len(b) {
			b[i/8] ^= 1 << (i % 8)
			if _, _, err := unseal(key, record); err == nil {
				t.Errorf("bit %d of %q is wrong, and unseal doesn't see it", i, b)
			}
			b[i/8] ^= 1 << (i % 8)
		}
	}
	for n := range record {
		if _, _, err := unseal(key, record[:n]); err == nil {
			t.Errorf("only %d bytes of the record are left, and unseal doesn't see it", n)
		}
	}
}

// TestDecodeForeignPod: a pod under another pod's key is rejected.
func TestDecodeForeignPod(t *testing.T) {
	payload, err := encodePod(&revision.Pod{Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "web"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodePod("u", payload); err != nil {
		t.Errorf("decodePod: %v; want the pod", err)
	}
	if p, err := decodePod("other", payload); !errors.Is(err, ErrDamaged) {
		t.Errorf("decodePod under another uid: %v, %v; want ErrDamaged", p, err)
	}
}

// TestTombstoneRecord: a tombstone has all fields that decide which consumers receive the removal, including
// the node.
func TestTombstoneRecord(t *testing.T) {
	want := history.Tombstone{Removed: 5, Pod: &revision.Pod{
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "kube", Name: "web"}, Spec: v1.PodSpec{NodeName: "n1"}},
		Source: "api", SpecDigest: "spec", StatusDigest: "status", Created: 2, SpecChanged: 3, StatusChanged: 4,
	}}
	got, err := decodeTombstone(tombstoneKey(5, 6), encodeTombstone(want.Pod))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(revision.Pod{})); diff != "" {
		t.Errorf("the tombstone that is read again (-want +got):\n%s", diff)
	}
}
