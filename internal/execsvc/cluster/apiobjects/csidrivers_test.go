package apiobjects

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// following replaces the Cluster by one that follows CSIDrivers too.
func (h *harness) following(dir string) {
	cfg := h.config(dir, here)
	cfg.CSIDrivers = ResourceOf(h.api.StorageV1().CSIDrivers())
	h.Cluster = New(cfg)
}

// fullDriver has a value in each field.
func fullDriver(name string) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Annotations: map[string]string{"a": "large"}},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: ptr.To(false), PodInfoOnMount: ptr.To(true), StorageCapacity: ptr.To(true), PreventPodSchedulingIfMissing: ptr.To(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
			FSGroupPolicy:        ptr.To(storagev1.FileFSGroupPolicy), RequiresRepublish: ptr.To(true), SELinuxMount: ptr.To(true),
			TokenRequests:                      []storagev1.TokenRequest{{Audience: "vault", ExpirationSeconds: ptr.To(int64(600))}},
			NodeAllocatableUpdatePeriodSeconds: ptr.To(int64(60)), ServiceAccountTokenInSecrets: ptr.To(true),
		},
	}
}

// wantDriver checks what is known of a driver: "unknown", "none", or "found".
func (h *harness) wantDriver(pod types.UID, name, want string) storagev1.CSIDriverSpec {
	h.t.Helper()
	spec, found, err := h.CSIDriver(pod, name)
	got := "none"
	switch {
	case errors.Is(err, objects.ErrUnknown):
		got = "unknown"
	case err != nil:
		got = err.Error()
	case found:
		got = "found"
	}
	if got != want {
		h.t.Errorf("driver %s is %s (%v); want %s", name, got, err, want)
	}
	return spec
}

// TestCSIDriver: a driver is unknown until CSIDrivers are read. A pod that has used one is woken by a change, and a reader
// without a pod by the channel.
func TestCSIDriver(t *testing.T) {
	in(t, func(h *harness) {
		h.following("")
		h.wantDriver("a", "d.example.com", "unknown")
		h.wantDriver("gone", "d.example.com", "unknown")
		h.wantDriver("", "d.example.com", "unknown")
		h.Drop("gone")
		changed := h.CSIDriversChanged()
		h.run()
		h.wantWoken("a")
		<-changed
		spec := h.wantDriver("a", "d.example.com", "found")
		want := fullDriver("").Spec
		// These are the scheduler's.
		want.StorageCapacity, want.PreventPodSchedulingIfMissing = nil, nil
		if !reflect.DeepEqual(spec, want) {
			t.Errorf("the spec is %+v; want %+v", spec, want)
		}
		h.wantDriver("b", "e.example.com", "none")
		changed = h.CSIDriversChanged()
		must[*storagev1.CSIDriver](t)(h.api.StorageV1().CSIDrivers().Create(t.Context(), fullDriver("e.example.com"), metav1.CreateOptions{}))
		h.wantWoken("a", "b")
		<-changed
		h.wantDriver("b", "e.example.com", "found")
		if err := h.api.StorageV1().CSIDrivers().Delete(t.Context(), "e.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		h.wantWoken("b")
		h.wantDriver("b", "e.example.com", "none")
	}, fullDriver("d.example.com"))
}

// TestCSIDriverOffline: stored CSIDrivers are used while the API server is away. One that isn't among them is unknown, and
// doesn't count as missing: it may have been created since.
func TestCSIDriverOffline(t *testing.T) {
	in(t, func(h *harness) {
		dir := t.TempDir()
		h.following(dir)
		h.run()()
		var d document
		var stored []csiDriver
		data := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "csidrivers.json")))
		if err := errors.Join(json.Unmarshal(data, &d), json.Unmarshal(d.Objects, &stored)); err != nil || len(stored) != 1 {
			t.Fatalf("stored are %q: %v", data, err)
		}
		h.goAway(errRefused)
		h.following(dir)
		h.run()
		time.Sleep(2 * patience)
		synctest.Wait()
		if spec := h.wantDriver("a", "d.example.com", "found"); !reflect.DeepEqual(spec, stored[0].Spec) || *spec.FSGroupPolicy != storagev1.FileFSGroupPolicy {
			t.Errorf("the spec is %+v; want %+v", spec, stored[0].Spec)
		}
		h.wantDriver("b", "e.example.com", "unknown")
	}, fullDriver("d.example.com"))
}

// TestCSIDriverForbidden: the error says why CSIDrivers can't be read.
func TestCSIDriverForbidden(t *testing.T) {
	in(t, func(h *harness) {
		h.following("")
		h.api.PrependReactor("list", "csidrivers", refuse)
		h.run()
		if _, _, err := h.CSIDriver("a", "d.example.com"); !errors.Is(err, objects.ErrUnknown) || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("the error is %v; want the API server's refusal", err)
		}
	}, fullDriver("d.example.com"))
}
