package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// TestFullRecord: a volume whose record has no room for another pod isn't published for it, and its pods end as ever.
func TestFullRecord(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		n.stop()
		// The same volume, as it is with many pods.
		path := filepath.Join(dir, "volumes")
		records, err := record.Open(path, "agent")
		if err != nil {
			t.Fatal(err)
		}
		volumes, _, err := records.Load(t.Context())
		if err != nil || len(volumes) != 1 {
			t.Fatalf("%d records, %v", len(volumes), err)
		}
		v := &volumes[0]
		one := v.Publications[0]
		for i := range 34 { // Each < has six bytes in the file.
			p := one
			p.UID, p.Args = types.UID(fmt.Sprint("many", i)), strings.Repeat("<", maxArgs)
			p.Dir = strings.ReplaceAll(one.Dir, "u1", string(p.UID))
			v.Publications = append(v.Publications, p)
		}
		if err := records.WriteGrown(v); !errors.Is(err, record.ErrFull) {
			t.Fatalf("the record isn't full: %v", err)
		}
		if err := records.Write(v); err != nil {
			t.Fatal(err)
		}

		d.called()
		n = start(t, dir, d, nil)
		if err := n.setUp(pod("u2", "h")); err == nil || !strings.Contains(err.Error(), record.ErrFull.Error()) {
			t.Errorf("another pod: %v; want %v", err, record.ErrFull)
		}
		n.expect()
		n.mustTearDown("u1")
		n.mustTearDown("u2")
		n.expect("unpublish h u1")
	})
}
