package apiobjects

import (
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// certificates is a text with these, in PEM, and something between them.
func certificates(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		text.WriteString("about " + name + "\n")
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"X": name}, Bytes: []byte(name)}))
	}
	return text.String()
}

// inside are the certificates of a text. There is nothing else in it.
func inside(t *testing.T, text []byte) string {
	t.Helper()
	var names []string
	var again []byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		names = append(names, string(block.Bytes))
		again = append(again, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
	if string(again) != string(text) {
		t.Errorf("it has more than certificates:\n%s", text)
	}
	return strings.Join(names, " ")
}

func newBundleObject(name, signer, text string, labels map[string]string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text},
	}
}

func named(name string) *v1.ClusterTrustBundleProjection {
	return &v1.ClusterTrustBundleProjection{Name: &name, Path: "ca.pem"}
}

func signed(signer string, selector *metav1.LabelSelector) *v1.ClusterTrustBundleProjection {
	return &v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: selector, Path: "ca.pem"}
}

// serve sets the versions of the bundles' API that the API server serves.
func (h *harness) serve(versions ...string) {
	synctest.Wait()
	h.api.Lock()
	defer h.api.Unlock()
	h.api.Resources = nil
	for _, v := range versions {
		h.api.Resources = append(h.api.Resources, &metav1.APIResourceList{
			GroupVersion: "certificates.k8s.io/" + v, APIResources: []metav1.APIResource{{Name: "certificatesigningrequests"}, {Name: "clustertrustbundles"}},
		})
	}
}

func TestTrustBundle(t *testing.T) {
	example := map[string]string{"example": "yes"}
	in(t, func(h *harness) {
		h.serve("v1", "v1beta1")
		pod := podOf("a", "api")
		if _, err := h.TrustBundle(pod, named("roots")); !errors.Is(err, objects.ErrUnknown) {
			t.Errorf("before they were read: %v", err)
		}
		h.run()
		h.wantWoken("a")
		everything := &metav1.LabelSelector{}
		for name, tc := range map[string]struct {
			p          *v1.ClusterTrustBundleProjection
			want, fail string
		}{
			"by name":                   {named("roots"), "a b", ""},
			"by name, missing":          {named("none"), "", `clustertrustbundle.certificates.k8s.io "none" not found`},
			"by signer":                 {signed("example.com/s", everything), "a b c", ""},
			"by signer and label":       {signed("example.com/s", &metav1.LabelSelector{MatchLabels: example}), "b c", ""},
			"by signer, no selector":    {signed("example.com/s", nil), "", "combination of signerName and labelSelector matched zero ClusterTrustBundles"},
			"by signer, of none":        {signed("example.com/none", everything), "", "combination of signerName and labelSelector matched zero"},
			"neither name nor signer":   {&v1.ClusterTrustBundleProjection{}, "", "requires either name or signerName"},
			"a selector that is no one": {signed("s", &metav1.LabelSelector{MatchLabels: map[string]string{"-": "-"}}), "", "labelSelector: "},
		} {
			got, err := h.TrustBundle(pod, tc.p)
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("%s: %v; want %s", name, err, tc.fail)
				}
				if tc.p.Optional = ptr.To(true); !strings.Contains(tc.fail, "either") && tc.fail != "labelSelector: " {
					if got, err := h.TrustBundle(pod, tc.p); got == nil || len(got) > 0 || err != nil {
						t.Errorf("%s, optional: %q, %v", name, got, err)
					}
				}
			} else if names := inside(t, got); err != nil || names != tc.want {
				t.Errorf("%s: %s, %v; want %s", name, names, err, tc.want)
			}
		}
	},
		newBundleObject("roots", "", certificates("b", "a", "b"), nil),
		newBundleObject("s:one", "example.com/s", certificates("c", "b"), example),
		newBundleObject("s:two", "example.com/s", certificates("b", "a"), nil),
		newBundleObject("t:one", "example.com/t", certificates("d"), example))
}

// What comes out is the same when it goes in again, whatever the text was.
func FuzzNormalise(f *testing.F) {
	f.Add([]byte(certificates("b", "a", "b")))
	f.Add([]byte("-----BEGIN X-----\n-----END X-----\n" + certificates("")))
	f.Fuzz(func(t *testing.T, text []byte) {
		once := normalise(text)
		if again := normalise(once); string(again) != string(once) {
			t.Errorf("%q becomes %q", once, again)
		}
		inside(t, once)
	})
}

// A pod that has read a bundle is woken when one changes, once for each read.
func TestTrustBundleChanges(t *testing.T) {
	in(t, func(h *harness) {
		h.serve("v1")
		h.run()
		pod, read := podOf("a", "api"), func() string {
			t.Helper()
			text, err := h.TrustBundle(podOf("a", "api"), named("roots"))
			if err != nil {
				t.Fatal(err)
			}
			return inside(t, text)
		}
		_, _ = h.TrustBundle(pod, named("roots")) // from now on they are followed
		h.wantWoken("a")
		if got := read(); got != "a" {
			t.Errorf("it reads %s", got)
		}
		bundles := h.api.CertificatesV1().ClusterTrustBundles()
		for _, text := range []string{"b", "c"} {
			changed := newBundleObject("roots", "", certificates(text), nil)
			changed.ResourceVersion = text
			must[*certificatesv1.ClusterTrustBundle](t)(bundles.Update(t.Context(), changed, metav1.UpdateOptions{}))
			synctest.Wait()
		}
		h.wantWoken("a")
		if got := read(); got != "c" {
			t.Errorf("after a change it reads %s", got)
		}
		h.Drop("a")
		if err := bundles.Delete(t.Context(), "roots", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		h.wantWoken()
	}, newBundleObject("roots", "", certificates("a"), nil))
}

// Bundles aren't read before a pod uses one. If the server doesn't serve them, that is the error until it does: here
// in an older version of the API.
func TestTrustBundlesUnserved(t *testing.T) {
	beta := &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "roots"}, Spec: certificatesv1beta1.ClusterTrustBundleSpec{TrustBundle: certificates("a")},
	}
	in(t, func(h *harness) {
		h.serve()
		h.run()
		time.Sleep(time.Hour)
		for _, action := range h.api.Actions() {
			if r := action.GetResource().Resource; r != "services" && r != "runtimeclasses" {
				t.Errorf("it asks for %s", r)
			}
		}
		pod := podOf("a", "api")
		_, _ = h.TrustBundle(pod, named("roots"))
		synctest.Wait()
		_, err := h.TrustBundle(pod, named("roots"))
		if err == nil || errors.Is(err, objects.ErrUnknown) || !strings.Contains(err.Error(), "the API server doesn't have them") {
			t.Errorf("from a server without bundles: %v", err)
		}
		time.Sleep(time.Hour)
		if lines := h.lines(); len(lines) != 1 || !strings.Contains(lines[0], "ClusterTrustBundles") {
			t.Errorf("the log is %q", lines)
		}
		h.serve("v1beta1")
		time.Sleep(2 * unservedPause)
		h.wantWoken("a")
		if text, err := h.TrustBundle(pod, named("roots")); err != nil || inside(t, text) != "a" {
			t.Errorf("from a server with bundles: %s, %v", text, err)
		}
		if lines := h.lines(); len(lines) != 1 || !strings.Contains(lines[0], "again") {
			t.Errorf("the log is %q", lines)
		}
	}, runtime.Object(beta))
}
