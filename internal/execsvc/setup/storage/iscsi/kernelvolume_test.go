//go:build iscsiguest

package iscsi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/iscsi"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// volume is a volume for one pod.
type volume struct {
	n       *node
	stage   storage.Staging
	publish storage.Publishing
	ended   bool
}

// readOnly is the annotation of a PersistentVolume whose claims are read-only.
const readOnly = "read-only"

// pv returns a PersistentVolume of a LUN.
func pv(name string, g *target, lun int32) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.ISCSI = &v1.ISCSIPersistentVolumeSource{TargetPortal: g.portals[0], IQN: g.iqn, Lun: lun}
	return v
}

// volume returns the calls' arguments for a pod with a claim. At the test's end it is unpublished and unstaged.
func (n *node) volume(uid types.UID, v *v1.PersistentVolume) *volume {
	n.t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid}}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4711)}
	resolved, err := iscsi.Persistent(n.kubelet, pod, &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: metav1.HasAnnotation(v.ObjectMeta, readOnly)},
	}}, v)
	must(n.t, err)
	return n.of(uid, resolved)
}

// of returns the calls' arguments of a volume for a pod.
func (n *node) of(uid types.UID, resolved storage.Volume) *volume {
	n.t.Helper()
	dir := filepath.Join(kubeletdir.PodsDir(n.kubelet), string(uid))
	must(n.t, os.MkdirAll(dir, 0o750))
	kind := "volumes"
	if resolved.Device {
		kind = "volumeDevices"
	}
	staging := storage.Staging{Key: resolved.Key, Args: resolved.StageArgs}
	vol := &volume{n: n, stage: staging, publish: storage.Publishing{
		Staging: staging, Staged: true, UID: uid, Plugin: resolved.Plugin, Name: resolved.Name, ReadOnly: resolved.ReadOnly,
		Device: resolved.Device, Args: resolved.PublishArgs, Dir: filepath.Join(dir, kind, "kubernetes.io~iscsi", resolved.Name),
	}}
	n.t.Cleanup(func() {
		if n.t.Failed() && !n.reported {
			n.report()
		}
		if !vol.ended {
			check(n.t, vol.down())
		}
	})
	return vol
}

// limited returns the context of a call.
func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Minute)
}

// up stages and publishes the volume.
func (v *volume) up() error {
	ctx, cancel := limited()
	defer cancel()
	if err := v.n.Stage(ctx, v.stage); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	if err := v.n.Publish(ctx, v.publish); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// down unpublishes and unstages it.
func (v *volume) down() error {
	ctx, cancel := limited()
	defer cancel()
	if err := v.n.Unpublish(ctx, v.publish); err != nil {
		return fmt.Errorf("unpublish: %w", err)
	}
	if err := v.n.Unstage(ctx, v.stage); err != nil {
		return fmt.Errorf("unstage: %w", err)
	}
	v.ended = true
	return nil
}

// write writes a file of the volume, to the disk.
func (v *volume) write(name, text string) {
	v.n.t.Helper()
	f, err := os.Create(filepath.Join(v.publish.Dir, name))
	must(v.n.t, err)
	_, err = f.WriteString(text)
	must(v.n.t, errors.Join(err, f.Sync(), f.Close()))
}

// has fails the test if a file of the volume hasn't the text.
func (v *volume) has(name, text string) {
	v.n.t.Helper()
	if data, err := os.ReadFile(filepath.Join(v.publish.Dir, name)); err != nil || string(data) != text {
		v.n.t.Errorf("%s has %q: %v", name, data, err)
	}
}

// disks returns the kernel's SCSI disks.
func disks(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/sys/class/block/sd*")
	must(t, err)
	return found
}

// eventually repeats a call, as package storage does, until it succeeds.
func eventually(t *testing.T, limit time.Duration, call func() error) {
	t.Helper()
	begin, last := time.Now(), ""
	for {
		err := call()
		if err == nil {
			return
		}
		if time.Since(begin) > limit {
			t.Fatal(err)
		}
		if text := strings.Map(notDigit, err.Error()); text != last {
			last = text
			t.Logf("after %s: %v", time.Since(begin), err)
		}
		time.Sleep(time.Second) // The next attempt.
	}
}

// notDigit removes digits: errors that differ in a time only are the same.
func notDigit(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

// disk0 returns the device of the only SCSI disk.
func disk0(t *testing.T) string {
	t.Helper()
	found := disks(t)
	if len(found) != 1 {
		t.Fatalf("the disks are %v", found)
	}
	return filepath.Join("/dev", filepath.Base(found[0]))
}

func sum(t *testing.T, file string) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return sha256.Sum256(data)
}
