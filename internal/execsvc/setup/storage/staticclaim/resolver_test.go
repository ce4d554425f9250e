package staticclaim

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
)

var errMissing = errors.New("it doesn't exist")

// objects are those of a source, by their names.
type objects struct {
	claims  map[string]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	drivers map[string]*storagev1.CSIDriver
}

func get[T any](from map[string]*T, name string) (*T, error) {
	if o := from[name]; o != nil {
		return o, nil
	}
	return nil, errMissing
}

func (o *objects) Claim(name string) (*v1.PersistentVolumeClaim, error) { return get(o.claims, name) }
func (o *objects) Volume(name string) (*v1.PersistentVolume, error)     { return get(o.volumes, name) }
func (o *objects) Driver(name string) (*storagev1.CSIDriver, error)     { return get(o.drivers, name) }

// node has a Resolver, with what it keeps on disk.
type node struct {
	t    *testing.T
	root string
	*objects
	*Resolver
}

func newNode(t *testing.T) *node {
	n := &node{t: t, root: t.TempDir(), objects: &objects{
		map[string]*v1.PersistentVolumeClaim{}, map[string]*v1.PersistentVolume{}, map[string]*storagev1.CSIDriver{},
	}}
	n.restart()
	return n
}

// restart reads what is on disk.
func (n *node) restart() {
	n.t.Helper()
	bindings, err := Open(filepath.Join(n.root, "bindings"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.Resolver = New(Config{
		Objects: func(*v1.Pod) Objects { return n.objects }, Bindings: bindings, Directories: directory.New(filepath.Join(n.root, "claims")),
		CSI: csivolume.Config{KubeletDir: n.root, Drivers: csi.New(csi.Config{})},
	})
}

// claim has a claim with an access mode, of a PersistentVolume unless that is empty.
func (n *node) claim(name, volume string, mode v1.PersistentVolumeAccessMode) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	c.Spec.AccessModes, c.Spec.VolumeName = []v1.PersistentVolumeAccessMode{mode}, volume
	n.claims[name] = c
	return c
}

// bindings returns the bindings, in no order.
func (n *node) bindings() []Binding { return slices.Collect(maps.Values(n.cfg.Bindings.bound)) }

func (n *node) volume(name, handle string) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: handle}
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	n.volumes[name] = pv
	return pv
}

func (n *node) resolve(claim string) (storage.Volume, error) {
	n.t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "uid"}}
	return n.Resolve(n.t.Context(), pod, &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

// refused fails the test unless the claim's error has the text.
func (n *node) refused(claim, text string) {
	n.t.Helper()
	if _, err := n.resolve(claim); err == nil || !strings.Contains(err.Error(), text) {
		n.t.Errorf("the error of claim %s is %v; want %q", claim, err, text)
	}
}

// TestChangingDirectories: while a process of an earlier podexecd may change the directories, none is bound, created or used.
func TestChangingDirectories(t *testing.T) {
	n := newNode(t)
	n.claim("data", "", v1.ReadWriteOnce)
	changing := errors.New("a process may still change it")
	n.cfg.Changing = func() error { return changing }
	n.refused("data", "may still change it")
	if _, err := os.Stat(filepath.Join(n.root, "claims")); err == nil || len(n.bindings()) != 0 {
		t.Errorf("the directory: %v; bindings are %v", err, n.bindings())
	}
	changing = nil
	c := directory.Claim{Namespace: "default", Name: "data"}
	if n.cfg.Bindings.HasMade(c) {
		t.Error("a claim that isn't bound has a directory")
	}
	if _, err := n.resolve("data"); err != nil || !n.cfg.Bindings.HasMade(c) {
		t.Errorf("afterwards: %v; has a directory: %t", err, n.cfg.Bindings.HasMade(c))
	}
}

// TestDirectoryIsBoundOnce: a claim without a volume gets a directory. It isn't created again after a restart, so that a
// file system that isn't mounted shows.
func TestDirectoryIsBoundOnce(t *testing.T) {
	n := newNode(t)
	n.refused("data", errMissing.Error())
	n.claim("data", "", v1.ReadWriteOnce)
	v, err := n.resolve("data")
	if err != nil || v.Handle != "default/data" || v.Backend != directory.BackendName || !v.Exclusive || v.Attaches || v.Stages {
		t.Fatalf("the volume is %+v, %v", v, err)
	}
	dir := filepath.Join(n.root, "claims", "default", "data")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if _, err := n.resolve("data"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is created again: %v", err)
	}
	n.claim("shared", "", v1.ReadWriteMany)
	if v, err := n.resolve("shared"); err != nil || v.Exclusive {
		t.Errorf("a claim that is ReadWriteMany is %+v, %v", v, err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "default", UID: "reader"}}
	v, err = n.Resolve(t.Context(), pod, &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "shared", ReadOnly: true},
	}})
	if err != nil || !v.ReadOnly {
		t.Errorf("the claim of a pod that only reads is %+v, %v", v, err)
	}
}

