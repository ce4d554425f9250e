package csivolume

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

var _ storage.Claims = (*Resolver)(nil)

// Resolver makes the storage.Volume of a pod's volume. It is safe for concurrent use.
type Resolver struct{ cfg Config }

// NewResolver returns a Resolver.
func NewResolver(cfg Config) *Resolver { return &Resolver{cfg} }

// Resolve is part of storage.Claims.
func (r *Resolver) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	if spec.CSI != nil {
		return r.volume(ctx, inline(pod, spec))
	}
	if r.cfg.Claims == nil {
		return storage.Volume{}, errors.New("this node has no API server, and so no claims")
	}
	_, pv, err := r.cfg.Claims.Claim(ctx, pod, spec)
	if err != nil {
		return storage.Volume{}, err
	}
	return r.Persistent(ctx, pod, spec, pv)
}

// Persistent returns the volume of a pod's volume whose claim is bound to the PersistentVolume, or which was translated to it from
// the pod's own source of an in-tree plugin.
func (r *Resolver) Persistent(ctx context.Context, pod *v1.Pod, spec *v1.Volume, pv *v1.PersistentVolume) (storage.Volume, error) {
	if pv.Spec.CSI == nil {
		name := sourceName(pv)
		return storage.Volume{}, criconfig.NotSupported(name, fmt.Sprintf("the source %s of PersistentVolume %s", name, pv.Name))
	}
	switch mode := ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem); mode {
	case v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock:
	default:
		return storage.Volume{}, fmt.Errorf("volumeMode %s of PersistentVolume %s isn't supported yet", mode, pv.Name)
	}
	return r.volume(ctx, persistent(pod, spec, pv))
}

// source is what a volume's own objects say of it.
type source struct {
	pod  *v1.Pod
	mode storagev1.VolumeLifecycleMode
	// volume is the name of the pod's volume, and name that of the volume's directory.
	volume, name string
	key          record.Key
	readOnly     bool
	block        bool
	fsType       string
	mountOptions []string
	attributes   map[string]string
	// accessModes are nil if there are none.
	accessModes            []v1.PersistentVolumeAccessMode
	stage, publish, expand *secretRef
	// group is that of the PersistentVolume's annotation.
	group *int64
	// migrated is set for a volume of an in-tree plugin that moved to CSI.
	migrated bool
}

func inline(pod *v1.Pod, spec *v1.Volume) source {
	s := source{
		pod: pod, mode: storagev1.VolumeLifecycleEphemeral, volume: spec.Name, name: spec.Name,
		key:      record.Key{Driver: spec.CSI.Driver, Handle: fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(pod.UID)+spec.Name)))},
		readOnly: ptr.Deref(spec.CSI.ReadOnly, false), fsType: ptr.Deref(spec.CSI.FSType, ""), attributes: spec.CSI.VolumeAttributes,
		// An inline volume has none. The kubelet uses this one, also for its group.
		accessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
	}
	if ref := spec.CSI.NodePublishSecretRef; ref != nil {
		s.publish = &secretRef{Namespace: pod.Namespace, Name: ref.Name}
	}
	return s
}

func persistent(pod *v1.Pod, spec *v1.Volume, pv *v1.PersistentVolume) source {
	from := pv.Spec.CSI
	ref := func(r *v1.SecretReference) *secretRef {
		if r == nil {
			return nil
		}
		return &secretRef{r.Namespace, r.Name}
	}
	return source{
		pod: pod, mode: storagev1.VolumeLifecyclePersistent, volume: spec.Name, name: pv.Name,
		block:    ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == v1.PersistentVolumeBlock,
		key:      record.Key{Driver: from.Driver, Handle: from.VolumeHandle},
		readOnly: isReadOnly(spec, from),
		fsType:   from.FSType, mountOptions: pv.Spec.MountOptions, attributes: from.VolumeAttributes, accessModes: pv.Spec.AccessModes,
		stage: ref(from.NodeStageSecretRef), publish: ref(from.NodePublishSecretRef), expand: ref(from.NodeExpandSecretRef),
		group: groupOf(pv), migrated: isMigrated(pv),
	}
}

