package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/intree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/iscsi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/local"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/nfs"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

var _ storage.Claims = (*Resolver)(nil)

// CSI resolves the volumes of CSI drivers.
type CSI interface {
	storage.Claims
	// Persistent returns the volume of a claim that is bound to the PersistentVolume, or of a pod's own volume that was translated
	// to it.
	Persistent(ctx context.Context, pod *v1.Pod, spec *v1.Volume, pv *v1.PersistentVolume) (storage.Volume, error)
}

// Config configures a Resolver.
type Config struct {
	// KubeletDir is --kubelet-dir.
	KubeletDir string
	CSI        CSI
	// Claims reads the claims of pods. Nil: there is no API server, and a claim is an error.
	Claims csivolume.Claims
	// Attaches is set if the attach-detach controller attaches the volumes of this node. It keeps a PersistentVolume that is
	// ReadWriteOnce from being used on two nodes.
	Attaches bool
	// Labels returns the labels of the Node, which aren't changed; false if they aren't known yet. It is needed with Claims.
	Labels func() (map[string]string, bool)
}

// Resolver makes the storage.Volume of a pod's volume. It is safe for concurrent use.
type Resolver struct{ cfg Config }

// New returns a Resolver.
func New(cfg Config) *Resolver { return &Resolver{cfg} }

var (
	// errNoLabels is the error of a claim while the Node isn't known.
	errNoLabels = errors.New("the labels of this node aren't known yet")
	// errAffinity is upstream's error of a PersistentVolume of other nodes.
	errAffinity = errors.New("no matching NodeSelectorTerms")
)

// Resolve is part of storage.Claims.
func (r *Resolver) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	switch {
	case spec.NFS != nil:
		return nfs.Inline(pod, spec)
	case spec.ISCSI != nil:
		v, err := iscsi.Inline(r.cfg.KubeletDir, pod, spec)
		return r.attached(pod, v, iscsi.UniqueName(spec.ISCSI.TargetPortal, spec.ISCSI.IQN, spec.ISCSI.Lun)), err
	case criconfig.IsMigrated(&spec.VolumeSource):
		pv, err := intree.Inline(spec, pod.Namespace)
		if err != nil {
			return storage.Volume{}, err
		}
		return r.cfg.CSI.Persistent(ctx, pod, spec, pv)
	case spec.CSI != nil || r.cfg.Claims == nil:
		return r.cfg.CSI.Resolve(ctx, pod, spec)
	}
	_, pv, err := r.cfg.Claims.Claim(ctx, pod, spec)
	if err != nil {
		return storage.Volume{}, err
	}
	// This is before the check: the translated nodeAffinity has the labels of the driver, as in the kubelet.
	if pv, err = intree.Persistent(pv); err != nil {
		return storage.Volume{}, err
	}
	if err := r.checkAffinity(pv); err != nil {
		return storage.Volume{}, &volume.OperationError{Operation: "MountVolume.NodeAffinity check", Volume: pv.Name, Err: err}
	}
	v, err := r.persistent(ctx, pod, spec, pv)
	v.OncePod = isOncePod(pv)
	v.Exclusive = v.OncePod
	return v, err
}

// isOncePod reports whether one pod at a time may use the PersistentVolume. As with the kubelet, one that has other access modes too may be
// shared: the claim's aren't known to the node.
func isOncePod(pv *v1.PersistentVolume) bool {
	return slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
}

// persistent has the package of its backend make the volume of a PersistentVolume.
func (r *Resolver) persistent(ctx context.Context, pod *v1.Pod, spec *v1.Volume, pv *v1.PersistentVolume) (storage.Volume, error) {
	mode := ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	switch {
	case pv.Spec.ISCSI != nil:
		v, err := iscsi.Persistent(r.cfg.KubeletDir, pod, spec, pv)
		return r.attached(pod, v, iscsi.UniqueName(pv.Spec.ISCSI.TargetPortal, pv.Spec.ISCSI.IQN, pv.Spec.ISCSI.Lun)), err
	case pv.Spec.Local == nil && pv.Spec.NFS == nil:
		return r.cfg.CSI.Persistent(ctx, pod, spec, pv)
	case mode != v1.PersistentVolumeFilesystem && (mode != v1.PersistentVolumeBlock || pv.Spec.Local == nil):
		return storage.Volume{}, fmt.Errorf("volumeMode %s of PersistentVolume %s isn't supported yet", mode, pv.Name)
	case pv.Spec.Local != nil:
		return local.Persistent(r.cfg.KubeletDir, pod, spec, pv)
	default:
		return nfs.Persistent(pod, spec, pv)
	}
}

// attached returns the volume of an in-tree plugin as one that the attach-detach controller attaches, by that name. The volumes of static
// pods don't wait for the API server.
func (r *Resolver) attached(pod *v1.Pod, v storage.Volume, name string) storage.Volume {
	if r.cfg.Attaches && !podmeta.IsStatic(pod) {
		v.Attaches, v.UniqueName = true, name
	}
	return v
}

// checkAffinity returns an error if the PersistentVolume can't be used on this node.
func (r *Resolver) checkAffinity(pv *v1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	labels, known := r.cfg.Labels()
	if !known {
		return errNoLabels
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	matches, err := corev1.MatchNodeSelectorTerms(node, pv.Spec.NodeAffinity.Required)
	if err == nil && !matches {
		return errAffinity
	}
	return err
}
