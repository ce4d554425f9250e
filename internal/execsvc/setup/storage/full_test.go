package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
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

// TestFullOfNames: a record with many names gets no more of them, and its pods end as ever.
func TestFullOfNames(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		n.stop()
		records, err := record.Open(filepath.Join(dir, "volumes"), "agent")
		if err != nil {
			t.Fatal(err)
		}
		volumes, _, err := records.Load(t.Context())
		if err != nil || len(volumes) != 1 {
			t.Fatalf("%d records, %v", len(volumes), err)
		}
		v := &volumes[0]
		for size := 0; size < maxNames-100; size += 66 {
			v.Publications[0].Volumes = append(v.Publications[0].Volumes, fmt.Sprintf("z%062d", size))
		}
		if err := records.Write(v); err != nil {
			t.Fatal(err)
		}

		n = start(t, dir, d, nil)
		p := pod("u1", "h")
		n.mustSetUp(p)
		for i := range 3 {
			more := p.Spec.Volumes[0]
			more.Name = fmt.Sprintf("more%d%s", i, strings.Repeat("m", 55))
			p.Spec.Volumes = append(p.Spec.Volumes, more)
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: more.Name, MountPath: "/" + more.Name})
		}
		if err := n.setUp(p); err == nil || !strings.Contains(err.Error(), record.ErrFull.Error()) {
			t.Errorf("more names: %v; want %v", err, record.ErrFull)
		}
		n.mustTearDown("u1")
		n.empty()
	})
}
