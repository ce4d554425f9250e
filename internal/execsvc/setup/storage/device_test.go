package storage

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// deviceTruth is a truth whose volumes can be devices.
type deviceTruth struct {
	*truth
	err     error
	checked []Publishing
}

// CheckDevice is part of Devices.
func (d *deviceTruth) CheckDevice(p Publishing) error {
	d.checked = append(d.checked, p)
	return d.err
}

// devicePod is a pod whose container has the claims as devices.
func devicePod(uid string, claims ...string) *v1.Pod {
	p := pod(uid, claims...)
	c := &p.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: m.Name, DevicePath: m.MountPath})
	}
	c.VolumeMounts = nil
	return p
}

// TestDevice: a block volume takes the same operations. After a restart, also with the claim unreadable, it is known as a device,
// and the backend checks it before each start of a container.
func TestDevice(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		backend := &deviceTruth{truth: d}
		with := func(c *Config) { c.Backends = map[string]Backend{"b": backend} }
		n := start(t, dir, d, with)
		n.claims.device = true
		p := devicePod("u1", "h")
		n.mustSetUp(p)
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
		n.stop()

		n = start(t, dir, d, with)
		n.claims.err = errors.New("no API server")
		n.mustSetUp(p)
		n.expect()
		devices, err := n.manager.Devices(t.Context(), p, &p.Spec.Containers[0])
		want := dir + "/pods/u1/volumeDevices/kubernetes.io~csi/pv-h"
		if err != nil || len(devices) != 1 || devices[0].HostPath != want {
			t.Errorf("devices %v (%v); want %s", devices, err, want)
		}
		if len(backend.checked) != 1 || backend.checked[0].Dir != want || !backend.checked[0].Device {
			t.Errorf("checked %+v", backend.checked)
		}
		backend.err = errors.New("swapped")
		if devices, err := n.manager.Devices(t.Context(), p, &p.Spec.Containers[0]); !errors.Is(err, backend.err) {
			t.Errorf("devices %v (%v)", devices, err)
		}
		n.mustTearDown("u1")
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestDeviceErrors: the operations of devices have the kubelet's names in errors.
func TestDeviceErrors(t *testing.T) {
	for kind, want := range map[kind]string{
		stage: "MapVolume.SetUpDevice failed for volume \"v\" : no", publish: "MapVolume.MapPodDevice failed for volume \"v\" : no",
		waitAttached: "MapVolume.WaitForAttach failed for volume \"v\" : no", unpublish: "UnmapVolume.UnmapPodDevice failed for volume \"v\" : no",
		unstage: "UnmapDevice.TearDownDevice failed for volume \"v\" : no", dropInUse: "no",
	} {
		if got := explain(operation{kind: kind}, "v", true, errors.New("no")).Error(); got != want {
			t.Errorf("%s: %s; want %s", kind, got, want)
		}
		if got := explain(operation{kind: kind}, "v", false, errors.New("no")).Error(); strings.HasPrefix(got, "Map") {
			t.Errorf("%s of a file system: %s", kind, got)
		}
	}
	s := newState(record.Key{})
	target := record.Target{UID: "u", Plugin: "p", Name: "v"}
	s.setWant(target, want{volume: Volume{Device: true}})
	if !s.isDevice(target) || s.isDevice(record.Target{}) {
		t.Error("a wanted device isn't known as one")
	}
}
