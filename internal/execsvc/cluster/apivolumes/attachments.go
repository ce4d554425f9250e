package apivolumes

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// csiPlugin is the plugin of volumes with VolumeAttachments.
const csiPlugin = "kubernetes.io/csi"

// InUse is the list of volumesInUse in the Node's status: node.InUse.
type InUse interface {
	// Mark returns when the API server lists the volume, and Drop when it doesn't any more.
	Mark(ctx context.Context, name v1.UniqueVolumeName) error
	Drop(ctx context.Context, name v1.UniqueVolumeName) error
	// Restore sets the list of before the restart. RestoreSome does so when it isn't complete: what the status lists stays.
	Restore(names ...v1.UniqueVolumeName)
	RestoreSome(names ...v1.UniqueVolumeName)
}

// Records are the volumes of before a restart: storage.Storage.
type Records interface {
	// Reconstructed returns a channel that is closed when InUse is known.
	Reconstructed() <-chan struct{}
	// InUse returns the names of the volumes in use, and whether they are all.
	InUse() (names []string, complete bool)
}

// Attachments is a storage.Attachments. Until Restore has returned, its methods wait: what they do to the list would
// otherwise be lost, or be undone by the volumes of before the restart.
type Attachments struct {
	inUse    InUse
	volumes  *Volumes
	restored chan struct{}
}

var _ storage.Attachments = (*Attachments)(nil)

// NewAttachments returns Attachments of volumes that v waits for.
func NewAttachments(v *Volumes, inUse InUse) *Attachments {
	return &Attachments{inUse: inUse, volumes: v, restored: make(chan struct{})}
}

// Restore gives the volumes of before the restart to the Node's status, once they are known. It is called once, and returns
// early only if ctx ends.
func (a *Attachments) Restore(ctx context.Context, records Records) {
	select {
	case <-records.Reconstructed():
	case <-ctx.Done():
		return
	}
	known, complete := records.InUse()
	names := make([]v1.UniqueVolumeName, len(known))
	for i, name := range known {
		names[i] = v1.UniqueVolumeName(name)
	}
	if complete {
		a.inUse.Restore(names...)
	} else {
		a.inUse.RestoreSome(names...)
	}
	close(a.restored)
}

// MarkInUse is part of storage.Attachments.
func (a *Attachments) MarkInUse(ctx context.Context, uniqueName string) error {
	if err := a.awaitRestored(ctx); err != nil {
		return err
	}
	return a.inUse.Mark(ctx, v1.UniqueVolumeName(uniqueName))
}

// DropInUse is part of storage.Attachments.
func (a *Attachments) DropInUse(ctx context.Context, uniqueName string) error {
	if err := a.awaitRestored(ctx); err != nil {
		return err
	}
	return a.inUse.Drop(ctx, v1.UniqueVolumeName(uniqueName))
}

// WaitAttached is part of storage.Attachments.
func (a *Attachments) WaitAttached(ctx context.Context, v storage.Volume) (publishContext map[string]string, err error) {
	if v.Plugin != "" && v.Plugin != csiPlugin {
		return nil, a.volumes.WaitListed(ctx, v1.UniqueVolumeName(v.UniqueName))
	}
	attachment := Attachment{Driver: v.Driver, Handle: v.Handle}
	if want := string(attachment.UniqueName()); v.UniqueName != want {
		return nil, fmt.Errorf("the volume's name in volumesInUse is %q; want %q", v.UniqueName, want)
	}
	return a.volumes.WaitAttached(ctx, attachment)
}

func (a *Attachments) awaitRestored(ctx context.Context) error {
	select {
	case <-a.restored:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the volumes of before the restart aren't known yet: %w", ctx.Err())
	}
}
