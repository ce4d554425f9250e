package objects

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// claimer returns a pod with claims.
func claimer(name string, claims ...string) *manifest.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Spec: v1.PodSpec{NodeName: "n1"}}
	for _, c := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: c, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: c},
		}})
	}
	return mergetest.Pod(p)
}

// made returns the object of a constructor.
func made(o *manifest.Object, err error) *manifest.Object {
	if err != nil {
		panic(err)
	}
	return o
}

func claimOf(name, volume string) *manifest.Object {
	return made(manifest.NewClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: volume},
	}))
}

func volumeOf(name, driver string) *manifest.Object {
	return made(manifest.NewVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
	}}))
}

func driverOf(name string) *manifest.Object {
	return made(manifest.NewDriver(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// seen returns what a scope sees: the names of objects, with the first letter of their state.
func seen(h *objectHub, s Scope) string {
	var words []string
	for _, item := range h.Current(s).Items {
		words = append(words, fmt.Sprintf("%s:%.1s", item.Ref.ObjectKey, item.State))
	}
	return strings.Join(words, ", ")
}

// TestClaimLeadsToItsVolume: pods refer to the PersistentVolume of their claim and to its CSIDriver, which change with
// the claim, in the revision of the claim.
func TestClaimLeadsToItsVolume(t *testing.T) {
	_, h := newHubs(Config{})
	all := []*manifest.Object{volumeOf("p1", "d1"), volumeOf("p2", "d2"), driverOf("d1"), driverOf("d2"), claimOf("other", "p2")}
	web := []*manifest.Pod{claimer("web", "data", "cache")}
	h.Apply(set("file", web, append(all, claimOf("data", "p1"), claimOf("cache", "p1"))...))
	want := "PersistentVolumeClaim default/cache:p, PersistentVolumeClaim default/data:p, PersistentVolume p1:p, CSIDriver d1:p"
	if got := seen(h, everything()); got != want {
		t.Fatalf("there is %q; want %q", got, want)
	}
	// Another claim still has p1.
	at := h.Number()
	h.Apply(set("file", web, append(all, claimOf("data", "p2"), claimOf("cache", "p1"))...))
	if ops := opsSince(t, h.Hub, at); ops != "put data, put p2, put d2" || h.Number() != at+1 {
		t.Errorf("the ops are %q, in %d revisions", ops, h.Number()-at)
	}
	at = h.Number()
	h.Apply(set("file", web, append(all, claimOf("data", "p2"), claimOf("cache", ""))...))
	if ops := opsSince(t, h.Hub, at); ops != "remove p1, remove d1, put cache" {
		t.Errorf("the ops are %q", ops)
	}
	at = h.Number()
	h.Apply(set("file", web, append(all, claimOf("data", "p3"), claimOf("cache", ""))...))
	if ops := opsSince(t, h.Hub, at); ops != "remove p2, remove d2, put data, missing p3" {
		t.Errorf("the ops are %q", ops)
	}
	at = h.Number()
	h.Apply(set("file", nil))
	if ops := opsSince(t, h.Hub, at); ops != "remove cache, remove data, remove p3" || len(h.pods) > 0 {
		t.Errorf("the ops are %q", ops)
	}
	for _, e := range h.sources["file"].entries {
		if e.live != 0 {
			t.Errorf("%s has %d references without a pod", e.ref, e.live)
		}
	}
}

// TestScopeOfKinds: a reader that doesn't ask for a kind sees nothing of it.
func TestScopeOfKinds(t *testing.T) {
	_, h := newHubs(Config{})
	at := h.Number()
	h.Apply(set("file", []*manifest.Pod{claimer("web", "data"), user("db", "n1", "x", "a")}, claimOf("data", "p1"), secret("a", "1")))
	secrets := Scope{Match: func(*revision.Pod) bool { return true }, Kinds: func(k manifest.ObjectKind) bool { return k == manifest.SecretKind }}
	if got := seen(h, secrets); got != "Secret default/a:p" {
		t.Errorf("there is %q", got)
	}
	d, _, _ := h.NewReader(secrets).Next(at)
	if len(d.Changes) != 1 || d.Changes[0].Ref.Name != "a" {
		t.Errorf("the changes are %v", d.Changes)
	}
}

// TestRelayedClaims: a relay is asked for the claims of its pods, and for what these need, as it reports them. Pods that another podconfigd
// has from an API server have their claims there.
func TestRelayedClaims(t *testing.T) {
	pods := mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "relay:up"}}})
	h := &objectHub{New(Config{History: pods.History()}), pods}
	web, api := claimer("web", "data"), claimer("api", "other")
	web.Pod.Annotations = map[string]string{manifest.RelayPathAnnotation: "mid(2)/relay:up,up(1)/file"}
	api.Pod.Annotations = map[string]string{manifest.RelayPathAnnotation: "up(1)/api"}
	pods.Apply(set("relay:up", []*manifest.Pod{web, api}))
	h.Advance()
	f := &feeder{hub: h.Hub, source: "relay:up"}
	for _, step := range []struct {
		want   string
		report *manifest.Object
	}{
		{"[PersistentVolumeClaim default/data]", claimOf("data", "p1")},
		{"[PersistentVolumeClaim default/data PersistentVolume p1]", volumeOf("p1", "d1")},
		{"[PersistentVolumeClaim default/data PersistentVolume p1 CSIDriver d1]", driverOf("d1")},
	} {
		f.offer()
		f.take()
		if got := fmt.Sprint(f.keys); got != step.want {
			t.Fatalf("wanted are %s; want %s", got, step.want)
		}
		h.Put("relay:up", step.report.Key(), step.report)
	}
	if got, want := seen(h, everything()), "PersistentVolumeClaim default/data:p, PersistentVolume p1:p, CSIDriver d1:p"; got != want {
		t.Errorf("there is %q; want %q", got, want)
	}
}

// TestClaimsOfAnAPIServer: the claims of its pods are no objects here.
func TestClaimsOfAnAPIServer(t *testing.T) {
	_, h := newHubs(Config{})
	h.Apply(set("api", []*manifest.Pod{claimer("web", "data")}))
	if got := seen(h, everything()); got != "" {
		t.Errorf("there is %q", got)
	}
}
