package apiobjects

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
)

// bundle is a ClusterTrustBundle.
type bundle struct {
	name, signer string
	labels       labels.Set
	// anchors are its certificates, as normalise returns them.
	anchors []byte
}

// bundlesUnreadError is an objects.ErrUnknown: usually the bundles are read a moment later.
type bundlesUnreadError struct{}

func (bundlesUnreadError) Error() string {
	return "ClusterTrustBundles have not yet been read at least once"
}

// Is implements errors.Is.
func (bundlesUnreadError) Is(target error) bool { return target == objects.ErrUnknown }

// findBundles returns the newest version of the bundles' API that the API server has.
func (c *Cluster) findBundles(ctx context.Context) (Resource, error) {
	for _, version := range []struct {
		schema.GroupVersion
		Resource
	}{{certificatesv1.SchemeGroupVersion, c.cfg.TrustBundles}, {certificatesv1beta1.SchemeGroupVersion, c.cfg.BetaTrustBundles}} {
		served, err := c.cfg.Served(ctx, version.GroupVersion)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return Resource{}, fmt.Errorf("ask for the API %s: %w", version.GroupVersion, err)
		}
		if slices.ContainsFunc(served, func(r metav1.APIResource) bool { return r.Name == "clustertrustbundles" }) {
			return version.Resource, nil
		}
	}
	return Resource{}, errUnserved
}

func cutBundle(o runtime.Object) (bundle, bool) {
	switch b := o.(type) {
	case *certificatesv1.ClusterTrustBundle:
		return newBundle(b.ObjectMeta, b.Spec.SignerName, b.Spec.TrustBundle), true
	case *certificatesv1beta1.ClusterTrustBundle:
		return newBundle(b.ObjectMeta, b.Spec.SignerName, b.Spec.TrustBundle), true
	default:
		return bundle{}, false
	}
}

func newBundle(m metav1.ObjectMeta, signer, text string) bundle {
	b := bundle{name: strings.Clone(m.Name), signer: strings.Clone(signer), labels: labels.Set{}, anchors: normalise([]byte(text))}
	for key, value := range m.Labels {
		b.labels[strings.Clone(key)] = strings.Clone(value)
	}
	return b
}

// TrustBundle is part of payload.Bundles. It returns the certificates of the named bundle, or of all bundles of a
// signer that a selector matches, each once. A missing bundle is an error unless it is optional. The pod is woken
// when a bundle changes.
func (c *Cluster) TrustBundle(pod *v1.Pod, p *v1.ClusterTrustBundleProjection) ([]byte, error) {
	match, err := matcher(p)
	if err != nil {
		return nil, err
	}
	c.bundle.Do(func() { close(c.bundled) })
	found, known := c.bundles.find(pod.UID, match)
	switch {
	case known != read && errors.Is(c.bundles.failing(), errUnserved):
		return nil, fmt.Errorf("ClusterTrustBundles can't be read: %w", errUnserved)
	case known != read:
		return nil, bundlesUnreadError{}
	case len(found) > 0:
		return merge(found), nil
	case ptr.Deref(p.Optional, false):
		return []byte{}, nil
	case p.Name != nil:
		return nil, apierrors.NewNotFound(certificatesv1.Resource("clustertrustbundle"), *p.Name)
	default:
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
}

// matcher returns a function that reports whether a projection selects a bundle. A signer without a selector selects
// none.
func matcher(p *v1.ClusterTrustBundleProjection) (func(bundle) bool, error) {
	switch {
	case p.Name != nil:
		return func(b bundle) bool { return b.name == *p.Name }, nil
	case p.SignerName == nil:
		return nil, errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	return func(b bundle) bool { return b.signer == *p.SignerName && selector.Matches(b.labels) }, nil
}

// merge returns the certificates of several bundles.
func merge(found []bundle) []byte {
	if len(found) == 1 {
		return found[0].anchors
	}
	var text []byte
	for _, b := range found {
		text = append(text, b.anchors...)
	}
	return normalise(text)
}

// normalise returns the certificates in a text, each once, with nothing between them, in a fixed order: their order
// in the text has no meaning.
func normalise(text []byte) []byte {
	certificates := map[string]bool{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificates[string(block.Bytes)] = true
	}
	out := []byte{}
	for _, der := range slices.Sorted(maps.Keys(certificates)) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return out
}