// gidAnnotation has the group that the processes of pods get with a PersistentVolume.
const gidAnnotation = "pv.beta.kubernetes.io/gid"

// groupOf returns the group of a PersistentVolume's annotation. As with the kubelet, one that isn't a number is ignored; so is
// one that no process can have.
func groupOf(pv *v1.PersistentVolume) *int64 {
	group, err := strconv.ParseInt(pv.Annotations[gidAnnotation], 10, 64)
	if err != nil || len(validation.IsValidGroupID(group)) > 0 {
		return nil
	}
	return &group
}

// volume returns the volume of a source. Errors have the kubelet's texts.
func (r *Resolver) volume(ctx context.Context, s source) (storage.Volume, error) {
	if err := checkDriver(s.key.Driver); err != nil {
		return storage.Volume{}, err
	}
	if s.key.Handle == "" {
		return storage.Volume{}, errors.New("the volume has no volumeHandle")
	}
	spec, known, err := r.cfg.CSIDrivers.CSIDriver(ctx, s.key.Driver)
	if err != nil {
		return storage.Volume{}, fmt.Errorf("read CSIDriver %s: %w", s.key.Driver, err)
	}
	if !known {
		spec = &storagev1.CSIDriverSpec{}
	}
	if err := checkMode(s, spec, known); err != nil {
		return storage.Volume{}, fmt.Errorf(PluginName+": mounter.SetupAt failed to check volume lifecycle mode: %w", err)
	}
	if len(spec.TokenRequests) > 0 && r.cfg.Tokens == nil && !s.block {
		return storage.Volume{}, fmt.Errorf("CSIDriver %s has tokenRequests, and this node can't request tokens", s.key.Driver)
	}
	can, err := r.capabilities(ctx, s)
	if err != nil {
		return storage.Volume{}, err
	}
	v := storage.Volume{Key: s.key, Plugin: PluginName, Name: s.name, ReadOnly: s.readOnly, Device: s.block, Group: s.group}
	v.Backend = BackendName
	stage, publish := r.arguments(s, spec, can)
	if stage.SELinuxContext, err = r.contextOf(&s, spec, &v); err != nil {
		return storage.Volume{}, err
	}
	publish.SELinuxContext = stage.SELinuxContext
	v.PublishArgs = encode(publish)
	if s.mode == storagev1.VolumeLifecyclePersistent {
		if v.Stages = can.StageUnstage; v.Stages {
			v.StageArgs = encode(stage)
		}
		if v.Attaches = ptr.Deref(spec.AttachRequired, true); v.Attaches {
			v.UniqueName = PluginName + "/" + s.key.Driver + "^" + s.key.Handle
		}
	}
	return v, nil
}

// capabilities asks the driver, which must be registered. The errors are those of the kubelet's first operation.
func (r *Resolver) capabilities(ctx context.Context, s source) (csi.Capabilities, error) {
	d, err := r.cfg.Drivers.Get(s.key.Driver)
	var can csi.Capabilities
	if err == nil {
		can, err = d.Capabilities(ctx)
	}
	_, unregistered := errors.AsType[*csi.NotRegisteredError](err)
	switch {
	case err == nil:
		return can, nil
	case s.block:
		if unregistered {
			err = fmt.Errorf(PluginName+": blockMapper.SetUpDevice failed to get CSI client: %w", err)
		}
		return can, &volume.OperationError{Operation: "MapVolume.SetUpDevice", Volume: s.name, Err: err}
	case s.mode == storagev1.VolumeLifecyclePersistent:
		if unregistered {
			err = fmt.Errorf(PluginName+": attacher.MountDevice failed to create newCsiDriverClient: %w", err)
		}
		return can, &volume.OperationError{Operation: "MountVolume.MountDevice", Volume: s.name, Err: err}
	case unregistered:
		return can, fmt.Errorf(PluginName+": mounter.SetUpAt failed to get CSI client: %w", err)
	default:
		return can, fmt.Errorf(PluginName+": mounter.SetUpAt failed to determine if the node service has VOLUME_MOUNT_GROUP capability: %w", err)
	}
}

