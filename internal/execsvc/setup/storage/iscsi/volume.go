package iscsi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/kubeletdir"
)

const (
	// BackendName is the name of the backend in the Traits of volumes, and of records.
	BackendName = "iscsi"
	// PluginName is upstream's name of the plugin.
	PluginName = "kubernetes.io/iscsi"
	// defaultFSType and defaultIface are upstream's.
	defaultFSType, defaultIface = "ext4", "default"
	// volumeDevices is upstream's name of the directories of block volumes.
	volumeDevices = podmount.VolumeDevices
)

// secretRef names the Secret of CHAP.
type secretRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// disk is what a volume is of.
type disk struct {
	// Portals has the target portal first.
	Portals []string `json:"portals"`
	Target  string   `json:"target"`
	LUN     int      `json:"lun"`
	Iface   string   `json:"iface"`
	// Clone is set if the iface is made for the volume.
	Clone  *initiator.Clone `json:"clone,omitempty"`
	Secret *secretRef       `json:"secret,omitempty"`
	// Device is set if the disk isn't mounted.
	Device   bool     `json:"device,omitempty"`
	FSType   string   `json:"fsType,omitempty"`
	ReadOnly bool     `json:"readOnly,omitempty"`
	Options  []string `json:"options,omitempty"`

	// addresses are those of the Portals, which open-iscsi gets. One that is empty isn't known, or is another portal's too. Nil: those of the
	// portals that are named by their address.
	addresses []string
}

// stageArgs are the StageArgs of a volume.
type stageArgs struct {
	disk
	// KubeletDir is --kubelet-dir when the volume was resolved.
	KubeletDir string `json:"kubeletDir"`
}

// publishArgs are the PublishArgs of a volume.
type publishArgs struct {
	// Group is the pod's fsGroup, if the volume is changed to it.
	Group        *int64                    `json:"group,omitempty"`
	ChangePolicy v1.PodFSGroupChangePolicy `json:"changePolicy,omitempty"`
}

// source is a volume's source, of a pod or of a PersistentVolume.
type source struct {
	v1.ISCSIPersistentVolumeSource
	name     string
	readOnly bool
	device   bool
	options  []string
}

// Inline returns the volume of a pod that names a target itself.
func Inline(kubeletDir string, pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	from := spec.ISCSI
	s := source{name: spec.Name, readOnly: from.ReadOnly, ISCSIPersistentVolumeSource: v1.ISCSIPersistentVolumeSource{
		TargetPortal: from.TargetPortal, IQN: from.IQN, Lun: from.Lun, ISCSIInterface: from.ISCSIInterface, FSType: from.FSType,
		Portals: from.Portals, DiscoveryCHAPAuth: from.DiscoveryCHAPAuth, SessionCHAPAuth: from.SessionCHAPAuth, InitiatorName: from.InitiatorName,
	}}
	if from.SecretRef != nil {
		s.SecretRef = &v1.SecretReference{Name: from.SecretRef.Name, Namespace: pod.Namespace}
	}
	if s.SessionCHAPAuth && podmeta.IsStatic(pod) {
		return storage.Volume{}, errors.New("an iSCSI volume of a static pod can't have chapAuthSession: podexecd doesn't receive its Secret")
	}
	return s.volume(kubeletDir, pod)
}

// Persistent returns the volume of a PersistentVolume whose source is iscsi.
func Persistent(kubeletDir string, pod *v1.Pod, spec *v1.Volume, pv *v1.PersistentVolume) (storage.Volume, error) {
	return source{
		ISCSIPersistentVolumeSource: *pv.Spec.ISCSI, name: pv.Name, options: podmount.Options(pv),
		// The source's own readOnly doesn't count, as with the kubelet.
		readOnly: spec.PersistentVolumeClaim != nil && spec.PersistentVolumeClaim.ReadOnly,
		device:   ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == v1.PersistentVolumeBlock,
	}.volume(kubeletDir, pod)
}

func (s source) volume(kubeletDir string, pod *v1.Pod) (storage.Volume, error) {
	d, err := s.disk(pod.Namespace)
	if err != nil {
		return storage.Volume{}, err
	}
	stage := stageArgs{disk: d, KubeletDir: kubeletDir}
	publish := publishArgs{}
	if sc := pod.Spec.SecurityContext; sc != nil && !d.ReadOnly && !d.Device {
		publish.Group, publish.ChangePolicy = sc.FSGroup, ptr.Deref(sc.FSGroupChangePolicy, "")
	}
	handle, err := d.handle()
	if err != nil {
		return storage.Volume{}, err
	}
	stageText, err := json.Marshal(stage)
	if err != nil {
		return storage.Volume{}, err
	}
	publishText, err := json.Marshal(publish)
	if err != nil {
		return storage.Volume{}, err
	}
	return storage.Volume{
		Key: record.Key{Driver: PluginName, Handle: handle}, Traits: record.Traits{Backend: BackendName, Stages: true},
		Plugin: PluginName, Name: s.name, ReadOnly: d.ReadOnly, Device: d.Device, StageArgs: string(stageText), PublishArgs: string(publishText),
	}, nil
}