// TestBindingIsBeforeTheDirectory: a directory that couldn't be created is created by the next attempt.
func TestBindingIsBeforeTheDirectory(t *testing.T) {
	n := newNode(t)
	n.claim("data", "", v1.ReadWriteOnce)
	blocked := filepath.Join(n.root, "claims")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.refused("data", "--volume-dir")
	if all := n.bindings(); len(all) != 1 || all[0].Made {
		t.Errorf("the bindings are %v", all)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if _, err := n.resolve("data"); err != nil || !n.bindings()[0].Made {
		t.Errorf("it isn't made: %v", err)
	}
}

// TestBindingStays: a claim that means another volume than the one it is bound to is an error, also after a restart and
// after the claim was removed. A binding ends if its file is removed.
func TestBindingStays(t *testing.T) {
	n := newNode(t)
	n.claim("data", "", v1.ReadWriteOnce)
	if _, err := n.resolve("data"); err != nil {
		t.Fatal(err)
	}
	delete(n.claims, "data")
	n.refused("data", errMissing.Error())
	n.restart()
	n.claim("data", "p1", v1.ReadWriteOnce)
	n.volume("p1", "h1")
	n.drivers["d.example.com"] = driver(false)
	n.refused("data", "not found in the list of registered CSI drivers")
	if _, err := n.cfg.Bindings.bind(Binding{Claim: directory.Claim{Namespace: "default", Name: "data"}, Volume: "p1"}); err == nil ||
		!strings.Contains(err.Error(), "is bound to a directory of the node, and its manifest means PersistentVolume p1") {
		t.Errorf("the error is %v", err)
	}
	if err := os.Remove(filepath.Join(n.root, "bindings", fileName(directory.Claim{Namespace: "default", Name: "data"}))); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if all := n.bindings(); len(all) != 0 {
		t.Errorf("the bindings are %v", all)
	}
}

// TestOneClaimForAVolume: a PersistentVolume, and another one with its handle, belong to one claim.
func TestOneClaimForAVolume(t *testing.T) {
	n := newNode(t)
	bind := func(claim, volume, handle string) error {
		_, err := n.cfg.Bindings.bind(Binding{Claim: directory.Claim{Namespace: "default", Name: claim}, Volume: volume, Driver: "d", Handle: handle})
		return err
	}
	if err := errors.Join(bind("a", "p1", "h1"), bind("a", "p1", "h1"), bind("b", "p2", "h2")); err != nil {
		t.Fatal(err)
	}
	for _, of := range [][2]string{{"p1", "h3"}, {"p3", "h1"}} {
		if err := bind("c", of[0], of[1]); err == nil || !strings.Contains(err.Error(), "is bound to claim default/a") {
			t.Errorf("%v: the error is %v", of, err)
		}
	}
}

func driver(attach bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.example.com"}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: &attach, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
	}}
}

// TestFits: a claim that a cluster's controller wouldn't bind isn't bound here, and a volume that must be attached isn't
// used.
func TestFits(t *testing.T) {
	n := newNode(t)
	c, pv := n.claim("data", "p1", v1.ReadWriteOnce), n.volume("p1", "h1")
	n.refused("data", errMissing.Error())
	n.drivers["d.example.com"] = driver(true)
	n.refused("data", "attachRequired: false")
	n.drivers["d.example.com"] = driver(false)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "other"}
	n.refused("data", "is for claim default/other")
	pv.Spec.ClaimRef.Name, pv.Spec.StorageClassName = "data", "fast"
	n.refused("data", "another storageClassName")
	pv.Spec.StorageClassName = ""
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	n.refused("data", "requests 1Gi")
	c.Spec.Resources.Requests = nil
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	n.refused("data", "access mode ReadWriteMany")
	delete(n.volumes, "p1")
	n.refused("data", errMissing.Error())
	if all := n.bindings(); len(all) != 0 {
		t.Errorf("it is bound: %v", all)
	}
}

// TestOwnVolumes: a static pod's own volumes of CSI drivers are refused by their source, also those of in-tree plugins.
func TestOwnVolumes(t *testing.T) {
	n := newNode(t)
	for name, source := range map[string]v1.VolumeSource{
		"csi": {CSI: &v1.CSIVolumeSource{Driver: "d.example.com"}}, "azureDisk": {AzureDisk: &v1.AzureDiskVolumeSource{DataDiskURI: "d"}},
	} {
		_, err := n.Resolve(t.Context(), &v1.Pod{}, &v1.Volume{Name: "v", VolumeSource: source})
		if want := "static pods have no volumes of their own with the source " + name + ", only those of claims"; err == nil || err.Error() != want {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestDamagedBinding: podexecd doesn't start with a binding that it can't read: the claim could get another volume.
func TestDamagedBinding(t *testing.T) {
	n := newNode(t)
	n.claim("data", "", v1.ReadWriteOnce)
	if _, err := n.resolve("data"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(n.root, "bindings", fileName(directory.Claim{Namespace: "default", Name: "data"}))
	for _, content := range []string{"", `{"version":1}`, `{"version":2,"claim":{"Namespace":"default","Name":"data"}}`} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(filepath.Join(n.root, "bindings")); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("with %q the error is %v", content, err)
		}
	}
}