// arguments returns the arguments of a volume's calls.
func (r *Resolver) arguments(s source, spec *storagev1.CSIDriverSpec, can csi.Capabilities) (stageArgs, publishArgs) {
	u := use{KubeletDir: r.cfg.KubeletDir, AccessMode: v1.ReadWriteOnce, VolumeContext: s.attributes, Migrated: s.migrated}
	if s.block {
		u.Device = s.name
	} else {
		u.FSType, u.MountOptions = s.fsType, s.mountOptions
	}
	if len(s.accessModes) > 0 {
		u.AccessMode = s.accessModes[0]
	}
	var group *int64
	var policy v1.PodFSGroupChangePolicy
	if sc := s.pod.Spec.SecurityContext; sc != nil && !s.block {
		group, policy = sc.FSGroup, ptr.Deref(sc.FSGroupChangePolicy, "")
	}
	if can.VolumeMountGroup {
		u.MountGroup = group
	}
	stage := stageArgs{u}
	stage.Secret = s.stage
	publish := publishArgs{
		use: u, Mode: s.mode, Namespace: s.pod.Namespace, Pod: s.pod.Name, ServiceAccount: s.pod.Spec.ServiceAccountName,
		ExpandSecret: s.expand,
	}
	publish.Secret = s.publish
	if !s.block {
		// As with the kubelet, a block volume has no tokens.
		publish.Tokens, publish.TokensInSecrets = spec.TokenRequests, ptr.Deref(spec.ServiceAccountTokenInSecrets, false)
	}
	if ptr.Deref(spec.PodInfoOnMount, false) {
		publish.VolumeContext = merged(s.attributes, podInfo(s))
	}
	if !can.VolumeMountGroup && group != nil && s.changesGroup(spec) {
		publish.Group, publish.ChangePolicy = group, policy
	}
	return stage, publish
}

// checkMode returns an error if the driver doesn't say that it supports this kind of volume.
func checkMode(s source, spec *storagev1.CSIDriverSpec, known bool) error {
	switch {
	case !known && s.mode == storagev1.VolumeLifecyclePersistent, slices.Contains(spec.VolumeLifecycleModes, s.mode):
		return nil
	case !known:
		return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", s.mode, s.key.Driver)
	default:
		return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", s.mode, s.key.Driver, spec.VolumeLifecycleModes)
	}
}

// changesGroup reports whether the policy of the driver has files' group changed here.
func (s *source) changesGroup(spec *storagev1.CSIDriverSpec) bool {
	switch {
	case s.readOnly:
		return false
	case spec.FSGroupPolicy == nil || *spec.FSGroupPolicy == "":
	case *spec.FSGroupPolicy == storagev1.NoneFSGroupPolicy:
		return false
	case *spec.FSGroupPolicy == storagev1.FileFSGroupPolicy:
		return true
	}
	return s.fsType != "" && (slices.Contains(s.accessModes, v1.ReadWriteOnce) || slices.Contains(s.accessModes, v1.ReadWriteOncePod))
}

// podInfo returns what podInfoOnMount tells the driver.
func podInfo(s source) map[string]string {
	return map[string]string{
		"csi.storage.k8s.io/pod.name":            s.pod.Name,
		"csi.storage.k8s.io/pod.namespace":       s.pod.Namespace,
		"csi.storage.k8s.io/pod.uid":             string(s.pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": s.pod.Spec.ServiceAccountName,
		"csi.storage.k8s.io/ephemeral":           strconv.FormatBool(s.mode == storagev1.VolumeLifecycleEphemeral),
	}
}

// merged returns a map with the entries of both; those of b win.
func merged[V any](a, b map[string]V) map[string]V {
	all := make(map[string]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// sourceName returns the field of the PersistentVolume's source.
func sourceName(pv *v1.PersistentVolume) string {
	v := reflect.ValueOf(pv.Spec.PersistentVolumeSource)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "(none)"
}