// disk checks the source.
func (s *source) disk(namespace string) (disk, error) {
	d := disk{Target: s.IQN, LUN: int(s.Lun), Iface: cmp.Or(s.ISCSIInterface, defaultIface), Device: s.device, ReadOnly: s.readOnly}
	var err error
	if d.Portals, err = portals(s.TargetPortal, s.Portals); err != nil {
		return d, err
	}
	if err := checkTarget("an iSCSI target", d.Target); err != nil {
		return d, err
	}
	if d.LUN < 0 || d.LUN > maxLUN {
		return d, fmt.Errorf("%d can't be an iSCSI logical unit number: it must be 0 to %d", d.LUN, maxLUN)
	}
	if err := checkIface(d.Iface); err != nil {
		return d, err
	}
	if name := ptr.Deref(s.InitiatorName, ""); name != "" {
		if err := checkTarget("an iSCSI initiator", name); err != nil {
			return d, err
		}
		d.Clone = &initiator.Clone{From: d.Iface, Initiator: name}
		d.Iface = d.Portals[0] + ":" + s.name
		if len(d.Iface) > maxIface || d.Iface == d.Clone.From || strings.ContainsAny(d.Iface, "/ ") {
			return d, fmt.Errorf("%.100q: %w; the volume's name and the portal are too long for a volume with an initiatorName", d.Iface, errIface)
		}
	}
	// Discovery, and so its CHAP, isn't needed: the target is named.
	if s.SessionCHAPAuth {
		if s.SecretRef == nil || s.SecretRef.Name == "" {
			return d, errors.New("chapAuthSession needs a secretRef")
		}
		d.Secret = &secretRef{Namespace: cmp.Or(s.SecretRef.Namespace, namespace), Name: s.SecretRef.Name}
	}
	if len(d.name()) > maxName {
		return d, fmt.Errorf("the names of the portal and of the target have more than %d bytes together", maxName)
	}
	if d.Device {
		return d, nil
	}
	if d.FSType = cmp.Or(s.FSType, defaultFSType); !fsTypeName.MatchString(d.FSType) {
		return d, fmt.Errorf("%.100q can't be the type of a file system", d.FSType)
	}
	d.Options = s.options
	return d, nil
}

// name is the name of the directory of a volume, as upstream has it.
func (d *disk) name() string {
	return fmt.Sprintf("%s-%s-lun-%d", d.Portals[0], d.Target, d.LUN)
}

// handle returns the handle of a volume. Pods that want the same of a disk have the same.
func (d *disk) handle() (string, error) {
	data, err := json.Marshal(d)
	sum := sha256.Sum256(data)
	return d.Portals[0] + ":" + d.Target + ":" + strconv.Itoa(d.LUN) + "#" + hex.EncodeToString(sum[:8]), err
}

// UniqueName returns the name that the attach-detach controller gives to a volume, from the fields as they are written.
func UniqueName(targetPortal, iqn string, lun int32) string {
	return fmt.Sprintf("%s/%s:%s:%d", PluginName, targetPortal, iqn, lun)
}

// auth names how sessions are authenticated.
func (d *disk) auth() string {
	if d.Secret == nil {
		return ""
	}
	return d.Secret.Namespace + "/" + d.Secret.Name
}

// sessions returns the names of the volume's sessions, as far as the addresses of their portals are known.
func (d *disk) sessions() []initiator.Session {
	var all []initiator.Session
	for i, p := range d.Portals {
		if d.addresses != nil {
			p = d.addresses[i]
		}
		if d.addresses == nil && !isAddress(p) || p == "" {
			continue
		}
		all = append(all, initiator.Session{Target: d.Target, Portal: p, Iface: d.Iface})
	}
	return all
}

// named returns how the volume names the portal of a session.
func (d *disk) named(s initiator.Session) string {
	if i := slices.Index(d.addresses, s.Portal); i >= 0 {
		return d.Portals[i]
	}
	return s.Portal
}

// staged returns where the disk is mounted, or, of a block volume, where the links to it are: a directory of --kubelet-dir, and a
// path beneath it.
func (s *stageArgs) staged() (base, name string) {
	dir := PluginName
	if s.Device {
		dir = filepath.Join(PluginName, volumeDevices)
	}
	return kubeletdir.Plugins(s.KubeletDir), filepath.Join(dir, "iface-"+s.Iface, s.name())
}

func (s *stageArgs) target() string {
	base, name := s.staged()
	return filepath.Join(base, name)
}

// decode reads recorded arguments.
func decode(text string, args any) error {
	if err := json.Unmarshal([]byte(text), args); err != nil {
		return notSent(fmt.Errorf("read the recorded arguments of the volume: %w", err))
	}
	return nil
}

// notSent is the error of a call that wasn't made.
func notSent(err error) error { return &storage.Error{Outcome: storage.NotSent, Err: err} }

// unrepeatable is the error of a call that wasn't made, and may never be possible again.
func unrepeatable(err error) error { return &storage.Error{Outcome: storage.Unrepeatable, Err: err} }

// uncertain is the error of a call that may have done something.
func uncertain(err error) error { return &storage.Error{Outcome: storage.Uncertain, Err: err} }
