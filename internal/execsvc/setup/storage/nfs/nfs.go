package nfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

const (
	// BackendName is the name of the backend in the Traits of volumes, and of records.
	BackendName = "nfs"
	// PluginName is upstream's name of the plugin.
	PluginName = "kubernetes.io/nfs"
)

var (
	_ storage.Backend   = (*Backend)(nil)
	_ storage.Stoppable = (*Backend)(nil)
)

// args are the PublishArgs of a volume.
type args struct {
	// Source is "server:/path".
	Source  string   `json:"source"`
	Options []string `json:"options,omitempty"`
}

// Inline returns the volume of a pod that names a share itself.
func Inline(pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	return volume(pod, spec.NFS, spec.Name, spec.NFS.ReadOnly, &v1.PersistentVolume{})
}

// Persistent returns the volume of a PersistentVolume whose source is a share.
func Persistent(pod *v1.Pod, spec *v1.Volume, pv *v1.PersistentVolume) (storage.Volume, error) {
	readOnly := spec.PersistentVolumeClaim != nil && spec.PersistentVolumeClaim.ReadOnly
	return volume(pod, pv.Spec.NFS, pv.Name, readOnly, pv)
}

func volume(pod *v1.Pod, from *v1.NFSVolumeSource, name string, readOnly bool, pv *v1.PersistentVolume) (storage.Volume, error) {
	source, err := share(from)
	if err != nil {
		return storage.Volume{}, err
	}
	a := args{Source: source, Options: podmount.Options(pv)}
	if readOnly {
		a.Options = podmount.Options(pv, "ro")
	}
	if slices.Contains(strings.Split(strings.Join(a.Options, ","), ","), "bg") {
		return storage.Volume{}, errors.New("the mount option bg is refused: mount.nfs would go on in the background after it has failed, " +
			"and could mount the share when the pod is gone; a pod's mount is repeated without it")
	}
	data, err := json.Marshal(a)
	if err != nil {
		return storage.Volume{}, err
	}
	return storage.Volume{
		Key:    record.Key{Driver: PluginName, Handle: string(pod.UID) + "/" + name + "@" + source},
		Traits: record.Traits{Backend: BackendName}, Plugin: PluginName, Name: name, ReadOnly: readOnly, PublishArgs: string(data),
	}, nil
}

// share returns what mount(8) gets. A server whose name would be an option of it is refused.
func share(from *v1.NFSVolumeSource) (string, error) {
	server := from.Server
	if ip, err := netip.ParseAddr(server); err == nil && ip.Is6() {
		server = "[" + server + "]"
	}
	switch {
	case server == "" || strings.HasPrefix(server, "-") || strings.ContainsAny(server, "/, \t\n\x00"):
		return "", fmt.Errorf("%.100q can't be the name of an NFS server", from.Server)
	case !path.IsAbs(from.Path) || strings.ContainsAny(from.Path, "\n\x00"):
		return "", fmt.Errorf("%.100q can't be the path of an NFS share: it must be absolute", from.Path)
	}
	return server + ":" + from.Path, nil
}

// Backend mounts shares.
type Backend struct{ helpers *foreign.Helpers }

// New returns a Backend.
func New(helpers *foreign.Helpers) *Backend { return &Backend{helpers} }

// MountPoint is part of storage.Backend.
func (*Backend) MountPoint(dir string) string { return dir }

// VolumeName is part of storage.Backend: that of the share.
func (*Backend) VolumeName(k record.Key) string {
	_, source, _ := strings.Cut(k.Handle, "@")
	return source
}

// Stage is part of storage.Backend. A share isn't staged.
func (*Backend) Stage(context.Context, storage.Staging) error { return nil }

// Unstage is part of storage.Backend.
func (*Backend) Unstage(context.Context, storage.Staging) error { return nil }

// Publish is part of storage.Backend.
func (b *Backend) Publish(ctx context.Context, p storage.Publishing) error {
	var a args
	if err := json.Unmarshal([]byte(p.Args), &a); err != nil {
		return &storage.Error{Outcome: storage.NotSent, Err: fmt.Errorf("read the recorded arguments of the volume: %w", err)}
	}
	return podmount.Mount(ctx, b.helpers, b.VolumeName(p.Key), &p, foreign.Mount{Source: a.Source, Type: "nfs", Options: a.Options})
}

// StopsPublish is part of storage.Stoppable. mount(8) is killed with the context. While one of its processes waits in the kernel, the mount
// has no answer, and nothing is undone.
func (*Backend) StopsPublish() bool { return true }

// Unpublish is part of storage.Backend.
func (b *Backend) Unpublish(ctx context.Context, p storage.Publishing) error {
	return podmount.Unmount(ctx, b.helpers, b.VolumeName(p.Key), p.Dir)
}

// Expand is part of storage.Backend. The server has the file system.
func (*Backend) Expand(context.Context, storage.Publishing, string) error {
	return &storage.Error{Outcome: storage.NotSent, Err: fmt.Errorf("a share of NFS has the size that its server gives it: %w", storage.ErrNoExpand)}
}

// Stats is part of storage.Backend.
func (b *Backend) Stats(ctx context.Context, p storage.Publishing) (storage.Stats, error) {
	return podmount.Stats(ctx, b.helpers, b.VolumeName(p.Key), p.Dir)
}
